//! Levels, as people and other Rust libraries call them.

use std::borrow::Cow;

use nettrace_reader::{Event, Metadata};

use crate::text::Style;

/// The names of levels 0 to 5.
const LEVELS: [&str; 6] = ["LogAlways", "Critical", "Error", "Warning", "Informational", "Verbose"];

/// The name of a level, or its number if it has no name.
#[must_use]
pub fn level(level: u8) -> Cow<'static, str> {
    match LEVELS.get(usize::from(level)) {
        Some(name) => Cow::Borrowed(name),
        None => Cow::Owned(level.to_string()),
    }
}

/// The least severe level with a name. `DEBUG` and `TRACE` of other Rust libraries are both this.
pub const VERBOSE: u8 = 5;

/// Whether events of a type are of the level `TRACE` of `tracing` or `log`, which the format does
/// not tell from `DEBUG`. Their types state it by a key-value.
#[must_use]
pub fn is_trace_level(metadata: &Metadata) -> bool {
    metadata.level == VERBOSE && metadata.value("level") == Some("TRACE")
}

/// The level of an event, as other Rust libraries call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Level 0, which passes each filter.
    Log,
    /// Level 1.
    Critical,
    /// Level 2.
    Error,
    /// Level 3.
    Warning,
    /// Level 4.
    Info,
    /// Level 5.
    Debug,
    /// Level 5 of a type that [says so](is_trace_level).
    Trace,
    /// A level without a name.
    Other(u8),
}

impl Severity {
    /// That of an event.
    #[must_use]
    pub fn of(event: &Event<'_>) -> Self {
        match event.level() {
            0 => Self::Log,
            1 => Self::Critical,
            2 => Self::Error,
            3 => Self::Warning,
            4 => Self::Info,
            VERBOSE if is_trace_level(event.metadata()) => Self::Trace,
            VERBOSE => Self::Debug,
            other => Self::Other(other),
        }
    }

    /// Its name: `CRIT`, `ERROR`, `WARN`, `INFO`, `DEBUG`, `TRACE`; `LOG` for level 0, and the
    /// number of a level without a name.
    #[must_use]
    pub fn name(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Log => "LOG",
            Self::Critical => "CRIT",
            Self::Error => "ERROR",
            Self::Warning => "WARN",
            Self::Info => "INFO",
            Self::Debug => "DEBUG",
            Self::Trace => "TRACE",
            Self::Other(level) => return Cow::Owned(level.to_string()),
        })
    }

    /// The first letter of its name, or `?`.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::Other(_) => '?',
            named => named.name().chars().next().unwrap_or('?'),
        }
    }

    /// Its color on a terminal.
    #[must_use]
    pub fn style(self) -> Style {
        match self {
            Self::Log => Style::DEFAULT,
            Self::Critical | Self::Error => Style::RED,
            Self::Warning => Style::YELLOW,
            Self::Info => Style::GREEN,
            Self::Debug => Style::BLUE,
            Self::Trace => Style::GREY,
            Self::Other(_) => Style::PURPLE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Severity, level};

    #[test]
    fn names_and_letters() {
        assert_eq!((&*level(2), &*level(17)), ("Error", "17"));
        let named = [Severity::Log, Severity::Critical, Severity::Trace, Severity::Other(17)];
        let shown = named.map(|it| (it.name().into_owned(), it.letter()));
        let shown: Vec<_> = shown.iter().map(|(name, letter)| (&**name, *letter)).collect();
        assert_eq!(shown, [("LOG", 'L'), ("CRIT", 'C'), ("TRACE", 'T'), ("17", '?')]);
    }
}
