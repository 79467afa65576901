//! The fields of events: their values, and the Rust types that this project's writer states in
//! key-values of event types. Version 6 describes `Duration`, `SystemTime` and `Option` as integers
//! and arrays; `nettrace_format::v6` documents the key-values.

use std::{borrow::Cow, collections::HashMap, time::Duration};

use nettrace_event::keys;
use nettrace_reader::{Event, Metadata, Result, Type, Value};

use crate::model::Time;

/// The type that version 6 describes in full.
const DESCRIBED: &str = "_";

/// Hands the values of an event to `take`, each with the place of its field in the type. Fields at
/// the end can be absent, because an older version of the type wrote the event. Returns how many
/// bytes of the payload the values take.
///
/// # Errors
/// A field cannot be decoded, or nobody knows where the last one ends. The other values have been
/// taken, as far as it is known where they begin.
#[inline]
pub fn walk<'a>(event: &Event<'a>, mut take: impl FnMut(usize, Value<'a>)) -> Result<usize> {
    let mut values = event.fields();
    let (mut place, mut first_error) = (0, None);
    // After a value whose end is unknown comes an error, even after the last one.
    while !values.is_exhausted() {
        match values.next() {
            Some(Ok((_, value))) => take(place, value),
            Some(Err(error)) => first_error = first_error.or(Some(error)),
            None => break,
        }
        place += 1;
    }
    first_error.map_or(Ok(values.used()), Err)
}

/// What an event type states of its fields: Rust types by the paths of fields.
#[derive(Clone, Debug, Default)]
pub struct RustTypes(HashMap<String, String>);

impl RustTypes {
    /// Those of an event type.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        let mut types = HashMap::new();
        for (key, ty) in &metadata.key_values {
            if let Some(path) = key.strip_prefix(keys::RUST_TYPE) {
                // The last of several applies, as everywhere.
                types.insert(path.to_owned(), ty.clone());
            }
        }
        Self(types)
    }

    /// What is stated of a field of the event.
    #[must_use]
    pub fn field<'a>(&'a self, name: &'a str) -> Stated<'a> {
        Stated { ty: self.find(name), path: Cow::Borrowed(name), types: self }
    }

    fn find(&self, path: &str) -> &str {
        self.0.get(path).map_or(DESCRIBED, |ty| ty)
    }
}

/// What is stated of one value.
#[derive(Clone, Debug)]
pub struct Stated<'a> {
    ty: &'a str,
    path: Cow<'a, str>,
    types: &'a RustTypes,
}

/// A value with the meaning that its stated type gives it. One that does not fit its stated type is
/// as if none was stated.
#[derive(Clone, Debug)]
pub enum Meant<'v, 'a> {
    /// An option without a value.
    Nothing,
    /// A length of time.
    Duration(Duration),
    /// A point in time.
    Time(Time),
    /// An array, and what is stated of each element.
    Array(&'v [Value<'v>], Stated<'a>),
    /// Any other value.
    Value(Cow<'v, Value<'v>>, Stated<'a>),
}

impl<'a> Stated<'a> {
    /// What is stated of a field of this object, or of the object in this array or option.
    #[must_use]
    pub fn member(&self, name: &str) -> Self {
        if self.types.0.is_empty() {
            return Self { ty: DESCRIBED, path: Cow::Borrowed(""), types: self.types };
        }
        let path = format!("{}.{name}", self.path);
        Self { ty: self.types.find(&path), path: Cow::Owned(path), types: self.types }
    }

    /// What is stated of the value in this option, if it is one. An option of an option is shown as
    /// a list of at most one, or else its value without a value would be shown as none.
    #[must_use]
    pub fn option(&self) -> Option<Self> {
        let ty = self.ty.strip_prefix("Option<")?.strip_suffix('>')?;
        Some(Self { ty, ..self.clone() })
    }

    /// What is stated of the elements of this array.
    #[must_use]
    pub fn element(&self) -> Self {
        let ty = self.ty.strip_prefix('[').and_then(|ty| ty.strip_suffix(']'));
        Self { ty: ty.unwrap_or(DESCRIBED), ..self.clone() }
    }

    /// Whether it is this type.
    #[must_use]
    pub fn is(&self, ty: &str) -> bool {
        self.ty == ty
    }

    /// Whether it is an array or option. Version 6 describes one in an array or option as an object
    /// with one field, because readers fail on arrays of arrays.
    fn is_wrapped(&self) -> bool {
        self.ty.starts_with("Option<") || self.ty.starts_with('[')
    }

    /// The type of what is in an array or option of such an element: without the object that wraps
    /// it, whose only field is `name`.
    #[must_use]
    pub fn unwrapped<'t>(&self, element: &'t Type, name: &str) -> Option<&'t Type> {
        match element {
            Type::Object(fields) if self.is_wrapped() => match &**fields {
                [field] if field.name == name => Some(&field.ty),
                _ => None,
            },
            _ => None,
        }
    }

    /// Interprets a value by what is stated of it.
    #[must_use]
    pub fn interpret<'v>(self, value: &'v Value<'v>) -> Meant<'v, 'a> {
        match (self.ty, value) {
            ("Duration", Value::U64(nanos)) => {
                return Meant::Duration(Duration::from_nanos(*nanos));
            }
            ("SystemTime", Value::I64(nanos)) => return Meant::Time(Time::of_nanos(*nanos)),
            _ => {}
        }
        match (self.option(), value) {
            (Some(_), Value::Bytes([])) => Meant::Nothing,
            // An array of code units is text.
            (Some(_), Value::Text(text)) if text.is_empty() => Meant::Nothing,
            (Some(_), Value::Bytes([byte])) => Meant::Value(Cow::Owned(Value::U8(*byte)), self),
            (Some(inner), Value::Array(values)) => match &**values {
                [] => Meant::Nothing,
                // A list of one, so that an option whose value is none differs from none.
                [_] if inner.option().is_some() => Meant::Array(values, inner),
                [value] => {
                    let value = inner.content(value);
                    inner.interpret(value)
                }
                _ => Meant::Array(values, inner),
            },
            (None, Value::Array(values)) => Meant::Array(values, self.element()),
            _ => Meant::Value(Cow::Borrowed(value), self),
        }
    }

    /// Interprets an element of an array, of which this is stated.
    #[must_use]
    pub fn interpret_element<'v>(&self, value: &'v Value<'v>) -> Meant<'v, 'a> {
        self.clone().interpret(self.content(value))
    }

    /// The array or option in the object that wraps it. Its field is called `value` in an option,
    /// and `items` in an array.
    fn content<'v>(&self, value: &'v Value<'v>) -> &'v Value<'v> {
        match value {
            Value::Object(fields) if self.is_wrapped() => match &**fields {
                [("value" | "items", value)] => value,
                _ => value,
            },
            _ => value,
        }
    }
}
