//! [`Event`]: one event, with access to everything that it refers to.

use std::borrow::Cow;

use crate::{
    labels::Label,
    rows::Header,
    schema::Metadata,
    tables::{Definitions, Slot, Tables, ThreadTotals},
    trace::{Stack, Thread, Trace},
    value::Fields,
};

/// One event. It borrows from the reader and copies nothing.
///
/// ```
/// # fn main() -> Result<(), nettrace_reader::Error> {
/// # let file = nettrace_reader::example();
/// use nettrace_reader::Reader;
///
/// let mut reader = Reader::new(&file[..])?;
/// while let Some(event) = reader.next_event()? {
///     let thread = event.thread().name.as_deref().unwrap_or("?");
///     let time = event.trace().milliseconds(event.header.timestamp);
///     println!("{time:.3} ms, {thread}: {}", event.metadata().name);
///     for field in event.fields() {
///         let (name, value) = field?;
///         println!("    {name} = {value:?}");
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// The header of its row.
    pub header: &'a Header,
    /// Its encoded fields.
    pub payload: &'a [u8],
    /// The position of the payload, in bytes from the start of the stream.
    pub payload_offset: u64,
    pub(crate) tables: &'a Tables,
    /// The definitions that are valid at its place in the stream.
    pub(crate) definitions: Definitions,
    pub(crate) metadata: Slot,
    pub(crate) capture_thread: Slot,
    pub(crate) thread: Slot,
}

impl<'a> Event<'a> {
    /// Its type.
    #[inline]
    #[must_use]
    pub fn metadata(&self) -> &'a Metadata {
        self.tables.metadata(self.metadata)
    }

    /// The trace that it belongs to.
    #[must_use]
    pub fn trace(&self) -> &'a Trace {
        &self.tables.trace
    }

    /// The thread that it is about.
    #[must_use]
    pub fn thread(&self) -> &'a Thread {
        &self.tables.thread(self.thread).thread
    }

    /// The thread that recorded it, with the counts of that thread so far.
    #[must_use]
    pub fn capture_thread(&self) -> &'a ThreadTotals {
        self.tables.thread(self.capture_thread)
    }

    /// Its stack. `None` if it has none, or if the stream does not define the stack.
    #[must_use]
    pub fn stack(&self) -> Option<Stack<'a>> {
        self.tables.stack(self.header.stack_id)
    }

    /// Its labels, in the order of the stream. The two activity ids of a row of version 4 or 5
    /// count as labels.
    #[must_use]
    pub fn labels(&self) -> Cow<'a, [Label]> {
        let header = self.header;
        if header.label_list != 0 {
            let list = self.tables.label_list(self.definitions, header.label_list);
            return Cow::Borrowed(list.map_or(&[], |list| &list.labels));
        }
        let ids = [
            (header.activity_id, Label::ActivityId as fn(_) -> _),
            (header.related_activity_id, Label::RelatedActivityId),
        ];
        // An empty vector takes no memory.
        Cow::Owned(ids.into_iter().filter(|(id, _)| *id != [0; 16]).map(|(id, f)| f(id)).collect())
    }

    /// Its opcode: from its labels, else from its type, else 0.
    #[must_use]
    pub fn opcode(&self) -> u8 {
        let label =
            |label: &Label| if let Label::OpCode(value) = label { Some(*value) } else { None };
        self.last_label(label).or(self.metadata().opcode).unwrap_or(0)
    }

    /// Its keywords: from its labels, else from its type.
    #[must_use]
    pub fn keywords(&self) -> u64 {
        let label =
            |label: &Label| if let Label::Keywords(value) = label { Some(*value) } else { None };
        self.last_label(label).unwrap_or(self.metadata().keywords)
    }

    /// Its level: from its labels, else from its type.
    #[must_use]
    pub fn level(&self) -> u8 {
        let label =
            |label: &Label| if let Label::Level(value) = label { Some(*value) } else { None };
        self.last_label(label).unwrap_or(self.metadata().level)
    }

    /// The version of its fields: from its labels, else from its type.
    #[must_use]
    pub fn version(&self) -> u8 {
        let label =
            |label: &Label| if let Label::Version(value) = label { Some(*value) } else { None };
        self.last_label(label).unwrap_or(self.metadata().version)
    }

    /// Decodes its payload, field by field.
    #[must_use]
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
