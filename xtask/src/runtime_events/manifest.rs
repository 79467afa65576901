//! Reads instrumentation manifests: which events a provider has, and the fields of each version.
//!
//! Messages, levels, keywords, channels, tasks, opcodes and maps are not read. A trace states the
//! level and the keywords of its events itself, and values are shown as they are stored.

use std::collections::HashMap;

use roxmltree::{Document, Node};

type Result<T> = std::result::Result<T, String>;

/// One version of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) provider: String,
    pub(super) id: u16,
    pub(super) version: u8,
    pub(super) symbol: String,
    pub(super) fields: Vec<Field>,
}

/// A field of an event, or of a structure in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) count: Count,
    pub(super) ty: Type,
}

/// How many values a field has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Count {
    One,
    Number(u16),
    /// As many as an earlier field says.
    Field(String),
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Type {
    /// A name of the table.
    Plain(&'static str),
    Struct {
        fields: Vec<Field>,
        /// Whether each field is aligned to its size, as in C.
        is_aligned: bool,
    },
}

/// The types of manifests, and their names in the table.
const TYPES: &[(&str, &str)] = &[
    ("win:Int8", "i8"),
    ("win:UInt8", "u8"),
    ("win:Int16", "i16"),
    ("win:UInt16", "u16"),
    ("win:Int32", "i32"),
    ("win:UInt32", "u32"),
    ("win:HexInt32", "u32"),
    ("win:Int64", "i64"),
    ("win:UInt64", "u64"),
    ("win:HexInt64", "u64"),
    ("win:Float", "f32"),
    ("win:Double", "f64"),
    ("win:Boolean", "bool"),
    ("win:Pointer", "ptr"),
    ("win:GUID", "guid"),
    ("win:FILETIME", "filetime"),
    ("win:UnicodeString", "utf16"),
    ("win:AnsiString", "utf8"),
];

/// The types of the elements of texts and bytes whose length a field states.
const COUNTED: &[(&str, &str)] =
    &[("win:UnicodeString", "char16"), ("win:AnsiString", "char8"), ("win:Binary", "u8")];

/// The events of all providers of a manifest.
pub(super) fn events(text: &str) -> Result<Vec<Event>> {
    let document = Document::parse(text).map_err(|error| format!("it is not XML: {error}"))?;
    let mut events = Vec::new();
    for provider in named(document.root_element(), "provider") {
        let name = attribute(provider, "name")?;
        let templates = named(provider, "template")
            .map(|template| Ok((attribute(template, "tid")?, template)))
            .collect::<Result<HashMap<_, _>>>()?;
        for event in named(provider, "event") {
            events.push(one_event(name, event, &templates)?);
        }
    }
    if events.is_empty() {
        return Err("it has no event; is it an instrumentation manifest?".to_owned());
    }
    Ok(events)
}

fn one_event(
    provider: &str,
    event: Node<'_, '_>,
    templates: &HashMap<&str, Node<'_, '_>>,
) -> Result<Event> {
    let value = attribute(event, "value")?;
    let within = |what| format!("event {value} of {provider}: {what}");
    let version = event.attribute("version").unwrap_or("0");
    let fields = match event.attribute("template") {
        None => Vec::new(),
        Some(tid) => {
            let template =
                templates.get(tid).ok_or_else(|| within(format!("there is no template {tid}")))?;
            fields(*template).map_err(within)?
        }
    };
    Ok(Event {
        provider: provider.to_owned(),
        id: number(value).ok_or_else(|| within("its value is no 16-bit number".to_owned()))?,
        version: number(version).ok_or_else(|| within(format!("version {version}")))?,
        symbol: event.attribute("symbol").unwrap_or_default().to_owned(),
        fields,
    })
}

/// The fields of a template or structure.
fn fields(of: Node<'_, '_>) -> Result<Vec<Field>> {
    let mut fields: Vec<Field> = Vec::new();
    for node in of.children() {
        let field = match node.tag_name().name() {
            "data" => data(node)?,
            "struct" => Field {
                name: attribute(node, "name")?.to_owned(),
                count: count(node, "count"),
                ty: Type::Struct {
                    fields: self::fields(node)?,
                    is_aligned: node.attribute("aligned") == Some("true"),
                },
            },
            _ => continue,
        };
        if let Count::Field(name) = &field.count {
            if !fields.iter().any(|earlier| earlier.name == *name) {
                return Err(format!("the count {name} of {} is no earlier field", field.name));
            }
        }
        fields.push(field);
    }
    Ok(fields)
}

fn data(node: Node<'_, '_>) -> Result<Field> {
    let name = attribute(node, "name")?;
    let stated = attribute(node, "inType")?;
    let find = |among: &[(&str, &'static str)]| {
        among.iter().find(|(known, _)| *known == stated).map(|(_, ty)| *ty)
    };
    let length = count(node, "length");
    let (count, ty) = match (length, count(node, "count")) {
        (Count::One, count) => (count, find(TYPES)),
        (length, Count::One) => (length, find(COUNTED)),
        _ => return Err(format!("{name} has both a length and a count")),
    };
    let ty = ty.ok_or_else(|| format!("{name} has the unknown type {stated}"))?;
    Ok(Field { name: name.to_owned(), count, ty: Type::Plain(ty) })
}

/// An attribute that is a number or the name of a field. One value is no array.
fn count(node: Node<'_, '_>, name: &str) -> Count {
    match node.attribute(name) {
        None | Some("1") => Count::One,
        Some(value) => value.parse().map_or_else(|_| Count::Field(value.to_owned()), Count::Number),
    }
}

/// All elements of this name below a node.
fn named<'a, 'i>(of: Node<'a, 'i>, name: &'static str) -> impl Iterator<Item = Node<'a, 'i>> {
    of.descendants().filter(move |node| node.tag_name().name() == name)
}

fn attribute<'a>(node: Node<'a, '_>, name: &str) -> Result<&'a str> {
    let missing = || format!("a <{}> has no attribute {name}", node.tag_name().name());
    node.attribute(name).ok_or_else(missing)
}

/// A number in decimal digits, or in hexadecimal ones after `0x`.
fn number<T: TryFrom<u32>>(text: &str) -> Option<T> {
    let value = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok()?,
        None => text.parse().ok()?,
    };
    T::try_from(value).ok()
}
