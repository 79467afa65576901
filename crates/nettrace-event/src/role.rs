//! The role of an event in its span, from what its type states: the one place that decides it.

use crate::{keys, schema::EventSchema};

/// The ends of the names of a span's events, behind the span's name: of a single event, the Start,
/// the Stop, and of events with fields that became known later.
pub const SUFFIXES: [&str; 4] = ["", START, STOP, RECORD];

const START: &str = "Start";
const STOP: &str = "Stop";
const RECORD: &str = "Record";

/// What an event says of its span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The span begins.
    Start,
    /// The span ends.
    Stop,
    /// It is the whole span.
    Single,
    /// A poll of the span begins.
    Resume,
    /// A poll of the span ends.
    Suspend,
    /// It happened inside.
    Inside,
}

impl Role {
    /// The role of an event with this opcode, of a type with this name.
    ///
    /// An opcode other than 0 decides alone. Next comes `is_single`: whether the type is one of
    /// [whole spans](keys::SINGLE). The name counts last, and only if no opcode is stated: types of
    /// version 4 never state one, and the reference reader does the same.
    ///
    /// ```
    /// use nettrace_event::role::Role;
    ///
    /// assert_eq!(Role::of(Some(2), || false, "GetStart"), Role::Stop);
    /// assert_eq!(Role::of(None, || true, "GetStart"), Role::Single);
    /// assert_eq!(Role::of(None, || false, "GetStart"), Role::Start);
    /// assert_eq!(Role::of(Some(0), || false, "GetStart"), Role::Inside);
    /// ```
    #[inline]
    #[must_use]
    pub fn of(opcode: Option<u8>, is_single: impl FnOnce() -> bool, name: &str) -> Self {
        let by_name = || Self::of_name(name).filter(|_| opcode.is_none());
        Self::stated(opcode, is_single).or_else(by_name).unwrap_or(Self::Inside)
    }

    /// As [`of`](Self::of), for a type that a program declares.
    #[inline]
    #[must_use]
    pub fn of_schema(schema: &EventSchema) -> Self {
        Self::of(schema.opcode, || schema.key_values.contains(&keys::SINGLE), schema.name)
    }

    /// As [`of`](Self::of), without what a name implies: for those who write a trace, and ask their
    /// own types. `None` if the type states nothing.
    #[inline]
    #[must_use]
    pub fn stated(opcode: Option<u8>, is_single: impl FnOnce() -> bool) -> Option<Self> {
        match opcode {
            Some(1) => Some(Self::Start),
            Some(2) => Some(Self::Stop),
            Some(7) => Some(Self::Resume),
            Some(8) => Some(Self::Suspend),
            None | Some(0) => is_single().then_some(Self::Single),
            Some(_) => Some(Self::Inside),
        }
    }

    /// As [`stated`](Self::stated), for a type that a program declares.
    #[must_use]
    pub fn stated_by(schema: &EventSchema) -> Option<Self> {
        Self::stated(schema.opcode, || schema.key_values.contains(&keys::SINGLE))
    }

    /// The role that the name of a type implies: it ends with `Start` or `Stop`, in capital or
    /// small letters.
    #[inline]
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        // The last letter refuses almost every name: each event that sampling leaves out asks.
        match name.as_bytes().last()? {
            b't' | b'T' => without(name, START).map(|_| Self::Start),
            b'p' | b'P' => without(name, STOP).map(|_| Self::Stop),
            _ => None,
        }
    }

    /// The opcode by which a type states the role: 0 if there is none for it.
    #[must_use]
    pub const fn opcode(self) -> u8 {
        match self {
            Self::Start => 1,
            Self::Stop => 2,
            Self::Resume => 7,
            Self::Suspend => 8,
            Self::Single | Self::Inside => 0,
        }
    }

    /// Whether the event is the start or the end of a span, or the whole span.
    #[must_use]
    pub const fn is_edge(self) -> bool {
        matches!(self, Self::Start | Self::Stop | Self::Single)
    }
}

/// A name without the word at its end, in capital or small letters.
#[inline]
fn without<'a>(name: &'a str, word: &str) -> Option<&'a str> {
    let (rest, end) = name.split_at_checked(name.len().checked_sub(word.len())?)?;
    end.eq_ignore_ascii_case(word).then_some(rest)
}

/// The name of a span: that of its events without the word for their role. If nothing else is left,
/// it is `Start` for both, so that the end has the name of its start.
#[must_use]
pub fn span_name(name: &str) -> &str {
    let rest = without(name, START).or_else(|| without(name, STOP));
    match rest.map(|rest| rest.trim_end_matches('/')) {
        Some("") => START,
        Some(rest) => rest,
        None => name,
    }
}

/// The name of the span of which events with this name tell fields that became known later. Those
/// of `tracing` do: `checkoutRecord`.
#[must_use]
pub fn span_of_record(name: &str) -> Option<&str> {
    name.strip_suffix(RECORD).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{Role, span_name, span_of_record};

    #[test]
    fn roles() {
        let of = |name, opcode| Role::of(opcode, || false, name);
        assert_eq!(of("x", Some(1)), Role::Start);
        assert_eq!(of("x", Some(2)), Role::Stop);
        assert_eq!(of("xStart", None), Role::Start);
        assert_eq!(of("xStart", Some(0)), Role::Inside);
        assert_eq!(of("x_start", None), Role::Start);
        assert_eq!(of("STOP", None), Role::Stop);
        assert_eq!(of("top", None), Role::Inside);
        assert_eq!(of("ästop", None), Role::Stop);
        assert_eq!(of("ätop", None), Role::Inside);
        assert_eq!(of("xStop", Some(9)), Role::Inside);
        let single = |opcode| Role::of(opcode, || true, "xStop");
        assert_eq!((single(None), single(Some(0))), (Role::Single, Role::Single));
        assert_eq!((single(Some(1)), single(Some(9))), (Role::Start, Role::Inside));
        for opcode in 0..=9 {
            let role = of("x", Some(opcode));
            assert!(role.opcode() == opcode || role == Role::Inside, "{opcode}");
        }
    }

    #[test]
    fn names() {
        for (name, span) in [
            ("WorkStart", "Work"),
            ("work/stop", "work"),
            ("Start", "Start"),
            ("Stop", "Start"),
            ("/stop", "Start"),
            ("Restarted", "Restarted"),
            ("éStop", "é"),
            ("ééé", "ééé"),
            ("", ""),
        ] {
            assert_eq!(span_name(name), span, "{name}");
        }
        assert_eq!(span_of_record("checkoutRecord"), Some("checkout"));
        assert_eq!((span_of_record("Record"), span_of_record("checkout")), (None, None));
    }
}
