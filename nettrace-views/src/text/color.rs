//! Whether a terminal shows colors.

use std::io::IsTerminal;

/// Whether lines for `out` have colors: it is a terminal, and the variable `NO_COLOR` is absent or
/// empty.
#[must_use]
pub fn wants_colors(out: &impl IsTerminal) -> bool {
    out.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
