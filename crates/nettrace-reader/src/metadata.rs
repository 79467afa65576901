//! The parser of Metadata blocks, in each version's framing.

use nettrace_format::{
    Damage,
    v6::{self, MetadataRow},
};

use crate::framing::Format;

mod v5;

/// Calls `define` with each row in a Metadata block. `body` is the whole body of the block, which
/// begins at stream offset `base`.
pub(crate) fn parse_metadata<E: From<Damage>>(
    format: Format,
    body: &[u8],
    base: u64,
    define: impl FnMut(MetadataRow) -> Result<(), E>,
) -> Result<(), E> {
    match format {
        Format::V5 => v5::parse_metadata(body, base, define),
        Format::V6 => v6::read_metadata_rows(body, base, define),
    }
}
