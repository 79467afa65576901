//! Decodes events with `tracepoint_decode`, an independent implementation by the format's authors.

#![allow(dead_code, reason = "each test uses a part")]

use serde_json::{Map, Value};
use tracepoint_decode::{
    EventHeaderEnumeratorContext, EventHeaderEnumeratorState, PerfConvertOptions,
};

/// An event, decoded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decoded {
    pub(crate) provider: String,
    pub(crate) name: String,
    pub(crate) keyword: u64,
    pub(crate) id: u16,
    pub(crate) version: u8,
    pub(crate) tag: u16,
    pub(crate) opcode: u8,
    pub(crate) level: u8,
    pub(crate) activity: Option<[u8; 16]>,
    pub(crate) related: Option<[u8; 16]>,
    /// Name and value of each field.
    pub(crate) fields: Map<String, Value>,
}

/// Decodes an event, starting with its header.
///
/// # Panics
/// If the decoder finds a mistake or does not use all of the bytes.
#[track_caller]
pub(crate) fn decode(tracepoint: &str, bytes: &[u8]) -> Decoded {
    decode_filled(tracepoint, bytes, 0)
}

/// Like [`decode`], for an event with up to `filling` zeros after it. The size of a record of
/// `perf` is a multiple of 8 bytes, whatever the event's size.
#[track_caller]
pub(crate) fn decode_filled(tracepoint: &str, bytes: &[u8], filling: usize) -> Decoded {
    let mut context = EventHeaderEnumeratorContext::new();
    let mut enumerator = context
        .enumerate_with_name_and_data(tracepoint, bytes, u32::MAX)
        .unwrap_or_else(|error| panic!("{error:?} in {bytes:02x?}"));
    let info = enumerator.event_info();
    let header = info.header();
    let mut decoded = Decoded {
        provider: info.provider_name().to_owned(),
        name: String::from_utf8(info.name_bytes().to_vec()).expect("UTF-8"),
        keyword: info.keyword(),
        id: header.id,
        version: header.version,
        tag: header.tag,
        opcode: header.opcode.as_int(),
        level: header.level.as_int(),
        activity: info.activity_id().copied(),
        related: info.related_activity_id().copied(),
        fields: Map::new(),
    };
    let mut json = String::from("{");
    let options = PerfConvertOptions::Default;
    enumerator.write_json_item_and_move_next_sibling(&mut json, false, options).expect("a string");
    json.push('}');
    assert_eq!(
        enumerator.state(),
        EventHeaderEnumeratorState::AfterLastItem,
        "{:?} in {bytes:02x?}",
        enumerator.last_error()
    );
    let rest = enumerator.raw_data_position();
    let is_filling = rest.len() <= filling && rest.iter().all(|&byte| byte == 0);
    assert!(is_filling, "bytes are left of {bytes:02x?}: {json}");
    decoded.fields = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}"));
    decoded
}
