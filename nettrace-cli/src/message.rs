//! Message templates, with the values of an event filled in.
//!
//! A template is text with `{field}` as the place of a value. The format does not specify more.
//! Loggers of other languages write `{field:format}` and `{field,width}`. The value replaces these,
//! too, but without that format. Braces that name no field of the event stay unchanged.

use std::fmt;

use crate::{
    payload::{Payload, PlainValue},
    rust_types::Meant,
};

/// A template, and the payload that fills it.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    pub(crate) template: &'a str,
    pub(crate) payload: &'a Payload<'a>,
}

impl fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.template;
        while let Some(open) = rest.find('{') {
            let (before, from_brace) = rest.split_at(open);
            f.write_str(before)?;
            let name_ends = from_brace[1..].find(['{', '}']).map(|at| at + 1);
            let value = name_ends
                .filter(|end| from_brace[*end..].starts_with('}'))
                .and_then(|end| Some((end, self.value(&from_brace[1..end])?)));
            rest = match value {
                Some((end, value)) => {
                    PlainValue { value, bare: true }.fmt(f)?;
                    &from_brace[end + 1..]
                }
                None => {
                    f.write_str("{")?;
                    &from_brace[1..]
                }
            };
        }
        f.write_str(rest)
    }
}

impl Message<'_> {
    fn value(&self, name: &str) -> Option<Meant<'_, '_>> {
        let field = |name| self.payload.fields.iter().find(|(field, _)| field == name);
        let (plain, _) = name.split_at(name.find([',', ':']).unwrap_or(name.len()));
        let (name, value) = field(name).or_else(|| field(plain))?;
        Some(self.payload.types.field(name).interpret(value.as_ref()?))
    }
}

impl serde::Serialize for Message<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use nettrace_reader::{Metadata, Value};

    use super::Message;
    use crate::{payload::Payload, rust_types::RustTypes};

    #[test]
    fn filled() {
        let fields = vec![
            ("count".into(), Some(Value::U32(3))),
            ("what".into(), Some(Value::Text("{count} \"teas\"".into()))),
            ("absent".into(), None),
        ];
        let metadata = Metadata::default();
        let payload = Payload { fields, error: None, types: RustTypes::of(&metadata) };
        let fill = |template| Message { template, payload: &payload }.to_string();
        assert_eq!(fill("sold {count} of {what}!"), "sold 3 of {count} \"teas\"!");
        assert_eq!(fill("{count}{count}"), "33");
        assert_eq!(fill("{count:x8} {count,5}"), "3 3");
        for as_it_is in ["", "plain", "{other}", "{absent}", "{", "}", "a { b", "{}", "{é"] {
            assert_eq!(fill(as_it_is), as_it_is);
        }
        assert_eq!(fill("{{count}}"), "{3}");
    }
}
