//! One table: a file that gets batches of rows.

use std::{
    collections::HashSet,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow_array::{Array, ArrayRef, RecordBatch, cast::AsArray, types};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef, TimeUnit};
use parquet::{
    arrow::add_encoded_arrow_schema_to_metadata,
    basic::{Compression, Encoding, GzipLevel},
    errors::ParquetError,
    file::{
        metadata::{KeyValue, SortingColumn},
        properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder},
    },
    schema::types::ColumnPath,
};

use crate::tables::{
    Tables,
    groups::{ParquetFile, ROW_GROUP},
    partition::{Day, Partition},
    runs::Values,
};

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
    Parquet(Box<ParquetFile<Append>>),
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

    /// Adds rows. Arrow gets plain values, because its files have one dictionary for a column.
    pub(crate) fn write(&mut self, layout: &Layout, columns: Vec<Values>) -> io::Result<()> {
        if self.writer.is_none() {
            self.writer = Some(self.open(layout, &columns)?);
        }
        match self.writer.as_mut() {
            Some(Writer::Parquet(writer)) => {
                writer.write(&columns).map_err(of_parquet)?;
                // A row group may just have been completed.
                writer.inner_mut().close();
            }
            Some(Writer::Arrow(writer)) => {
                let columns = columns.into_iter().map(Values::array);
                let columns = columns.collect::<Result<_, _>>().map_err(of_arrow)?;
                let batch = RecordBatch::try_new(Arc::clone(writer.schema()), columns);
                writer.write(&batch.map_err(of_arrow)?).map_err(of_arrow)?;
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
            Some(Writer::Parquet(writer)) => writer.memory(),
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
            Some(Writer::Parquet(mut writer)) => writer.finish().map_err(of_parquet),
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

    fn open(&self, layout: &Layout, first: &[Values]) -> io::Result<Writer> {
        let file = Append::create(self.path(layout))?;
        let facts = layout.facts.iter().chain(&self.facts);
        match layout.tables {
            Tables::Parquet => {
                let mut properties = properties(&self.schema, first)
                    .set_key_value_metadata(Some(
                        facts
                            .map(|(key, value)| KeyValue::new(key.clone(), value.clone()))
                            .collect(),
                    ))
                    .build();
                // Not as it is: some readers fail to make dictionaries of every encoding.
                add_encoded_arrow_schema_to_metadata(&self.plain_schema(), &mut properties);
                let writer = ParquetFile::new(file, Arc::clone(&self.schema), properties);
                Ok(Writer::Parquet(Box::new(writer.map_err(of_parquet)?)))
            }
            Tables::Arrow => {
                let facts = facts.map(|(key, value)| (key.clone(), value.clone())).collect();
                let schema = self.plain_schema().with_metadata(facts);
                let writer = FileWriter::try_new(file, &schema).map_err(of_arrow)?;
                Ok(Writer::Arrow(Box::new(writer)))
            }
        }
    }

    /// The schema without dictionaries.
    fn plain_schema(&self) -> Schema {
        let fields = self.schema.fields().iter().map(|field| match field.data_type() {
            DataType::Dictionary(_, values) => {
                Arc::new(field.as_ref().clone().with_data_type((**values).clone()))
            }
            _ => Arc::clone(field),
        });
        Schema::new(fields.collect::<Vec<_>>())
    }
}

/// How each column is encoded. Values that mostly differ have no dictionary.
fn properties(schema: &SchemaRef, first: &[Values]) -> WriterPropertiesBuilder {
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("nettrace-views ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(ROW_GROUP))
        .set_write_batch_size(8192)
        .set_statistics_enabled(EnabledStatistics::Page);
    for (place, field) in schema.fields().iter().enumerate() {
        let path = || ColumnPath::new(vec![field.name().clone()]);
        let values = match first.get(place) {
            Some(Values::Array(values)) => Some(values),
            _ => None,
        };
        match field.data_type() {
            DataType::UInt8
            | DataType::Int32
            | DataType::UInt32
            | DataType::Int64
            | DataType::UInt64
            | DataType::Timestamp(TimeUnit::Nanosecond, _) => {
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
        if field.name().ends_with("_id") && matches!(field.data_type(), DataType::Dictionary(..)) {
            // Random digits, which only codes of four bits for a digit make smaller.
            properties = properties
                .set_column_compression(path(), Compression::GZIP(fast()))
                .set_column_encoding(path(), Encoding::DELTA_LENGTH_BYTE_ARRAY)
                .set_column_dictionary_page_size_limit(path(), ID_DICTIONARY);
        }
        // Without a dictionary, numbers that are all the same take next to nothing, and less time.
        if values.is_some_and(|values| mostly_differ(values) || is_constant(values)) {
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

/// Whether more than half of a column's first values differ from each other; a third of texts that
/// have a dictionary.
fn mostly_differ(values: &ArrayRef) -> bool {
    let values = values.slice(0, values.len().min(SAMPLE));
    let different = match values.data_type() {
        DataType::Int64 => distinct(values.as_primitive::<types::Int64Type>().iter().flatten()),
        DataType::UInt64 => distinct(values.as_primitive::<types::UInt64Type>().iter().flatten()),
        DataType::Int32 => distinct(values.as_primitive::<types::Int32Type>().iter().flatten()),
        DataType::UInt32 => distinct(values.as_primitive::<types::UInt32Type>().iter().flatten()),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            distinct(values.as_primitive::<types::TimestampNanosecondType>().iter().flatten())
        }
        DataType::Utf8 => distinct(values.as_string::<i32>().iter().flatten()),
        DataType::Binary => distinct(values.as_binary::<i32>().iter().flatten()),
        _ => return false,
    };
    2 * different > values.len() - values.null_count()
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

/// An error with the path that it is about.
pub(crate) fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

pub(crate) fn refusal(path: &Path, why: &str) -> io::Error {
    at(path, io::Error::new(io::ErrorKind::InvalidInput, why))
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
