//! Ids of spans and traces, and their columns.
//!
//! Most columns of ids have few rows for each id, so a dictionary would be as large as they are.
//! Their pages are made here: as text in Parquet's `DELTA_LENGTH_BYTE_ARRAY`, compressed with what
//! is known of the ids.

use std::{
    cmp::Ordering,
    collections::{HashMap, HashSet},
    hash::BuildHasher,
    rc::Rc,
    sync::Arc,
};

use arrow_array::{ArrayRef, DictionaryArray, Int32Array, StringArray, new_null_array};
use arrow_buffer::NullBuffer;
use bytes::Bytes;
use nettrace_views::__shared::{Hex, guid};
use parquet::{
    basic::{Compression, Encoding, GzipLevel},
    column::writer::ColumnCloseResult,
    data_type::ByteArray,
    errors::Result,
    file::statistics::Statistics,
    schema::types::ColumnDescPtr,
};

use crate::{
    events::dictionary,
    gzip,
    hash::Fast,
    pages::{Body, Bounds, Content, DataPage},
    rle::{differences, encode},
    runs::Runs,
};

/// The rows of a page, but for those of the run that completes it.
const PAGE_ROWS: u32 = 1 << 16;

/// The size of the texts of a page, as above.
const PAGE_BYTES: usize = 1 << 20;

/// How many ids are looked for: a power of two.
const RECENT: usize = 1 << 11;

/// An id of a span or a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Id {
    Span(u64),
    Trace([u8; 16]),
    /// An activity id that has no span id, in the byte order of the format.
    Guid([u8; 16]),
}

impl Id {
    /// Calls `with` with the id as text.
    #[inline]
    fn with_text<T>(&self, with: impl FnOnce(&str) -> T) -> T {
        match self {
            Self::Span(id) => with(Hex::of(&id.to_be_bytes()).text()),
            Self::Trace(id) => with(Hex::of(id).text()),
            Self::Guid(id) => with(&guid(id)),
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

    /// With how many of the same digits two ids of one kind begin.
    #[inline]
    fn common(&self, other: &Self) -> usize {
        let zeros = match (self, other) {
            (Self::Span(one), Self::Span(other)) => (one ^ other).leading_zeros(),
            (Self::Trace(one), Self::Trace(other)) => {
                (u128::from_be_bytes(*one) ^ u128::from_be_bytes(*other)).leading_zeros()
            }
            _ => 0,
        };
        zeros as usize / 4
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

    /// Whether there are so many different ids that a dictionary does not help.
    pub(crate) fn mostly_differ(&self) -> bool {
        let there = || self.runs.iter().filter_map(|(id, rows)| Some(((*id)?, *rows)));
        let different: HashSet<_, Fast> = there().map(|(id, _)| id).collect();
        let rows: u32 = there().map(|(_, rows)| rows).sum();
        // The start and the end of a span have the same ids.
        3 * different.len() > rows as usize
    }

    /// The texts, each once, and which of them each row has.
    pub(crate) fn dictionary(&self) -> ArrayRef {
        let mut known: HashMap<Id, i32, Fast> = HashMap::default();
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
    /// The ids that came lately, by the ends of their hashes, and where they begin in the page.
    recent: Vec<Option<(Id, u32)>>,
    hashes: Fast,
}

/// The page that is not complete.
#[derive(Default)]
struct Page {
    text: gzip::Text,
    /// The size of each text.
    sizes: Vec<u8>,
    /// 1 for rows that have an id, 0 for others.
    levels: Vec<(u32, u32)>,
    rows: u32,
    bounds: Option<(Id, Id)>,
    last: Option<Id>,
}

impl IdChunk {
    pub(crate) fn new(column: ColumnDescPtr) -> Self {
        Self {
            column,
            page: Page::default(),
            pages: Vec::new(),
            bounds: None,
            recent: vec![None; RECENT],
            hashes: Fast::default(),
        }
    }

    /// Adds rows.
    pub(crate) fn write(&mut self, ids: &Ids) {
        for (id, count) in &ids.runs {
            let level = u32::from(id.is_some());
            let page = &mut self.page;
            page.rows += count;
            match page.levels.last_mut() {
                Some((last, rows)) if *last == level => *rows += count,
                _ => page.levels.push((level, *count)),
            }
            if let Some(id) = id {
                self.add(*id, *count as usize);
            }
            if self.page.rows >= PAGE_ROWS || self.page.text.len() >= PAGE_BYTES {
                self.complete_page();
            }
        }
    }

    fn add(&mut self, id: Id, count: usize) {
        let Self { page, recent, hashes, .. } = self;
        let (place, size) = (page.text.len(), id.size());
        page.sizes.resize(page.sizes.len() + count, size as u8);
        let known = &mut recent[hashes.hash_one(id) as usize % RECENT];
        match known.filter(|(known, _)| *known == id) {
            Some((_, earlier)) => page.text.again(earlier as usize, size),
            None => {
                widen(&mut page.bounds, id);
                let common = page.last.map_or(0, |last| last.common(&id));
                // Ids that are counted begin like the one before.
                let same = if common >= gzip::SHORTEST { common } else { 0 };
                page.text.again(place.saturating_sub(size), same);
                id.with_text(|text| page.text.literals(&text.as_bytes()[same..]));
            }
        }
        page.text.again(place, (count - 1) * size);
        *known = Some((id, place as u32));
        page.last = Some(id);
    }

    fn complete_page(&mut self) {
        let page = &mut self.page;
        let mut head = vec![0; 4];
        encode(page.levels.drain(..), 1, &mut head);
        let size = head.len() as u32 - 4;
        head[..4].copy_from_slice(&size.to_le_bytes());
        differences(&page.sizes, &mut head);
        let size = head.len() + page.text.len();
        let bytes = |id: Id| id.text().into_bytes();
        self.pages.push(DataPage {
            body: Body { compressed: page.text.gzip(&head), size },
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
        (page.rows, page.last) = (0, None);
        self.recent.fill(None);
    }

    /// About how many bytes of memory it takes.
    pub(crate) fn memory(&self) -> usize {
        let pages: usize = self.pages.iter().map(|page| page.body.compressed.len()).sum();
        pages + 2 * self.page.text.len() + self.page.sizes.len()
    }

    /// The bytes of the chunk, and what is known of it.
    pub(crate) fn close(mut self) -> Result<(Bytes, ColumnCloseResult)> {
        if self.page.rows > 0 {
            self.complete_page();
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
