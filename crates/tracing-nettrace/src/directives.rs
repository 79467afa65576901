//! The directives that the environment has.

use std::io::{self, Write as _};

use nettrace_writer::companion::{complain, variable};
use tracing_subscriber::filter::Targets;

use crate::sync::Once;

/// The variable that has the directives unless another one is named.
pub(crate) const VARIABLE: &str = "RUST_LOG";

/// Why directives with brackets are not obeyed.
const BRACKETS: &str =
    "spans and fields in brackets are for an `EnvFilter`: add one to the layer by `with_filter`";

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
        BRACKETS.to_owned()
    } else {
        match text.parse() {
            Ok(targets) => return Some(targets),
            Err(error) => error.to_string(),
        }
    };
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        // Without a standard error there is nobody to tell. It is no problem for `health`, because
        // the layer may have an `EnvFilter`.
        let _ = writeln!(
            io::stderr(),
            "nettrace: tracing-nettrace does not obey {VARIABLE}={text:?} and records what \
             sessions want: {refused}"
        );
    });
    None
}

/// The directives of `given` that a subscriber can obey: those without brackets. The process is
/// told of the others.
pub(crate) fn without_brackets(given: &str) -> String {
    let (mut depth, mut is_quoted) = (0_u32, false);
    let pieces: Vec<&str> = given
        .split(|c| {
            match c {
                '"' => is_quoted = !is_quoted,
                '[' if !is_quoted => depth += 1,
                ']' if !is_quoted => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0 && !is_quoted
        })
        .collect();
    // With an opening bracket or quote alone, nobody knows where its directive ends.
    let pieces = if depth > 0 || is_quoted { given.split(',').collect() } else { pieces };
    let pieces = pieces.into_iter().map(str::trim).filter(|piece| !piece.is_empty());
    let is_refused = |piece: &&str| piece.contains(['[', ']', '"']);
    let (refused, obeyed): (Vec<_>, Vec<_>) = pieces.partition(is_refused);
    if !refused.is_empty() {
        let refused = refused.join(",");
        complain(format_args!(
            "tracing-nettrace does not obey `{refused}` of the directives `{given}`: {BRACKETS}"
        ));
    }
    obeyed.join(",")
}

#[cfg(test)]
mod tests {
    use super::without_brackets;

    #[test]
    fn what_is_in_brackets_is_left_out_alone() {
        for (given, obeyed) in [
            ("info,shop=debug", "info,shop=debug"),
            (" info , shop=debug, ", "info,shop=debug"),
            ("info,a[b]=debug,", "info"),
            ("[x]=trace, ", ""),
            ("a[b]=debug, info", "info"),
            ("a[b{c=1,d=2}]=debug,sqlx=off", "sqlx=off"),
            ("a[{m=\"[,\"}]=trace,b=debug", "b=debug"),
            ("warn,a[b=debug,sqlx=off", "warn,sqlx=off"),
            ("warn,a]b=debug,sqlx=off", "warn,sqlx=off"),
        ] {
            assert_eq!(without_brackets(given), obeyed, "{given}");
        }
    }
}
