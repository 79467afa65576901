//! Names that are written once and then referred to by numbers.

use std::collections::HashMap;

use crate::viewers::{
    perfetto::{
        SEQUENCE_ID,
        annotations::Annotations,
        numbers::{event, interned, packet},
    },
    proto::{self, close, open},
    values::Details,
};

/// The limit on the memory for names, in bytes. Further names are written in full each time.
const LIMIT: usize = 32 << 20;

/// What a name takes beside its bytes.
const NAME_BYTES: usize = 96;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Category,
    Event,
    Annotation,
}

/// The names so far.
#[derive(Debug, Default)]
pub(super) struct Names {
    numbers: HashMap<(Kind, String), u64>,
    bytes: usize,
}

impl Names {
    /// A reference to a name, as the bytes that stand in the message. Writes the name to `out` if
    /// it is new.
    pub(super) fn refer(&mut self, kind: Kind, name: &str, out: &mut Vec<u8>) -> Vec<u8> {
        let mut bytes = Vec::new();
        let (field, in_full) = match kind {
            Kind::Category => (event::CATEGORY, event::PLAIN_CATEGORY),
            Kind::Event => (event::NAME, event::PLAIN_NAME),
            Kind::Annotation => (1, 0),
        };
        match self.number(kind, name, out) {
            Some(number) => proto::uint(&mut bytes, field, number),
            None if kind == Kind::Annotation => bytes = Annotations::plain_key(name),
            None => proto::bytes(&mut bytes, in_full, name.as_bytes()),
        }
        bytes
    }

    fn number(&mut self, kind: Kind, name: &str, out: &mut Vec<u8>) -> Option<u64> {
        let key = (kind, name.to_owned());
        if let Some(number) = self.numbers.get(&key) {
            return Some(*number);
        }
        if self.bytes + name.len() + NAME_BYTES > LIMIT {
            return None;
        }
        self.bytes += name.len() + NAME_BYTES;
        let number = self.numbers.len() as u64 + 1;
        let field = match kind {
            Kind::Category => interned::CATEGORIES,
            Kind::Event => interned::NAMES,
            Kind::Annotation => interned::ANNOTATIONS,
        };
        define(out, |out| {
            let entry = open(out, field);
            proto::uint(out, interned::IID, number);
            proto::bytes(out, interned::TEXT, name.as_bytes());
            close(out, entry);
        });
        self.numbers.insert(key, number);
        Some(number)
    }
}

/// Writes a packet with definitions.
pub(super) fn define(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let opened = open(out, packet::PACKET);
    proto::uint(out, packet::SEQUENCE, SEQUENCE_ID);
    let data = open(out, packet::INTERNED);
    write(out);
    close(out, data);
    close(out, opened);
}
