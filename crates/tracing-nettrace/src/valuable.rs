//! Values of the crate `valuable`.

use valuable::Value;
use valuable_serde::Serializable;

use crate::values::Values;

/// Adds a value. Numbers and texts are recorded as such, structures as JSON.
pub(crate) fn put(values: &mut Values, index: usize, value: &Value<'_>) {
    match *value {
        Value::Bool(value) => values.put_bool(index, value),
        Value::I8(value) => values.put_i64(index, value.into()),
        Value::I16(value) => values.put_i64(index, value.into()),
        Value::I32(value) => values.put_i64(index, value.into()),
        Value::I64(value) => values.put_i64(index, value),
        Value::I128(value) => values.put_i128(index, value),
        Value::Isize(value) => values.put_i64(index, value as i64),
        Value::U8(value) => values.put_u64(index, value.into()),
        Value::U16(value) => values.put_u64(index, value.into()),
        Value::U32(value) => values.put_u64(index, value.into()),
        Value::U64(value) => values.put_u64(index, value),
        Value::U128(value) => values.put_u128(index, value),
        Value::Usize(value) => values.put_u64(index, value as u64),
        Value::F32(value) => values.put_f64(index, value.into()),
        Value::F64(value) => values.put_f64(index, value),
        Value::Char(value) => {
            values.put_text(index, |text| text.push_str(value.encode_utf8(&mut [0; 4])));
        }
        Value::String(value) => values.put_text(index, |text| text.push_str(value)),
        Value::Path(value) => {
            values.put_text(index, |text| text.push_str(&value.to_string_lossy()))
        }
        Value::Error(value) => values.put_error(index, value),
        Value::Unit => {}
        ref structure => {
            // What cannot be JSON, such as a map whose keys are maps, is shown as `Debug` does.
            let json = serde_json::to_string(&Serializable::new(structure));
            let shown = json.unwrap_or_else(|_| format!("{structure:?}"));
            values.put_text(index, |text| text.push_str(&shown));
        }
    }
}
