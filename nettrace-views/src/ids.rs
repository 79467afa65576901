//! Which span an event belongs to, and what it says of it.

use nettrace_context::{ActivityId, SpanId};
use nettrace_reader::{Label, Metadata};

/// The key-value of an event type whose events each stand for a whole span, and its value.
pub const SINGLE: (&str, &str) = ("nettrace.span", "single");

/// The fields that such a type begins with. Versions 4 and 5 have no key-values of types.
const SINGLE_FIELDS: [&str; 3] = ["started", "duration", "outcome"];

/// What identifies a span: its span id, or an activity id that contains none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(u128);

impl Key {
    /// The key of a span id. `None` for 0.
    #[must_use]
    pub fn of_span(id: u64) -> Option<Self> {
        SpanId::from_u64(id).map(|_| Self(id.into()))
    }

    /// The key of an activity id, or of the span id that it contains. `None` for 0.
    #[must_use]
    pub fn of_activity(id: [u8; 16]) -> Option<Self> {
        let span = ActivityId::from_bytes_le(id).span_id();
        let key = span.map_or(u128::from_le_bytes(id), |span| span.to_u64().into());
        (key != 0).then_some(Self(key))
    }

    /// The id of the flow from the parent to this span.
    #[must_use]
    pub fn flow(self) -> u64 {
        // The span id itself, if it is one.
        let upper = ((self.0 >> 64) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        upper.rotate_left(29) ^ self.0 as u64
    }
}

/// The ids of an event, and the labels that replace properties of its type.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ids {
    /// The span that the event belongs to.
    pub span: Option<Key>,
    /// The activity id by which children may name the span, if it says something else.
    pub alias: Option<Key>,
    /// The parent of the span, or another activity that the event is related to.
    pub related: Option<Key>,
    /// The opcode that replaces that of the type.
    pub opcode: Option<u8>,
}

impl Ids {
    /// The ids in a list of labels.
    #[must_use]
    pub fn of(labels: &[Label]) -> Self {
        let mut ids = Self::default();
        let mut activity = None;
        for label in labels {
            match label {
                Label::SpanId(id) => ids.span = Key::of_span(*id),
                Label::ActivityId(id) => activity = Key::of_activity(*id),
                Label::RelatedActivityId(id) => ids.related = Key::of_activity(*id),
                Label::OpCode(code) => ids.opcode = Some(*code),
                _ => {}
            }
        }
        ids.alias = activity.filter(|_| ids.span.is_some() && activity != ids.span);
        ids.span = ids.span.or(activity);
        ids
    }
}

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
    /// The role of an event of this type. `version` is the major version of the trace, `opcode` one
    /// that replaces that of the type.
    #[must_use]
    pub fn of(metadata: &Metadata, opcode: Option<u8>, version: u32) -> Self {
        match opcode.or(metadata.opcode).unwrap_or(0) {
            1 => return Self::Start,
            2 => return Self::Stop,
            7 => return Self::Resume,
            8 => return Self::Suspend,
            0 => {}
            _ => return Self::Inside,
        }
        let is_single = if version >= 6 {
            metadata.key_values.iter().any(|(key, value)| (&**key, &**value) == SINGLE)
        } else {
            has_fields_of_single(metadata)
        };
        if is_single {
            return Self::Single;
        }
        match metadata.implied_opcode().filter(|_| opcode.is_none()) {
            Some(1) => Self::Start,
            Some(_) => Self::Stop,
            None => Self::Inside,
        }
    }
}

/// Whether a type of version 4 or 5 has the fields of one whose events each stand for a whole span.
#[must_use]
pub fn has_fields_of_single(metadata: &Metadata) -> bool {
    let names = metadata.fields.iter().map(|field| &*field.name).take(SINGLE_FIELDS.len());
    names.eq(SINGLE_FIELDS)
}

/// Where a type is in the source code: module, file and line, if the trace says so.
#[must_use]
pub fn place(metadata: &Metadata) -> Option<String> {
    let value = |key| {
        let mut found = metadata.key_values.iter().filter(|(own, _)| own == key);
        found.next().map(|(_, value)| &**value)
    };
    let at = match (value("file"), value("line")) {
        (Some(file), Some(line)) => Some(format!("{file}:{line}")),
        (file, _) => file.map(str::to_owned),
    };
    match (value("module"), at) {
        (Some(module), Some(at)) => Some(format!("{module}, {at}")),
        (module, at) => module.map(str::to_owned).or(at),
    }
}

/// The name of a span: that of its events without the word for their role, unless nothing else is
/// left.
#[must_use]
pub fn span_name(name: &str) -> &str {
    for word in ["Start", "Stop"] {
        let Some(at) = name.len().checked_sub(word.len()).filter(|at| *at > 0) else { continue };
        let is_end = name.get(at..).is_some_and(|end| end.eq_ignore_ascii_case(word));
        let rest = name[..if is_end { at } else { 0 }].trim_end_matches('/');
        if !rest.is_empty() {
            return rest;
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_spans() {
        for (name, span) in [
            ("WorkStart", "Work"),
            ("work/stop", "work"),
            ("Start", "Start"),
            ("/Stop", "/Stop"),
            ("Restarted", "Restarted"),
            ("éStop", "é"),
            ("ééé", "ééé"),
            ("", ""),
        ] {
            assert_eq!(span_name(name), span, "{name}");
        }
    }

    #[test]
    fn a_span_id_and_its_activity_id_are_one_key() {
        let span = SpanId::from_u64(0xAB00_0000_0000_0001).unwrap();
        let activity = ActivityId::from_span_id(span, 7).to_bytes_le();
        assert_eq!(Key::of_activity(activity), Key::of_span(span.to_u64()));
        assert_ne!(Key::of_activity([7; 16]), Key::of_span(7));
        assert_eq!(Key::of_activity([0; 16]), None);
        assert_eq!(Key::of_span(0), None);
    }

    #[test]
    fn roles() {
        let of = |name: &str, opcode, version| {
            let metadata = Metadata { name: name.into(), opcode, ..Metadata::default() };
            Role::of(&metadata, None, version)
        };
        assert_eq!(of("x", Some(1), 6), Role::Start);
        assert_eq!(of("x", Some(2), 5), Role::Stop);
        assert_eq!(of("xStart", None, 6), Role::Start);
        assert_eq!(of("xStart", Some(0), 6), Role::Inside);
        assert_eq!(of("xStart", None, 4), Role::Start);
        assert_eq!(of("x_start", None, 4), Role::Start);
        assert_eq!(of("STOP", None, 5), Role::Stop);
        assert_eq!(of("top", None, 4), Role::Inside);
        assert_eq!(of("xStop", Some(0), 5), Role::Inside);
        assert_eq!(of("x", Some(8), 6), Role::Suspend);
        let mut single = Metadata::default();
        single.key_values.push(("nettrace.span".into(), "single".into()));
        assert_eq!(Role::of(&single, None, 6), Role::Single);
        assert_eq!(Role::of(&single, Some(1), 6), Role::Start);
        assert_eq!(Role::of(&single, None, 5), Role::Inside);
    }
}
