//! The start and the end of a span become one packet, wherever the two rows are.

use std::collections::HashMap;

use crate::heph_support::{field, payload, role, schema, spell};
use nettrace_event::{
    EventSchema, FieldRole, FieldSchema, FieldType as Type, PayloadEncoder, StrEncoding,
};
use nettrace_format::{
    Composer, Format, Stage as _, Transcoder,
    content::{Label, RowHeader, SystemTimeParts, TraceInfo},
    v6::{SequencePointFlags, label_list_row},
};
use nettrace_reader::heph::{Options, Reader, SpanPart, verify};
use proptest::{collection::vec, prelude::*};

const TEXT: Type = Type::Str(StrEncoding::Utf16);
const START: &[FieldSchema] = &[field("cart", Type::U32), field("who", TEXT)];
const STOP: &[FieldSchema] = &[field("duration", Type::DurationNanos), field("outcome", TEXT)];

const fn event(name: &'static str, opcode: u8, fields: &'static [FieldSchema]) -> EventSchema {
    EventSchema { opcode: Some(opcode), ..schema(name, fields) }
}

static TYPES: [EventSchema; 10] = [
    event("checkoutStart", 1, START),
    event("checkoutStop", 2, STOP),
    event("query/Start", 1, &[]),
    event("query/Stop", 2, &[]),
    schema("Note", &[]),
    EventSchema { key_values: &[("nettrace.span", "single")], ..schema("lookup", STOP) },
    event("Start", 1, &[role("what", TEXT, FieldRole::Description)]),
    event("Stop", 2, &[role("result", TEXT, FieldRole::Description)]),
    // As a conversion describes a duration.
    EventSchema {
        key_values: &[("nettrace.type.duration", "Duration")],
        ..event("copiedStop", 2, &[field("duration", Type::U64)])
    },
    // A duration of unknown unit.
    event("oddStop", 2, &[field("duration", Type::U64)]),
];
const CHECKOUT: [u32; 2] = [1, 2];
const QUERY: [u32; 2] = [3, 4];
const NOTE: u32 = 5;
const LOOKUP: u32 = 6;
const BARE: [u32; 2] = [7, 8];
const COPIED_STOP: u32 = 9;
const ODD_STOP: u32 = 10;

/// A tick is a nanosecond.
const fn info(sync_ticks: u64) -> TraceInfo<'static> {
    TraceInfo {
        sync_utc: SystemTimeParts::from_unix_millis(1_700_000_000_000),
        sync_ticks,
        ticks_per_second: 1_000_000_000,
        pointer_size: 8,
        key_values: &[],
    }
}
const EPOCH: i64 = 1_700_000_000_000_000_000;

/// A trace that is written row by row.
struct Trace {
    stage: Transcoder,
    composer: Composer,
    out: Vec<u8>,
    numbers: HashMap<u64, u32>,
}

impl Trace {
    fn new() -> Self {
        let stage = Transcoder::copying(Format::Heph, false, 1 << 24);
        let mut trace =
            Self { stage, composer: Composer::new(), out: Vec::new(), numbers: HashMap::new() };
        trace.begin(1_000);
        trace
    }

    fn begin(&mut self, sync_ticks: u64) {
        self.out.clear();
        self.numbers.clear();
        self.composer = Composer::new();
        self.stage.begin(&info(sync_ticks), &mut self.out).unwrap();
        let types: Vec<_> = (1..).zip(&TYPES).collect();
        self.stage.define(&types, &mut self.out).unwrap();
    }

    /// A row of a thread at a time, which is marked as sorted if no older row comes.
    fn row_at(
        &mut self,
        (thread, timestamp, sorted): (u64, u64, bool),
        ty: u32,
        labels: &[Label<'_>],
    ) {
        self.row_with((thread, timestamp, sorted), ty, labels, &fields_of(ty, timestamp));
    }

    fn row_with(
        &mut self,
        (thread, timestamp, sorted): (u64, u64, bool),
        metadata_id: u32,
        labels: &[Label<'_>],
        payload: &[u8],
    ) {
        let number = self.numbers.entry(thread).or_default();
        *number += 1;
        let header = RowHeader {
            metadata_id,
            sequence: *number,
            capture_thread: thread,
            thread,
            processor: u32::MAX,
            timestamp,
            sorted,
            payload_len: payload.len() as u32,
            ..RowHeader::default()
        };
        let (mut list, mut blocks) = (Vec::new(), Vec::new());
        label_list_row(labels.iter().copied(), &mut list);
        let labels = self.composer.label_list(&list, &mut blocks).unwrap();
        let header = RowHeader { labels, ..header };
        self.composer.row(&header, payload, &mut blocks).unwrap();
        self.composer.end_blocks(&mut blocks).unwrap();
        assert_eq!(self.stage.blocks(&blocks, &mut self.out), Ok(0));
    }

    fn sequence_point(&mut self, timestamp: u64) {
        let (flags, mut blocks) = (SequencePointFlags::default(), Vec::new());
        self.composer.sequence_point(timestamp, flags, &[], &mut blocks).unwrap();
        self.stage.blocks(&blocks, &mut self.out).unwrap();
    }

    fn row(&mut self, thread: u64, timestamp: u64, ty: u32, labels: &[Label<'_>]) {
        self.row_at((thread, timestamp, false), ty, labels);
    }

    /// The packets, which break no promise.
    #[track_caller]
    fn packets(&self) -> Vec<Packet> {
        let report = verify(&*self.out, Options::default(), 5).unwrap();
        assert!(report.is_sound() && report.lost == 0, "{report:?}");
        let mut reader = Reader::new(&*self.out);
        let mut packets = Vec::new();
        while let Some(event) = reader.next_event().unwrap() {
            let attributes = event.attributes().map(Result::unwrap).skip(4);
            let span = event.span();
            packets.push(Packet {
                thread: event.stream.into(),
                at: (event.start, event.end),
                name: event.description.to_owned(),
                part: span.map(|span| span.part),
                span_name: span.map_or(String::new(), |span| span.name.to_owned()),
                about: attributes
                    .map(|(name, value)| format!("{name}={}", spell(&value)))
                    .collect(),
            });
        }
        let whole = packets.iter().filter(|packet| packet.part == Some(SpanPart::Whole));
        assert_eq!(report.spans, whole.count() as u64);
        packets
    }
}

#[derive(Debug)]
struct Packet {
    thread: u64,
    at: (u64, u64),
    name: String,
    part: Option<SpanPart>,
    span_name: String,
    about: Vec<String>,
}

impl Packet {
    fn is_instant(&self, name: &str, part: Option<SpanPart>) -> bool {
        self.name == name && self.at.0 == self.at.1 && self.part == part
    }
}

/// A payload. A call takes 300 ns.
fn fields_of(ty: u32, timestamp: u64) -> Vec<u8> {
    payload(|e| match ty {
        1 => {
            e.u32(timestamp as u32);
            e.str("ann", StrEncoding::Utf16);
        }
        2 | LOOKUP => {
            e.duration_nanos(300);
            e.str("ok", StrEncoding::Utf16);
        }
        7 => e.str("the start", StrEncoding::Utf16),
        8 => e.str("the end", StrEncoding::Utf16),
        COPIED_STOP | ODD_STOP => e.u64(300),
        _ => {}
    })
}

/// The activity of a span, in the byte order of RFC 4122.
fn activity(span: u64) -> [u8; 16] {
    let [a, b, c, d, e, f, g, h] = span.to_be_bytes();
    [b, c, d, 0xF0, 0xF0, a, g, h, f, e, 0, 0, 0xAB, 1, 2, 3]
}

/// What a span puts on its events.
fn labels(span: u64, parent: Option<u64>) -> Vec<Label<'static>> {
    let mut labels = vec![Label::ActivityId(activity(span))];
    labels.extend(parent.map(|parent| Label::RelatedActivityId(activity(parent))));
    labels.extend([Label::TraceId([0xAB; 16]), Label::SpanId(span)]);
    labels
}

const TRACE: &str = "@trace=s abababababababababababababababab";

#[test]
fn a_span_has_both_times_its_parent_and_all_fields() {
    let mut trace = Trace::new();
    let own = labels(0x00F0_67AA_0BA9_02B7, Some(7));
    trace.row(3, 1_100, CHECKOUT[0], &own);
    trace.row(3, 1_200, NOTE, &own);
    trace.row(3, 1_500, CHECKOUT[1], &own);
    let [start, note, span] = &trace.packets()[..] else { panic!() };
    let ids = [TRACE, "@span=s 00f067aa0ba902b7"];
    let parent = "@parent=s 0000000000000007";
    assert!(start.is_instant("checkoutStart", Some(SpanPart::Start)), "{start:?}");
    assert_eq!(start.about, ["@opcode=u 1", parent, ids[0], ids[1], "cart=u 1100", "who=s ann"]);
    assert!(note.is_instant("Note", None), "{note:?}");
    assert_eq!(note.about, [parent, ids[0], ids[1]]);
    let name_and_times = (&*span.name, &*span.span_name, span.at, span.part);
    assert_eq!(name_and_times, ("checkout", "checkout", (100, 500), Some(SpanPart::Whole)));
    let fields = ["cart=u 1100", "who=s ann", "duration=u 300", "outcome=s ok"];
    let expected = [&["@opcode=u 2", "@kind=s span", parent], &ids[..], &fields].concat();
    assert_eq!(span.about, expected);
}

#[test]
fn the_two_rows_may_come_from_two_threads_in_any_order() {
    for is_start_first in [true, false] {
        let mut trace = Trace::new();
        let own = labels(9, None);
        let rows = [(3, 1_100, CHECKOUT[0]), (4, 1_500, CHECKOUT[1])];
        for at in if is_start_first { [0, 1] } else { [1, 0] } {
            let (thread, time, ty) = rows[at];
            trace.row(thread, time, ty, &own);
        }
        let packets = trace.packets();
        let [instant, span] = &packets[..] else { panic!() };
        let (name, part, other) = if is_start_first {
            ("checkoutStart", SpanPart::Start, "@start_stream=u 3")
        } else {
            ("checkoutStop", SpanPart::End, "@end_stream=u 4")
        };
        assert!(instant.is_instant(name, Some(part)), "{instant:?}");
        assert_eq!((&*span.name, span.at), ("checkout", (100, 500)));
        assert_eq!(span.thread, if is_start_first { 4 } else { 3 });
        assert!(span.about.iter().any(|it| it == other), "{span:?}");
        let fields = ["cart=u 1100", "who=s ann", "duration=u 300", "outcome=s ok"];
        assert!(span.about.ends_with(&fields.map(str::to_owned)), "{span:?}");
        // It is complete: another end has no start.
        trace.row(4, 1_600, QUERY[1], &own);
        assert!(trace.packets()[2].is_instant("query/Stop", Some(SpanPart::End)));
    }
}

#[test]
fn an_end_whose_start_cannot_come_is_a_span_by_its_duration() {
    let mut trace = Trace::new();
    let own = labels(9, None);
    // The start could come: rows from 1,100 on can.
    trace.row_at((3, 1_100, true), NOTE, &[]);
    trace.row(3, 1_500, CHECKOUT[1], &own);
    assert!(trace.packets()[1].is_instant("checkoutStop", Some(SpanPart::End)));
    // It cannot.
    trace.row_at((3, 2_000, true), NOTE, &[]);
    trace.row(3, 2_200, CHECKOUT[1], &own);
    assert_eq!(trace.packets()[3].at, (900, 1_200));
    // A sequence point says so, too.
    trace.sequence_point(3_000);
    trace.row(3, 3_100, CHECKOUT[1], &own);
    assert_eq!(trace.packets()[4].at, (1_800, 2_100));
    // Nobody waits for the end that came too early, so this start has none.
    trace.row(4, 3_050, CHECKOUT[0], &own);
    assert!(trace.packets()[5].is_instant("checkoutStart", Some(SpanPart::Start)));
    // Without a duration, or with one of unknown unit, it is an instant.
    trace.row(3, 3_200, QUERY[1], &own);
    trace.row(3, 3_200, ODD_STOP, &own);
    let packets = trace.packets();
    assert!(packets[6].is_instant("query/Stop", Some(SpanPart::End)));
    assert!(packets[7].is_instant("oddStop", Some(SpanPart::End)));
    trace.row(3, 3_210, COPIED_STOP, &own);
    let packets = trace.packets();
    assert_eq!((&*packets[8].name, packets[8].at), ("copied", (1_910, 2_210)));
    // Without ids no start can be found.
    trace.row(3, 3_300, CHECKOUT[0], &[]);
    trace.row(3, 9_000, CHECKOUT[1], &[]);
    let packets = trace.packets();
    assert!(packets[9].is_instant("checkoutStart", None));
    assert_eq!((packets[10].part, packets[10].at), (Some(SpanPart::Whole), (7_700, 8_000)));
}

#[test]
fn a_type_of_single_events_has_spans() {
    let mut trace = Trace::new();
    trace.row(3, 1_500, LOOKUP, &labels(9, Some(7)));
    let [span] = &trace.packets()[..] else { panic!() };
    assert_eq!((&*span.name, &*span.span_name, span.at), ("lookup", "lookup", (200, 500)));
    assert_eq!(span.about[0], "@kind=s span");
}

#[test]
fn a_description_names_the_span() {
    let mut trace = Trace::new();
    let own = labels(9, None);
    trace.row(3, 1_100, BARE[0], &own);
    trace.row(3, 1_200, BARE[1], &own);
    trace.row(3, 1_400, BARE[1], &own);
    trace.row(3, 1_300, BARE[0], &own);
    let names: Vec<_> = trace.packets().into_iter().map(|packet| packet.name).collect();
    assert_eq!(names, ["the start", "the end", "the end", "the start"]);
    // A start that states a description, and an end that does not.
    let mut trace = Trace::new();
    static NAMED: EventSchema = EventSchema {
        fields: &[role("what", TEXT, FieldRole::Description)],
        ..event("query/Start", 1, &[])
    };
    trace.stage.define(&[(30, &NAMED)], &mut trace.out).unwrap();
    let what = payload(|e| e.str("SELECT", StrEncoding::Utf16));
    trace.row_with((3, 1_100, false), 30, &own, &what);
    trace.row(3, 1_200, QUERY[1], &own);
    assert_eq!(trace.packets()[1].name, "SELECT");
}

#[test]
fn activities_of_other_programs_are_spans() {
    let mut trace = Trace::new();
    // Paths as .NET makes them: they are no span ids.
    let outer = Label::ActivityId([0x15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x23, 0x97, 0x9D, 0x59]);
    let inner =
        Label::ActivityId([0x15, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x23, 0xA7, 0x9D, 0x59]);
    let Label::ActivityId(id) = outer else { panic!() };
    trace.row(3, 1_100, QUERY[0], &[outer]);
    trace.row(3, 1_200, QUERY[0], &[inner, Label::RelatedActivityId(id)]);
    trace.row(4, 1_300, QUERY[1], &[inner]);
    trace.row(4, 1_400, QUERY[1], &[outer]);
    // No activity at all.
    trace.row(3, 1_500, QUERY[0], &[Label::ActivityId([0; 16])]);
    let packets = trace.packets();
    assert_eq!([packets[2].at, packets[3].at], [(200, 300), (100, 400)]);
    let related = "@related=s 15000000-0000-0000-0000-000023979d59";
    assert!(packets[1].about.iter().any(|it| it == related), "{:?}", packets[1]);
    assert!(packets[3].about.iter().any(|it| it == &related.replace("related", "activity")));
    // Formats without span ids have the activities of spans, from which the ids follow.
    let mut trace = Trace::new();
    let own = [Label::ActivityId(activity(9)), Label::RelatedActivityId(activity(7))];
    trace.row(3, 1_100, QUERY[0], &own);
    trace.row(3, 1_200, QUERY[1], &own);
    let ids = ["@span=s 0000000000000009", "@parent=s 0000000000000007"];
    assert_eq!(trace.packets()[1].about[2..], ids);
    // An activity that is not the span's own stays.
    trace.row(3, 1_300, NOTE, &[Label::ActivityId(activity(9)), Label::SpanId(8)]);
    assert_eq!(trace.packets()[2].about.len(), 2);
}

/// Labels that somebody entered for the events of several spans.
#[test]
fn spans_that_share_an_id_are_told_apart_by_name() {
    let mut trace = Trace::new();
    let own = [Label::SpanId(9)];
    trace.row(3, 1_100, CHECKOUT[0], &own);
    trace.row(3, 1_200, QUERY[0], &own);
    trace.row(3, 1_300, QUERY[1], &own);
    trace.row(3, 1_400, QUERY[0], &own);
    trace.row(3, 1_500, QUERY[1], &own);
    trace.row(3, 1_600, CHECKOUT[1], &own);
    let times: Vec<_> = trace.packets().into_iter().map(|packet| packet.at).collect();
    let expected = [(100, 100), (200, 200), (200, 300), (400, 400), (400, 500), (100, 600)];
    assert_eq!(times, expected);
    // Recursion: the inner end belongs to the inner start. An end is not before its start.
    trace.row(3, 1_700, QUERY[0], &own);
    trace.row(3, 1_800, QUERY[0], &own);
    trace.row(3, 1_900, QUERY[1], &own);
    trace.row(3, 2_000, QUERY[1], &own);
    trace.row(3, 2_050, QUERY[0], &own);
    trace.row(4, 1_950, QUERY[1], &own);
    let times: Vec<_> = trace.packets().into_iter().skip(8).map(|packet| packet.at).collect();
    assert_eq!(times, [(800, 900), (1_000, 1_000), (1_050, 1_050), (950, 950)]);
}

#[test]
fn a_span_goes_on_in_the_next_file() {
    let mut trace = Trace::new();
    let own = labels(9, None);
    trace.row(3, 1_100, CHECKOUT[0], &own);
    assert!(trace.packets()[0].is_instant("checkoutStart", Some(SpanPart::Start)));
    trace.begin(2_000);
    trace.row(3, 2_300, CHECKOUT[1], &own);
    let packets = trace.packets();
    assert_eq!((&*packets[0].name, packets[0].at), ("checkout", (0, 300)));
    // The exact start: the file's epoch is 2,000 ticks.
    let start = format!("@start=i {}", EPOCH - 900);
    assert_eq!(packets[0].about[2], start);
    assert!(packets[0].about.iter().any(|it| it == "cart=u 1100"), "{packets:?}");
}

#[test]
fn what_did_not_reach_the_file_is_taken_back() {
    let mut trace = Trace::new();
    let [own, other] = [9, 10].map(|id| labels(id, None));
    trace.row(3, 1_100, CHECKOUT[0], &own);
    let mark = trace.stage.mark();
    let (len, numbers) = (trace.out.len(), trace.numbers.clone());
    trace.row(3, 1_200, CHECKOUT[0], &other);
    trace.row(3, 1_300, CHECKOUT[1], &own);
    trace.row(3, 1_400, CHECKOUT[1], &other);
    let whole = trace.packets();
    // The same rows again, into another file.
    trace.stage.rewind(&mark);
    trace.out.truncate(len);
    trace.numbers.clone_from(&numbers);
    trace.row(3, 1_200, CHECKOUT[0], &other);
    trace.row(3, 1_300, CHECKOUT[1], &own);
    trace.row(3, 1_400, CHECKOUT[1], &other);
    assert_eq!(format!("{whole:?}"), format!("{:?}", trace.packets()));
    // The rows are lost.
    trace.stage.rewind(&mark);
    trace.out.truncate(len);
    trace.numbers = numbers;
    trace.row(3, 1_500, CHECKOUT[1], &other);
    trace.row(3, 1_600, CHECKOUT[1], &own);
    let packets = trace.packets();
    assert!(packets[1].is_instant("checkoutStop", Some(SpanPart::End)), "{packets:?}");
    assert_eq!(packets[2].at, (100, 600));
}

/// Spans that never end are forgotten, the oldest first, and this is counted.
#[test]
fn open_spans_are_bounded() {
    const MANY: u64 = 200_000;
    let mut trace = Trace::new();
    for id in 1..=MANY {
        trace.row(3, 1_000 + id, CHECKOUT[0], &labels(id, None));
        trace.out.clear();
    }
    let forgotten = trace.stage.left_out().spans;
    // 32 MiB, and about 280 bytes for each.
    assert!((70_000..95_000).contains(&forgotten), "{forgotten}");
    let mut whole = |id, time| {
        trace.out.clear();
        trace.row(3, time, CHECKOUT[1], &labels(id, None));
        let mut reader = Reader::new(&*trace.out);
        reader.next_event().unwrap().unwrap().span().unwrap().part
    };
    assert_eq!(whole(MANY, 900_000), SpanPart::Whole);
    assert_eq!(whole(forgotten + 1, 900_001), SpanPart::Whole);
    assert_eq!(whole(forgotten, 900_002), SpanPart::End);

    // Fields that are too large to be said twice are in the start's own packet.
    let mut trace = Trace::new();
    let own = labels(9, None);
    for (count, left_out) in [(8_000, 0), (16_380, 1)] {
        let long = "x".repeat(count);
        let fields = payload(|e| {
            e.u32(1);
            e.str(&long, StrEncoding::Utf16);
        });
        trace.row_with((3, 1_100, false), CHECKOUT[0], &own, &fields);
        trace.row(3, 1_200, CHECKOUT[1], &own);
        assert_eq!(trace.stage.left_out().spans, left_out);
    }
    let packets = trace.packets();
    let has_cart = |packet: &&Packet| packet.about.iter().any(|it| it == "cart=u 1");
    assert_eq!(packets.iter().filter(has_cart).count(), 3);
    assert_eq!([packets[1].at, packets[3].at], [(100, 200); 2]);
}

/// A span of a random program: where and when its two rows are.
#[derive(Clone, Debug)]
struct Random {
    start: Option<(u64, u64)>,
    stop: Option<(u64, u64)>,
    has_fields: bool,
    order: [u64; 2],
}

fn random() -> impl Strategy<Value = Random> {
    let row = || proptest::option::weighted(0.9, (0..4_u64, 0..10_000_u64));
    (row(), row(), any::<bool>(), any::<[u64; 2]>()).prop_map(|(start, stop, has_fields, order)| {
        let (mut start, mut stop) = (start, stop);
        if let (Some(first), Some(last)) = (&mut start, &mut stop) {
            (first.1, last.1) = (first.1.min(last.1), first.1.max(last.1));
        }
        Random { start, stop, has_fields, order }
    })
}

proptest! {
    /// Whatever the order of the rows: each span whose two rows are there has one packet, with both
    /// times. Every row has a packet, and no counter has a gap.
    #[test]
    fn each_span_is_whole_once(spans in vec(random(), 1..40)) {
        let mut trace = Trace::new();
        let mut rows = Vec::new();
        for (id, span) in (1_u64..).zip(&spans) {
            let types = if span.has_fields { CHECKOUT } else { QUERY };
            for (row, ty, order) in
                [(span.start, types[0], span.order[0]), (span.stop, types[1], span.order[1])]
            {
                rows.extend(row.map(|(thread, time)| (order, id, 1_001 + time, thread, ty)));
            }
        }
        rows.sort_unstable();
        for (_, id, time, thread, ty) in &rows {
            trace.row(*thread, *time, *ty, &labels(*id, (*id > 1).then(|| *id - 1)));
        }
        let packets = trace.packets();
        prop_assert_eq!(packets.len(), rows.len());
        for (id, span) in (1_u64..).zip(&spans) {
            let own = format!("@span=s {id:016x}");
            let of_span: Vec<_> =
                packets.iter().filter(|packet| packet.about.contains(&own)).collect();
            let whole: Vec<_> = of_span
                .iter()
                .filter(|packet| packet.part == Some(SpanPart::Whole))
                .map(|packet| packet.at)
                .collect();
            let expected = match (span.start, span.stop) {
                (Some(start), Some(stop)) => vec![(1 + start.1, 1 + stop.1)],
                _ => vec![],
            };
            prop_assert_eq!(whole, expected);
            let rows = usize::from(span.start.is_some()) + usize::from(span.stop.is_some());
            prop_assert_eq!(of_span.len(), rows);
        }
    }
}
