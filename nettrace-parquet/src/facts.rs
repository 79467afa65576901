//! What many events have in common: their thread, their labels.

use std::{collections::HashMap, rc::Rc};

use nettrace_context::ActivityId;
use nettrace_reader::{Event, Label, Thread};
use nettrace_views::__shared::{Ids, guid, hex};

/// How many threads are remembered.
const THREADS: usize = 4096;

/// Values in a row that are often the same: each with the number of its repetitions.
#[derive(Debug)]
pub(crate) struct Runs<T> {
    runs: Vec<(Rc<T>, usize)>,
}

impl<T> Default for Runs<T> {
    fn default() -> Self {
        Self { runs: Vec::new() }
    }
}

impl<T> Runs<T> {
    #[inline]
    pub(crate) fn push(&mut self, value: &Rc<T>) {
        match self.runs.last_mut() {
            Some((last, count)) if Rc::ptr_eq(last, value) => *count += 1,
            _ => self.runs.push((Rc::clone(value), 1)),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Rc<T>, usize)> {
        self.runs.iter().map(|(value, count)| (value, *count))
    }

    pub(crate) fn clear(&mut self) {
        self.runs.clear();
    }
}

/// A thread, as columns show it.
#[derive(Debug, Default)]
pub(crate) struct ThreadFacts {
    thread: Thread,
    pub(crate) process: Option<u64>,
}

impl ThreadFacts {
    pub(crate) fn id(&self) -> Option<u64> {
        self.thread.os_thread_id
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
}

impl Threads {
    /// `process` is that of threads that state none.
    pub(crate) fn new(process: Option<u64>) -> Self {
        let last = Rc::new(ThreadFacts { process, ..ThreadFacts::default() });
        Self { process, last, ..Self::default() }
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
            None if self.by_index.len() >= THREADS => self.by_index.clear(),
            _ => {}
        }
        let process = thread.process_id.or(self.process);
        let facts = Rc::new(ThreadFacts { thread: thread.clone(), process });
        self.by_index.insert(thread.index, Rc::clone(&facts));
        facts
    }
}

/// The labels of an event, as columns show them.
#[derive(Debug, Default)]
pub(crate) struct LabelFacts {
    labels: Vec<Label>,
    pub(crate) ids: Ids,
    pub(crate) trace: Option<String>,
    /// The span that the event belongs to: a span id, else an activity id.
    pub(crate) span: Option<String>,
    pub(crate) related: Option<String>,
    pub(crate) keywords: Option<u64>,
    pub(crate) level: Option<u8>,
    pub(crate) version: Option<u8>,
    /// The other labels.
    pub(crate) others: Vec<(String, String)>,
}

/// The labels of the last event, which the next one often has, too.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    none: Rc<LabelFacts>,
    last: Rc<LabelFacts>,
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
        let labels = event.labels();
        if self.last.labels != *labels {
            self.last = Rc::new(LabelFacts::of(labels.into_owned()));
        }
        Rc::clone(&self.last)
    }
}

impl LabelFacts {
    fn of(labels: Vec<Label>) -> Self {
        let mut facts = Self { ids: Ids::of(&labels), ..Self::default() };
        let mut activity = None;
        for label in &labels {
            match label {
                Label::TraceId(id) if *id != [0; 16] => facts.trace = Some(hex(id)),
                Label::SpanId(id) => facts.span = (*id != 0).then(|| format!("{id:016x}")),
                Label::ActivityId(id) => activity = activity_text(id),
                Label::RelatedActivityId(id) => facts.related = activity_text(id),
                Label::Keywords(keywords) => facts.keywords = Some(*keywords),
                Label::Level(level) => facts.level = Some(*level),
                Label::Version(version) => facts.version = Some(*version),
                Label::Text(key, value) => facts.others.push((key.clone(), value.clone())),
                Label::Number(key, value) => facts.others.push((key.clone(), value.to_string())),
                _ => {}
            }
        }
        facts.span = facts.span.or(activity);
        facts.labels = labels;
        facts
    }
}

/// The span id in an activity id, or the activity id itself.
fn activity_text(id: &[u8; 16]) -> Option<String> {
    let span = ActivityId::from_bytes_le(*id).span_id();
    let text = || span.map_or_else(|| guid(id), |span| span.to_string());
    (*id != [0; 16]).then(text)
}
