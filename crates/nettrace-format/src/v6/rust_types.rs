//! Key-values with the Rust types of fields that version 6 cannot describe: see the documentation
//! of [`v6`](crate::v6).
//!
//! Readers that do not know these keys lose nothing. The reference reader does not show key-values.

use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};

use nettrace_event::{FieldSchema, FieldType, keys};

/// The key-values for a type with these fields.
pub(crate) fn rust_types(fields: &[FieldSchema]) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    collect(keys::RUST_TYPE, fields, &mut pairs);
    pairs
}

fn collect(prefix: &str, fields: &[FieldSchema], pairs: &mut Vec<(String, String)>) {
    for field in fields {
        let path = || format!("{prefix}{}", field.name);
        if let Some(ty) = name(&field.ty) {
            pairs.push((path(), ty));
        }
        if let Some(members) = members(&field.ty) {
            collect(&format!("{}.", path()), members, pairs);
        }
    }
}

/// The name of a type; `None` if version 6 describes all of it.
fn name(of: &FieldType) -> Option<String> {
    match of {
        FieldType::DurationNanos => Some("Duration".to_string()),
        FieldType::UnixNanos => Some("SystemTime".to_string()),
        FieldType::Option(of) => Some(match of {
            // An array in an option is described as an object, which readers need to know.
            FieldType::Array(item, _) => format!("Option<[{}]>", name_or_described(item)),
            of => format!("Option<{}>", name_or_described(of)),
        }),
        FieldType::Array(of, _) => Some(format!("[{}]", name(of)?)),
        _ => None,
    }
}

fn name_or_described(of: &FieldType) -> String {
    name(of).unwrap_or_else(|| "_".to_string())
}

/// The fields of an object, or of the objects in an array or option.
fn members(of: &FieldType) -> Option<&'static [FieldSchema]> {
    match of {
        FieldType::Object(fields) => Some(fields),
        FieldType::Option(of) | FieldType::Array(of, _) => members(of),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use nettrace_event::ArrayLayout;

    use super::*;

    #[test]
    fn paths_and_types() {
        const ORDER: &[FieldSchema] = &[
            FieldSchema::new("id", FieldType::U32),
            FieldSchema::new("took", FieldType::DurationNanos),
        ];
        const OBJECT: FieldType = FieldType::Object(ORDER);
        const TIMES: FieldType = FieldType::Array(&FieldType::UnixNanos, ArrayLayout::Counted);
        const COUNTS: FieldType = FieldType::Array(&FieldType::U8, ArrayLayout::Counted);
        const FIELDS: &[FieldSchema] = &[
            FieldSchema::new("count", FieldType::Option(&FieldType::U8)),
            FieldSchema::new("orders", FieldType::Array(&OBJECT, ArrayLayout::Fixed(2))),
            FieldSchema::new("last", FieldType::Option(&OBJECT)),
            FieldSchema::new("plain", FieldType::Array(&FieldType::U64, ArrayLayout::Counted)),
            FieldSchema::new("times", FieldType::Option(&TIMES)),
            FieldSchema::new("counts", FieldType::Option(&COUNTS)),
        ];
        let pairs = rust_types(FIELDS);
        let pairs: Vec<_> =
            pairs.iter().map(|(key, ty)| (&key[keys::RUST_TYPE.len()..], &**ty)).collect();
        assert_eq!(
            pairs,
            [
                ("count", "Option<_>"),
                ("orders.took", "Duration"),
                ("last", "Option<_>"),
                ("last.took", "Duration"),
                ("times", "Option<[SystemTime]>"),
                ("counts", "Option<[_]>"),
            ]
        );
    }
}
