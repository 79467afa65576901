//! Chunks of Parquet for columns whose values come in runs.
//!
//! The `parquet` crate looks up the dictionary's number of each row's value. Here the runs are
//! known, so a run costs what a row costs there. The pages are what Parquet's specification calls
//! `RLE_DICTIONARY`, as the crate writes them for such columns. The crate writes their headers.

use std::ops::Range;

use arrow_array::{Array, ArrayRef, cast::AsArray, types};
use arrow_schema::DataType;
use bytes::Bytes;
use foldhash::HashMap;
use parquet::{
    basic::{Compression, Encoding, Type},
    column::writer::ColumnCloseResult,
    data_type::ByteArray,
    errors::{ParquetError, Result},
    file::statistics::Statistics,
    schema::types::ColumnDescPtr,
};

use crate::tables::{
    pages::{self, Body, Bounds, Content},
    rle::encode,
    runs::Keys,
    size_of,
};

/// The rows of a page, but for those of the batch that completes it.
const PAGE_ROWS: u32 = size_of(1 << 16, 6) as u32;

/// The runs of a page, as above.
const PAGE_RUNS: usize = size_of(1 << 14, 4);

/// The size of a dictionary, in bytes, from which on the row group is complete.
const DICTIONARY_BYTES: usize = size_of(1 << 20, 96);

/// The size of the longest text that statistics have.
const LONGEST_BOUND: usize = 64;

/// Stands for null where the place of a value stands.
const NULL: u32 = u32::MAX;

/// The chunk of a column in a row group.
pub(crate) struct Chunk {
    column: ColumnDescPtr,
    dictionary: Dictionary,
    /// The places of values in the dictionary, of the page that is not complete.
    runs: Vec<(u32, u32)>,
    rows: u32,
    pages: Vec<DataPage>,
}

/// A complete page.
struct DataPage {
    body: Body,
    rows: u32,
    nulls: u32,
    /// The places of the least and the greatest value.
    bounds: Option<(u32, u32)>,
}

impl Chunk {
    pub(crate) fn new(column: ColumnDescPtr) -> Self {
        let dictionary = Dictionary::new(column.physical_type());
        Self { column, dictionary, runs: Vec::new(), rows: 0, pages: Vec::new() }
    }

    /// Adds rows of `values`.
    pub(crate) fn write(&mut self, keys: &Keys, values: &ArrayRef) -> Result<()> {
        let places = self.dictionary.places(values)?;
        for (key, count) in keys.iter() {
            let place = places[key as usize];
            self.rows += count;
            match self.runs.last_mut() {
                Some((last, rows)) if *last == place => *rows += count,
                _ => self.runs.push((place, count)),
            }
        }
        if self.rows >= PAGE_ROWS || self.runs.len() >= PAGE_RUNS {
            self.complete_page()?;
        }
        Ok(())
    }

    /// Whether the dictionary is so large that another row group is better.
    pub(crate) fn is_large(&self) -> bool {
        self.dictionary.plain.len() >= DICTIONARY_BYTES
    }

    /// About how many bytes of memory it takes.
    pub(crate) fn memory(&self) -> usize {
        let pages: usize = self.pages.iter().map(|page| page.body.compressed.len()).sum();
        pages + 2 * self.dictionary.plain.len() + 8 * self.runs.len()
    }

    fn complete_page(&mut self) -> Result<()> {
        let mut body = Vec::new();
        if self.column.max_def_level() > 0 {
            let levels = self.runs.iter().map(|(place, rows)| (u32::from(*place != NULL), *rows));
            body.extend([0; 4]);
            encode(levels, 1, &mut body);
            let size = body.len() as u32 - 4;
            body[..4].copy_from_slice(&size.to_le_bytes());
        }
        let width = width_of(self.dictionary.len());
        body.push(width);
        let there = || self.runs.iter().copied().filter(|(place, _)| *place != NULL);
        encode(there(), width, &mut body);
        let values: u32 = there().map(|(_, rows)| rows).sum();
        let page = DataPage {
            body: Body::snappy(&body)?,
            rows: self.rows,
            nulls: self.rows - values,
            bounds: self.dictionary.bounds(there().map(|(place, _)| place)),
        };
        self.pages.push(page);
        self.runs.clear();
        self.rows = 0;
        Ok(())
    }

    /// The bytes of the chunk, and what is known of it.
    pub(crate) fn close(mut self) -> Result<(Bytes, ColumnCloseResult)> {
        if self.rows > 0 {
            self.complete_page()?;
        }
        let Self { column, dictionary, pages, .. } = self;
        let all =
            pages.iter().filter_map(|page| page.bounds).flat_map(|(least, most)| [least, most]);
        let all = dictionary.bounds(all);
        let nulls = pages.iter().map(|page| u64::from(page.nulls)).sum();
        let bounds = |bounds: Option<(u32, u32)>| match bounds {
            None => Bounds::Nothing,
            Some((least, most)) => match (dictionary.bound(least), dictionary.bound(most)) {
                (Some(least), Some(most)) => Bounds::Known(least.to_vec(), most.to_vec()),
                _ => Bounds::TooLong,
            },
        };
        let pages = pages.into_iter().map(|page| pages::DataPage {
            body: page.body,
            rows: page.rows,
            nulls: page.nulls,
            bounds: bounds(page.bounds),
        });
        let content = Content {
            dictionary: Some((Body::snappy(&dictionary.plain)?, dictionary.len() as u32)),
            pages: pages.collect(),
            encoding: Encoding::RLE_DICTIONARY,
            compression: Compression::SNAPPY,
            statistics: dictionary.statistics(all, nulls),
        };
        content.close(column)
    }
}

/// The different values of a chunk.
struct Dictionary {
    /// All values as they are in the file.
    plain: Vec<u8>,
    known: Known,
}

enum Known {
    /// Unsigned numbers of four or eight bytes.
    Numbers {
        size: usize,
        places: HashMap<u64, u32>,
        values: Vec<u64>,
    },
    Texts {
        places: HashMap<Box<[u8]>, u32>,
        values: Vec<Range<usize>>,
    },
}

impl Dictionary {
    fn new(ty: Type) -> Self {
        let numbers =
            |size| Known::Numbers { size, places: HashMap::default(), values: Vec::new() };
        let known = match ty {
            Type::INT32 => numbers(4),
            Type::INT64 => numbers(8),
            _ => Known::Texts { places: HashMap::default(), values: Vec::new() },
        };
        Self { plain: Vec::new(), known }
    }

    fn len(&self) -> usize {
        match &self.known {
            Known::Numbers { values, .. } => values.len(),
            Known::Texts { values, .. } => values.len(),
        }
    }

    /// The place of each value.
    fn places(&mut self, array: &ArrayRef) -> Result<Vec<u32>> {
        macro_rules! numbers {
            ($ty:ident) => {{
                let values = array.as_primitive::<types::$ty>().iter();
                values.map(|value| value.map_or(NULL, |it| self.number(it.into()))).collect()
            }};
        }
        Ok(match array.data_type() {
            DataType::UInt8 => numbers!(UInt8Type),
            DataType::UInt32 => numbers!(UInt32Type),
            DataType::UInt64 => numbers!(UInt64Type),
            DataType::Utf8 => {
                let values = array.as_string::<i32>().iter();
                values.map(|value| value.map_or(NULL, |text| self.text(text))).collect()
            }
            other => return Err(ParquetError::General(format!("runs of {other}"))),
        })
    }

    fn number(&mut self, number: u64) -> u32 {
        let Known::Numbers { size, places, values } = &mut self.known else { return NULL };
        *places.entry(number).or_insert_with(|| {
            self.plain.extend(&number.to_le_bytes()[..*size]);
            values.push(number);
            (values.len() - 1) as u32
        })
    }

    fn text(&mut self, text: &str) -> u32 {
        let Known::Texts { places, values } = &mut self.known else { return NULL };
        if let Some(place) = places.get(text.as_bytes()) {
            return *place;
        }
        self.plain.extend((text.len() as u32).to_le_bytes());
        let start = self.plain.len();
        self.plain.extend(text.as_bytes());
        let place = values.len() as u32;
        values.push(start..self.plain.len());
        places.insert(text.as_bytes().into(), place);
        place
    }

    /// The places of the least and the greatest of some values.
    fn bounds(&self, places: impl Iterator<Item = u32>) -> Option<(u32, u32)> {
        fn least_and_most<K: Ord>(
            places: impl Iterator<Item = u32>,
            count: usize,
            key: impl Fn(u32) -> K,
        ) -> Option<(u32, u32)> {
            let mut is_seen = vec![false; count];
            let mut bounds: Option<(u32, u32)> = None;
            for place in places {
                if std::mem::replace(&mut is_seen[place as usize], true) {
                    continue;
                }
                let (least, most) = bounds.get_or_insert((place, place));
                if key(place) < key(*least) {
                    *least = place;
                }
                if key(place) > key(*most) {
                    *most = place;
                }
            }
            bounds
        }
        match &self.known {
            Known::Numbers { values, .. } => {
                least_and_most(places, values.len(), |place| values[place as usize])
            }
            Known::Texts { values, .. } => least_and_most(places, values.len(), |place| {
                &self.plain[values[place as usize].clone()]
            }),
        }
    }

    /// A value as a bound in statistics. `None` if it is too long.
    fn bound(&self, place: u32) -> Option<&[u8]> {
        let place = place as usize;
        match &self.known {
            Known::Numbers { size, .. } => Some(&self.plain[place * size..][..*size]),
            Known::Texts { values, .. } => {
                Some(&self.plain[values[place].clone()]).filter(|text| text.len() <= LONGEST_BOUND)
            }
        }
    }

    fn statistics(&self, bounds: Option<(u32, u32)>, nulls: u64) -> Statistics {
        let bounds = bounds.and_then(|(least, most)| self.bound(least).zip(self.bound(most)));
        let (least, most) = bounds.unzip();
        let (distinct, nulls) = (None, Some(nulls));
        match self.known {
            Known::Numbers { size: 4, .. } => {
                let number = |bytes: &[u8]| bytes.try_into().map_or(0, i32::from_le_bytes);
                Statistics::int32(least.map(number), most.map(number), distinct, nulls, false)
            }
            Known::Numbers { .. } => {
                let number = |bytes: &[u8]| bytes.try_into().map_or(0, i64::from_le_bytes);
                Statistics::int64(least.map(number), most.map(number), distinct, nulls, false)
            }
            Known::Texts { .. } => {
                let text = |bytes: &[u8]| ByteArray::from(bytes.to_vec());
                Statistics::byte_array(least.map(text), most.map(text), distinct, nulls, false)
            }
        }
    }
}

/// How many bits the places of so many values have.
fn width_of(values: usize) -> u8 {
    // At most 32: a place is a `u32`.
    (usize::BITS - values.saturating_sub(1).leading_zeros()) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths() {
        for (values, width) in
            [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (256, 8), (257, 9), (1 << 20, 20)]
        {
            assert_eq!(width_of(values), width, "{values}");
        }
    }
}
