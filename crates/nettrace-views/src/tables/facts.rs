//! Facts that many events share: their type, their thread, their labels.

use std::{borrow::Cow, rc::Rc};

use foldhash::HashMap;
use nettrace_reader::{Event, Label, LastLabels, Thread};

use crate::{
    model::{EndFields, Guid, Ids, Key, Plain, Processes, Purpose, Role, label_name},
    tables::{BATCH_BYTES, size_of},
    text::EventType,
};

/// How many threads are remembered.
const THREADS: usize = size_of(4096, 3);

/// How many lists of labels are remembered: a power of two.
const LISTS: usize = size_of(1024, 2);

/// The size of a list of labels that is not remembered, in bytes.
const LARGE: usize = size_of(1024, 160);

/// An event type, as columns show it.
#[derive(Debug)]
pub(crate) struct TypeFacts {
    pub(crate) provider: String,
    pub(crate) name: String,
    pub(crate) span: String,
    pub(crate) id: u32,
    pub(crate) version: u8,
    pub(crate) level: u8,
    pub(crate) opcode: u8,
    pub(crate) keywords: u64,
    pub(crate) role: Role,
    /// The fields of an end of a span that tables show.
    pub(crate) end: EndFields,
    /// The names and the Rust types of its fields.
    pub(crate) fields: EventType,
    /// The field whose values tell spans of its name apart.
    pub(crate) dimension: Option<usize>,
    /// The number of its table. `None` if there are too many.
    pub(crate) table: Option<usize>,
}

impl TypeFacts {
    /// How many bytes its names take in a row.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        self.provider.len() + self.name.len().max(self.span.len())
    }
}

/// A thread, as columns show it.
#[derive(Debug, Default)]
pub(crate) struct ThreadFacts {
    thread: Thread,
    pub(crate) process: Option<u64>,
    /// The service or program that the process is of.
    pub(crate) service: Option<String>,
    size: usize,
}

impl ThreadFacts {
    pub(crate) fn id(&self) -> Option<u64> {
        self.thread.os_thread_id
    }

    /// About how many bytes its texts take.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.thread.name.as_deref()
    }
}

/// The threads that recorded events lately.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    by_index: HashMap<u64, Rc<ThreadFacts>>,
    last: Rc<ThreadFacts>,
    process: Option<u64>,
    processes: Processes,
    /// The bytes of texts of those that are remembered.
    bytes: usize,
}

impl Threads {
    /// `process` is that of threads that state none.
    pub(crate) fn new(process: Option<u64>, processes: Processes) -> Self {
        let service = processes.name(process).map(str::to_owned);
        let last = Rc::new(ThreadFacts { process, service, ..ThreadFacts::default() });
        Self { process, processes, last, ..Self::default() }
    }

    #[inline]
    pub(crate) fn of(&mut self, event: &Event<'_>) -> Rc<ThreadFacts> {
        let thread = event.thread();
        if self.last.thread != *thread {
            self.last = self.find(thread);
        }
        Rc::clone(&self.last)
    }

    fn find(&mut self, thread: &Thread) -> Rc<ThreadFacts> {
        match self.by_index.get(&thread.index) {
            Some(known) if known.thread == *thread => return Rc::clone(known),
            _ if self.by_index.len() >= THREADS || self.bytes > BATCH_BYTES => {
                self.by_index.clear();
                self.bytes = 0;
            }
            _ => {}
        }
        let process = thread.process_id.or(self.process);
        let texts = thread.key_values.iter().flat_map(|(key, value)| [key, value]);
        let service = self.processes.name(process).map(str::to_owned);
        let size = texts.chain(&thread.name).chain(&service).map(String::len).sum();
        self.bytes += size;
        let facts = Rc::new(ThreadFacts { thread: thread.clone(), process, service, size });
        self.by_index.insert(thread.index, Rc::clone(&facts));
        facts
    }
}

/// The labels of an event, as columns show them.
#[derive(Debug, Default)]
pub(crate) struct LabelFacts {
    /// The labels as the trace has them.
    key: Box<[u8]>,
    pub(crate) ids: Ids,
    /// About how many bytes the texts take.
    pub(crate) size: usize,
    /// The other labels.
    pub(crate) others: Vec<(String, String)>,
}

/// The labels of the last events, which the next ones often have, too.
#[derive(Debug)]
pub(crate) struct Labels {
    none: Rc<LabelFacts>,
    /// Those of the last event that had some.
    last: LastLabels,
    last_facts: Rc<LabelFacts>,
    /// By the ends of their numbers in rows.
    recent: Vec<Rc<LabelFacts>>,
}

impl Default for Labels {
    fn default() -> Self {
        let none = Rc::<LabelFacts>::default();
        Self {
            last: LastLabels::default(),
            last_facts: Rc::clone(&none),
            recent: vec![Rc::clone(&none); LISTS],
            none,
        }
    }
}

impl Labels {
    #[inline]
    pub(crate) fn of(&mut self, event: &Event<'_>) -> Rc<LabelFacts> {
        let header = event.header;
        if header.label_list == 0
            && header.activity_id == [0; 16]
            && header.related_activity_id == [0; 16]
        {
            return Rc::clone(&self.none);
        }
        if event.labels_into(&mut self.last) {
            self.last_facts = self.find(event);
        }
        Rc::clone(&self.last_facts)
    }

    fn find(&mut self, event: &Event<'_>) -> Rc<LabelFacts> {
        let header = event.header;
        // Versions 4 and 5 have the two ids, later ones the list.
        let ids = [header.activity_id, header.related_activity_id];
        let key = if header.label_list == 0 { ids.as_flattened() } else { self.last.encoded() };
        let [first, second, ..] = header.activity_id;
        let number = header.label_list as usize ^ usize::from(first) ^ usize::from(second) << 4;
        let recent = &mut self.recent[number % LISTS];
        // A number can stand for other labels later.
        if *recent.key != *key {
            let facts = Rc::new(LabelFacts::of(self.last.labels(), key));
            if facts.size > LARGE {
                return facts;
            }
            *recent = facts;
        }
        Rc::clone(recent)
    }
}

impl LabelFacts {
    fn of(labels: &[Label], key: &[u8]) -> Self {
        let mut facts = Self { key: key.into(), ids: Ids::of(labels), ..Self::default() };
        for label in labels {
            if Purpose::of(label) != Purpose::Detail {
                continue;
            }
            let value = match Plain::of_label(label) {
                Plain::Text(text) => text.to_owned(),
                Plain::Signed(number) => number.to_string(),
                _ => continue,
            };
            facts.others.push((label_name(label).to_owned(), value));
        }
        let texts = facts.others.iter();
        facts.size = texts.map(|(key, value)| 64 + 2 * (key.len() + value.len())).sum();
        facts
    }

    pub(crate) fn trace(&self) -> Option<Cow<'_, str>> {
        self.ids.trace.map(|id| id.to_string().into())
    }

    pub(crate) fn span(&self) -> Option<Cow<'_, str>> {
        self.ids.span.map(text_of)
    }

    pub(crate) fn related(&self) -> Option<Cow<'_, str>> {
        self.ids.related.map(text_of)
    }
}

fn text_of(key: Key) -> Cow<'static, str> {
    match key {
        Key::Span(_, id) => id.to_string().into(),
        Key::Activity(id) => Guid(&id.to_bytes_le()).to_string().into(),
    }
}
