//! Schemas as types of Rust that read the events.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
    io::Write,
};

use nettrace_event::{
    check,
    lock::{Catalogue, Event, Field, Type},
};

use crate::failure::Failure;

/// A file with a type for each event. Versions of an event are one type.
pub(super) fn write(
    catalogue: &Catalogue,
    is_trace: bool,
    out: &mut impl Write,
) -> Result<(), Failure> {
    // What the types of fields are called.
    let names = ["Option", "String", "Vec"].map(|name| (name.to_owned(), 1)).into();
    let mut types = Types { text: String::new(), names };
    let of_one = |a: &Event, b: &Event| (&a.provider, &a.name) == (&b.provider, &b.name);
    for versions in catalogue.events.chunk_by(of_one) {
        types.event(versions);
    }
    writeln!(
        out,
        "// Types that read events, with `nettrace-reader` and its feature `derive`: for instance\n\
         // `reader.events::<NAME>()`. Made by `nettrace schema --rust`."
    )?;
    if is_trace && types.text.contains("Vec<") {
        writeln!(
            out,
            "// A trace has an option as a list of at most one value, so it is a `Vec` here:\n\
             // write `Option` where you know of one. A file of `schema_lock!` tells them apart."
        )?;
    }
    Ok(out.write_all(types.text.as_bytes())?)
}

struct Types {
    text: String,
    /// The names that are taken, and how many were made of each.
    names: HashMap<String, u32>,
}

/// The longest arrays of a fixed size. Longer ones are read as lists.
const MOST_FIXED: u16 = 64;

/// The most levels of structs within each other.
const DEEPEST: u32 = 16;

impl Types {
    /// A type for the versions of one event, the oldest first.
    fn event(&mut self, versions: &[Event]) {
        let Some(event) = versions.last() else { return };
        let (provider, name) = (&event.provider, &event.name);
        if !check::is_provider_name(provider, None) || !is_name(name) {
            let _ =
                writeln!(self.text, "\n// Not an event that can be named: {provider:?} {name:?}");
            return;
        }
        let ident = self.type_name(name);
        let mut fields: Vec<(&Field, bool)> = Vec::new();
        for field in versions.iter().rev().flat_map(|version| &version.fields) {
            if fields.iter().all(|(known, _)| known.name != field.name) {
                let has = |event: &Event| event.fields.iter().any(|it| it.name == field.name);
                fields.push((field, !versions.iter().all(has)));
            }
        }
        let body = self.fields(&ident, &fields, 0);
        let doc = doc(event.meaning.as_deref(), "");
        let _ = write!(
            self.text,
            "\n{doc}#[derive(Clone, Debug, PartialEq, nettrace_reader::ReadEvent)]\n\
             #[trace_event(provider = {provider:?}, name = {name:?})]\n\
             pub struct {ident} {{{body}}}\n"
        );
    }

    /// The fields of a struct. Those that are not in every version are optional.
    fn fields(&mut self, of: &str, fields: &[(&Field, bool)], depth: u32) -> String {
        let (mut text, mut idents) = (String::from("\n"), HashMap::new());
        let mut known = HashSet::new();
        for (field, is_optional) in fields {
            let name = &field.name;
            let is_first = known.insert(name);
            let ty = match is_first && is_name(name) {
                true => self.ty(&field.ty, &format!("{of}_{name}"), depth),
                false => None,
            };
            let Some(ty) = ty else {
                let _ = writeln!(text, "    // {name:?} is not read: {}", field.ty);
                continue;
            };
            let is_option = matches!(field.ty, Type::Option(_));
            let ty = if *is_optional && !is_option { format!("Option<{ty}>") } else { ty };
            let (ident, is_renamed) = field_name(name, &mut idents);
            text += &doc(field.meaning.as_deref(), "    ");
            if is_renamed {
                let _ = writeln!(text, "    #[trace_event(rename = {name:?})]");
            }
            let _ = writeln!(text, "    pub {ident}: {ty},");
        }
        if text.len() == 1 { String::new() } else { text }
    }

    /// The type of a field, of which nested structs are called `name`. `None` if it cannot be read.
    fn ty(&mut self, ty: &Type, name: &str, depth: u32) -> Option<String> {
        if depth > DEEPEST {
            return None;
        }
        Some(match ty {
            Type::Plain(plain) => plain_type(plain)?.to_owned(),
            // Readers show these as text. A list of UTF-16 units can also be read as one.
            Type::Array(element, _, Some(_)) if **element == Type::plain("utf8_unit") => {
                "String".to_owned()
            }
            Type::Array(element, _, Some(count)) if *count <= MOST_FIXED => {
                format!("[{}; {count}]", self.element(element, name, depth)?)
            }
            Type::Array(element, ..) => {
                // A trace describes an option as an array.
                let is_option = matches!(&**element, Type::Object(fields)
                    if matches!(&fields[..], [Field { name, ty: Type::Array(..), .. }]
                        if name == "value"));
                let list = if is_option { "Option" } else { "Vec" };
                format!("{list}<{}>", self.element(element, name, depth)?)
            }
            Type::Option(value) => format!("Option<{}>", self.element(value, name, depth)?),
            Type::Object(fields) if is_tuple(fields) => {
                let parts = fields.iter().map(|field| self.ty(&field.ty, name, depth + 1));
                let parts: Option<Vec<_>> = parts.collect();
                let comma = if fields.len() == 1 { "," } else { "" };
                format!("({}{comma})", parts?.join(", "))
            }
            Type::Object(fields) => {
                let ident = self.type_name(name);
                let fields: Vec<_> = fields.iter().map(|field| (field, false)).collect();
                let body = self.fields(&ident, &fields, depth + 1);
                let _ = write!(
                    self.text,
                    "\n#[derive(Clone, Debug, PartialEq, nettrace_reader::ReadField)]\n\
                     pub struct {ident} {{{body}}}\n"
                );
                ident
            }
        })
    }

    /// The type of an element. A trace describes an array in an array as an object with one field.
    fn element(&mut self, ty: &Type, name: &str, depth: u32) -> Option<String> {
        match ty {
            Type::Object(fields) => match &fields[..] {
                [Field { name: only, ty: ty @ Type::Array(..), .. }]
                    if only == "items" || only == "value" =>
                {
                    self.ty(ty, name, depth + 1)
                }
                _ => self.ty(ty, name, depth + 1),
            },
            _ => self.ty(ty, name, depth + 1),
        }
    }

    /// A name for a type that no other has.
    fn type_name(&mut self, name: &str) -> String {
        let mut ident = String::new();
        let mut is_start = true;
        for character in name.chars() {
            if !character.is_ascii_alphanumeric() {
                is_start = true;
                continue;
            }
            ident.push(if is_start { character.to_ascii_uppercase() } else { character });
            is_start = false;
        }
        if !ident.starts_with(|first: char| first.is_ascii_alphabetic()) || ident == "Self" {
            ident.insert_str(0, "Event");
        }
        unique(ident, &mut self.names)
    }
}

/// Whether it can be the name of an event or a field in an attribute.
fn is_name(name: &str) -> bool {
    let is_short = (1..=1_000).contains(&name.len());
    is_short && !name.chars().any(|it| it.is_control() || it == ';')
}

fn unique(ident: String, taken: &mut HashMap<String, u32>) -> String {
    let mut free = ident.clone();
    while taken.contains_key(&free) {
        let number = taken.entry(ident.clone()).or_insert(1);
        *number += 1;
        free = format!("{ident}{number}");
    }
    taken.insert(free.clone(), 1);
    free
}

/// The name of a field in Rust, and whether it differs from the original.
fn field_name(name: &str, taken: &mut HashMap<String, u32>) -> (String, bool) {
    let mut ident = String::new();
    let mut before = '_';
    for character in name.chars() {
        let is_word = character.is_ascii_alphanumeric();
        if character.is_ascii_uppercase()
            && (before.is_ascii_lowercase() || before.is_ascii_digit())
        {
            ident.push('_');
        }
        if is_word || !ident.ends_with('_') {
            ident.push(if is_word { character.to_ascii_lowercase() } else { '_' });
        }
        before = character;
    }
    let mut ident = ident.trim_end_matches('_').to_owned();
    if ident.starts_with(|first: char| first.is_ascii_digit()) || ident.bytes().all(|it| it == b'_')
    {
        ident.insert_str(0, "field_");
    }
    // These cannot be written with `r#`.
    if matches!(&*ident, "self" | "super" | "crate") {
        ident.push_str("_it");
    }
    let ident = unique(ident, taken);
    let is_renamed = ident != name;
    match &*ident {
        "as" | "async" | "await" | "break" | "const" | "continue" | "dyn" | "else" | "enum"
        | "extern" | "false" | "fn" | "for" | "gen" | "if" | "impl" | "in" | "let" | "loop"
        | "match" | "mod" | "move" | "mut" | "pub" | "ref" | "return" | "static" | "struct"
        | "trait" | "true" | "type" | "unsafe" | "use" | "where" | "while" | "abstract"
        | "become" | "box" | "do" | "final" | "macro" | "override" | "priv" | "try" | "typeof"
        | "unsized" | "virtual" | "yield" => (format!("r#{ident}"), is_renamed),
        _ => (ident, is_renamed),
    }
}

/// Objects of 1 to 12 fields that are called by their numbers.
fn is_tuple(fields: &[Field]) -> bool {
    let mut numbered = fields.iter().enumerate();
    (1..=12).contains(&fields.len()) && numbered.all(|(at, field)| field.name == at.to_string())
}

fn plain_type(name: &str) -> Option<&'static str> {
    Some(match name {
        "bool" | "bool8" => "bool",
        "u8" | "utf8_unit" => "u8",
        "u16" | "utf16_unit" => "u16",
        "u32" => "u32",
        "u64" | "var_uint" => "u64",
        "u128" => "u128",
        "i8" => "i8",
        "i16" => "i16",
        "i32" => "i32",
        "i64" | "var_int" => "i64",
        "i128" => "i128",
        "f32" => "f32",
        "f64" => "f64",
        "char" => "char",
        "guid" => "nettrace_reader::Guid",
        "decimal" => "nettrace_reader::Decimal",
        "unix_nanos" | "date_time" => "std::time::SystemTime",
        "duration_nanos" => "std::time::Duration",
        "ip_addr" => "std::net::IpAddr",
        "socket_addr" => "std::net::SocketAddr",
        "text" => "String",
        name if name.ends_with(" text") => "String",
        _ => return None,
    })
}

/// A doc comment of one line.
fn doc(meaning: Option<&str>, indent: &str) -> String {
    let Some(meaning) = meaning else { return String::new() };
    let line: String = meaning.chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
    format!("{indent}/// {}\n", crate::spelling::OneLine(line.trim()))
}
