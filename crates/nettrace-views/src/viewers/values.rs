//! Values of payloads and labels as details of what a target draws: annotations of Perfetto,
//! members of JSON objects.

use nettrace_reader::{Label, Value};

use crate::model::{Plain, Purpose, Stated, Time, label_name};

/// Writes details in the form of a target, each with its key.
pub(crate) trait Details {
    /// Whether it writes anything.
    const IS_ANY: bool = true;

    /// A key with the name itself, for details that are rare.
    fn plain_key(name: &str) -> Vec<u8>;
    fn text(out: &mut Vec<u8>, key: &[u8], value: &str);
    fn unsigned(out: &mut Vec<u8>, key: &[u8], value: u64);
    fn signed(out: &mut Vec<u8>, key: &[u8], value: i64);
    fn addresses(out: &mut Vec<u8>, key: &[u8], addresses: impl Iterator<Item = u64>);
    fn value(out: &mut Vec<u8>, key: &[u8], value: &Value<'_>);
}

/// A field of an event type: the key of its details, and what is stated of its type.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    /// The name in the form of the target, or a reference to it.
    pub(crate) bytes: Vec<u8>,
    pub(crate) meaning: Meaning,
}

/// What a type states of a field beside the type of its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meaning {
    is_option: bool,
    is_time: bool,
}

impl Meaning {
    pub(crate) fn of(stated: &Stated<'_>) -> Self {
        let inner = stated.option();
        let is_time = inner.as_ref().unwrap_or(stated).is("SystemTime");
        Self { is_option: inner.is_some(), is_time }
    }
}

/// Writes one field. A value that is absent gets no detail.
#[inline]
pub(crate) fn field<D: Details>(out: &mut Vec<u8>, key: &Key, value: &Value<'_>) {
    if key.meaning.is_option {
        if let Some(value) = present(value) {
            meant::<D>(out, key, value);
        }
        return;
    }
    meant::<D>(out, key, value);
}

/// The value of an option, which is an array with at most one element.
fn present<'v, 'a>(value: &'v Value<'a>) -> Option<&'v Value<'a>> {
    Some(match value {
        Value::Array(values) => match &**values {
            [] => return None,
            [Value::Object(fields)] => match &**fields {
                [("value", value)] => value,
                _ => value,
            },
            [value] => value,
            _ => value,
        },
        Value::Bytes([]) => return None,
        Value::Text(text) if text.is_empty() => return None,
        value => value,
    })
}

#[inline]
fn meant<D: Details>(out: &mut Vec<u8>, key: &Key, value: &Value<'_>) {
    match value {
        Value::I64(nanos) if key.meaning.is_time => {
            D::text(out, &key.bytes, &Time::of_nanos(*nanos).to_string());
        }
        Value::Bytes([byte]) if key.meaning.is_option => {
            D::unsigned(out, &key.bytes, (*byte).into());
        }
        value => D::value(out, &key.bytes, value),
    }
}

/// Writes a label. Labels that replace properties of the type are not written.
pub(crate) fn label<D: Details>(out: &mut Vec<u8>, label: &Label) {
    if Purpose::of(label) == Purpose::Property {
        return;
    }
    let key = D::plain_key(label_name(label));
    match Plain::of_label(label) {
        Plain::Text(text) => D::text(out, &key, text),
        Plain::Signed(number) => D::signed(out, &key, number),
        Plain::Id(text) | Plain::Words(text) => D::text(out, &key, &text.to_string()),
        _ => {}
    }
}
