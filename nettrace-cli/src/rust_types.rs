//! The Rust types of fields, as the writer of this project states them in key-values of event
//! types: `Duration`, `SystemTime` and `Option`, which version 6 describes as integers and arrays.
//!
//! `nettrace_format::v6` documents the key-values. A value that does not fit its stated type is
//! shown as if none was stated.

use std::{borrow::Cow, collections::HashMap, fmt, time::Duration};

use jiff::Timestamp;
use nettrace_format::v6::RUST_TYPE_KEY;
use nettrace_reader::{Metadata, Value};
use nettrace_views::model::Time;

/// The type that version 6 describes in full.
const DESCRIBED: &str = "_";

/// What an event type states of its fields: types by the paths of fields.
#[derive(Debug, Default)]
pub(crate) struct RustTypes(HashMap<String, String>);

impl RustTypes {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        let mut types = HashMap::new();
        for (key, ty) in &metadata.key_values {
            if let Some(path) = key.strip_prefix(RUST_TYPE_KEY) {
                // The first of several applies.
                types.entry(path.to_owned()).or_insert_with(|| ty.clone());
            }
        }
        Self(types)
    }

    /// What is stated of a field of the event.
    pub(crate) fn field<'a>(&'a self, name: &'a str) -> Stated<'a> {
        Stated { ty: self.find(name), path: Cow::Borrowed(name), types: self }
    }

    fn find(&self, path: &str) -> &str {
        self.0.get(path).map_or(DESCRIBED, |ty| ty)
    }
}

/// What is stated of one value.
#[derive(Clone, Debug)]
pub(crate) struct Stated<'a> {
    ty: &'a str,
    path: Cow<'a, str>,
    types: &'a RustTypes,
}

/// A value with the meaning that its stated type gives it.
#[derive(Clone, Debug)]
pub(crate) enum Meant<'v, 'a> {
    /// An option without a value.
    Nothing,
    Duration(Duration),
    Time(UnixNanos),
    /// An array, and what is stated of each element.
    Array(&'v [Value<'v>], Stated<'a>),
    /// Any other value.
    Value(Cow<'v, Value<'v>>, Stated<'a>),
}

impl<'a> Stated<'a> {
    /// What is stated of a field of this object, or of the object in this array or option.
    pub(crate) fn member(&self, name: &str) -> Self {
        if self.types.0.is_empty() {
            return Self { ty: DESCRIBED, path: Cow::Borrowed(""), types: self.types };
        }
        let path = format!("{}.{name}", self.path);
        Self { ty: self.types.find(&path), path: Cow::Owned(path), types: self.types }
    }

    /// Interprets a value by what is stated of it.
    pub(crate) fn interpret<'v>(self, value: &'v Value<'v>) -> Meant<'v, 'a> {
        match (self.ty, value) {
            ("Duration", Value::U64(nanos)) => Meant::Duration(Duration::from_nanos(*nanos)),
            ("SystemTime", Value::I64(nanos)) => Meant::Time(UnixNanos(*nanos)),
            (ty, Value::Array(values)) => {
                if let Some(item) = inside(ty, "Option<", ">") {
                    let stated = Self { ty: item, ..self };
                    return match &**values {
                        [] => Meant::Nothing,
                        [value] => {
                            let value = unwrapped(value, item, "value");
                            stated.interpret(value)
                        }
                        _ => Meant::Array(values, stated),
                    };
                }
                let item = inside(ty, "[", "]").unwrap_or(DESCRIBED);
                Meant::Array(values, Self { ty: item, ..self })
            }
            (ty, Value::Bytes(bytes)) if inside(ty, "Option<", ">").is_some() => match bytes {
                [] => Meant::Nothing,
                [byte] => Meant::Value(Cow::Owned(Value::U8(*byte)), self),
                _ => Meant::Value(Cow::Borrowed(value), self),
            },
            // An array of code units is text.
            (ty, Value::Text(text)) if inside(ty, "Option<", ">").is_some() && text.is_empty() => {
                Meant::Nothing
            }
            _ => Meant::Value(Cow::Borrowed(value), self),
        }
    }
}

impl<'v, 'a> Meant<'v, 'a> {
    /// Interprets an element of an array.
    pub(crate) fn element(value: &'v Value<'v>, stated: &Stated<'a>) -> Self {
        let value = unwrapped(value, stated.ty, "items");
        stated.clone().interpret(value)
    }
}

/// The type between a prefix and a suffix.
fn inside<'a>(ty: &'a str, prefix: &str, suffix: &str) -> Option<&'a str> {
    ty.strip_prefix(prefix)?.strip_suffix(suffix)
}

/// The array or option in an element. Version 6 describes such an element as an object with one
/// field, because readers fail on arrays of arrays.
fn unwrapped<'v>(value: &'v Value<'v>, ty: &str, name: &str) -> &'v Value<'v> {
    let is_wrapped = ty.starts_with("Option<") || ty.starts_with('[');
    match value {
        Value::Object(fields) if is_wrapped => match &**fields {
            [(field, value)] if *field == name => value,
            _ => value,
        },
        _ => value,
    }
}

/// Nanoseconds since 1970-01-01 UTC, shown as RFC 3339 with nine decimals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnixNanos(pub(crate) i64);

impl fmt::Display for UnixNanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Time::of_unix(self.0.into()) {
            Some(time) => time.fmt(f),
            None => write!(f, "{} (ns since 1970)", self.0),
        }
    }
}

/// The units of time, and how many nanoseconds they have. A unit comes before its own suffixes.
pub(crate) const UNITS: [(&str, i128); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Nanoseconds that are written with a unit, `1.5ms`, or as a time in RFC 3339.
pub(crate) fn nanoseconds(text: &str) -> Option<i128> {
    for (unit, nanos) in UNITS {
        let number = text.strip_suffix(unit).and_then(|number| number.parse::<f64>().ok());
        if let Some(number) = number.filter(|number| number.is_finite()) {
            return Some((number * nanos as f64).round() as i128);
        }
    }
    text.parse::<Timestamp>().ok().map(Timestamp::as_nanosecond)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        for (text, nanos) in [
            ("5ns", 5),
            ("1.5ms", 1_500_000),
            ("2us", 2_000),
            ("2µs", 2_000),
            ("-3s", -3_000_000_000),
            ("2m", 120_000_000_000),
            ("0.5h", 1_800_000_000_000),
            ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ] {
            assert_eq!(nanoseconds(text), Some(nanos), "{text}");
        }
        for text in ["", "5", "s", "ms", "infs", "m", "5 d", "1970-01-01"] {
            assert_eq!(nanoseconds(text), None, "{text}");
        }
        assert_eq!(UnixNanos(-1).to_string(), "1969-12-31T23:59:59.999999999Z");
        assert_eq!(UnixNanos(i64::MAX).to_string(), "2262-04-11T23:47:16.854775807Z");
    }
}
