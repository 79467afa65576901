//! [`Event`]: one event, with access to everything that it refers to.

use std::borrow::Cow;

use nettrace_event::{guid, label::kind};
use nettrace_format::{Metadata, Stack, Thread, Trace};

use crate::{
    labels::{Label, LastLabels},
    rows::Header,
    tables::{Definitions, Slot, Tables, ThreadTotals},
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
    ///
    /// ```
    /// # let file = nettrace_reader::example();
    /// # let mut reader = nettrace_reader::Reader::new(&file[..])?;
    /// let event = reader.next_event()?.unwrap();
    /// let metadata = event.metadata();
    /// assert_eq!((&*metadata.provider, &*metadata.name, metadata.event_id), ("Shop", "Sale", 7));
    /// assert_eq!(metadata.fields[0].name, "cents");
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn metadata(&self) -> &'a Metadata {
        self.tables.metadata(self.metadata)
    }

    /// The trace that it belongs to.
    ///
    /// ```
    /// # let file = nettrace_reader::example();
    /// # let mut reader = nettrace_reader::Reader::new(&file[..])?;
    /// let event = reader.next_event()?.unwrap();
    /// assert_eq!(event.trace().milliseconds(event.header.timestamp), 1.0);
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[must_use]
    pub fn trace(&self) -> &'a Trace {
        &self.tables.trace
    }

    /// The thread that it is about.
    ///
    /// ```
    /// # let file = nettrace_reader::example();
    /// # let mut reader = nettrace_reader::Reader::new(&file[..])?;
    /// let event = reader.next_event()?.unwrap();
    /// assert_eq!(event.thread().name.as_deref(), Some("main"));
    /// assert_eq!(event.thread().os_thread_id, Some(42));
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[must_use]
    pub fn thread(&self) -> &'a Thread {
        &self.tables.thread(self.thread).thread
    }

    /// The number of the definition of the thread that it is about: see
    /// [`ThreadTotals::definition`].
    ///
    /// ```
    /// # let file = nettrace_reader::example();
    /// # let mut reader = nettrace_reader::Reader::new(&file[..])?;
    /// let first = reader.next_event()?.unwrap().thread_definition();
    /// assert_eq!(reader.next_event()?.unwrap().thread_definition(), first);
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn thread_definition(&self) -> u64 {
        self.tables.thread(self.thread).definition
    }

    /// The thread that recorded it, with the counts of that thread so far.
    ///
    /// ```
    /// # let file = nettrace_reader::example();
    /// # let mut reader = nettrace_reader::Reader::new(&file[..])?;
    /// # reader.next_event()?;
    /// let second = reader.next_event()?.unwrap();
    /// let thread = second.capture_thread();
    /// assert_eq!((thread.events, thread.lost), (2, 0));
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[must_use]
    pub fn capture_thread(&self) -> &'a ThreadTotals {
        self.tables.thread(self.capture_thread)
    }

    /// How many sequence points are before it. Two events with the same number and the same
    /// [`metadata_id`](Header::metadata_id) are of the same type, so a caller can keep what it
    /// knows of a type until the number changes.
    ///
    /// ```
    /// # let file = nettrace_reader::example();
    /// # let mut reader = nettrace_reader::Reader::new(&file[..])?;
    /// assert_eq!(reader.next_event()?.unwrap().epoch(), 0);
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.tables.epoch()
    }

    /// Two events of one [epoch](Self::epoch) with the same scope and the same
    /// [`stack_id`](Header::stack_id) have the same stack.
    ///
    /// ```
    /// # let file = nettrace_reader::example();
    /// # let mut reader = nettrace_reader::Reader::new(&file[..])?;
    /// let first = reader.next_event()?.unwrap().stack_scope();
    /// assert_eq!(reader.next_event()?.unwrap().stack_scope(), first);
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[must_use]
    pub fn stack_scope(&self) -> u64 {
        self.tables.stream_of_stacks(self.definitions)
    }

    /// Its stack. `None` if it has none, or if the stream does not define the stack.
    ///
    /// ```
    /// # let file = nettrace_reader::example();
    /// # let mut reader = nettrace_reader::Reader::new(&file[..])?;
    /// assert!(reader.next_event()?.unwrap().stack().is_none());
    /// let stack = reader.next_event()?.unwrap().stack().unwrap();
    /// assert!(stack.addresses().eq([0x2010, 0x1020]));
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[must_use]
    pub fn stack(&self) -> Option<Stack<'a>> {
        self.tables.stack(self.definitions, self.header.stack_id)
    }

    /// Its labels, in the order of the stream. The two activity ids of a row of version 4 or 5
    /// count as labels.
    ///
    /// The label list of a span may leave out the span id, which the activity id contains, and the
    /// trace id, which the last list with the activity of the parent has. If there is a trace, both
    /// are among these labels. The lists of [`Item::LabelLists`](crate::Item::LabelLists) are as
    /// they are in the trace.
    ///
    /// Most labels are decoded by this call, which then allocates. Call it once for an event.
    /// [`level`](Self::level), [`opcode`](Self::opcode), [`keywords`](Self::keywords) and
    /// [`version`](Self::version) do not allocate.
    ///
    /// ```
    /// use nettrace_reader::Label;
    ///
    /// # let file = nettrace_reader::example();
    /// # let mut reader = nettrace_reader::Reader::new(&file[..])?;
    /// # reader.next_event()?;
    /// let event = reader.next_event()?.unwrap();
    /// let labels = event.labels();
    /// let tenant = labels.iter().find_map(|label| match label {
    ///     Label::Str(name, value) if name == "tenant" => Some(&**value),
    ///     _ => None,
    /// });
    /// assert_eq!(tenant, Some("contoso"));
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[must_use]
    pub fn labels(&self) -> Cow<'a, [Label]> {
        let header = self.header;
        if header.label_list != 0 {
            return self.tables.labels(self.definitions, header.label_list);
        }
        let ids = [
            (header.activity_id, Label::ActivityId as fn(_) -> _),
            (header.related_activity_id, Label::RelatedActivityId),
        ];
        // An empty vector takes no memory.
        let ids = ids.into_iter().filter(|(id, _)| *id != [0; 16]);
        Cow::Owned(ids.map(|(id, label)| label(guid::swapped(&id))).collect())
    }

    /// Takes its [labels](Self::labels) into `last`. Returns whether they are others than before. Most
    /// events have the labels of the event before, so this mostly decodes nothing.
    ///
    /// ```
    /// use nettrace_reader::LastLabels;
    ///
    /// # let file = nettrace_reader::example();
    /// # let mut reader = nettrace_reader::Reader::new(&file[..])?;
    /// let mut last = LastLabels::default();
    /// // The first event has none, as before.
    /// assert!(!reader.next_event()?.unwrap().labels_into(&mut last));
    /// assert!(reader.next_event()?.unwrap().labels_into(&mut last));
    /// assert_eq!(last.labels().len(), 2);
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[inline]
    pub fn labels_into(&self, last: &mut LastLabels) -> bool {
        let header = self.header;
        if header.label_list != 0 {
            return self.tables.labels_into(self.definitions, header.label_list, last);
        }
        if header.activity_id == [0; 16] && header.related_activity_id == [0; 16] {
            return last.take(&[]);
        }
        last.take(&self.labels())
    }

    /// Its opcode: from its labels, else from its type, else
    /// [from the name of its type](Metadata::implied_opcode), else 0.
    ///
    /// ```
    /// # let file = nettrace_reader::example();
    /// # let mut reader = nettrace_reader::Reader::new(&file[..])?;
    /// let event = reader.next_event()?.unwrap();
    /// let is_start = event.opcode() == 1;
    /// assert!(!is_start);
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[must_use]
    pub fn opcode(&self) -> u8 {
        let stated = self.last_label(kind::OPCODE).map(|code| code as u8);
        let stated = stated.or(self.metadata().opcode);
        stated.or_else(|| self.metadata().implied_opcode()).unwrap_or(0)
    }

    /// Its keywords: from its labels, else from its type.
    ///
    /// ```
    /// const IO: u64 = 1 << 4;
    ///
    /// # let file = nettrace_reader::example();
    /// # let mut reader = nettrace_reader::Reader::new(&file[..])?;
    /// let event = reader.next_event()?.unwrap();
    /// assert_eq!(event.keywords() & IO, 0);
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[must_use]
    pub fn keywords(&self) -> u64 {
        self.last_label(kind::KEYWORDS).unwrap_or(self.metadata().keywords)
    }

    /// Its level: from its labels, else from its type.
    ///
    /// ```
    /// # let file = nettrace_reader::example();
    /// # let mut reader = nettrace_reader::Reader::new(&file[..])?;
    /// # reader.next_event()?;
    /// let event = reader.next_event()?.unwrap();
    /// // This event has a label that replaces the level of its type.
    /// assert_eq!((event.metadata().level, event.level()), (0, 3));
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[must_use]
    pub fn level(&self) -> u8 {
        self.last_label(kind::LEVEL).map_or(self.metadata().level, |level| level as u8)
    }

    /// The version of its fields: from its labels, else from its type.
    ///
    /// ```
    /// # let file = nettrace_reader::example();
    /// # let mut reader = nettrace_reader::Reader::new(&file[..])?;
    /// let event = reader.next_event()?.unwrap();
    /// assert_eq!(event.version(), event.metadata().version);
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[must_use]
    pub fn version(&self) -> u8 {
        self.last_label(kind::VERSION).map_or(self.metadata().version, |version| version as u8)
    }

    /// Decodes its payload, field by field.
    ///
    /// ```
    /// use nettrace_reader::Value;
    ///
    /// # let file = nettrace_reader::example();
    /// # let mut reader = nettrace_reader::Reader::new(&file[..])?;
    /// let event = reader.next_event()?.unwrap();
    /// let (name, value) = event.fields().next().unwrap()?;
    /// assert_eq!((name, value), ("cents", Value::U32(1_250)));
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[must_use]
    pub fn fields(&self) -> Fields<'a> {
        Fields::new(self.metadata(), self.payload, self.payload_offset)
    }

    /// The value of the last label of a kind.
    fn last_label(&self, kind: u8) -> Option<u64> {
        let list = self.header.label_list;
        if list == 0 { None } else { self.tables.override_by(self.definitions, list, kind) }
    }
}
