//! Estimates of the memory that definitions take.

use std::mem::size_of;

use nettrace_format::{Field, Metadata, Thread, Type};

use crate::tables::ThreadTotals;

pub(crate) fn cost_of_metadata(metadata: &Metadata) -> usize {
    size_of::<Metadata>()
        + metadata.provider.len()
        + metadata.name.len()
        + metadata.message_template.as_ref().map_or(0, String::len)
        + metadata.description.as_ref().map_or(0, String::len)
        + cost_of_pairs(&metadata.key_values)
        + cost_of_fields(&metadata.fields)
}

fn cost_of_fields(fields: &[Field]) -> usize {
    fields.iter().map(|field| size_of::<Field>() + field.name.len() + cost_of_type(&field.ty)).sum()
}

fn cost_of_type(ty: &Type) -> usize {
    match ty {
        Type::Object(fields) => cost_of_fields(fields),
        _ => ty.element().map_or(0, |element| size_of::<Type>() + cost_of_type(element)),
    }
}

pub(crate) fn cost_of_thread(thread: &Thread) -> usize {
    2 * size_of::<ThreadTotals>()
        + thread.name.as_ref().map_or(0, String::len)
        + cost_of_pairs(&thread.key_values)
}

fn cost_of_pairs(pairs: &[(String, String)]) -> usize {
    pairs.iter().map(|(key, value)| 2 * size_of::<String>() + key.len() + value.len()).sum()
}
