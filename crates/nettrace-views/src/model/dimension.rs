//! The dimension that tells the spans of one name apart: the route of a request.

use nettrace_event::keys;
use nettrace_reader::{Event, Metadata, Value};

use super::Plain;

/// How many characters of a value are shown.
const MOST_VALUE: usize = 100;
/// How many values are told apart for a name. All others are one.
#[cfg(any(feature = "report", feature = "viewers"))]
pub(crate) const MOST_VALUES: usize = 64;

/// The field whose values tell the spans of a type apart: the one with this name if the type has
/// it, or else the one that the type's key-value `nettrace.dimension` names.
pub(crate) fn dimension(metadata: &Metadata, by: Option<&str>) -> Option<usize> {
    let place = |name: &str| metadata.fields.iter().position(|field| field.name == name);
    by.and_then(place).or_else(|| metadata.value(keys::DIMENSION).and_then(place))
}

/// The value of a dimension; `None` if there is nothing to show.
pub(crate) fn dimension_value(event: &Event<'_>, field: usize) -> Option<String> {
    let (_, value) = event.fields().nth(field)?.ok()?;
    let value = match value {
        Value::Array(mut option) if option.len() == 1 => option.pop()?,
        value => value,
    };
    let text = match Plain::of(&value) {
        Plain::Text(text) => text.to_owned(),
        Plain::Bool(value) => value.to_string(),
        Plain::Unsigned(value) => value.to_string(),
        Plain::Signed(value) => value.to_string(),
        _ => return None,
    };
    let text = clip(text.trim(), MOST_VALUE);
    Some(text).filter(|text| !text.is_empty())
}

/// The text, or its begin if it is longer than so many characters.
pub(crate) fn clip(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
