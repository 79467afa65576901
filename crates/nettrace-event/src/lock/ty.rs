//! The types of fields as text.

use alloc::{
    boxed::Box,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

use crate::lock::{
    Field,
    words::{Name, is_of_word, quoted},
};

/// The type of a field.
///
/// Its text is like Rust's: `u64`, `text`, `[u16]`, `[u16; 3]`, `u32?` for an option, and
/// `{x: f64, y: f64}` for an object. A word in front says how it is stored: `utf8 text`,
/// `rel_loc [u16]`.
///
/// ```
/// use nettrace_event::lock::Type;
///
/// let ty: Type = "[{at: unix_nanos, who: secret text?}]".parse()?;
/// assert_eq!(ty.to_string(), "[{at: unix_nanos, who: secret text?}]");
/// // What a trace says of it.
/// assert_eq!(ty.stored().to_string(), "[{at: i64, who: [text]}]");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Type {
    /// A type without parts: `u64`, `text`, `utf8 text`.
    Plain(String),
    /// A sequence: how it is stored, if that is not usual, and how many elements it has, if that is
    /// fixed.
    Array(Box<Self>, Option<String>, Option<u16>),
    /// A value that may be absent.
    Option(Box<Self>),
    /// Fields one after the other. What else is to say of them is not known.
    Object(Vec<Field>),
}

impl Type {
    /// A type without parts.
    #[must_use]
    pub fn plain(name: &str) -> Self {
        Self::Plain(name.to_string())
    }

    /// The type as a trace of version 6 states it. It does not tell a duration from a number, or an
    /// option from an array.
    #[must_use]
    pub fn stored(&self) -> Self {
        match self {
            Self::Plain(name) => Self::plain(match name.as_str() {
                "duration_nanos" => "u64",
                "unix_nanos" => "i64",
                "char" | "ip_addr" | "socket_addr" => "text",
                "u128" => return Self::halves("u64"),
                "i128" => return Self::halves("i64"),
                name => name,
            }),
            Self::Array(element, stored, count) => match (element.element("items"), stored) {
                (Self::Plain(unit), None) if unit == "utf16_unit" && count.is_none() => {
                    Self::plain("text")
                }
                (element, stored) => Self::Array(Box::new(element), stored.clone(), *count),
            },
            Self::Option(value) => Self::Array(Box::new(value.element("value")), None, None),
            Self::Object(fields) => Self::Object(
                fields
                    .iter()
                    .map(|field| Field::of_object(&field.name, field.ty.stored(), false))
                    .collect(),
            ),
        }
    }

    /// As an element of an array. Version 6 has no arrays of arrays: an array within another is the
    /// one field of an object.
    fn element(&self, name: &str) -> Self {
        match (self, self.stored()) {
            (Self::Array(..) | Self::Option(_), array @ Self::Array(..)) => {
                Self::Object(Vec::from([Field::of_object(name, array, false)]))
            }
            (_, stored) => stored,
        }
    }

    fn halves(high: &str) -> Self {
        Self::Object(Vec::from([
            Field::of_object("low", Self::plain("u64"), false),
            Field::of_object("high", Self::plain(high), false),
        ]))
    }
}

impl Field {
    pub(super) fn of_object(name: &str, ty: Type, is_secret: bool) -> Self {
        Self { is_secret, ..Self::new(name.to_string(), ty) }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(name) => f.write_str(name),
            Self::Array(element, stored, count) => {
                if let Some(stored) = stored {
                    write!(f, "{stored} ")?;
                }
                match count {
                    Some(count) => write!(f, "[{element}; {count}]"),
                    None => write!(f, "[{element}]"),
                }
            }
            Self::Option(value) => write!(f, "{value}?"),
            Self::Object(fields) => {
                f.write_str("{")?;
                for (at, field) in fields.iter().enumerate() {
                    let comma = if at > 0 { ", " } else { "" };
                    let secret = if field.is_secret { "secret " } else { "" };
                    write!(f, "{comma}{}: {secret}{}", Name(&field.name), field.ty)?;
                }
                f.write_str("}")
            }
        }
    }
}

/// The deepest nesting of types.
const DEEPEST: u32 = 64;

impl core::str::FromStr for Type {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parser = Parser { rest: text.trim() };
        let (ty, _) = parser.ty(0)?;
        if parser.rest.is_empty() { Ok(ty) } else { Err(parser.expected("the end")) }
    }
}

/// Reads a type from the start of a text.
struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn expected(&self, what: &str) -> String {
        let begin: String = self.rest.chars().take(40).collect();
        alloc::format!("expected {what} at {begin:?}")
    }

    fn takes(&mut self, what: &str) -> bool {
        let rest = self.rest.strip_prefix(what).map(str::trim_start);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn must(&mut self, what: &str) -> Result<(), String> {
        if self.takes(what) { Ok(()) } else { Err(self.expected(what)) }
    }

    fn word(&mut self) -> Result<&'a str, String> {
        let len = self.rest.bytes().take_while(|byte| is_of_word(*byte)).count();
        if len == 0 {
            return Err(self.expected("a word"));
        }
        let (word, rest) = self.rest.split_at(len);
        self.rest = rest.trim_start();
        Ok(word)
    }

    fn name(&mut self) -> Result<String, String> {
        if !self.rest.starts_with('"') {
            return self.word().map(str::to_string);
        }
        let (name, rest) = quoted(self.rest).ok_or_else(|| self.expected("a name"))?;
        self.rest = rest.trim_start();
        Ok(name)
    }

    /// A type, and how deep it is. `depth` bounds the recursion.
    fn ty(&mut self, depth: u32) -> Result<(Type, u32), String> {
        let too_deep = || "types are too deep within each other".to_string();
        if depth > DEEPEST {
            return Err(too_deep());
        }
        let (mut ty, mut deep) = self.part(depth)?;
        while self.takes("?") {
            deep += 1;
            if deep > DEEPEST {
                return Err(too_deep());
            }
            ty = Type::Option(Box::new(ty));
        }
        if deep > DEEPEST { Err(too_deep()) } else { Ok((ty, deep)) }
    }

    fn part(&mut self, depth: u32) -> Result<(Type, u32), String> {
        if self.takes("[") {
            return self.array(None, depth);
        }
        if self.takes("{") {
            let (mut fields, mut deepest) = (Vec::new(), 0);
            while !self.takes("}") {
                if !fields.is_empty() {
                    self.must(",")?;
                }
                let name = self.name()?;
                self.must(":")?;
                let is_secret = self.takes("secret ");
                let (ty, deep) = self.ty(depth + 1)?;
                deepest = deepest.max(deep);
                fields.push(Field::of_object(&name, ty, is_secret));
            }
            return Ok((Type::Object(fields), deepest + 1));
        }
        let word = self.word()?;
        if self.takes("[") {
            return self.array(Some(word.to_string()), depth);
        }
        let ty = match self.takes("text") {
            true => Type::Plain(alloc::format!("{word} text")),
            false => Type::plain(word),
        };
        Ok((ty, 0))
    }

    fn array(&mut self, stored: Option<String>, depth: u32) -> Result<(Type, u32), String> {
        let (element, deep) = self.ty(depth + 1)?;
        let mut count = None;
        if self.takes(";") {
            count = Some(self.word()?.parse().map_err(|_| self.expected("a number"))?);
        }
        self.must("]")?;
        Ok((Type::Array(Box::new(element), stored, count), deep + 1))
    }
}
