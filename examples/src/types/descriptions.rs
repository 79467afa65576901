//! Statements of an event type about itself, and companions of an event: labels, a stack, a thread.

use nettrace_writer::{Emit, Label, Origin, ThreadRef, TraceEvent, enter_labels};
use serde_json::{Map, json};

use super::{MIXED, Sample, members};

const GUID: [u8; 16] = [
    0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
];
const GUID_TEXT: &str = "01234567-89ab-cdef-0123-456789abcdef";

/// An event type with every attribute.
#[derive(TraceEvent)]
#[trace_event(provider = "Example-AllTypes-Described", name = "Described", id = 7, version = 3)]
#[trace_event(provider_guid = "01234567-89ab-cdef-0123-456789abcdef")]
#[trace_event(level = Warning, keywords = 0x8000_0000_0001, opcode = 42)]
#[trace_event(message = "{Größe} took {micros} µs")]
#[trace_event(key_values = [("team", "checkout"), ("språk", "svenska")])]
struct Described<'a> {
    #[trace_event(rename = "Größe")]
    size: &'a str,
    micros: u64,
    #[trace_event(skip)]
    _secret: u8,
}

/// Each variant is an event of its own.
#[derive(TraceEvent)]
#[trace_event(provider = "Example-AllTypes-Described", level = Verbose)]
enum Request<'a> {
    /// A name that ends in `Start` has the opcode Start.
    Start {
        url: &'a str,
    },
    #[trace_event(name = "Unusual", level = Error, description = "never seen")]
    Refused(u16, &'a str),
    Idle,
}

/// Carries labels.
#[derive(TraceEvent)]
#[trace_event(provider = "Example-AllTypes-Described")]
struct Labels {
    number: u8,
}

/// Has a stack.
#[derive(TraceEvent)]
#[trace_event(provider = "Example-AllTypes-Described")]
struct Stack {
    number: u8,
}

/// An event about another thread.
#[derive(TraceEvent)]
#[trace_event(provider = "Example-AllTypes-Described", name = "Related")]
struct Related;

/// The addresses of the event with a stack, innermost first.
pub const ADDRESSES: [u64; 3] = [0x1000, 0x7fff_0000_1234, 0x40];

/// Emits an event about `thread`, which is another thread.
pub(super) fn emit_related(thread: &ThreadRef) {
    Related.emit_with(&Origin::new().thread(thread));
}

pub(super) fn samples() -> Vec<Sample> {
    vec![
        described(),
        sample("Request/Start", || Request::Start { url: MIXED }.emit(), json!({ "url": MIXED }))
            .with(json!({ "opcode": 1, "level": 5 })),
        sample("Unusual", || Request::Refused(404, "no").emit(), json!({ "0": 404, "1": "no" }))
            .with(json!({ "level": 2 })),
        sample("RequestIdle", || Request::Idle.emit(), json!({})).with(json!({ "level": 5 })),
        labels(),
        inner_labels(),
        overriding_labels(),
        sample("Stack", emit_stack, json!({ "number": 1 })),
    ]
}

fn described() -> Sample {
    let emit = || Described { size: MIXED, micros: 12, _secret: 0 }.emit();
    let fields = json!({ "Größe": MIXED, "micros": 12 });
    sample("Described", emit, fields).with(json!({
        "provider": "Example-AllTypes-Described",
        "id": 7,
        "version": 3,
        "level": 3,
        "keywords": 0x8000_0000_0001_u64,
        "opcode": 42,
        "name": "Described/42",
    }))
}

/// All labels that describe a request.
const SIX: [Label<'static>; 6] = [
    Label::ActivityId(GUID),
    Label::RelatedActivityId([0x11; 16]),
    Label::TraceId([0x22; 16]),
    Label::SpanId(0x0123_4567_89ab_cdef),
    Label::Str("ключ", MIXED),
    Label::Int("n", i64::MIN),
];

fn labels() -> Sample {
    let emit = || {
        let _scope = enter_labels(&SIX).expect("there is room");
        Labels { number: 1 }.emit();
    };
    sample("Labels", emit, json!({ "number": 1 })).with(json!({
        "activity": GUID_TEXT,
        "related": "11111111-1111-1111-1111-111111111111",
        "labels": [
            ["ActivityId", GUID_TEXT],
            ["RelatedActivityId", "11111111-1111-1111-1111-111111111111"],
            ["TraceId", "22222222-2222-2222-2222-222222222222"],
            ["SpanId", 0x0123_4567_89ab_cdef_u64],
            ["ключ", MIXED],
            ["n", i64::MIN],
        ],
    }))
}

/// A scope within a scope. Of labels with the same key only the inner one counts.
fn inner_labels() -> Sample {
    let emit = || {
        let _outer = enter_labels(&[Label::Str("k", "outer"), Label::Int("m", 1)]);
        let _inner = enter_labels(&[Label::Str("k", "inner")]);
        Labels { number: 2 }.emit();
    };
    sample("Labels", emit, json!({ "number": 2 }))
        .with(json!({ "labels": [["m", 1], ["k", "inner"]] }))
}

/// The four kinds of labels that replace what the event's type states. Older readers ignore them.
fn overriding_labels() -> Sample {
    let emit = || {
        let overrides =
            [Label::OpCode(9), Label::Keywords(0x30), Label::Level(2), Label::Version(4)];
        let _scope = enter_labels(&overrides).expect("there is room");
        Labels { number: 3 }.emit();
    };
    let sample = sample("Labels", emit, json!({ "number": 3 })).with(json!({
        "name": "Labels/Send",
        "opcode": 9,
        "keywords": 0x30,
        "level": 2,
        "version": 4,
        "labels": [["OpCode", 9], ["Keywords", 0x30], ["Level", 2], ["Version", 4]],
    }));
    Sample { newest_only: true, ..sample }
}

fn emit_stack() {
    Stack { number: 1 }.emit_with(&Origin::new().stack(&ADDRESSES));
}

fn sample(name: &'static str, emit: fn(), fields: serde_json::Value) -> Sample {
    let reference = fields.clone();
    Sample { name, newest_only: false, emit, fields, reference, more: Map::new() }
}

impl Sample {
    fn with(mut self, more: serde_json::Value) -> Self {
        self.more.extend(members(more));
        self
    }
}
