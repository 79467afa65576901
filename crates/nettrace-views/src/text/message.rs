//! Message templates, with the values of an event filled in.
//!
//! A template is text with `{field}` as the place of a value. The format does not specify more.
//! Loggers of other languages write `{field:format}` and `{field,width}`. The value replaces these,
//! too, but without that format. Braces that name no field of the event stay unchanged.
//!
//! A template may name a field as often as it likes, so a message has a [limit](limit).

use std::{
    collections::HashMap,
    fmt::{self, Write},
    ops::Range,
};

use crate::text::{Payload, values::PlainValue};

/// A template whose fields are looked up.
#[derive(Debug, Default)]
pub struct Template {
    text: String,
    /// The places of fields, in their order: where they stand in the text, with their braces, and
    /// the number of the field.
    places: Vec<(Range<usize>, usize)>,
}

impl Template {
    /// Looks up the fields of a template by their names.
    pub(super) fn new(text: &str, names: &[String]) -> Self {
        // Names differ, so no entry replaces another.
        let fields: HashMap<&str, usize> =
            names.iter().enumerate().map(|(number, name)| (&**name, number)).collect();
        let field = |name: &str| {
            let (plain, _) = name.split_at(name.find([',', ':']).unwrap_or(name.len()));
            fields.get(name).or_else(|| fields.get(plain)).copied()
        };
        let mut places = Vec::new();
        let mut at = 0;
        while let Some(open) = text[at..].find('{').map(|open| at + open) {
            at = open + 1;
            let end = text[at..].find(['{', '}']).map(|end| at + end);
            let Some(end) = end.filter(|end| text[*end..].starts_with('}')) else { continue };
            if let Some(number) = field(&text[at..end]) {
                places.push((open..end + 1, number));
                at = end + 1;
            }
        }
        Self { text: text.to_owned(), places }
    }

    /// Whether the message has the value of this field, which is called by its place in the type.
    #[must_use]
    pub fn shows(&self, field: usize) -> bool {
        self.places.iter().any(|(_, number)| *number == field)
    }
}

/// The most bytes of a message, for a payload of so many bytes. Each byte can be a number with a
/// name in an array.
fn limit(payload: usize) -> usize {
    (4 << 10) + 8 * payload
}

/// Stands at the end of a message that is longer.
pub(super) const CUT: &str = "… (cut)";

/// A template, and the payload that fills it: as text, the message.
#[derive(Debug)]
pub struct Message<'a> {
    /// The template of the event's type.
    pub template: &'a Template,
    /// The event's fields.
    pub payload: &'a Payload<'a>,
}

impl fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Bounded { out: f, left: limit(self.payload.bytes), is_cut: false };
        match self.fill(&mut out) {
            Err(_) if out.is_cut => f.write_str(CUT),
            result => result,
        }
    }
}

impl Message<'_> {
    fn fill(&self, out: &mut Bounded<'_, '_>) -> fmt::Result {
        let Template { text, places } = self.template;
        let mut at = 0;
        for (place, number) in places {
            let Some((name, Some(value))) = self.payload.fields.get(*number) else { continue };
            out.write_str(&text[at..place.start])?;
            let value = self.payload.types.field(name).interpret(value);
            let left = out.left;
            write!(out, "{}", PlainValue { value, bare: true })?;
            at = place.end;
            // An empty text takes the blank behind it along.
            let before = &text[..place.start];
            let is_between = before.is_empty() || before.ends_with(' ');
            if out.left == left && is_between && text[at..].starts_with(' ') {
                at += 1;
            }
        }
        out.write_str(&text[at..])
    }
}

impl serde::Serialize for Message<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Passes on so many bytes, and then fails.
struct Bounded<'o, 'f> {
    out: &'o mut fmt::Formatter<'f>,
    left: usize,
    is_cut: bool,
}

impl Write for Bounded<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.len() <= self.left {
            self.left -= text.len();
            return self.out.write_str(text);
        }
        self.is_cut = true;
        let end = (0..=self.left).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        self.out.write_str(&text[..end])?;
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use nettrace_reader::{Field, Metadata, Type, Value};

    use super::{CUT, Message, limit};
    use crate::text::{EventType, Payload};

    fn fill(template: &str, bytes: usize) -> String {
        let field = |name: &str| Field { name: name.into(), ty: Type::UInt32 };
        let fields = ["count", "what", "absent", "empty"].map(field).into();
        let message_template = Some(template.into());
        let ty = EventType::of(&Metadata { fields, message_template, ..Metadata::default() });
        let fields = vec![
            ("count", Some(Value::U32(3))),
            ("what", Some(Value::Text("{count} \"teas\"".into()))),
            ("absent", None),
            ("empty", Some(Value::Text("".into()))),
        ];
        let payload = Payload { fields, bytes, error: None, types: &ty.rust_types };
        Message { template: ty.message.as_ref().unwrap(), payload: &payload }.to_string()
    }

    #[test]
    fn filled() {
        let fill = |template| fill(template, 0);
        assert_eq!(fill("sold {count} of {what}!"), "sold 3 of {count} \"teas\"!");
        assert_eq!(fill("{count}{count}"), "33");
        assert_eq!(fill("{count:x8} {count,5}"), "3 3");
        assert_eq!(fill("GET {empty} to {empty}:{empty} x{empty}"), "GET to : x");
        assert_eq!(fill("{empty} {empty} to {empty}"), "to ");
        for as_it_is in ["", "plain", "{other}", "{absent}", "{", "}", "a { b", "{}", "{é"] {
            assert_eq!(fill(as_it_is), as_it_is);
        }
        assert_eq!(fill("{{count}}"), "{3}");
        assert_eq!(fill("{{other}} {absent} {count"), "{{other}} {absent} {count");
    }

    #[test]
    fn cut() {
        for bytes in [0, 1_000] {
            let room = limit(bytes);
            let fits = "x".repeat(room - 1);
            assert_eq!(fill(&format!("{fits}{{count}}"), bytes), format!("{fits}3"));
            assert_eq!(fill(&format!("{fits}3!"), bytes), format!("{fits}3{CUT}"));
            assert_eq!(fill(&format!("{fits}é"), bytes), format!("{fits}{CUT}"));
            let many = fill(&"{what}".repeat(100_000), bytes);
            assert_eq!(many.len(), room + CUT.len());
            assert!(many.starts_with("{count} \"teas\"{count}") && many.ends_with(CUT));
        }
    }
}
