//! Chunks of Parquet that are made of complete pages. The `parquet` crate writes their headers.

use bytes::Bytes;
use parquet::{
    basic::{Compression, Encoding, PageType},
    column::{
        page::{CompressedPage, Page, PageWriter},
        writer::ColumnCloseResult,
    },
    errors::{ParquetError, Result},
    file::{
        metadata::{
            ColumnChunkMetaData, ColumnIndexBuilder, OffsetIndexBuilder, PageEncodingStats,
        },
        statistics::Statistics,
        writer::{SerializedPageWriter, TrackedWrite},
    },
    schema::types::ColumnDescPtr,
};

/// The bytes of a page.
pub(crate) struct Body {
    pub(crate) compressed: Vec<u8>,
    /// How many bytes it was before.
    pub(crate) size: usize,
}

impl Body {
    pub(crate) fn snappy(bytes: &[u8]) -> Result<Self> {
        let compressed = snap::raw::Encoder::new().compress_vec(bytes);
        let compressed = compressed.map_err(|error| ParquetError::External(Box::new(error)))?;
        Ok(Self { compressed, size: bytes.len() })
    }
}

/// The least and the greatest value of a page.
pub(crate) enum Bounds {
    /// All are null.
    Nothing,
    Known(Vec<u8>, Vec<u8>),
    TooLong,
}

/// A complete page.
pub(crate) struct DataPage {
    pub(crate) body: Body,
    pub(crate) rows: u32,
    pub(crate) nulls: u32,
    pub(crate) bounds: Bounds,
}

/// What a chunk consists of.
pub(crate) struct Content {
    /// The values to which pages refer, and how many there are.
    pub(crate) dictionary: Option<(Body, u32)>,
    pub(crate) pages: Vec<DataPage>,
    /// That of the values in pages.
    pub(crate) encoding: Encoding,
    pub(crate) compression: Compression,
    pub(crate) statistics: Statistics,
}

impl Content {
    /// The bytes of the chunk, and what is known of it.
    pub(crate) fn close(self, column: ColumnDescPtr) -> Result<(Bytes, ColumnCloseResult)> {
        let mut out = TrackedWrite::new(Vec::new());
        let mut writer = SerializedPageWriter::new(&mut out);
        let (mut compressed, mut size) = (0, 0);
        let mut encodings = vec![Encoding::RLE, self.encoding];
        let mut kinds = Vec::new();
        let has_dictionary = self.dictionary.is_some();
        if let Some((body, num_values)) = self.dictionary {
            let page = Page::DictionaryPage {
                buf: body.compressed.into(),
                num_values,
                encoding: Encoding::PLAIN,
                is_sorted: false,
            };
            let written = writer.write_page(CompressedPage::new(page, body.size))?;
            (compressed, size) = (written.compressed_size, written.uncompressed_size);
            encodings.insert(0, Encoding::PLAIN);
            kinds.push(PageEncodingStats {
                page_type: PageType::DICTIONARY_PAGE,
                encoding: Encoding::PLAIN,
                count: 1,
            });
        }
        kinds.push(PageEncodingStats {
            page_type: PageType::DATA_PAGE,
            encoding: self.encoding,
            count: self.pages.len() as i32,
        });
        let mut offsets = OffsetIndexBuilder::new();
        let mut index = ColumnIndexBuilder::new(column.physical_type());
        let (mut first, mut rows) = (None, 0_u64);
        for page in self.pages {
            let data = Page::DataPage {
                buf: page.body.compressed.into(),
                num_values: page.rows,
                encoding: self.encoding,
                def_level_encoding: Encoding::RLE,
                rep_level_encoding: Encoding::RLE,
                statistics: None,
            };
            let written = writer.write_page(CompressedPage::new(data, page.body.size))?;
            first.get_or_insert(written.offset);
            compressed += written.compressed_size;
            size += written.uncompressed_size;
            offsets.append_row_count(page.rows.into());
            offsets.append_offset_and_size(written.offset as i64, written.compressed_size as i32);
            rows += u64::from(page.rows);
            match page.bounds {
                Bounds::Nothing => index.append(true, Vec::new(), Vec::new(), page.nulls.into()),
                Bounds::Known(least, most) => index.append(false, least, most, page.nulls.into()),
                Bounds::TooLong => index.to_invalid(),
            }
        }
        let metadata = ColumnChunkMetaData::builder(column)
            .set_compression(self.compression)
            .set_encodings(encodings)
            .set_page_encoding_stats(kinds)
            .set_total_compressed_size(compressed as i64)
            .set_total_uncompressed_size(size as i64)
            .set_num_values(rows as i64)
            .set_dictionary_page_offset(has_dictionary.then_some(0))
            .set_data_page_offset(first.unwrap_or(0) as i64)
            .set_statistics(self.statistics)
            .build()?;
        let column_index = if index.valid() { Some(index.build()?) } else { None };
        let bytes = out.into_inner()?;
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: rows,
            metadata,
            bloom_filter: None,
            column_index,
            offset_index: Some(offsets.build()),
        };
        Ok((bytes.into(), close))
    }
}
