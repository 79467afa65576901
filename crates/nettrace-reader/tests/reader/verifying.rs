//! Streams that break one promise of a writer each, and sound streams, which break none.

use nettrace_reader::{Dialect, Options, Rule, verify, verify_with};
use testkit::streams::{EVENT, EventType, Row, Stream, event_block, samples};

fn start() -> Stream {
    let mut stream = Stream::at(1);
    stream.thread(5).thread(6).simple_metadata(1);
    stream
}

fn row(sequence: u32, time: u64) -> Row {
    Row::new(5, sequence, time)
}

#[track_caller]
fn check(bytes: &[u8], rules: &[Rule]) {
    check_as(Dialect::default(), bytes, rules);
}

#[track_caller]
fn check_as(dialect: Dialect, bytes: &[u8], rules: &[Rule]) {
    let report = verify_with(bytes, Options::default().dialect(dialect), 100).unwrap();
    let found: Vec<_> = report.violations.iter().map(|violation| violation.rule).collect();
    assert_eq!(found, rules, "{:#?}", report.violations);
    assert_eq!(report.count, rules.len() as u64);
    for violation in &report.violations {
        assert!(violation.offset <= bytes.len() as u64);
        assert!(!violation.detail.is_empty());
    }
}

#[test]
fn sound_streams_have_no_violation() {
    for (name, bytes) in samples::all() {
        let report = verify(&*bytes).unwrap();
        assert!(report.is_sound(), "{name}: {:?}", report.violations);
    }
}

#[test]
fn readable() {
    let bytes = start().events(&[row(1, 10)]).end();
    check(&bytes[..bytes.len() - 4], &[Rule::Readable]);
    check(&bytes[..bytes.len() - 7], &[Rule::Readable]);
    check(b"something else", &[Rule::Readable]);
    // A damaged block does not hide violations after it.
    check(
        &start().block(EVENT, &[1, 2, 3]).events(&[row(1, 10), row(2, 9)]).end(),
        &[Rule::Readable, Rule::ThreadOrder, Rule::BlockTimes][..2],
    );
}

#[test]
fn trace() {
    let mut bytes = start().end();
    bytes[26] = 13;
    check(&bytes, &[Rule::Trace]);
}

#[test]
fn times_before_that_of_the_trace() {
    // The trace begins at tick 1.
    check(&start().events(&[row(1, 1)]).end(), &[]);
    check(&start().events(&[row(1, 0), row(2, 0), row(3, 1)]).end(), &[Rule::SyncTime; 2]);
    check(&samples::early(), &[Rule::SyncTime]);
}

#[test]
fn references() {
    check(&start().events(&[row(1, 10).metadata(2)]).end(), &[Rule::Reference]);
    check(&start().events(&[Row::new(9, 1, 10)]).end(), &[Rule::Reference; 1]);
    check(&start().events(&[Row { thread: 9, ..row(1, 10) }]).end(), &[Rule::Reference]);
    check(&start().events(&[Row { stack: 1, ..row(1, 10) }]).end(), &[Rule::Reference]);
    check(&start().events(&[row(1, 10).labels(1)]).end(), &[Rule::Reference]);
    check(&start().sequence_point(10, 0, &[(9, 0)]).end(), &[Rule::Reference]);
    check(&start().remove_thread(9, 0).end(), &[Rule::Reference]);
    check(&start().remove_thread(5, 0).events(&[row(1, 10)]).end(), &[Rule::Reference]);
    let mut stream = start();
    stream.stacks(1, &[&[7]]).label_lists(1, &[&[vec![9, 1]]]);
    let referring = Row { stack: 1, ..row(1, 10) }.labels(1);
    check(&stream.clone().events(std::slice::from_ref(&referring)).end(), &[]);
    stream.sequence_point(5, 0, &[]).events(&[referring]);
    check(&stream.end(), &[Rule::Reference; 2]);
    check(&start().sequence_point(5, 3, &[]).events(&[row(1, 10)]).end(), &[Rule::Reference; 2]);
}

#[test]
fn duplicates() {
    check(&start().thread(5).end(), &[Rule::Duplicate]);
    check(&start().simple_metadata(1).end(), &[Rule::Duplicate]);
    check(&start().stacks(1, &[&[1], &[2]]).stacks(2, &[&[1]]).end(), &[Rule::Duplicate]);
    let lists: &[&[Vec<u8>]] = &[&[vec![9, 1]]];
    check(&start().label_lists(1, lists).label_lists(1, lists).end(), &[Rule::Duplicate]);
}

#[test]
fn order_within_a_thread() {
    check(&start().events(&[row(1, 10)]).events(&[row(2, 9)]).end(), &[Rule::ThreadOrder]);
    check(&start().events(&[row(1, 10)]).events(&[Row::new(6, 1, 9)]).end(), &[]);
}

#[test]
fn one_thread_a_block() {
    check(&start().events(&[row(1, 10), Row::new(6, 1, 11)]).end(), &[Rule::OneThread]);
}

#[test]
fn times_of_a_block() {
    for at in [4, 12] {
        let mut body = event_block(&[row(1, 10), row(2, 12)]);
        body[at] ^= 1;
        check(&start().block(EVENT, &body).end(), &[Rule::BlockTimes]);
    }
}

#[test]
fn marks_of_sorted_events() {
    let sorted = row(1, 10).sorted();
    check(&start().events(std::slice::from_ref(&sorted)).events(&[Row::new(6, 1, 10)]).end(), &[]);
    let mut stream = start();
    stream.events(&[sorted]).events(&[Row::new(6, 1, 9)]);
    check(&stream.end(), &[Rule::IsSorted]);
    // An event that is too early is found however much later it comes.
    stream.events(&[row(2, 20)]).sequence_point(30, 0, &[]).events(&[Row::new(6, 2, 9)]);
    check(&stream.end(), &[Rule::IsSorted, Rule::IsSorted, Rule::BetweenPoints]);
}

#[test]
fn sequence_points_divide_time() {
    let mut stream = start();
    stream.events(&[row(1, 10)]).sequence_point(10, 0, &[]).events(&[row(2, 10)]);
    check(&stream.end(), &[]);
    check(&stream.clone().sequence_point(10, 0, &[]).end(), &[Rule::PointOrder]);
    check(&start().events(&[row(1, 10)]).sequence_point(9, 0, &[]).end(), &[Rule::BetweenPoints]);
    check(&start().sequence_point(9, 0, &[]).events(&[row(1, 8)]).end(), &[Rule::BetweenPoints]);
}

#[test]
fn numbers_of_a_thread() {
    use Rule::SequenceNumbers;
    check(&start().events(&[row(3, 10), row(9, 11)]).end(), &[]);
    check(&start().events(&[row(3, 10), row(3, 11)]).end(), &[SequenceNumbers]);
    // A sequence point states a lower bound, which the reference reader takes for the exact number.
    let bound = start().events(&[row(3, 10)]).sequence_point(20, 0, &[(5, 2)]).end();
    check(&bound, &[]);
    check_as(Dialect::Reference, &bound, &[SequenceNumbers]);
    // So it does on the other side of the wrap, also if the thread's last number is 0.
    let mut stream = start();
    for (time, number) in [(2, 1 << 30), (3, 2 << 30), (4, 3 << 30), (5, u32::MAX - 1)] {
        stream.sequence_point(time, 0, &[(5, number)]);
    }
    stream.events(&[row(u32::MAX, 10), row(0, 11)]).sequence_point(20, 0, &[(5, u32::MAX)]);
    let bytes = stream.events(&[row(1, 30)]).end();
    check(&bytes, &[]);
    assert_eq!(verify(&*bytes).unwrap().lost, u64::from(u32::MAX - 1));
    check(&start().events(&[row(3, 10)]).remove_thread(5, 2).end(), &[SequenceNumbers]);
    let mut stream = start();
    stream.events(&[row(3, 10)]).sequence_point(20, 0, &[(5, 4)]).events(&[row(4, 30)]);
    check(&stream.end(), &[SequenceNumbers]);
    check(&start().events(&[row(0, 10)]).end(), &[SequenceNumbers]);
}

#[test]
fn ids() {
    let event = |id, provider, event_id| EventType::new(id, provider, event_id, "E");
    let twice = |a, b| Stream::at(1).metadata(&a).metadata(&b).end();
    check(&twice(event(1, "P", 1), event(2, "P", 1)), &[Rule::EventIds]);
    check(&twice(event(1, "P", 1), event(2, "Q", 1)), &[]);
    let flushed = Stream::at(1)
        .metadata(&event(1, "P", 1))
        .sequence_point(1, 2, &[])
        .metadata(&event(3, "P", 1))
        .end();
    check(&flushed, &[]);
    // The support module gives thread 5 the OS id 1005.
    check(&Stream::at(1).thread(5).thread(1005).end(), &[Rule::ThreadIds]);
    check(&Stream::at(1).thread(1005).thread(5).end(), &[Rule::ThreadIds]);
}

#[test]
fn payloads() {
    let event = EventType::new(1, "P", 1, "E").field("n", &[9]);
    let text = EventType::new(2, "P", 2, "T").field("t", &[18]);
    let located = EventType::new(3, "P", 3, "L").field("r", &[24, 6]);
    let verify_one = |metadata, payload: &[u8], rules: &[Rule]| {
        let mut stream = Stream::at(1);
        stream.thread(5).metadata(&event).metadata(&text).metadata(&located);
        stream.events(&[row(1, 10).metadata(metadata).payload(payload)]);
        check(&stream.end(), rules);
    };
    verify_one(1, &[0; 4], &[]);
    verify_one(1, &[0; 3], &[Rule::PayloadFields]);
    verify_one(1, &[0; 5], &[Rule::PayloadFields]);
    verify_one(2, &[0; 2], &[]);
    verify_one(2, &[b'a', 0], &[Rule::PayloadFields]);
    verify_one(2, &[0; 4], &[Rule::PayloadFields]);
    verify_one(3, &[0, 0, 2, 0, 8, 9], &[]);
    verify_one(3, &[0, 0, 1, 0, 8, 9], &[Rule::PayloadFields]);
    verify_one(3, &[0, 0, 3, 0, 8, 9], &[Rule::PayloadFields]);
    let mut long = vec![b'a'; 65_534];
    long.extend([0, 0]);
    verify_one(2, &long, &[Rule::PayloadSize]);
}

#[test]
fn a_list_has_an_end() {
    let mut stream = start();
    for i in 0..500 {
        stream.events(&[row(i + 1, 1000 - u64::from(i))]);
    }
    let report = verify_with(&*stream.end(), Default::default(), 7).unwrap();
    assert_eq!((report.violations.len(), report.count), (7, 499));
}
