//! The table of all events, and the columns that the tables of event types share with it.

use std::{collections::HashMap, rc::Rc, sync::Arc};

use arrow_array::{
    ArrayRef, DictionaryArray, Int32Array, Int64Array, MapArray, StringArray, StructArray,
    TimestampNanosecondArray, UInt8Array, UInt32Array, UInt64Array, builder::StringBuilder,
    new_null_array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};

use crate::{
    column::timestamp,
    facts::{Id, LabelFacts, Runs, ThreadFacts},
    hash::Fast,
    types::{BATCH, BATCH_BYTES, TypeFacts},
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
    threads: Runs<ThreadFacts>,
}

pub(crate) fn dictionary() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

impl Common {
    pub(crate) const NAMES: [&'static str; 4] = ["event", "time", "process", "thread"];

    pub(crate) fn fields() -> Vec<FieldRef> {
        let types = [
            (DataType::Int64, false),
            (timestamp(), false),
            (DataType::UInt64, true),
            (DataType::UInt64, true),
        ];
        let named = Self::NAMES.into_iter().zip(types);
        named.map(|(name, (ty, is_null))| Arc::new(Field::new(name, ty, is_null))).collect()
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

    /// Takes the columns. The threads stay.
    fn take(&mut self) -> Vec<ArrayRef> {
        let times = TimestampNanosecondArray::from(std::mem::take(&mut self.times));
        vec![
            Arc::new(Int64Array::from(std::mem::take(&mut self.events))),
            Arc::new(times.with_timezone("UTC")),
            numbers(&self.threads, |thread| thread.process),
            numbers(&self.threads, ThreadFacts::id),
        ]
    }

    /// Takes the columns.
    pub(crate) fn finish(&mut self) -> Vec<ArrayRef> {
        let columns = self.take();
        self.threads.clear();
        columns
    }
}

/// The rows of the table of all events that wait to be written.
#[derive(Debug, Default)]
pub(crate) struct Events {
    common: Common,
    labels: Runs<LabelFacts>,
    /// Without those that only say the parent of their span.
    related: Runs<LabelFacts>,
    types: Runs<TypeFacts>,
    ids: Vec<u32>,
    versions: Vec<u8>,
    levels: Vec<u8>,
    opcodes: Vec<u8>,
    keywords: Vec<u64>,
    processors: Vec<u32>,
    stacks: Vec<i64>,
    sizes: Vec<u32>,
    /// The bytes of labels and names of threads.
    waiting: usize,
    nothing: Rc<LabelFacts>,
}

impl Events {
    pub(crate) fn schema() -> SchemaRef {
        let mut fields = Common::fields();
        for (name, ty, is_null) in [
            ("thread_name", dictionary(), true),
            ("provider", dictionary(), false),
            ("name", dictionary(), false),
            ("id", DataType::UInt32, false),
            ("version", DataType::UInt8, false),
            ("level", DataType::UInt8, false),
            ("opcode", DataType::UInt8, false),
            ("keywords", DataType::UInt64, false),
            ("cpu", DataType::UInt32, true),
            ("trace_id", dictionary(), true),
            ("span_id", dictionary(), true),
            ("related_id", dictionary(), true),
            ("stack_id", DataType::Int64, true),
            ("payload_bytes", DataType::UInt32, false),
            ("labels", label_type(), true),
        ] {
            fields.push(Arc::new(Field::new(name, ty, is_null)));
        }
        Arc::new(Schema::new(fields))
    }

    #[inline]
    pub(crate) fn push(&mut self, row: &Row) {
        self.common.push(row);
        let (ty, labels) = (&row.ty, &row.labels);
        self.types.push(ty);
        self.labels.push(labels);
        self.related.push(if row.has_parent { &self.nothing } else { labels });
        self.ids.push(ty.id);
        self.versions.push(labels.version.unwrap_or(ty.version));
        self.levels.push(labels.level.unwrap_or(ty.level));
        self.opcodes.push(row.opcode);
        self.keywords.push(labels.keywords.unwrap_or(ty.keywords));
        self.processors.push(row.processor);
        self.stacks.push(row.stack.unwrap_or(i64::MIN));
        self.sizes.push(row.payload_bytes);
        self.waiting += labels.size + row.thread.size();
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
        use std::mem::take;
        self.waiting = 0;
        let mut columns = self.common.take();
        let (common, types) = (&self.common, &self.types);
        let (processors, stacks) = (take(&mut self.processors), take(&mut self.stacks));
        let has_processor = nulls(processors.iter().map(|number| *number != u32::MAX));
        let has_stack = nulls(stacks.iter().map(|id| *id != i64::MIN));
        let others: [ArrayRef; 15] = [
            texts(&common.threads, ThreadFacts::name),
            texts(types, |ty| Some(&ty.provider)),
            texts(types, |ty| Some(&ty.name)),
            Arc::new(UInt32Array::from(take(&mut self.ids))),
            Arc::new(UInt8Array::from(take(&mut self.versions))),
            Arc::new(UInt8Array::from(take(&mut self.levels))),
            Arc::new(UInt8Array::from(take(&mut self.opcodes))),
            Arc::new(UInt64Array::from(take(&mut self.keywords))),
            Arc::new(UInt32Array::new(processors.into(), has_processor)),
            texts(&self.labels, |labels| labels.trace.as_ref().map(Id::text)),
            texts(&self.labels, |labels| labels.span.as_ref().map(Id::text)),
            texts(&self.related, |labels| labels.related.as_ref().map(Id::text)),
            Arc::new(Int64Array::new(stacks.into(), has_stack)),
            Arc::new(UInt32Array::from(take(&mut self.sizes))),
            label_maps(&self.labels),
        ];
        columns.extend(others);
        self.common.threads.clear();
        self.labels.clear();
        self.related.clear();
        self.types.clear();
        columns
    }
}

/// Which values there are; `None` if there are all.
pub(crate) fn nulls(is_valid: impl Iterator<Item = bool>) -> Option<NullBuffer> {
    Some(NullBuffer::from_iter(is_valid)).filter(|nulls| nulls.null_count() > 0)
}

fn numbers<T>(runs: &Runs<T>, number: impl Fn(&T) -> Option<u64>) -> ArrayRef {
    let mut all = Vec::new();
    let mut has_nulls = false;
    for (value, count) in runs.iter() {
        let number = number(value);
        has_nulls |= number.is_none();
        all.resize(all.len() + count, number.unwrap_or(0));
    }
    let is_valid = || {
        let runs = runs.iter();
        nulls(runs.flat_map(|(value, count)| std::iter::repeat_n(number(value).is_some(), count)))
    };
    let nulls = if has_nulls { is_valid() } else { None };
    Arc::new(UInt64Array::new(ScalarBuffer::from(all), nulls))
}

/// Texts with a dictionary.
pub(crate) fn texts<T>(runs: &Runs<T>, text: impl Fn(&T) -> Option<&str>) -> ArrayRef {
    let mut known: HashMap<&str, i32, Fast> = HashMap::default();
    let mut values: Vec<&str> = Vec::new();
    let mut keys = Vec::new();
    let mut has_nulls = false;
    // Two values that take turns are frequent.
    let mut last: [Option<(*const T, i32)>; 2] = [None; 2];
    for (value, count) in runs.iter() {
        let place = Rc::as_ptr(value);
        let found = last.iter().flatten().find(|(known, _)| *known == place);
        let key = match found {
            Some((_, key)) => *key,
            None => match text(value) {
                None => -1,
                Some(text) => *known.entry(text).or_insert_with(|| {
                    values.push(text);
                    // A batch has far fewer than 2^31 rows.
                    (values.len() as i32) - 1
                }),
            },
        };
        if found.is_none() {
            last = [Some((place, key)), last[0]];
        }
        has_nulls |= key < 0;
        keys.resize(keys.len() + count, key);
    }
    dictionary_of(keys, has_nulls, &values)
}

/// Key -1 is null.
fn dictionary_of(mut keys: Vec<i32>, has_nulls: bool, values: &[&str]) -> ArrayRef {
    let mut nulls = None;
    if has_nulls {
        nulls = Some(NullBuffer::from_iter(keys.iter().map(|key| *key >= 0)));
        keys.iter_mut().for_each(|key| *key = (*key).max(0));
    }
    let keys = Int32Array::new(keys.into(), nulls);
    // Null is key 0, too, which must be in the dictionary.
    let values = if values.is_empty() { &[""] } else { values };
    Arc::new(DictionaryArray::new(keys, Arc::new(StringArray::from_iter_values(values))))
}

fn entry_fields() -> Fields {
    let fields = [("key", false), ("value", false)];
    fields.map(|(name, is_null)| Field::new(name, DataType::Utf8, is_null)).to_vec().into()
}

fn label_type() -> DataType {
    let entry = Field::new("entries", DataType::Struct(entry_fields()), false);
    DataType::Map(Arc::new(entry), false)
}

fn label_maps(runs: &Runs<LabelFacts>) -> ArrayRef {
    let total = runs.iter().map(|(_, count)| count).sum();
    if runs.iter().all(|(labels, _)| labels.others.is_empty()) {
        return new_null_array(&label_type(), total);
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
    let DataType::Map(field, _) = label_type() else { unreachable!("it is a map") };
    let offsets = OffsetBuffer::new(offsets.into());
    Arc::new(MapArray::new(field, offsets, entries, nulls(is_valid.into_iter()), false))
}
