//! The spelling of levels and other simple values, in text, JSON and filters.

use std::{borrow::Cow, fmt};

use nettrace_event::Level;

pub(crate) use nettrace_views::model::{FileTime, OneLine, event_name, to_json};

/// The name of a level, or its number if it has no name.
pub(crate) fn level(level: u8) -> Cow<'static, str> {
    match Level::new(level).name() {
        Some(name) => Cow::Borrowed(name),
        None => Cow::Owned(level.to_string()),
    }
}

/// The names of opcodes 1 to 9 in .NET.
const OPCODES: [&str; 9] = [
    "Start",
    "Stop",
    "DataCollectionStart",
    "DataCollectionStop",
    "Extension",
    "Reply",
    "Resume",
    "Suspend",
    "Transfer",
];

/// The suffix of an opcode after an event's name: `/Start`. Empty if the name already ends so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opcode<'a> {
    pub(crate) opcode: u8,
    pub(crate) name: &'a str,
}

impl fmt::Display for Opcode<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(index) = usize::from(self.opcode).checked_sub(1) else { return Ok(()) };
        match OPCODES.get(index) {
            Some(word) if ends_with(self.name, word) => Ok(()),
            Some(word) => write!(f, "/{word}"),
            None => write!(f, "/{}", self.opcode),
        }
    }
}

fn ends_with(name: &str, word: &str) -> bool {
    let at = name.len().checked_sub(word.len());
    at.and_then(|at| name.get(at..)).is_some_and(|end| end.eq_ignore_ascii_case(word))
}

/// The text for an infinite number, or for a value that is not a number. JSON has no number for it.
pub(crate) fn not_finite(value: f64) -> &'static str {
    if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}

#[cfg(test)]
mod tests {
    use super::{Opcode, level};

    #[test]
    fn levels_and_opcodes() {
        assert_eq!((&*level(2), &*level(17)), ("Error", "17"));
        let shown = |name, opcode| Opcode { opcode, name }.to_string();
        assert_eq!(shown("Work", 0), "");
        assert_eq!(shown("Work", 1), "/Start");
        assert_eq!(shown("WORKSTART", 1), "");
        assert_eq!(shown("WorkStart", 2), "/Stop");
        assert_eq!(shown("é", 24), "/24");
        assert_eq!(shown("éa", 7), "/Resume");
    }
}
