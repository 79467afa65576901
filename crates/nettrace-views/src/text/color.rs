//! Whether a terminal shows colors.

use std::io::IsTerminal;

/// Whether lines for `out` have colors: it is a terminal that knows them, and the variable
/// `NO_COLOR` is absent or empty. One without a name, or with the name `dumb`, knows none, except
/// on Windows, where terminals have no names.
#[must_use]
pub fn wants_colors(out: &impl IsTerminal) -> bool {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let knows = || cfg!(windows) || variable("TERM").is_some_and(|name| name != "dumb");
    out.is_terminal() && variable("NO_COLOR").is_none() && knows()
}
