//! The table of stacks.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, ListArray, UInt64Array};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use foldhash::HashMap;
use nettrace_reader::{Event, Stack};

use crate::tables::size_of;

/// The bytes of stacks that are remembered. A stack that is forgotten gets another id when it comes
/// again.
const LIMIT: usize = size_of(64 << 20, 160);

/// The frames of a batch, but for those of the stack that completes it.
const BATCH_FRAMES: usize = size_of(1 << 18, 6);

/// The stacks that events have had.
#[derive(Debug)]
pub(crate) struct Stacks {
    known: HashMap<Box<[u8]>, i64>,
    bytes: usize,
    /// Those of the current epoch, by the ids in rows.
    by_id: HashMap<u32, Option<i64>>,
    /// What the ids of stacks mean changes with the epoch, and with the stream.
    scope: (u64, u64),
    next: i64,
    ids: Vec<i64>,
    offsets: Vec<i32>,
    frames: Vec<u64>,
}

impl Stacks {
    /// Stacks that are counted from `first`.
    pub(crate) fn new(first: i64) -> Self {
        Self {
            known: HashMap::default(),
            bytes: 0,
            by_id: HashMap::default(),
            scope: (0, 0),
            next: first,
            ids: Vec::new(),
            offsets: vec![0],
            frames: Vec::new(),
        }
    }

    pub(crate) fn schema() -> SchemaRef {
        let frames = DataType::List(frame());
        let id = Field::new("stack_id", DataType::Int64, false);
        Arc::new(Schema::new(vec![id, Field::new("frames", frames, false)]))
    }

    /// The id of an event's stack.
    #[inline]
    pub(crate) fn of(&mut self, event: &Event<'_>) -> Option<i64> {
        if event.header.stack_id == 0 { None } else { self.find(event) }
    }

    fn find(&mut self, event: &Event<'_>) -> Option<i64> {
        let scope = (event.epoch(), event.stack_scope());
        if scope != self.scope {
            self.scope = scope;
            self.by_id.clear();
        }
        if let Some(id) = self.by_id.get(&event.header.stack_id) {
            return *id;
        }
        let id = event.stack().map(|stack| self.add(stack));
        self.by_id.insert(event.header.stack_id, id);
        id
    }

    fn add(&mut self, stack: Stack<'_>) -> i64 {
        if let Some(id) = self.known.get(stack.bytes()) {
            return *id;
        }
        if self.bytes > LIMIT {
            self.known.clear();
            self.bytes = 0;
        }
        let id = self.next;
        self.next = id.wrapping_add(1);
        self.bytes += stack.bytes().len() + 64;
        self.known.insert(stack.bytes().into(), id);
        self.ids.push(id);
        self.frames.extend(stack.addresses());
        // Rows are taken long before there are 2^31 frames.
        self.offsets.push(self.frames.len() as i32);
        id
    }

    /// Whether enough rows wait to be written.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.frames.len() >= BATCH_FRAMES
    }

    /// Forgets all stacks. Those that come again get other ids, and rows again.
    pub(crate) fn forget(&mut self) {
        self.known.clear();
        self.by_id.clear();
        self.bytes = 0;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Takes the rows that wait.
    pub(crate) fn finish(&mut self) -> Vec<ArrayRef> {
        let offsets = std::mem::replace(&mut self.offsets, vec![0]);
        let frames = Arc::new(UInt64Array::from(std::mem::take(&mut self.frames)));
        let offsets = OffsetBuffer::new(offsets.into());
        vec![
            Arc::new(Int64Array::from(std::mem::take(&mut self.ids))),
            Arc::new(ListArray::new(frame(), offsets, frames, None)),
        ]
    }
}

/// The addresses of a stack, innermost first.
fn frame() -> FieldRef {
    Arc::new(Field::new("item", DataType::UInt64, false))
}
