//! One event, with everything that it refers to within reach.

use std::borrow::Cow;

use crate::{
    labels::Label,
    rows::Header,
    schema::Metadata,
    tables::{Slot, Tables, ThreadTotals},
    trace::{Stack, Thread, Trace},
    value::Fields,
};

/// One event. Borrows from the reader: nothing is copied.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// What its row says.
    pub header: &'a Header,
    /// Its fields, encoded.
    pub payload: &'a [u8],
    /// Stream offset of the payload in bytes.
    pub payload_offset: u64,
    pub(crate) tables: &'a Tables,
    pub(crate) metadata: Slot,
    pub(crate) capture_thread: Slot,
    pub(crate) thread: Slot,
}

impl<'a> Event<'a> {
    /// Its type.
    #[inline]
    pub fn metadata(&self) -> &'a Metadata {
        self.tables.metadata(self.metadata)
    }

    /// The trace that it is part of.
    pub fn trace(&self) -> &'a Trace {
        &self.tables.trace
    }

    /// The thread that it is about.
    pub fn thread(&self) -> &'a Thread {
        &self.tables.thread(self.thread).thread
    }

    /// The thread that recorded it, and how that thread's events were counted so far.
    pub fn capture_thread(&self) -> &'a ThreadTotals {
        self.tables.thread(self.capture_thread)
    }

    /// Its stack; `None` too where the stream refers to a stack that it did not define.
    pub fn stack(&self) -> Option<Stack<'a>> {
        self.tables.stack(self.header.stack_id)
    }

    /// Its labels, in the order of the stream. What versions 4 and 5 have in their place, the two
    /// activity ids of the row, are labels here.
    pub fn labels(&self) -> Cow<'a, [Label]> {
        let header = self.header;
        if header.label_list != 0 {
            let list = self.tables.label_list(header.label_list);
            return Cow::Borrowed(list.map_or(&[], |list| &list.labels));
        }
        let ids = [
            (header.activity_id, Label::ActivityId as fn(_) -> _),
            (header.related_activity_id, Label::RelatedActivityId),
        ];
        // A vector without elements takes no memory.
        Cow::Owned(ids.into_iter().filter(|(id, _)| *id != [0; 16]).map(|(id, f)| f(id)).collect())
    }

    /// What it marks: as its labels say, or else its type; 0 where neither does.
    pub fn opcode(&self) -> u8 {
        let label =
            |label: &Label| if let Label::OpCode(value) = label { Some(*value) } else { None };
        self.last_label(label).or(self.metadata().opcode).unwrap_or(0)
    }

    /// Its groups: as its labels say, or else its type.
    pub fn keywords(&self) -> u64 {
        let label =
            |label: &Label| if let Label::Keywords(value) = label { Some(*value) } else { None };
        self.last_label(label).unwrap_or(self.metadata().keywords)
    }

    /// Its level: as its labels say, or else its type.
    pub fn level(&self) -> u8 {
        let label =
            |label: &Label| if let Label::Level(value) = label { Some(*value) } else { None };
        self.last_label(label).unwrap_or(self.metadata().level)
    }

    /// The version of its fields: as its labels say, or else its type.
    pub fn version(&self) -> u8 {
        let label =
            |label: &Label| if let Label::Version(value) = label { Some(*value) } else { None };
        self.last_label(label).unwrap_or(self.metadata().version)
    }

    /// Decodes its payload, field by field.
    pub fn fields(&self) -> Fields<'a> {
        Fields::new(&self.metadata().fields, self.payload, self.payload_offset)
    }

    fn last_label<T>(&self, wanted: impl Fn(&Label) -> Option<T>) -> Option<T> {
        if self.header.label_list == 0 {
            return None;
        }
        self.labels().iter().rev().find_map(wanted)
    }
}
