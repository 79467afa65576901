//! Ids of spans and traces, and their columns.
//!
//! Most columns of ids have few rows for each id, so a dictionary would be as large as they are.
//! Their pages are made here: as text in Parquet's `DELTA_LENGTH_BYTE_ARRAY`, compressed by gzip.

use std::{cmp::Ordering, io::Write as _, rc::Rc, sync::Arc};

use arrow_array::{ArrayRef, DictionaryArray, Int32Array, StringArray, new_null_array};
use arrow_buffer::NullBuffer;
use bytes::Bytes;
use flate2::{Compression as Level, write::GzEncoder};
use foldhash::HashMap;
use nettrace_context::TraceId;
use parquet::{
    basic::{Compression, Encoding, GzipLevel},
    column::writer::ColumnCloseResult,
    data_type::ByteArray,
    errors::Result,
    file::statistics::Statistics,
    schema::types::ColumnDescPtr,
};

use crate::{
    model::{Guid, Hex, Key},
    tables::{
        events::dictionary,
        pages::{Body, Bounds, Content, DataPage},
        rle::{differences, encode},
        runs::Runs,
        size_of,
    },
};

/// The rows of a page, but for those of the run that completes it.
const PAGE_ROWS: u32 = size_of(1 << 16, 6) as u32;

/// The size of the texts of a page, as above.
const PAGE_BYTES: usize = size_of(1 << 20, 128);

/// How gzip compresses: its usual level. Random digits repeat little, so the second level takes a
/// fifteenth less time for all tables of a service's trace, but they are a hundredth larger.
const LEVEL: u32 = 6;

/// How far back gzip finds a text again.
const FARTHEST: usize = 1 << 15;

/// An id of a span or a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Id {
    Span(u64),
    Trace([u8; 16]),
    /// An activity id that has no span id, in the byte order of the format.
    Guid([u8; 16]),
}

impl Id {
    /// The id of a trace.
    pub(crate) fn of_trace(id: TraceId) -> Self {
        Self::Trace(id.to_bytes())
    }

    /// The id of a span or an activity.
    pub(crate) fn of_span(key: Key) -> Self {
        match key {
            Key::Span(_, id) => Self::Span(id.to_u64()),
            Key::Activity(id) => Self::Guid(id.to_bytes_le()),
        }
    }

    /// Calls `with` with the id as text.
    #[inline]
    fn with_text<T>(&self, with: impl FnOnce(&str) -> T) -> T {
        match self {
            Self::Span(id) => with(Hex::of(&id.to_be_bytes()).text()),
            Self::Trace(id) => with(Hex::of(id).text()),
            Self::Guid(id) => with(&Guid(id).to_string()),
        }
    }

    fn text(&self) -> String {
        self.with_text(str::to_owned)
    }

    /// The size of the text.
    #[inline]
    fn size(&self) -> usize {
        match self {
            Self::Span(_) => 16,
            Self::Trace(_) => 32,
            Self::Guid(_) => 36,
        }
    }

    /// The order of the texts.
    #[inline]
    fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Span(one), Self::Span(other)) => one.cmp(other),
            (Self::Trace(one), Self::Trace(other)) => one.cmp(other),
            _ => self.text().cmp(&other.text()),
        }
    }
}

/// The ids of rows: each with how many rows in a row have it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ids {
    runs: Vec<(Option<Id>, u32)>,
    rows: usize,
}

impl Ids {
    /// One id, or none, of what each row has.
    pub(crate) fn of<T>(runs: &Runs<Rc<T>>, id: impl Fn(&T) -> Option<Id>) -> Self {
        let mut ids = Self { runs: Vec::with_capacity(runs.len()), rows: runs.rows() };
        for (value, count) in runs.iter() {
            let id = id(value);
            match ids.runs.last_mut() {
                Some((last, rows)) if *last == id => *rows += count as u32,
                _ => ids.runs.push((id, count as u32)),
            }
        }
        ids
    }

    /// How many rows there are.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Whether pages of texts take less than a dictionary: if there are many different ids, most of
    /// which come only once or again soon.
    pub(crate) fn is_better_as_text(&self) -> bool {
        let mut last: HashMap<Id, usize> = HashMap::default();
        // The texts so far, and those of ids that are not close behind themselves, in bytes.
        let (mut all, mut anew, mut rows) = (0, 0, 0);
        for (id, count) in &self.runs {
            let Some(id) = id else { continue };
            let start = all;
            all += id.size() * *count as usize;
            rows += *count as usize;
            match last.insert(*id, all) {
                Some(end) if start - end < FARTHEST - id.size() => {}
                _ => anew += id.size(),
            }
        }
        let texts: usize = last.keys().map(Id::size).sum();
        let different = last.len();
        3 * different > rows || (20 * different > rows && 4 * anew <= 5 * texts)
    }

    /// The texts, each once, and which of them each row has.
    pub(crate) fn dictionary(&self) -> ArrayRef {
        let mut known: HashMap<Id, i32> = HashMap::default();
        let mut texts = Vec::new();
        let mut keys = Vec::with_capacity(self.rows);
        let mut has_nulls = false;
        for (id, count) in &self.runs {
            let key = id.map_or(-1, |id| {
                *known.entry(id).or_insert_with(|| {
                    texts.push(id.text());
                    // A batch has far fewer than 2^31 rows.
                    texts.len() as i32 - 1
                })
            });
            has_nulls |= key < 0;
            keys.resize(keys.len() + *count as usize, key);
        }
        if texts.is_empty() {
            return new_null_array(&dictionary(), self.rows);
        }
        let mut nulls = None;
        if has_nulls {
            nulls = Some(NullBuffer::from_iter(keys.iter().map(|key| *key >= 0)));
            keys.iter_mut().for_each(|key| *key = (*key).max(0));
        }
        // Null is key 0, too, which is in the dictionary.
        let keys = Int32Array::new(keys.into(), nulls);
        Arc::new(DictionaryArray::new(keys, Arc::new(StringArray::from_iter_values(texts))))
    }

    /// The text of each row.
    pub(crate) fn texts(&self) -> ArrayRef {
        let runs = self.runs.iter().map(|(id, count)| (id.as_ref().map(Id::text), *count));
        let rows = runs.flat_map(|(text, count)| std::iter::repeat_n(text, count as usize));
        Arc::new(rows.collect::<StringArray>())
    }
}

/// The chunk of a column of ids in a row group.
pub(crate) struct IdChunk {
    column: ColumnDescPtr,
    page: Page,
    pages: Vec<DataPage>,
    bounds: Option<(Id, Id)>,
}

/// The page that is not complete.
#[derive(Default)]
struct Page {
    text: Vec<u8>,
    /// The size of each text.
    sizes: Vec<u8>,
    /// 1 for rows that have an id, 0 for others.
    levels: Vec<(u32, u32)>,
    rows: u32,
    bounds: Option<(Id, Id)>,
}

impl Page {
    fn add(&mut self, id: &Id, count: usize) {
        widen(&mut self.bounds, *id);
        self.sizes.resize(self.sizes.len() + count, id.size() as u8);
        id.with_text(|text| {
            (0..count).for_each(|_| self.text.extend_from_slice(text.as_bytes()));
        });
    }
}

impl IdChunk {
    pub(crate) fn new(column: ColumnDescPtr) -> Self {
        Self { column, page: Page::default(), pages: Vec::new(), bounds: None }
    }

    /// Adds rows.
    pub(crate) fn write(&mut self, ids: &Ids) -> Result<()> {
        for (id, count) in &ids.runs {
            let level = u32::from(id.is_some());
            let page = &mut self.page;
            page.rows += count;
            match page.levels.last_mut() {
                Some((last, rows)) if *last == level => *rows += count,
                _ => page.levels.push((level, *count)),
            }
            if let Some(id) = id {
                page.add(id, *count as usize);
            }
            if page.rows >= PAGE_ROWS || page.text.len() >= PAGE_BYTES {
                self.complete_page()?;
            }
        }
        Ok(())
    }

    fn complete_page(&mut self) -> Result<()> {
        let page = &mut self.page;
        let mut head = vec![0; 4];
        encode(page.levels.drain(..), 1, &mut head);
        let size = head.len() as u32 - 4;
        head[..4].copy_from_slice(&size.to_le_bytes());
        differences(&page.sizes, &mut head);
        let size = head.len() + page.text.len();
        let mut gzip = GzEncoder::new(Vec::new(), Level::new(LEVEL));
        gzip.write_all(&head)?;
        gzip.write_all(&page.text)?;
        let bytes = |id: Id| id.text().into_bytes();
        self.pages.push(DataPage {
            body: Body { compressed: gzip.finish()?, size },
            rows: page.rows,
            nulls: page.rows - page.sizes.len() as u32,
            bounds: match page.bounds {
                Some((least, most)) => Bounds::Known(bytes(least), bytes(most)),
                None => Bounds::Nothing,
            },
        });
        if let Some((least, most)) = page.bounds.take() {
            widen(&mut self.bounds, least);
            widen(&mut self.bounds, most);
        }
        page.text.clear();
        page.sizes.clear();
        page.rows = 0;
        Ok(())
    }

    /// About how many bytes of memory it takes.
    pub(crate) fn memory(&self) -> usize {
        let pages: usize = self.pages.iter().map(|page| page.body.compressed.len()).sum();
        pages + self.page.text.len() + self.page.sizes.len()
    }

    /// The bytes of the chunk, and what is known of it.
    pub(crate) fn close(mut self) -> Result<(Bytes, ColumnCloseResult)> {
        if self.page.rows > 0 {
            self.complete_page()?;
        }
        let nulls = self.pages.iter().map(|page| u64::from(page.nulls)).sum();
        let (least, most) = self.bounds.unzip();
        let bound = |id: Id| ByteArray::from(id.text().into_bytes());
        let (least, most) = (least.map(bound), most.map(bound));
        let content = Content {
            dictionary: None,
            pages: self.pages,
            encoding: Encoding::DELTA_LENGTH_BYTE_ARRAY,
            compression: Compression::GZIP(GzipLevel::default()),
            statistics: Statistics::byte_array(least, most, None, Some(nulls), false),
        };
        content.close(self.column)
    }
}

/// Adds an id to what is between two.
#[inline]
fn widen(bounds: &mut Option<(Id, Id)>, id: Id) {
    let (least, most) = bounds.get_or_insert((id, id));
    if id.order(least) == Ordering::Less {
        *least = id;
    }
    if id.order(most) == Ordering::Greater {
        *most = id;
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_schema::{Field, Schema};
    use parquet::{
        arrow::arrow_reader::{
            ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
        },
        file::{
            metadata::PageIndexPolicy,
            properties::{EnabledStatistics, WriterProperties},
        },
    };

    use super::*;
    use crate::tables::{groups::ParquetFile, runs::Values};

    fn ids(rows: impl IntoIterator<Item = Option<Id>>) -> Ids {
        let mut ids = Ids::default();
        for id in rows {
            ids.rows += 1;
            match ids.runs.last_mut() {
                Some((last, count)) if *last == id => *count += 1,
                _ => ids.runs.push((id, 1)),
            }
        }
        ids
    }

    fn random(number: u64) -> u64 {
        let product =
            u128::from(number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
        (product >> 41) as u64
    }

    #[test]
    fn ids_of_all_kinds_come_back() {
        let span = |number: u64| Some(Id::Span(random(number / 2)));
        let spans = |from: u64, rows: u64| ids((from..from + rows).map(span));
        let wide =
            |number: u64| (u128::from(random(number)) << 64 | u128::from(number)).to_le_bytes();
        let mixed = (0..30_000).map(|number| match number % 7 {
            0 => None,
            1 | 2 => Some(Id::Trace(wide(number / 7))),
            3 => Some(Id::Guid(wide(number))),
            // Counted, and the same again after a while.
            4 => Some(Id::Span(number)),
            _ => Some(Id::Span(random(number % 5000))),
        });
        let batches = [
            spans(0, 150_000),
            ids(mixed),
            ids(vec![None; 70_000]),
            // A page without ids.
            ids(vec![None; 70_000]),
            ids(vec![Some(Id::Trace([7; 16])); 70_000]),
            spans(200_000, 3),
        ];
        assert!(batches[0].is_better_as_text() && !batches[4].is_better_as_text());
        // Each id six times, close to itself or far away.
        let apart = |distance: u64| {
            ids((0..24_000)
                .map(|row| span(row / (6 * distance) * 2 * distance + row % distance * 2)))
        };
        assert!(apart(1).is_better_as_text() && apart(100).is_better_as_text());
        assert!(!apart(4000).is_better_as_text());
        let schema = Schema::new(vec![Field::new("span_id", dictionary(), true)]);
        let properties =
            WriterProperties::builder().set_statistics_enabled(EnabledStatistics::Page).build();
        let mut out = Vec::new();
        let mut file = ParquetFile::new(&mut out, Arc::new(schema), properties).unwrap();
        for batch in &batches {
            file.write(&[Values::Ids(batch.clone())]).unwrap();
            assert!(file.memory() > 0);
        }
        file.finish().unwrap();
        drop(file);
        let mut expected = Vec::new();
        for batch in &batches {
            let texts = batch.texts();
            expected.extend(texts.as_string::<i32>().iter().map(|text| text.map(str::to_owned)));
        }
        let bytes = Bytes::from(out);
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
        let metadata = ArrowReaderMetadata::load(&bytes, options).unwrap();
        let chunk = metadata.metadata().row_group(0).column(0);
        let encodings: Vec<_> = chunk.encodings().collect();
        assert!(!encodings.contains(&Encoding::RLE_DICTIONARY), "{encodings:?}");
        let statistics = chunk.statistics().unwrap();
        let bounds = [expected.iter().flatten().min(), expected.iter().flatten().max()];
        let found = [statistics.min_bytes_opt(), statistics.max_bytes_opt()];
        assert_eq!(found, bounds.map(|text| text.map(|text| text.as_bytes())));
        let nulls = expected.iter().filter(|text| text.is_none()).count() as u64;
        assert_eq!(statistics.null_count_opt(), Some(nulls));
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap();
        let mut found = Vec::new();
        for batch in reader.build().unwrap() {
            let column = Arc::clone(batch.unwrap().column(0));
            let texts = column.as_string::<i32>().iter();
            found.extend(texts.map(|text| text.map(str::to_owned)));
        }
        assert_eq!(found.len(), expected.len());
        assert!(found == expected, "other ids come back");
    }
}
