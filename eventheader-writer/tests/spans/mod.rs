//! Spans as tracepoints: `tracepoint_decode` finds the opcodes, and the ids of each span and of its
//! parent.

use std::process;

use eventheader_writer::{Context, TraceEvent};
use nettrace_event::trace_context::{ActivityId, SpanId};
use serde_json::{Value, json};

use super::decoder::{Decoded, decode};

#[derive(TraceEvent)]
#[trace_event(provider = "Spans", name = "query")]
enum Query {
    #[trace_event(opcode = Start)]
    Start { rows: u32 },
    #[trace_event(opcode = Stop)]
    Stop { found: u32 },
}

/// An event within a span.
#[derive(TraceEvent)]
#[trace_event(provider = "Spans")]
struct Note {
    number: u32,
}

/// Emits an event in a span, and decodes it.
fn emitted<T: TraceEvent>(event: &T, (span, parent): (u64, Option<u64>)) -> Decoded {
    let activity = |span| {
        let span = SpanId::from_u64(span).expect("not zero");
        ActivityId::from_span_id(span, process::id()).to_bytes()
    };
    let (own, related) = (activity(span), parent.map(activity));
    let context = Context::new().activity(&own);
    let context = related.as_ref().map_or(context, |related| context.related(related));
    decode("Spans_L4K0", &crate::delivered(event, &context))
}

/// The spans that the ids of an event stand for.
fn spans(event: &Decoded) -> [Option<u64>; 2] {
    [event.activity, event.related]
        .map(|id| Some(ActivityId::from_bytes(id?).span_id().expect("a span's").to_u64()))
}

#[test]
fn spans_keep_their_ids_and_their_parents() {
    // Ids with zeros in all places where a path could end.
    let (root, child) = ((0x00F0_67AA_0BA9_02B7, None), (1, Some(0x00F0_67AA_0BA9_02B7)));
    for span in [root, child, (u64::MAX, Some(1)), (1 << 63, Some(1 << 32))] {
        let start = emitted(&Query::Start { rows: 5 }, span);
        let note = emitted(&Note { number: 6 }, span);
        let stop = emitted(&Query::Stop { found: 7 }, span);
        for event in [&start, &note, &stop] {
            assert_eq!(spans(event), [Some(span.0), span.1], "{event:?}");
        }
        let names = [&start, &note, &stop].map(|it| (it.name.as_str(), it.opcode));
        assert_eq!(names, [("queryStart", 1), ("Note", 0), ("queryStop", 2)]);
        let fields = [start, note, stop].map(|it| Value::from(it.fields));
        assert_eq!(fields, [json!({"rows": 5}), json!({"number": 6}), json!({"found": 7})]);
    }
}
