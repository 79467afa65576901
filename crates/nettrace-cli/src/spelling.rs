//! The spelling of levels and other simple values, in text, JSON and filters.

use std::{fmt, str::FromStr};

pub(crate) use nettrace_views::{
    model::{FullName, OneLine, event_name, to_json},
    text::level,
};

/// The names of levels that users write, beside those of the format.
const LEVELS: [(&str, u8); 5] = [("crit", 1), ("warn", 3), ("info", 4), ("debug", 5), ("trace", 5)];

/// Reads a level: a name in any case, or a number.
pub(crate) fn read_level(text: &str) -> Result<u8, String> {
    let ours = LEVELS.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    let of_format = || (0..=5).find(|it| level(*it).eq_ignore_ascii_case(text));
    ours.map(|(_, level)| level).or_else(of_format).or_else(|| text.parse().ok()).ok_or_else(|| {
        "write critical (crit), error, warning (warn), informational (info), verbose (debug, \
         trace), LogAlways, or a number from 0 to 255"
            .to_owned()
    })
}

/// The level that a filter asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LevelBound {
    /// The least severe one that passes.
    pub(crate) most: u8,
    /// Whether the level `TRACE` of other libraries passes, which is `DEBUG` in the format.
    pub(crate) has_trace: bool,
}

impl FromStr for LevelBound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let most = read_level(text)?;
        Ok(Self { most, has_trace: !text.eq_ignore_ascii_case("debug") })
    }
}

impl fmt::Display for LevelBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.has_trace { f.write_str(&level(self.most)) } else { f.write_str("debug") }
    }
}

#[cfg(test)]
mod tests {
    use super::read_level;

    #[test]
    fn levels() {
        for (name, level) in [
            ("logalways", 0),
            ("CRIT", 1),
            ("critical", 1),
            ("Error", 2),
            ("Warn", 3),
            ("warning", 3),
            ("info", 4),
            ("Informational", 4),
            ("VERBOSE", 5),
            ("debug", 5),
            ("trace", 5),
            ("17", 17),
        ] {
            assert_eq!(read_level(name), Ok(level), "{name}");
        }
        for wrong in ["loud", "256", "", "-1"] {
            assert!(read_level(wrong).unwrap_err().contains("debug"), "{wrong}");
        }
    }
}
