//! One table: a file that gets batches of rows.

use std::{
    collections::HashSet,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
};

use arrow_array::{Array, ArrayRef, RecordBatch, cast::AsArray, types};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, DataType, SchemaRef, TimeUnit};
use parquet::{
    arrow::{ArrowSchemaConverter, ArrowWriter},
    basic::{Compression, Encoding, GzipLevel, Type as Physical},
    errors::ParquetError,
    file::{
        metadata::{KeyValue, SortingColumn},
        properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder},
    },
    schema::types::ColumnPath,
};

use crate::tables::{
    Tables, at,
    partition::{Day, Partition},
    size_of,
};

/// The rows of a row group.
const ROW_GROUP: usize = size_of(1 << 20, 16);

/// The columns of ids of spans and traces.
const IDS: [&str; 4] = ["trace_id", "span_id", "related_id", "parent_id"];

/// The size of a dictionary of ids of spans and traces, in bytes.
const ID_DICTIONARY: usize = 4 << 20;

/// How many values of a column show whether most of its values differ.
const SAMPLE: usize = 4096;

/// What is the same for all tables of a result.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) tables: Tables,
    /// The folder in which all files are.
    pub(crate) root: PathBuf,
    /// Without it, each table is one file.
    pub(crate) partition: Option<Partition>,
    /// Facts about the trace, for every file.
    pub(crate) facts: Vec<(String, String)>,
}

/// Where the files of a table are.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The folder for tables of its kind.
    pub(crate) folder: &'static str,
    /// The name of the table. Several of a partitioned result can have it.
    pub(crate) table: String,
    /// The name of its files, without ending. No other table has it.
    pub(crate) file: String,
}

impl Place {
    /// The place of a table at the top.
    pub(crate) fn top(name: &str) -> Self {
        Self { folder: "", table: name.to_owned(), file: name.to_owned() }
    }
}

/// A table that is being written.
pub(crate) struct Table {
    schema: SchemaRef,
    place: Place,
    day: Day,
    facts: Vec<(String, String)>,
    writer: Option<Writer>,
}

enum Writer {
    Parquet(Box<ArrowWriter<Append>>),
    Arrow(Box<FileWriter<Append>>),
}

impl Table {
    /// A table. Its file is made with the first rows, which are of `day`.
    pub(crate) fn new(
        schema: SchemaRef,
        place: Place,
        day: Day,
        facts: Vec<(String, String)>,
    ) -> Self {
        Self { schema, place, day, facts, writer: None }
    }

    /// Adds rows.
    pub(crate) fn write(&mut self, layout: &Layout, columns: Vec<ArrayRef>) -> io::Result<()> {
        if self.writer.is_none() {
            self.writer = Some(self.open(layout, &columns)?);
        }
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(of_arrow)?;
        match self.writer.as_mut() {
            Some(Writer::Parquet(writer)) => {
                writer.write(&batch).map_err(of_parquet)?;
                // A row group may just have been completed.
                writer.inner_mut().close();
            }
            Some(Writer::Arrow(writer)) => {
                writer.write(&batch).map_err(of_arrow)?;
                writer.get_mut().close();
            }
            None => {}
        }
        Ok(())
    }

    /// How many columns it has, with those in lists and structs.
    pub(crate) fn width(&self) -> usize {
        self.schema.flattened_fields().len()
    }

    /// The memory that rows take which are not in the file yet, in bytes.
    pub(crate) fn memory(&self) -> usize {
        match &self.writer {
            Some(Writer::Parquet(writer)) => writer.memory_size(),
            _ => 0,
        }
    }

    /// Writes all rows to the file.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if let Some(Writer::Parquet(writer)) = &mut self.writer {
            writer.flush().map_err(of_parquet)?;
            writer.inner_mut().close();
        }
        Ok(())
    }

    /// Completes the file, also one without rows.
    pub(crate) fn finish(mut self, layout: &Layout) -> io::Result<()> {
        if self.writer.is_none() {
            self.writer = Some(self.open(layout, &[])?);
        }
        self.complete()
    }

    /// Completes the file, if there is one. The next rows are of `day`.
    pub(crate) fn turn(&mut self, day: Day) -> io::Result<()> {
        self.day = day;
        self.complete()
    }

    fn complete(&mut self) -> io::Result<()> {
        match self.writer.take() {
            Some(Writer::Parquet(mut writer)) => writer.finish().map(drop).map_err(of_parquet),
            Some(Writer::Arrow(mut writer)) => writer.finish().map_err(of_arrow),
            None => Ok(()),
        }
    }

    fn path(&self, layout: &Layout) -> PathBuf {
        let mut path = layout.root.join(self.place.folder);
        if let Some(partition) = &layout.partition {
            path.push(&self.place.table);
            path.push(partition.folder(self.day));
        }
        path.push(format!("{}.{}", self.place.file, layout.tables.ending()));
        path
    }

    fn open(&self, layout: &Layout, first: &[ArrayRef]) -> io::Result<Writer> {
        let file = Append::create(self.path(layout))?;
        let facts = layout.facts.iter().chain(&self.facts).cloned();
        match layout.tables {
            Tables::Parquet => {
                let facts = facts.map(|(key, value)| KeyValue::new(key, value)).collect::<Vec<_>>();
                let properties =
                    properties(&self.schema, first).set_key_value_metadata(Some(facts));
                let schema = Arc::clone(&self.schema);
                let writer = ArrowWriter::try_new(file, schema, Some(properties.build()));
                Ok(Writer::Parquet(Box::new(writer.map_err(of_parquet)?)))
            }
            Tables::Arrow => {
                let schema = self.schema.as_ref().clone().with_metadata(facts.collect());
                let writer = FileWriter::try_new(file, &schema).map_err(of_arrow)?;
                Ok(Writer::Arrow(Box::new(writer)))
            }
        }
    }
}

/// How each column is encoded. Values that mostly differ have no dictionary.
///
/// Columns of floats have no statistics. Those of Parquet leave out NaN, and engines that order NaN
/// above all numbers would skip groups of rows that have one.
fn properties(schema: &SchemaRef, first: &[ArrayRef]) -> WriterPropertiesBuilder {
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("nettrace-views ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(ROW_GROUP))
        .set_write_batch_size(8192)
        .set_statistics_enabled(EnabledStatistics::Page);
    // Also those within lists and objects. A schema that cannot be converted fails with the writer.
    let leaves = ArrowSchemaConverter::new().convert(schema);
    let leaves = leaves.iter().flat_map(|leaves| leaves.columns());
    let floats =
        leaves.filter(|leaf| matches!(leaf.physical_type(), Physical::FLOAT | Physical::DOUBLE));
    for float in floats {
        let path = float.path().clone();
        properties = properties.set_column_statistics_enabled(path, EnabledStatistics::None);
    }
    for (place, field) in schema.fields().iter().enumerate() {
        let path = || ColumnPath::new(vec![field.name().clone()]);
        match field.data_type() {
            DataType::UInt8
            | DataType::Int32
            | DataType::UInt32
            | DataType::Int64
            | DataType::UInt64
            | DataType::Timestamp(TimeUnit::Microsecond, _) => {
                properties = properties.set_column_encoding(path(), Encoding::DELTA_BINARY_PACKED);
            }
            DataType::Utf8 | DataType::Binary => {
                properties = properties.set_column_encoding(path(), Encoding::DELTA_BYTE_ARRAY);
            }
            _ => {}
        }
        if field.name() == "time" {
            let sorting =
                SortingColumn { column_idx: place as i32, descending: false, nulls_first: true };
            properties = properties.set_sorting_columns(Some(vec![sorting]));
        }
        // A field of an event may have the same name.
        let is_id = *field.data_type() == DataType::Utf8 && IDS.contains(&field.name().as_str());
        if is_id {
            // Random digits, which only codes of four bits for a digit make smaller.
            properties = properties
                .set_column_compression(path(), Compression::GZIP(fast()))
                .set_column_encoding(path(), Encoding::DELTA_LENGTH_BYTE_ARRAY)
                .set_column_dictionary_page_size_limit(path(), ID_DICTIONARY);
        }
        // Without a dictionary, numbers that are all the same take next to nothing, and less time.
        // Gzip finds an id again that is close behind itself.
        let rows_a_value = if is_id { 20 } else { 2 };
        let values = first.get(place);
        if values.is_some_and(|it| rarely_repeats(it, rows_a_value) || is_constant(it)) {
            properties = properties.set_column_dictionary_enabled(path(), false);
        }
    }
    properties
}

/// The fastest level that gives frequent bytes short codes.
fn fast() -> GzipLevel {
    GzipLevel::try_new(2).unwrap_or_default()
}

/// Whether a column's first values are numbers, and all the same.
fn is_constant(values: &ArrayRef) -> bool {
    fn same<T: arrow_array::ArrowPrimitiveType>(values: &ArrayRef) -> bool {
        let values = values.as_primitive::<T>();
        let first = values.values().first();
        values.null_count() == 0 && values.values().iter().all(|value| Some(value) == first)
    }
    match values.data_type() {
        DataType::Int64 => same::<types::Int64Type>(values),
        DataType::UInt64 => same::<types::UInt64Type>(values),
        DataType::Int32 => same::<types::Int32Type>(values),
        DataType::UInt32 => same::<types::UInt32Type>(values),
        DataType::UInt8 => same::<types::UInt8Type>(values),
        _ => false,
    }
}

/// Whether each of a column's first values is that of fewer than `rows` rows, on average.
fn rarely_repeats(values: &ArrayRef, rows: usize) -> bool {
    let values = values.slice(0, values.len().min(SAMPLE));
    let different = match values.data_type() {
        DataType::Int64 => distinct(values.as_primitive::<types::Int64Type>().iter().flatten()),
        DataType::UInt64 => distinct(values.as_primitive::<types::UInt64Type>().iter().flatten()),
        DataType::Int32 => distinct(values.as_primitive::<types::Int32Type>().iter().flatten()),
        DataType::UInt32 => distinct(values.as_primitive::<types::UInt32Type>().iter().flatten()),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            distinct(values.as_primitive::<types::TimestampMicrosecondType>().iter().flatten())
        }
        DataType::Utf8 => distinct(values.as_string::<i32>().iter().flatten()),
        DataType::Binary => distinct(values.as_binary::<i32>().iter().flatten()),
        _ => return false,
    };
    rows * different > values.len() - values.null_count()
}

fn distinct<T: std::hash::Hash + Eq>(values: impl Iterator<Item = T>) -> usize {
    values.collect::<HashSet<_>>().len()
}

/// A file that is open only while it is written. A result can have more files than a process may
/// have open.
#[derive(Debug)]
pub(crate) struct Append {
    path: PathBuf,
    file: Option<File>,
}

impl Append {
    fn create(path: PathBuf) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path);
        Ok(Self { file: Some(file.map_err(|error| at(&path, error))?), path })
    }

    fn close(&mut self) {
        self.file = None;
    }
}

impl Write for Append {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let file = OpenOptions::new().append(true).open(&self.path);
                self.file.insert(file.map_err(|error| at(&self.path, error))?)
            }
        };
        let count = file.write(bytes).map_err(|error| at(&self.path, error))?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn of_parquet(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        error => io::Error::other(error),
    }
}

pub(crate) fn of_arrow(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        error => io::Error::other(error),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{BooleanArray, Float64Array, Int64Array, StringArray, UInt32Array};
    use arrow_schema::{Field, Schema};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::*;

    /// Writes a table of one column, and reads it again. Returns the encodings of the column.
    fn written(field: Field, column: &ArrayRef) -> Vec<Encoding> {
        let schema = Arc::new(Schema::new(vec![field]));
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout {
            tables: Tables::Parquet,
            root: folder.path().to_owned(),
            partition: None,
            facts: Vec::new(),
        };
        let mut table = Table::new(schema, Place::top("rows"), 0, Vec::new());
        table.write(&layout, vec![Arc::clone(column)]).unwrap();
        assert!(table.memory() > 0);
        table.finish(&layout).unwrap();
        let file = File::open(folder.path().join("rows.parquet")).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let group = reader.metadata().row_group(0);
        let encodings = group.column(0).encodings().collect();
        let rows = group.num_rows() as usize;
        let batch = reader.with_batch_size(rows).build().unwrap().next().unwrap().unwrap();
        assert!(batch.column(0) == column, "other values come back");
        encodings
    }

    #[test]
    fn what_rarely_repeats_or_never_changes_has_no_dictionary() {
        const ROWS: i64 = 5_000;
        let has_dictionary = |name, column: ArrayRef| {
            let field = Field::new(name, column.data_type().clone(), true);
            written(field, &column).contains(&Encoding::RLE_DICTIONARY)
        };
        for (rows_a_value, expected) in [(2, false), (16, false), (500, true)] {
            let ids =
                (0..ROWS).map(|row| (row % 7 > 0).then(|| format!("{:016x}", row / rows_a_value)));
            let ids: ArrayRef = Arc::new(ids.collect::<StringArray>());
            assert_eq!(has_dictionary("span_id", ids), expected, "{rows_a_value}");
        }
        for (most, expected) in [(1, false), (10, true), (ROWS, false)] {
            let numbers = (0..ROWS).map(|row| row % most);
            let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
            assert_eq!(has_dictionary("number", numbers), expected, "{most}");
        }
    }

    /// A field of an event may have the name of a column of ids, whatever its type.
    #[test]
    fn fields_that_are_called_like_ids_are_what_they_are() {
        let rows = 0..5_000_u32;
        let columns: [ArrayRef; 3] = [
            Arc::new(rows.clone().map(|row| (row % 5 > 0).then_some(row)).collect::<UInt32Array>()),
            Arc::new(rows.clone().map(|row| Some(row % 3 > 0)).collect::<BooleanArray>()),
            Arc::new(rows.map(|row| Some(f64::from(row))).collect::<Float64Array>()),
        ];
        for name in IDS {
            for column in &columns {
                let field = Field::new(name, column.data_type().clone(), true);
                written(field, column);
            }
        }
    }
}
