//! The script of the stepped thread, and the fate of each of its events.

use std::{
    fs::File,
    io::Write as _,
    os::unix::fs::FileExt as _,
    panic::{AssertUnwindSafe, catch_unwind, panic_any},
    path::Path,
    thread,
    time::Duration,
};

use nettrace_event::{EventSchema, EventType, FieldSchema, FieldType};
use nettrace_reader::Label as Read;
use nettrace_writer::{
    Context, Emit, End, EnteredSpan, Keep, Label, LabelScope, Origin, Parent, Session, SpanEvents,
    ThreadRef, TraceEvent, enter_labels, sink::FileSink,
};

use crate::{
    files::{self, BEGUN, DONE, NOT_PERMITTED, RETURNED},
    ptrace,
    trace_support::{Hostile, schema},
};

const PROVIDER: &str = "Persistent";
const LONG: Duration = Duration::from_secs(3_600);
const VALUE: &[FieldSchema] = &[FieldSchema::new("value", FieldType::U64)];

static OUTER_SCHEMA: EventSchema = schema(PROVIDER, "Outer", 100, VALUE);
static OUTER: EventType = EventType::new(&OUTER_SCHEMA);

#[derive(TraceEvent)]
#[trace_event(provider = "Persistent", id = 1)]
struct Small {
    number: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Persistent", id = 2)]
struct Text<'a> {
    number: u64,
    text: &'a str,
}

/// Takes few instructions for its size.
#[derive(TraceEvent)]
#[trace_event(provider = "Persistent", id = 4)]
struct Bulk<'a> {
    number: u64,
    bytes: &'a [u8],
}

#[derive(TraceEvent)]
#[trace_event(provider = "Persistent", id = 3)]
struct Other {
    number: u64,
}

/// A step of a script. Each event has a number: how many come before it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// The parent steps the thread from here on.
    Watch,
    Small,
    /// Of another type, which nothing else has.
    Other,
    /// An event with a text of so many characters, of two bytes each.
    Text(usize),
    /// An event with so many bytes.
    Bulk(usize),
    /// An event whose encoding emits a second one, which is refused.
    Nested,
    /// An event whose encoding panics.
    Panic,
    /// An event with more bytes than any reader takes.
    TooLarge,
    /// [`Bulk`](Self::Bulk), but from some point on there is no room.
    Perhaps(usize),
    Stack,
    /// About another thread.
    About,
    /// Enters a scope of labels that say the value.
    Enter(i64),
    Leave,
    /// Begins a span: an event.
    Begin,
    /// Ends it: another.
    End,
    Flush,
}

/// Steps, and how often they come.
pub(crate) type Steps = &'static [(usize, &'static [Step])];

/// A script and its session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Script {
    pub(crate) chunk_size: usize,
    pub(crate) budget: usize,
    pub(crate) flush_interval: Duration,
    /// Whether it is a flight recorder, which keeps a mebibyte.
    pub(crate) keeps: bool,
    pub(crate) steps: Steps,
}

impl Script {
    fn steps(&self) -> impl Iterator<Item = Step> + use<> {
        self.steps.iter().flat_map(|(times, steps)| (0..*times).flat_map(|_| steps.iter().copied()))
    }

    pub(crate) fn expected(&self) -> Vec<Expected> {
        let (mut all, mut scopes, mut spans) = (Vec::new(), Vec::new(), Vec::new());
        let mut begun = 0;
        for step in self.steps() {
            let mut event = Expected { scope: scopes.last().copied(), ..Expected::default() };
            event.span = spans.last().copied();
            match step {
                Step::Watch | Step::Flush => continue,
                Step::Enter(value) => {
                    scopes.push(value);
                    continue;
                }
                Step::Leave => {
                    scopes.pop();
                    continue;
                }
                Step::Small => event.name = "Small",
                Step::Other => event.name = "Other",
                Step::Text(len) => (event.name, event.len) = ("Text", Some(len)),
                Step::Bulk(len) => (event.name, event.len) = ("Bulk", Some(len)),
                Step::Nested => {
                    event.name = "Outer";
                    all.push(event);
                    event = Expected { fate: Fate::Lost, ..event };
                }
                Step::Panic | Step::TooLarge => event.fate = Fate::Lost,
                Step::Perhaps(len) => {
                    (event.name, event.len, event.fate) = ("Bulk", Some(len), Fate::Either);
                }
                Step::Stack => (event.name, event.stack) = ("Small", true),
                Step::About => (event.name, event.about) = ("Small", true),
                Step::Begin => {
                    spans.push(begun);
                    (event.name, event.span) = ("Small", Some(begun));
                    begun += 1;
                }
                Step::End => {
                    event.name = "Small";
                    spans.pop();
                }
            }
            all.push(event);
        }
        all
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fate {
    #[default]
    Recorded,
    Lost,
    Either,
}

/// What is known of an event beforehand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Expected {
    pub(crate) fate: Fate,
    pub(crate) name: &'static str,
    pub(crate) len: Option<usize>,
    pub(crate) scope: Option<i64>,
    /// The number of its span.
    pub(crate) span: Option<usize>,
    pub(crate) stack: bool,
    pub(crate) about: bool,
}

impl Expected {
    pub(crate) fn payload(&self, number: u64) -> Vec<u8> {
        let mut payload = number.to_le_bytes().to_vec();
        if let Some(len) = self.len {
            payload.extend((len as u16).to_le_bytes());
            let wide = self.name == "Text";
            let units = text(number, len).into_bytes().into_iter();
            payload.extend(units.flat_map(|unit| [Some(unit), wide.then_some(0)]).flatten());
        }
        payload
    }

    /// Its labels, if they are not those of a span.
    pub(crate) fn labels(&self) -> Vec<Read> {
        let Some(value) = self.scope else { return Vec::new() };
        vec![
            Read::SpanId(value as u64 + 1),
            Read::Str("text".into(), scope_text(value)),
            Read::Int("value".into(), value),
        ]
    }

    pub(crate) fn stack(&self, number: u64) -> Vec<u64> {
        if self.stack { stack(number).to_vec() } else { Vec::new() }
    }
}

pub(crate) const ABOUT: &str = "the other";

fn stack(number: u64) -> [u64; 3] {
    [number + 1, 0x7fff_ffff_ffff, 4096]
}

fn scope_text(value: i64) -> String {
    format!("the text of {value}")
}

fn text(number: u64, len: usize) -> String {
    (0..len).map(|at| char::from(b'a' + ((number as usize + at) % LETTERS) as u8)).collect()
}

const LETTERS: usize = 26;

struct Worked<'a, 'b>(&'b Actor<'a>);

impl SpanEvents for Worked<'_, '_> {
    fn stop(&mut self, _: &End) {
        self.0.emit(|number| Small { number }.emit());
    }
}

/// The stepped thread.
struct Actor<'a> {
    events: &'a File,
    next: std::cell::Cell<u64>,
}

impl Actor<'_> {
    fn emit(&self, emit: impl FnOnce(u64)) {
        let number = self.next.replace(self.next.get() + 1);
        self.note(number, BEGUN);
        emit(number);
        self.note(number, RETURNED);
    }

    fn note(&self, number: u64, state: u8) {
        assert_eq!(self.events.write_at(&[state], files::EVENTS + number).unwrap(), 1);
    }
}

/// Runs a script in this process, whose parent watches it. Does not return.
pub(crate) fn run(script: &Script, folder: &Path) -> ! {
    std::panic::set_hook(Box::new(|info| {
        if !info.payload().is::<Wanted>() {
            let _ = writeln!(std::io::stderr(), "{info}");
        }
    }));
    let events = File::options().write(true).open(folder.join(files::PROGRESS)).unwrap();
    events.write_at(&ptrace::thread_id().to_le_bytes(), files::THREAD).unwrap();
    let builder = match script.keeps {
        true => Session::builder().flight_recorder(Keep::last(LONG).within(1 << 20)),
        false => Session::builder().sink(FileSink::new(folder.join(files::TRACE))),
    };
    let session = builder
        .provider(PROVIDER)
        .persistent(folder.join(files::RECORDER))
        .chunk_size(script.chunk_size)
        .budget(script.budget)
        .prefault(0)
        .flush_interval(script.flush_interval)
        .start()
        .unwrap();
    let other = thread::Builder::new().name(ABOUT.into()).spawn(ThreadRef::current);
    let other = other.unwrap().join().unwrap();
    let long = vec![1; 70_000];
    // Made before the thread is watched.
    let texts = text(0, 10_000);
    let steps: Vec<Step> = script.steps().collect();
    let mut scopes: Vec<LabelScope> = Vec::new();
    let spans_file = File::options().write(true).open(folder.join(files::SPANS)).unwrap();
    let actor = Actor { events: &events, next: 0.into() };
    let mut spans = Vec::new();
    let mut begun = 0;
    for step in steps {
        match step {
            Step::Watch => {
                if !ptrace::stop_for_parent().unwrap() {
                    events.write_at(&[NOT_PERMITTED], files::PHASE).unwrap();
                    loop {
                        thread::park();
                    }
                }
            }
            Step::Small => actor.emit(|number| Small { number }.emit()),
            Step::Other => actor.emit(|number| Other { number }.emit()),
            Step::Text(len) => {
                let text = &texts[actor.next.get() as usize % LETTERS..][..len];
                actor.emit(|number| Text { number, text }.emit());
            }
            Step::Bulk(len) | Step::Perhaps(len) => {
                let bytes = &texts.as_bytes()[actor.next.get() as usize % LETTERS..][..len];
                actor.emit(|number| Bulk { number, bytes }.emit());
            }
            Step::Nested => actor.emit(|number| {
                let bytes = || {
                    actor.emit(|number| Small { number }.emit());
                    number.to_le_bytes().to_vec()
                };
                Hostile { ty: &OUTER, bytes: &bytes }.emit();
            }),
            Step::Panic => actor.emit(|_| {
                let event = Hostile { ty: &OUTER, bytes: &|| panic_any(Wanted) };
                catch_unwind(AssertUnwindSafe(|| event.emit())).unwrap_err();
            }),
            Step::TooLarge => actor.emit(|number| Bulk { number, bytes: &long }.emit()),
            Step::Stack => actor.emit(|number| {
                Small { number }.emit_with(&Origin::new().stack(&stack(number)));
            }),
            Step::About => actor.emit(|number| {
                Small { number }.emit_with(&Origin::new().thread(&other));
            }),
            Step::Enter(value) => {
                let text = scope_text(value);
                let labels = [
                    Label::SpanId(value as u64 + 1),
                    Label::Str("text", &text),
                    Label::Int("value", value),
                ];
                scopes.push(enter_labels(&labels).unwrap());
            }
            Step::Leave => drop(scopes.pop()),
            Step::Begin => {
                let span =
                    EnteredSpan::begin_sampled(Worked(&actor), Parent::Current, None, |_| {
                        actor.emit(|number| Small { number }.emit());
                    });
                let context = Context::current();
                let mut ids = context.trace_id().unwrap().to_bytes().to_vec();
                ids.extend(context.span_id().unwrap().to_u64().to_le_bytes());
                spans_file.write_at(&ids, begun * files::SPAN).unwrap();
                begun += 1;
                spans.push(span);
            }
            Step::End => drop(spans.pop()),
            Step::Flush => session.flush().unwrap(),
        }
    }
    events.write_at(&[DONE], files::PHASE).unwrap();
    loop {
        thread::park();
    }
}

/// What an encoding panics with.
struct Wanted;
