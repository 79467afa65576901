//! Properties that hold for any bytes.

use crate::protocol::{
    Buffering, HEADER, MAGIC, Request, SessionType, event_pipe, message, parse, set, size,
};

/// Reads bytes as a client may send them: as they are, and as the payload of the command that the
/// first byte names.
///
/// # Panics
/// If a promise of the protocol's code does not hold.
pub fn check(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        crate::environment::check(text);
        #[cfg(unix)]
        crate::ports::check(text);
    }
    // The size does not change when more bytes arrive.
    let whole = size(bytes);
    for end in [bytes.len() / 2, bytes.len().min(15), bytes.len().min(16)] {
        match (size(&bytes[..end]), &whole) {
            (Ok(None), _) => {}
            (early, whole) => assert_eq!(&early, whole),
        }
    }
    if let Ok(Some(size)) = whole {
        assert!((HEADER..=usize::from(u16::MAX)).contains(&size) && bytes.starts_with(&MAGIC));
        if let Some(bytes) = bytes.get(..size) {
            let _ = parse(bytes);
        }
    }
    let Some((command, payload)) = bytes.split_first() else { return };
    let (set, id) = match command >> 4 {
        0 => (set::EVENT_PIPE, command & 15),
        1 => (set::PROCESS, command & 15),
        other => (other, command & 15),
    };
    let bytes = message(set, id, payload);
    let Ok(Request::Collect(collect)) = parse(&bytes) else { return };
    assert_eq!(set, set::EVENT_PIPE);
    // What was read is written as it was, up to what follows it, and reads back.
    let version = id - event_pipe::COLLECT_TRACING + 1;
    let again = message(set, id, &collect.payload(version));
    assert_eq!(parse(&again), Ok(Request::Collect(collect.clone())));
    assert!(version == 6 || collect.buffering == Buffering::Drop);
    let ids: usize = collect.providers.iter().map(|one| one.events.ids.len()).sum();
    // Memory is bounded by the message.
    assert!(collect.providers.len() * 20 + ids * 4 <= bytes.len());
    if collect.session == SessionType::Stream {
        let written = collect.payload(version);
        // A flag for the rundown stands for its keywords; a text without units for an empty one.
        assert!(written.len() <= payload.len() + 4 * collect.providers.len());
    }
}
