//! The spans of a trace, as text.

#![allow(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod judged;

use std::{
    future::poll_fn,
    pin::pin,
    task::{Context, Poll, Waker},
};

use nettrace_reader::{Label, Reader, Value};
use nettrace_writer::{Emit, Session, TraceEvent, sink::MemorySink};
use parking_lot::Mutex;

/// An event, as text without times, and the ids that it carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) text: String,
    pub(crate) name: String,
    pub(crate) opcode: u8,
    pub(crate) level: u8,
    pub(crate) keywords: u64,
    pub(crate) span: Option<u64>,
    pub(crate) trace: Option<[u8; 16]>,
    pub(crate) activity: Option<[u8; 16]>,
    pub(crate) related: Option<[u8; 16]>,
    /// The value of the field `ret`, with its type.
    pub(crate) ret: Option<String>,
}

/// An event within spans.
#[derive(TraceEvent)]
#[trace_event(provider = "Calls")]
pub(crate) struct Inside {
    pub(crate) number: u32,
}

pub(crate) fn inside(number: u32) {
    Inside { number }.emit();
}

/// A session listens to what any thread does.
static ALONE: Mutex<()> = Mutex::new(());

/// Calls `f` while nobody listens.
pub(crate) fn unheard(f: impl FnOnce()) {
    let _alone = ALONE.lock();
    f();
}

/// The events of the provider `Calls` while `f` runs.
pub(crate) fn seen(f: impl FnOnce()) -> Vec<Seen> {
    let _alone = ALONE.lock();
    let sink = MemorySink::new();
    let session = Session::builder().sink(sink.clone()).provider("Calls").start().unwrap();
    f();
    let stats = session.finish().unwrap();
    assert_eq!(stats.attempted, stats.written);
    let bytes = sink.bytes();
    let mut reader = Reader::new(&bytes[..]).unwrap().sorted();
    let mut all = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        let ret = event.fields().map(Result::unwrap).find(|(name, _)| *name == "ret");
        let fields = event.fields().map(Result::unwrap);
        let fields = fields.filter(|(name, value)| match (*name, value) {
            ("duration" | "busy", Value::U64(_)) | ("started", Value::I64(_)) => false,
            ("duration" | "busy" | "started", _) => panic!("{name}: {value:?}"),
            _ => true,
        });
        let fields: Vec<_> =
            fields.map(|(name, value)| format!("{name}={}", text(&value))).collect();
        let name = event.metadata().name.clone();
        let mut seen = Seen {
            text: format!("{name}({})", fields.join(", ")),
            name,
            opcode: event.opcode(),
            level: event.level(),
            keywords: event.keywords(),
            span: None,
            trace: None,
            activity: None,
            related: None,
            ret: ret.map(|(_, value)| format!("{value:?}")),
        };
        for label in event.labels().iter() {
            match *label {
                Label::SpanId(id) => seen.span = Some(id),
                Label::TraceId(id) => seen.trace = Some(id),
                Label::ActivityId(id) => seen.activity = Some(id),
                Label::RelatedActivityId(id) => seen.related = Some(id),
                ref other => panic!("{other:?}"),
            }
        }
        all.push(seen);
    }
    all
}

/// The same as text.
pub(crate) fn texts(f: impl FnOnce()) -> Vec<String> {
    seen(f).into_iter().map(|event| event.text).collect()
}

fn text(value: &Value<'_>) -> String {
    match value {
        Value::Text(text) => text.clone().into_owned(),
        Value::Array(values) => {
            format!("[{}]", values.iter().map(text).collect::<Vec<_>>().join(" "))
        }
        Value::Object(fields) => {
            let fields: Vec<_> = fields.iter().map(|(_, value)| text(value)).collect();
            format!("{{{}}}", fields.join(" "))
        }
        Value::Bytes(bytes) => format!("{bytes:?}"),
        other => {
            let shown = format!("{other:?}");
            let (_, rest) = shown.split_once('(').expect("a variant with a value");
            rest.trim_end_matches(')').to_owned()
        }
    }
}

/// Is pending so many times.
pub(crate) async fn pending(mut times: u32) {
    poll_fn(|_| {
        if times == 0 {
            return Poll::Ready(());
        }
        times -= 1;
        Poll::Pending
    })
    .await;
}

/// Polls a future until it is ready.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
}

/// Polls a future so many times, and drops it.
pub(crate) fn poll_and_drop<F: Future>(future: F, times: u32) {
    let mut future = pin!(future);
    for _ in 0..times {
        let mut context = Context::from_waker(Waker::noop());
        assert!(future.as_mut().poll(&mut context).is_pending());
    }
}
