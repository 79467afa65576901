//! Times as columns, two of each: a timestamp in microseconds, which every engine reads, and the
//! nanoseconds since 1970.

use std::{collections::HashMap, sync::Arc};

use arrow_array::{ArrayRef, Int64Array, types::TimestampMicrosecondType};
use arrow_schema::{DataType, Field, FieldRef, TimeUnit};

/// The type of timestamps: microseconds in UTC, rounded down.
pub(crate) fn timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// The two columns of a time, with their names.
pub(crate) fn fields([name, nanos]: [String; 2], is_null: bool) -> [FieldRef; 2] {
    let unit = HashMap::from([("unit".to_owned(), "ns".to_owned())]);
    let nanos = Field::new(nanos, DataType::Int64, is_null).with_metadata(unit);
    [Arc::new(Field::new(name, timestamp(), is_null)), Arc::new(nanos)]
}

/// The name of the column of nanoseconds beside a timestamp.
pub(crate) fn nanos_name(name: &str) -> String {
    format!("{name}_ns")
}

/// The two columns, of nanoseconds since 1970.
pub(crate) fn columns(nanos: Int64Array) -> [ArrayRef; 2] {
    let micros = nanos.unary::<_, TimestampMicrosecondType>(|nanos| nanos.div_euclid(1000));
    [Arc::new(micros.with_timezone("UTC")), Arc::new(nanos)]
}
