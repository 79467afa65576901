//! Tables, read back by the readers of Arrow, with every value as text.

use std::{collections::BTreeMap, fs::File, path::Path};

use arrow_array::{Array, RecordBatch, StringArray, cast::AsArray, types};
use arrow_schema::{DataType, Fields, SchemaRef, TimeUnit};
use nettrace_reader::{Value, WallTime};
use nettrace_views::tables::Tables;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// A table with every value as text.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) schema: SchemaRef,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn read(path: &Path) -> Self {
        let file = File::open(path).unwrap();
        let (schema, batches): (SchemaRef, Vec<RecordBatch>) =
            if path.extension().unwrap() == "parquet" {
                let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
                let schema = reader.schema().clone();
                (schema, reader.build().unwrap().map(Result::unwrap).collect())
            } else {
                let reader = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
                (reader.schema(), reader.map(Result::unwrap).collect())
            };
        let mut rows = Vec::new();
        for batch in &batches {
            for row in 0..batch.num_rows() {
                rows.push(batch.columns().iter().map(|column| shown(column, row)).collect());
            }
        }
        Self { schema, rows }
    }

    /// The values of a row without the timestamps, each of which must be that of the nanoseconds
    /// behind it, rounded down.
    pub(crate) fn without_timestamps(&self, row: usize) -> Vec<&str> {
        let row = &self.rows[row];
        let mut values = Vec::new();
        for (place, field) in self.schema.fields().iter().enumerate() {
            if matches!(field.data_type(), DataType::Timestamp(..)) {
                let nanos = &self.schema.fields()[place + 1];
                assert_eq!(*nanos.name(), format!("{}_ns", field.name()));
                let micros = row[place + 1].parse::<i64>().map(|nanos| nanos.div_euclid(1000));
                assert_eq!(row[place], micros.map_or("null".into(), |it| format!("t{it}")));
            } else {
                values.push(&*row[place]);
            }
        }
        values
    }

    /// All values of a column.
    pub(crate) fn column(&self, name: &str) -> Vec<&str> {
        let place = self.schema.index_of(name).unwrap();
        self.rows.iter().map(|row| &*row[place]).collect()
    }
}

/// All tables of a result, by their names.
pub(crate) fn tables(folder: &Path, format: Tables) -> BTreeMap<String, Table> {
    let mut all = BTreeMap::new();
    for (sub, prefix) in [("", ""), ("types", "types/")] {
        let Ok(entries) = std::fs::read_dir(folder.join(sub)) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_file() {
                assert_eq!(path.extension().unwrap(), format.ending(), "{path:?}");
                let name = format!("{prefix}{}", path.file_stem().unwrap().to_str().unwrap());
                all.insert(name, Table::read(&path));
            }
        }
    }
    all
}

/// A value of a column, as text.
pub(crate) fn shown(column: &dyn Array, row: usize) -> String {
    macro_rules! number {
        ($ty:ident) => {
            column.as_primitive::<types::$ty>().value(row).to_string()
        };
    }
    if column.is_null(row) {
        return "null".into();
    }
    match column.data_type() {
        DataType::Boolean => column.as_boolean().value(row).to_string(),
        DataType::Int8 => number!(Int8Type),
        DataType::Int16 => number!(Int16Type),
        DataType::Int32 => number!(Int32Type),
        DataType::Int64 => number!(Int64Type),
        DataType::UInt8 => number!(UInt8Type),
        DataType::UInt16 => number!(UInt16Type),
        DataType::UInt32 => number!(UInt32Type),
        DataType::UInt64 => number!(UInt64Type),
        DataType::Timestamp(TimeUnit::Microsecond, Some(zone)) if &**zone == "UTC" => {
            format!("t{}", number!(TimestampMicrosecondType))
        }
        DataType::Float32 => {
            format!("{:#x}", column.as_primitive::<types::Float32Type>().value(row).to_bits())
        }
        DataType::Float64 => {
            format!("{:#x}", column.as_primitive::<types::Float64Type>().value(row).to_bits())
        }
        DataType::Utf8 => format!("{:?}", column.as_string::<i32>().value(row)),
        DataType::Binary => format!("{:02x?}", column.as_binary::<i32>().value(row)),
        DataType::Dictionary(..) => {
            let dictionary = column.as_dictionary::<types::Int32Type>();
            let texts = dictionary.downcast_dict::<StringArray>().unwrap();
            format!("{:?}", arrow_array::ArrayAccessor::value(&texts, row))
        }
        DataType::List(_) => {
            let values = column.as_list::<i32>().value(row);
            listed((0..values.len()).map(|at| shown(&values, at)))
        }
        DataType::Struct(fields) => members(column.as_struct(), fields, row),
        DataType::Map(..) => {
            let entries = column.as_map().value(row);
            listed((0..entries.len()).map(|at| members(&entries, entries.fields(), at)))
        }
        other => panic!("{other:?}"),
    }
}

fn listed(values: impl Iterator<Item = String>) -> String {
    format!("[{}]", values.collect::<Vec<_>>().join(", "))
}

fn members(object: &arrow_array::StructArray, fields: &Fields, row: usize) -> String {
    let values = object.columns().iter().map(|column| shown(column, row));
    let named =
        fields.iter().zip(values).map(|(field, value)| format!("{}: {value}", field.name()));
    format!("{{{}}}", named.collect::<Vec<_>>().join(", "))
}

/// A value of the source as [`shown`] shows it in its column. `None` if no column can express it.
pub(crate) fn expected(value: &Value<'_>) -> Option<String> {
    Some(match value {
        Value::Bool(value) => value.to_string(),
        Value::I8(value) => value.to_string(),
        Value::I16(value) => value.to_string(),
        Value::I32(value) => value.to_string(),
        Value::I64(value) => value.to_string(),
        Value::U8(value) | Value::Utf8CodeUnit(value) => value.to_string(),
        Value::U16(value) | Value::Utf16CodeUnit(value) => value.to_string(),
        Value::U32(value) => value.to_string(),
        Value::U64(value) => value.to_string(),
        Value::F32(value) => format!("{:#x}", value.to_bits()),
        Value::F64(value) => format!("{:#x}", value.to_bits()),
        Value::Text(text) if text.contains('\u{FFFD}') => return None,
        Value::Text(text) => format!("{text:?}"),
        Value::Decimal(number) => format!("\"{number}\""),
        Value::Guid(id) => {
            let turned = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15].map(|at| id[at]);
            let digits: String = turned.iter().map(|byte| format!("{byte:02x}")).collect();
            let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| digits[part].to_owned());
            format!("{:?}", parts.join("-"))
        }
        Value::FileTime(units) => {
            let nanos = (i128::from(*units) - 116_444_736_000_000_000) * 100;
            i64::try_from(nanos).ok()?.to_string()
        }
        Value::DateTime(time) => unix_nanos(time)?.to_string(),
        Value::Bytes(bytes) => format!("{bytes:02x?}"),
        Value::Array(values) => {
            listed(values.iter().map(expected).collect::<Option<Vec<_>>>()?.into_iter())
        }
        Value::Object(fields) if fields.is_empty() => "true".into(),
        Value::Object(fields) => {
            let mut text = Vec::new();
            for (name, value) in fields {
                text.push(format!("{name}: {}", expected(value)?));
            }
            format!("{{{}}}", text.join(", "))
        }
        other => panic!("{other:?}"),
    })
}

/// Counted day by day, unlike in the library.
fn unix_nanos(time: &WallTime) -> Option<i64> {
    if !time.is_valid() || time.year < 1970 {
        return None;
    }
    let mut days = 0_i128;
    let leap = |year: i16| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    for year in 1970..time.year {
        days += if leap(year) { 366 } else { 365 };
    }
    for month in 1..time.month {
        days += match month {
            2 if leap(time.year) => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
    }
    days += i128::from(time.day) - 1;
    let hours = days * 24 + i128::from(time.hour);
    let seconds = (hours * 60 + i128::from(time.minute)) * 60 + i128::from(time.second);
    i64::try_from((seconds * 1000 + i128::from(time.millisecond)) * 1_000_000).ok()
}
