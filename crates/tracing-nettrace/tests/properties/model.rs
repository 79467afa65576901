//! The reference: a subscriber as simple as can be, which notes what happens on each thread.
//!
//! Where `tracing` leaves something open, it does what the registry of `tracing-subscriber` does:
//! - A span goes on as long as it has handles, is entered somewhere, or has a child that goes on.
//!   For our subscriber, a child makes no difference.
//! - A span that is entered once more inside itself does not become the current one again.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Mutex, MutexGuard},
    thread,
};

use tracing::{
    Event, Id, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Record},
};
use tracing_core::span::Current;

/// The values of an event or a span, as text with the type before it.
pub(crate) type Values = BTreeMap<String, String>;

/// Something that has happened. Spans are known by their field `number`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    Start {
        span: u64,
        parent: Option<u64>,
        name: &'static str,
        values: Values,
    },
    Event {
        span: Option<u64>,
        values: Values,
    },
    /// The values are those that were recorded after the start, as they were at last.
    Stop {
        span: u64,
        recorded: Values,
    },
}

/// What has happened on each thread, by its name.
pub(crate) type Notes = BTreeMap<String, Vec<Note>>;

/// Until when a span goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Until {
    /// Until the last handle is gone, and the last child has ended.
    #[default]
    LastChild,
    /// Until the last handle is gone.
    LastHandle,
}

#[derive(Debug, Default)]
pub(crate) struct Model(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    until: Until,
    next: u64,
    spans: HashMap<u64, Span>,
    /// The spans that each thread has entered, and whether each was entered already.
    entered: HashMap<String, Vec<(u64, bool)>>,
    notes: Notes,
    /// Pairs of the numbers of spans: what follows from what.
    follows: Vec<(u64, u64)>,
}

#[derive(Debug)]
struct Span {
    number: u64,
    parent: Option<u64>,
    references: u64,
    recorded: Values,
    metadata: &'static Metadata<'static>,
}

impl Model {
    pub(crate) fn new(until: Until) -> Self {
        Self(Mutex::new(State { until, ..State::default() }))
    }

    pub(crate) fn notes(&self) -> Notes {
        self.state().notes.clone()
    }

    pub(crate) fn follows(&self) -> Vec<(u64, u64)> {
        self.state().follows.clone()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state().spans.is_empty()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

impl State {
    fn note(&mut self, note: Note) {
        self.notes.entry(thread_name()).or_default().push(note);
    }

    fn current(&self) -> Option<u64> {
        let entered = self.entered.get(&thread_name())?;
        entered.iter().rev().find(|(_, is_again)| !is_again).map(|(id, _)| *id)
    }

    fn parent(&self, parent: Option<&Id>, is_contextual: bool) -> Option<u64> {
        if is_contextual { self.current() } else { parent.map(Id::into_u64) }
    }

    fn span(&mut self, id: u64) -> &mut Span {
        self.spans.get_mut(&id).expect("a span that goes on")
    }

    fn number(&mut self, id: Option<u64>) -> Option<u64> {
        id.map(|id| self.span(id).number)
    }

    fn close(&mut self, id: u64) -> bool {
        let span = self.span(id);
        span.references -= 1;
        if span.references > 0 {
            return false;
        }
        let span = self.spans.remove(&id).unwrap();
        self.note(Note::Stop { span: span.number, recorded: span.recorded });
        if let (Some(parent), Until::LastChild) = (span.parent, self.until) {
            self.close(parent);
        }
        true
    }
}

impl Subscriber for Model {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut state = self.state();
        state.next += 1;
        let id = state.next;
        let parent = state.parent(span.parent(), span.is_contextual());
        if let (Some(parent), Until::LastChild) = (parent, state.until) {
            state.span(parent).references += 1;
        }
        let values = values(|visitor| span.record(visitor));
        let number = number(&values);
        let metadata = span.metadata();
        let recorded = Values::new();
        state.spans.insert(id, Span { number, parent, references: 1, recorded, metadata });
        let parent = state.number(parent);
        state.note(Note::Start { span: number, parent, name: metadata.name(), values });
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, record: &Record<'_>) {
        let values = values(|visitor| record.record(visitor));
        self.state().span(span.into_u64()).recorded.extend(values);
    }

    fn record_follows_from(&self, span: &Id, follows: &Id) {
        let mut state = self.state();
        let pair = [span, follows].map(|id| state.span(id.into_u64()).number);
        state.follows.push((pair[0], pair[1]));
    }

    fn event(&self, event: &Event<'_>) {
        let mut state = self.state();
        let span = state.parent(event.parent(), event.is_contextual());
        let span = state.number(span);
        let values = values(|visitor| event.record(visitor));
        state.note(Note::Event { span, values });
    }

    fn enter(&self, span: &Id) {
        let (mut state, id) = (self.state(), span.into_u64());
        let entered = state.entered.entry(thread_name()).or_default();
        let is_again = entered.iter().any(|(entered, _)| *entered == id);
        entered.push((id, is_again));
        if !is_again {
            state.span(id).references += 1;
        }
    }

    fn exit(&self, span: &Id) {
        let (mut state, id) = (self.state(), span.into_u64());
        let entered = state.entered.get_mut(&thread_name()).expect("an entered span");
        let place = entered.iter().rposition(|(entered, _)| *entered == id).expect("entered");
        let (_, is_again) = entered.remove(place);
        if !is_again {
            state.close(id);
        }
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.state().span(id.into_u64()).references += 1;
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        self.state().close(id.into_u64())
    }

    fn current_span(&self) -> Current {
        let mut state = self.state();
        match state.current() {
            Some(id) => {
                let metadata = state.span(id).metadata;
                Current::new(Id::from_u64(id), metadata)
            }
            None => Current::none(),
        }
    }
}

/// The name of this thread.
pub(crate) fn thread_name() -> String {
    thread::current().name().expect("threads with names").to_owned()
}

/// The number among the values.
pub(crate) fn number(values: &Values) -> u64 {
    values["number"].strip_prefix("u64 ").expect("a number").parse().unwrap()
}

/// What a visitor is shown.
pub(crate) fn values(show: impl FnOnce(&mut dyn Visit)) -> Values {
    let mut all = All::default();
    show(&mut all);
    all.0
}

#[derive(Default)]
struct All(Values);

impl All {
    fn put(&mut self, field: &Field, text: String) {
        self.0.insert(field.name().to_owned(), text);
    }
}

impl Visit for All {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("text {value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, format!("text {value}"));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, format!("u64 {value}"));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, format!("i64 {value}"));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, format!("f64 {value}"));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, format!("bool {value}"));
    }
}
