//! Messages on standard error.

use std::{
    fmt,
    io::{self, Write as _},
};

/// Writes a line for the person who has set the environment, who would not hear of it otherwise.
pub(crate) fn say(what: fmt::Arguments<'_>) {
    // Without a standard error there is nobody to tell.
    let _ = writeln!(io::stderr(), "nettrace: {what}");
}
