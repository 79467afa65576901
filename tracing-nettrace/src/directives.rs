//! The directives that the environment has.

use std::io::{self, Write as _};

use nettrace_writer::companion::variable;
use tracing_subscriber::filter::Targets;

use crate::sync::Once;

/// The variable that has the directives unless another one is named.
pub(crate) const VARIABLE: &str = "RUST_LOG";

/// The value of a variable. `None` if it is not set, empty or no text, and in a program that has
/// more rights than who starts it.
pub(crate) fn text(name: &str) -> Option<String> {
    let text = variable(name)?.into_string().ok()?;
    Some(text).filter(|text| !text.trim().is_empty())
}

/// What `RUST_LOG` lets pass. `None` if it is not set, or if it is not obeyed. Then the process is
/// told why, once.
pub(crate) fn of_environment() -> Option<Targets> {
    let text = text(VARIABLE)?;
    let refused = if text.contains('[') {
        "spans and fields in brackets are for an `EnvFilter`: add one to the layer by `with_filter`"
            .to_owned()
    } else {
        match text.parse() {
            Ok(targets) => return Some(targets),
            Err(error) => error.to_string(),
        }
    };
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        // Without a standard error there is nobody to tell.
        let _ = writeln!(
            io::stderr(),
            "nettrace: tracing-nettrace does not obey {VARIABLE}={text:?} and records what \
             sessions want: {refused}"
        );
    });
    None
}
