//! A file of Parquet that gets batches of columns.

use std::{io::Write, sync::Arc};

use arrow_array::ArrayRef;
use arrow_schema::{Field, SchemaRef};
use parquet::{
    arrow::{
        ArrowWriter,
        arrow_writer::{
            ArrowColumnWriter, ArrowRowGroupWriterFactory, ArrowWriterOptions, compute_leaves,
        },
    },
    errors::Result,
    file::{properties::WriterProperties, writer::SerializedFileWriter},
};

use crate::tables::{chunk::Chunk, ids::IdChunk, runs::Values, size_of};

/// The rows of a row group.
pub(crate) const ROW_GROUP: usize = size_of(1 << 20, 16);

/// A file of Parquet that is being written.
pub(crate) struct ParquetFile<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: ArrowRowGroupWriterFactory,
    schema: SchemaRef,
    group: Group,
}

/// The row group that is being written.
#[derive(Default)]
struct Group {
    rows: usize,
    /// None without rows.
    columns: Vec<Column>,
}

/// A column of the row group.
enum Column {
    /// Values of which each row has its own, in one leaf or more.
    Plain(Vec<ArrowColumnWriter>),
    Runs(Chunk),
    Ids(Box<IdChunk>),
}

impl<W: Write + Send> ParquetFile<W> {
    pub(crate) fn new(file: W, schema: SchemaRef, properties: WriterProperties) -> Result<Self> {
        let options =
            ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(file, Arc::clone(&schema), options)?;
        let (file, columns) = writer.into_serialized_writer()?;
        Ok(Self { file, columns, schema, group: Group::default() })
    }

    /// Adds rows. A column has runs in each batch, or in none.
    pub(crate) fn write(&mut self, batch: &[Values]) -> Result<()> {
        let rows = batch.first().map_or(0, Values::rows);
        if self.group.rows + rows > ROW_GROUP {
            self.flush()?;
        }
        if rows == 0 {
            return Ok(());
        }
        let is_new = self.group.columns.is_empty();
        let mut writers = match is_new {
            true => self.columns.create_column_writers(self.file.flushed_row_groups().len())?,
            false => Vec::new(),
        }
        .into_iter();
        let mut next = 0;
        let mut is_large = false;
        for (place, (values, field)) in batch.iter().zip(self.schema.fields()).enumerate() {
            if is_new {
                let first = next;
                let column = || self.file.schema_descr().column(first);
                let leaves = match values {
                    Values::Array(array) => compute_leaves(field, array)?.len(),
                    _ => 1,
                };
                next += leaves;
                let writers: Vec<_> = writers.by_ref().take(leaves).collect();
                self.group.columns.push(match values {
                    Values::Runs(..) => Column::Runs(Chunk::new(column())),
                    Values::Ids(ids) if ids.is_better_as_text() => {
                        Column::Ids(Box::new(IdChunk::new(column())))
                    }
                    Values::Ids(_) | Values::Array(_) => Column::Plain(writers),
                });
            }
            let Some(column) = self.group.columns.get_mut(place) else { continue };
            match (column, values) {
                (Column::Runs(chunk), Values::Runs(keys, values)) => {
                    chunk.write(keys, values)?;
                    is_large |= chunk.is_large();
                }
                (Column::Ids(chunk), Values::Ids(ids)) => chunk.write(ids)?,
                (Column::Plain(writers), Values::Ids(ids)) => {
                    write_plain(writers, field, &ids.dictionary())?;
                }
                (Column::Plain(writers), Values::Array(array)) => {
                    write_plain(writers, field, array)?;
                }
                // A column has values of one kind in all batches.
                _ => {}
            }
        }
        self.group.rows += rows;
        if is_large || self.group.rows >= ROW_GROUP {
            self.flush()?;
        }
        Ok(())
    }

    /// Completes the row group.
    pub(crate) fn flush(&mut self) -> Result<()> {
        let group = std::mem::take(&mut self.group);
        if group.rows == 0 {
            return Ok(());
        }
        let mut out = self.file.next_row_group()?;
        for column in group.columns {
            match column {
                Column::Plain(writers) => {
                    for writer in writers {
                        writer.close()?.append_to_row_group(&mut out)?;
                    }
                }
                Column::Runs(chunk) => {
                    let (bytes, close) = chunk.close()?;
                    out.append_column(&bytes, close)?;
                }
                Column::Ids(chunk) => {
                    let (bytes, close) = chunk.close()?;
                    out.append_column(&bytes, close)?;
                }
            }
        }
        out.close().map(drop)
    }

    /// Completes the file.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.flush()?;
        self.file.finish().map(drop)
    }

    /// About how much memory the rows take that are not in the file yet, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let of = |column: &Column| match column {
            Column::Plain(writers) => writers.iter().map(ArrowColumnWriter::memory_size).sum(),
            Column::Runs(chunk) => chunk.memory(),
            Column::Ids(chunk) => chunk.memory(),
        };
        self.group.columns.iter().map(of).sum()
    }

    pub(crate) fn inner_mut(&mut self) -> &mut W {
        self.file.inner_mut()
    }
}

fn write_plain(writers: &mut [ArrowColumnWriter], field: &Field, array: &ArrayRef) -> Result<()> {
    let leaves = compute_leaves(field, array)?;
    writers.iter_mut().zip(&leaves).try_for_each(|(writer, leaf)| writer.write(leaf))
}

#[cfg(test)]
mod tests {
    use arrow_array::{
        Array, Int64Array, RecordBatch, StringArray, UInt8Array, UInt32Array, UInt64Array,
    };
    use arrow_schema::{DataType, Field, Schema};
    use arrow_select::concat::concat_batches;
    use bytes::Bytes;
    use parquet::{
        arrow::arrow_reader::ParquetRecordBatchReaderBuilder,
        arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions},
        file::{metadata::PageIndexPolicy, properties::EnabledStatistics},
    };

    use super::*;
    use crate::tables::runs::Runs;

    fn schema() -> SchemaRef {
        let fields = [
            ("number", DataType::Int64, false),
            ("small", DataType::UInt8, true),
            ("middle", DataType::UInt32, false),
            ("large", DataType::UInt64, true),
            ("text", DataType::Utf8, true),
        ];
        let fields = fields.map(|(name, ty, is_null)| Field::new(name, ty, is_null));
        Arc::new(Schema::new(fields.to_vec()))
    }

    /// Rows whose values are `values` in runs, and the same as arrays.
    fn batch(first: i64, rows: &[u32], texts: fn(u32) -> String) -> (Vec<Values>, RecordBatch) {
        let numbers = Int64Array::from_iter_values(first..first + rows.len() as i64);
        let mut runs = Runs::default();
        rows.iter().for_each(|row| runs.push(row));
        let (keys, values) = runs.keys();
        let values: Vec<u32> = values.into_iter().copied().collect();
        // Every fifth value is null where there can be null.
        let some = |value: &u32| (*value % 5 != 4).then_some(*value);
        let small: UInt8Array = values.iter().map(|it| some(it).map(|it| it as u8)).collect();
        let middle = UInt32Array::from_iter_values(values.iter().map(|it| u32::MAX - *it));
        let large = values.iter().map(|it| some(it).map(|it| u64::MAX - u64::from(it)));
        let large: UInt64Array = large.collect();
        let text: StringArray = values.iter().map(|it| some(it).map(texts)).collect();
        let columns = vec![
            Values::from(numbers),
            Values::runs(&keys, small),
            Values::runs(&keys, middle),
            Values::runs(&keys, large),
            Values::runs(&keys, text),
        ];
        let arrays = columns.iter().map(|it| it.clone().array().unwrap()).collect();
        (columns, RecordBatch::try_new(schema(), arrays).unwrap())
    }

    /// Writes batches, and compares what a reader finds. Returns what it knows of the file.
    fn write(batches: &[(Vec<Values>, RecordBatch)]) -> ArrowReaderMetadata {
        let properties =
            WriterProperties::builder().set_statistics_enabled(EnabledStatistics::Page).build();
        let mut out = Vec::new();
        let mut file = ParquetFile::new(&mut out, schema(), properties).unwrap();
        for (columns, _) in batches {
            file.write(columns).unwrap();
            assert!(file.memory() > 0 || file.group.rows == 0);
        }
        file.finish().unwrap();
        drop(file);
        let bytes = Bytes::from(out);
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).unwrap();
        let found: Vec<_> = reader.build().unwrap().map(Result::unwrap).collect();
        let all = |batches: &[RecordBatch]| {
            let schema = batches.first().map_or_else(schema, RecordBatch::schema);
            concat_batches(&schema, batches).unwrap()
        };
        let expected: Vec<_> = batches.iter().map(|(_, batch)| batch.clone()).collect();
        assert!(all(&found).columns() == all(&expected).columns(), "other values come back");
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
        ArrowReaderMetadata::load(&bytes, options).unwrap()
    }

    fn name(number: u32) -> String {
        format!("name {number}")
    }

    #[test]
    fn runs_come_back_from_all_pages() {
        // Long runs, then rows that take turns, then one value, then none, then many values.
        let rows = |batch: u32, row: u32| match batch {
            0..20 => row / 3000,
            20..28 => row % 3,
            28..44 => 1,
            44..45 => 4,
            _ => row % 700,
        };
        let batches: Vec<_> = (0..50)
            .map(|number| {
                let rows: Vec<_> = (0..5000).map(|row| rows(number, row)).collect();
                batch(i64::from(number) * 5000, &rows, name)
            })
            .collect();
        let file = write(&batches);
        let metadata = file.metadata();
        assert_eq!(metadata.num_row_groups(), 1);
        let index = &metadata.offset_index().unwrap()[0];
        assert!(index[1..].iter().all(|column| column.page_locations().len() > 4));
        let chunk = |column| metadata.row_group(0).column(column);
        let bounds = |column: usize| {
            let statistics = chunk(column).statistics().unwrap();
            (statistics.min_bytes_opt().unwrap(), statistics.max_bytes_opt().unwrap())
        };
        // As unsigned numbers.
        assert_eq!(bounds(1), (&[0, 0, 0, 0][..], &[255, 0, 0, 0][..]));
        assert_eq!(bounds(2), (&(u32::MAX - 699).to_le_bytes()[..], &[255; 4][..]));
        assert_eq!(bounds(3), (&(u64::MAX - 698).to_le_bytes()[..], &[255; 8][..]));
        assert_eq!(bounds(4), (&b"name 0"[..], &b"name 98"[..]));
        let nulls: usize = batches.iter().map(|(_, batch)| batch.column(4).null_count()).sum();
        for column in [1, 3, 4] {
            let found = chunk(column).statistics().unwrap().null_count_opt();
            assert_eq!(found, Some(nulls as u64), "{column}");
        }
        let nulls: i64 = metadata.column_index().unwrap()[0][4].null_counts().unwrap().iter().sum();
        assert_eq!(nulls, chunk(4).statistics().unwrap().null_count_opt().unwrap() as i64);
    }

    #[test]
    fn a_large_dictionary_completes_the_row_group() {
        let long = |number: u32| format!("{number:0>1000}");
        let batches: Vec<_> = (0..6)
            .map(|number| {
                let rows: Vec<_> = (0..500).map(|row| number * 500 + row).collect();
                batch(i64::from(number) * 500, &rows, long)
            })
            .collect();
        let file = write(&batches);
        // Of 500 texts, 400 are not null, and take 401,600 bytes.
        let groups: Vec<_> = file.metadata().row_groups().iter().map(|it| it.num_rows()).collect();
        assert_eq!(groups, [1500, 1500]);
        // Texts that are too long for statistics have none.
        let statistics = file.metadata().row_group(0).column(4).statistics().unwrap();
        assert_eq!((statistics.min_bytes_opt(), statistics.null_count_opt()), (None, Some(300)));
    }

    #[test]
    fn a_row_group_ends_with_a_batch() {
        const ROWS: usize = 100_000;
        let batches: Vec<_> =
            (0..11).map(|number| batch((number * ROWS) as i64, &[7; ROWS], name)).collect();
        let file = write(&batches);
        let groups: Vec<_> = file.metadata().row_groups().iter().map(|it| it.num_rows()).collect();
        assert_eq!(groups, [10 * ROWS as i64, ROWS as i64]);
    }
}
