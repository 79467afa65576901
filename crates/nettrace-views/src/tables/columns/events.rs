//! The table of all events, and the columns that the tables of event types share with it.

use std::{borrow::Cow, mem::take, rc::Rc, sync::Arc};

use arrow_array::{
    ArrayRef, Int64Array, MapArray, StructArray, UInt32Array,
    builder::StringBuilder,
    new_null_array,
    types::{UInt8Type, UInt32Type, UInt64Type},
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};

use crate::tables::{
    BATCH, BATCH_BYTES,
    columns::times,
    facts::{LabelFacts, ThreadFacts, TypeFacts},
    runs::{Repeats, Runs},
};

/// One event, as tables show it.
#[derive(Debug)]
pub(crate) struct Row {
    /// Its number.
    pub(crate) event: i64,
    /// Nanoseconds since 1970.
    pub(crate) time: i64,
    pub(crate) ty: Rc<TypeFacts>,
    pub(crate) thread: Rc<ThreadFacts>,
    pub(crate) labels: Rc<LabelFacts>,
    pub(crate) opcode: u8,
    /// Whether the table of spans has what it is related to, as the parent of its span.
    pub(crate) has_parent: bool,
    pub(crate) processor: u32,
    pub(crate) stack: Option<i64>,
    pub(crate) payload_bytes: u32,
}

/// The columns with which every table of events begins.
#[derive(Debug, Default)]
pub(crate) struct Common {
    events: Vec<i64>,
    times: Vec<i64>,
    threads: Runs<Rc<ThreadFacts>>,
}

impl Common {
    pub(crate) const NAMES: [&'static str; 5] = ["event", "time", "time_ns", "process", "thread"];

    pub(crate) fn fields() -> Vec<FieldRef> {
        let [event, time, nanos, process, thread] = Self::NAMES;
        let [time, nanos] = times::fields([time, nanos].map(str::to_owned), false);
        let id = |name| Arc::new(Field::new(name, DataType::UInt64, true));
        let event = Arc::new(Field::new(event, DataType::Int64, false));
        vec![event, time, nanos, id(process), id(thread)]
    }

    #[inline]
    pub(crate) fn push(&mut self, row: &Row) {
        self.events.push(row.event);
        self.times.push(row.time);
        self.threads.push(&row.thread);
    }

    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// Takes the columns.
    pub(crate) fn finish(&mut self) -> Vec<ArrayRef> {
        let [times, nanos] = times::columns(take(&mut self.times).into());
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(take(&mut self.events))),
            times,
            nanos,
            self.threads.numbers::<UInt64Type>(|thread| thread.process),
            self.threads.numbers::<UInt64Type>(|thread| thread.id()),
        ];
        self.threads.clear();
        columns
    }
}

/// What is the same for many events of a type.
#[derive(Clone, Debug)]
struct Kind {
    ty: Rc<TypeFacts>,
    version: u8,
    level: u8,
    opcode: u8,
    keywords: u64,
}

impl Repeats for Kind {
    #[inline]
    fn is_same(&self, other: &Self) -> bool {
        let numbers = |kind: &Self| (kind.version, kind.level, kind.opcode, kind.keywords);
        self.ty.is_same(&other.ty) && numbers(self) == numbers(other)
    }
}

/// The rows of the table of all events that wait to be written.
#[derive(Debug, Default)]
pub(crate) struct Events {
    common: Common,
    labels: Runs<Rc<LabelFacts>>,
    /// Without those that only say the parent of their span.
    related: Runs<Rc<LabelFacts>>,
    kinds: Runs<Kind>,
    processors: Runs<u32>,
    stacks: Vec<i64>,
    sizes: Vec<u32>,
    /// The bytes of labels and names.
    waiting: usize,
    nothing: Rc<LabelFacts>,
}

impl Events {
    pub(crate) fn schema() -> SchemaRef {
        let mut fields = Common::fields();
        for (name, ty, is_null) in [
            ("thread_name", DataType::Utf8, true),
            ("provider", DataType::Utf8, false),
            ("name", DataType::Utf8, false),
            ("id", DataType::UInt32, false),
            ("version", DataType::UInt8, false),
            ("level", DataType::UInt8, false),
            ("opcode", DataType::UInt8, false),
            ("keywords", DataType::UInt64, false),
            ("cpu", DataType::UInt32, true),
            ("trace_id", DataType::Utf8, true),
            ("span_id", DataType::Utf8, true),
            ("related_id", DataType::Utf8, true),
            ("stack_id", DataType::Int64, true),
            ("payload_bytes", DataType::UInt32, false),
            ("labels", map_type(), true),
        ] {
            fields.push(Arc::new(Field::new(name, ty, is_null)));
        }
        Arc::new(Schema::new(fields))
    }

    #[inline]
    pub(crate) fn push(&mut self, row: &Row) {
        self.common.push(row);
        let (ty, labels) = (&row.ty, &row.labels);
        let overrides = labels.ids.overrides;
        self.kinds.push(&Kind {
            ty: Rc::clone(ty),
            version: overrides.version.unwrap_or(ty.version),
            level: overrides.level.unwrap_or(ty.level),
            opcode: row.opcode,
            keywords: overrides.keywords.unwrap_or(ty.keywords),
        });
        self.labels.push(labels);
        self.related.push(if row.has_parent { &self.nothing } else { labels });
        self.processors.push(&row.processor);
        self.stacks.push(row.stack.unwrap_or(i64::MIN));
        self.sizes.push(row.payload_bytes);
        self.waiting += labels.size + row.thread.size() + ty.size();
    }

    /// Whether enough rows wait to be written.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= BATCH || self.waiting >= BATCH_BYTES
    }

    pub(crate) fn len(&self) -> usize {
        self.common.len()
    }

    pub(crate) fn finish(&mut self) -> Vec<ArrayRef> {
        self.waiting = 0;
        let thread_names = self.common.threads.texts(|thread| thread.name().map(Cow::Borrowed));
        let mut columns = self.common.finish();
        let (kinds, labels) = (&self.kinds, &self.labels);
        let stacks = take(&mut self.stacks);
        let has_stack = nulls(stacks.iter().map(|id| *id != i64::MIN));
        columns.extend([
            thread_names,
            kinds.texts(|kind| Some(Cow::Borrowed(&kind.ty.provider))),
            kinds.texts(|kind| Some(Cow::Borrowed(&kind.ty.name))),
            kinds.numbers::<UInt32Type>(|kind| Some(kind.ty.id)),
            kinds.numbers::<UInt8Type>(|kind| Some(kind.version)),
            kinds.numbers::<UInt8Type>(|kind| Some(kind.level)),
            kinds.numbers::<UInt8Type>(|kind| Some(kind.opcode)),
            kinds.numbers::<UInt64Type>(|kind| Some(kind.keywords)),
            self.processors.numbers::<UInt32Type>(|cpu| (*cpu != u32::MAX).then_some(*cpu)),
            labels.texts(|labels| labels.trace()),
            labels.texts(|labels| labels.span()),
            self.related.texts(|labels| labels.related()),
            Arc::new(Int64Array::new(stacks.into(), has_stack)),
            Arc::new(UInt32Array::from(take(&mut self.sizes))),
            label_maps(labels),
        ]);
        self.labels.clear();
        self.related.clear();
        self.kinds.clear();
        self.processors.clear();
        columns
    }
}

/// Which values there are; `None` if there are all.
pub(crate) fn nulls(is_valid: impl Iterator<Item = bool>) -> Option<NullBuffer> {
    Some(NullBuffer::from_iter(is_valid)).filter(|nulls| nulls.null_count() > 0)
}

/// The fields of an entry of a map of texts.
pub(crate) fn entry_fields() -> Fields {
    let fields = [("key", false), ("value", false)];
    fields.map(|(name, is_null)| Field::new(name, DataType::Utf8, is_null)).to_vec().into()
}

/// The type of a map of texts.
pub(crate) fn map_type() -> DataType {
    let entry = Field::new("entries", DataType::Struct(entry_fields()), false);
    DataType::Map(Arc::new(entry), false)
}

fn label_maps(runs: &Runs<Rc<LabelFacts>>) -> ArrayRef {
    let total = runs.rows();
    if runs.iter().all(|(labels, _)| labels.others.is_empty()) {
        return new_null_array(&map_type(), total);
    }
    let (mut keys, mut values) = (StringBuilder::new(), StringBuilder::new());
    let mut offsets = vec![0_i32];
    let mut total = 0;
    let mut is_valid = Vec::new();
    for (labels, count) in runs.iter() {
        let others = &labels.others;
        if others.is_empty() {
            offsets.resize(offsets.len() + count, total);
        } else {
            for _ in 0..count {
                for (key, value) in others {
                    keys.append_value(key);
                    values.append_value(value);
                }
                // A batch has far fewer than 2^31 labels.
                total += others.len() as i32;
                offsets.push(total);
            }
        }
        is_valid.resize(is_valid.len() + count, !others.is_empty());
    }
    let columns: Vec<ArrayRef> = vec![Arc::new(keys.finish()), Arc::new(values.finish())];
    let entries = StructArray::new(entry_fields(), columns, None);
    let DataType::Map(field, _) = map_type() else { unreachable!("it is a map") };
    let offsets = OffsetBuffer::new(offsets.into());
    Arc::new(MapArray::new(field, offsets, entries, nulls(is_valid.into_iter()), false))
}
