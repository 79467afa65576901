//! Delivery in the order of time, and how many events wait for it.

use nettrace_reader::{Dialect, ErrorKind, Event, Item, Options, Reader};
use proptest::prelude::*;
use testkit::streams::{Row, Stream, random, samples, varuint};

fn sorted(bytes: &[u8]) -> Vec<(u64, u32, u64)> {
    let mut events = Reader::new(bytes).unwrap().sorted();
    let mut out = Vec::new();
    while let Some(event) = events.next_event().unwrap() {
        let header = event.header;
        out.push((header.capture_thread, header.sequence_number, header.timestamp));
    }
    out
}

#[test]
fn three_threads() {
    let expected = [
        (5, 1, 1010),
        (7, 1, 1015),
        (6, 1, 1020),
        (6, 2, 1035),
        (7, 2, 1037),
        (5, 2, 1040),
        (7, 3, 1085),
        (7, 4, 1086),
        (5, 3, 1090),
        (6, 3, 1095),
        (6, 4, 1100),
        (6, 5, 1101),
        (7, 5, 1120),
        (5, 4, 1290),
        (6, 6, 1300),
        (5, 5, 1305),
        (6, 7, 1310),
    ];
    assert_eq!(sorted(&samples::order()), expected);
}

/// A sorted event does not wait, so it comes before all unsorted events of the same time.
#[test]
fn a_mark_releases_only_what_is_earlier() {
    let bytes = Stream::new()
        .thread(5)
        .thread(6)
        .simple_metadata(1)
        .events(&[Row::new(5, 1, 1010), Row::new(5, 2, 1020)])
        .events(&[Row::new(6, 1, 1020).sorted(), Row::new(6, 2, 1020)])
        .end();
    assert_eq!(sorted(&bytes), [(5, 1, 1010), (6, 1, 1020), (5, 2, 1020), (6, 2, 1020)]);
}

/// The indices of an event keep the meaning that they have at its place in the stream, even if they
/// are defined anew before the event is delivered.
#[test]
fn indices_that_are_given_away_keep_their_meaning_for_waiting_events() {
    let os_thread = |index: u64, id: u64| {
        let mut row = Vec::new();
        varuint(&mut row, index);
        row.push(3);
        varuint(&mut row, id);
        row
    };
    let level = |level| vec![9, level];
    let mut stream = Stream::new();
    stream.thread(6).simple_metadata(1);
    for round in 0..3_u32 {
        let id = 100 + u64::from(round);
        stream.thread_row(&os_thread(5, id)).label_lists(1, &[&[level(round as u8 + 1)]]);
        // One event of the thread, and one of another thread about it, each in two blocks.
        for half in 0..2 {
            let (number, time) = (2 * round + half + 1, 1000 + u64::from(4 * round + 2 * half));
            let about = Row { thread: 5, ..Row::new(6, number, time) };
            stream.events(&[about.labels(1)]);
            stream.events(&[Row::new(5, half + 1, time + 1).labels(1)]);
        }
        stream.remove_thread(5, 2);
    }
    let bytes = stream.end();
    let seen = |event: &Event<'_>| {
        (
            event.header.timestamp,
            event.thread().os_thread_id,
            event.level(),
            event.capture_thread().lost,
        )
    };
    let expected: Vec<_> =
        (0..12_u64).map(|i| (1000 + i, Some(100 + i / 4), (i / 4 + 1) as u8, 0)).collect();
    let mut reader = Reader::new(&*bytes).unwrap();
    let mut found = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        found.push(seen(&event));
    }
    assert_eq!(found, expected);
    let mut reader = Reader::new(&*bytes).unwrap().sorted();
    let mut found = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        found.push(seen(&event));
    }
    assert_eq!(found, expected);
}

#[test]
fn a_removed_thread_is_known_to_its_waiting_events() {
    let mut stream = Stream::new();
    stream.simple_metadata(1);
    for index in 5..9 {
        stream.thread(index).events(&[Row::new(index, 1, 2000 - index)]).remove_thread(index, 1);
    }
    // The same index again, before the other events are delivered.
    stream.thread(5).events(&[Row::new(5, 1, 3000)]);
    let bytes = stream.end();
    let mut events = Reader::new(&*bytes).unwrap().sorted();
    let mut tids = Vec::new();
    while let Some(event) = events.next_event().unwrap() {
        assert_eq!(event.capture_thread().thread.index, event.header.capture_thread);
        tids.push(event.thread().os_thread_id.unwrap());
    }
    assert_eq!(tids, [1008, 1007, 1006, 1005, 1005]);
}

/// Sorted events that release nothing cost nothing, however many threads have waiting events.
#[test]
fn many_marks_over_many_waiting_threads() {
    let mut stream = Stream::new();
    stream.simple_metadata(1);
    for index in 1..3000 {
        stream.thread_row(&[&[0x80 | (index % 128) as u8, (index / 128) as u8][..]].concat());
        stream.events(&[Row::new(index, 1, 1_000_000 + index)]);
    }
    stream.thread_row(&[0]);
    let marks: Vec<_> = (1..40_000).map(|i| Row::new(0, i, i.into()).sorted()).collect();
    let bytes = stream.events(&marks).end();
    let started = std::time::Instant::now();
    let delivered = sorted(&bytes);
    assert_eq!(delivered.len(), 39_999 + 2999);
    assert!(delivered.is_sorted_by_key(|(_, _, time)| *time));
    assert!(started.elapsed().as_secs() < 100, "{:?}", started.elapsed());
}

#[test]
fn waiting_events_are_bounded() {
    let mut stream = Stream::new();
    stream.thread(5).thread(6).simple_metadata(1);
    for i in 0..1000 {
        stream.events(&[Row::new(5, i + 1, 1000 + u64::from(i)).payload(&[0; 500])]);
    }
    let bytes = stream.end();
    let read = |limit| {
        let mut events = Options::default().sort_limit(limit).open(&*bytes).unwrap().sorted();
        let mut count = 0;
        loop {
            match events.next_event() {
                Ok(Some(_)) => count += 1,
                Ok(None) => return (count, None),
                Err(error) => return (count, Some(error)),
            }
        }
    };
    assert!(matches!(read(1 << 20), (1000, None)));
    // First the events that were read before the error, then the error.
    let (count, error) = read(100_000);
    assert!((100..200).contains(&count), "{count}");
    let error = error.unwrap();
    assert!(matches!(error.kind(), ErrorKind::LimitExceeded { limit: 100_000, .. }), "{error}");
    // Without sorting, the same stream needs no memory for waiting events.
    let mut reader = Options::default().sort_limit(0).open(&*bytes).unwrap();
    while reader.next_event().unwrap().is_some() {}
    assert_eq!(reader.totals().events, 1000);
}

#[test]
fn what_waits_is_delivered_before_the_error() {
    let bytes = samples::order();
    let end = bytes.len() - 4;
    let mut events = Reader::new(&bytes[..end]).unwrap().sorted();
    let mut count = 0;
    let error = loop {
        match events.next_event() {
            Ok(event) => count += usize::from(event.is_some()),
            Err(error) => break error,
        }
        assert!(count < 100);
    };
    assert_eq!(count, 17);
    assert_eq!(error.offset(), end as u64);
    assert!(matches!(error.kind(), ErrorKind::NoEndOfStream));
    assert!(events.next_event().unwrap().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Both orders deliver every event once, and keep the order of each thread's events. The sorted
    /// order is sorted, and the numbers of lost events are right.
    #[test]
    fn sound_streams(seed in any::<u64>(), rounds in 1_u64..40) {
        let made = random::make(seed, rounds);
        let mut reader = Reader::new(&*made.bytes).unwrap();
        let mut rows = made.rows.iter();
        while let Some(event) = reader.next_event().unwrap() {
            let row = rows.next().unwrap();
            let header = event.header;
            prop_assert_eq!(
                (row.capture, row.thread, row.sequence, row.time, row.metadata),
                (header.capture_thread, header.thread, header.sequence_number, header.timestamp,
                    header.metadata_id)
            );
            prop_assert_eq!((row.stack, row.labels), (header.stack_id, header.label_list));
            prop_assert_eq!((row.processor, row.sorted), (header.processor, header.is_sorted));
            prop_assert_eq!(&row.payload, event.payload);
            prop_assert_eq!(event.thread().index, row.thread);
            prop_assert_eq!(event.stack().is_some(), row.stack != 0);
            prop_assert_eq!(event.labels().is_empty(), row.labels == 0);
            let mut fields = event.fields();
            for field in fields.by_ref() {
                prop_assert!(field.is_ok());
            }
            prop_assert_eq!(fields.used(), event.payload.len());
        }
        prop_assert!(rows.next().is_none());
        prop_assert_eq!(reader.totals().lost, made.lost);
        prop_assert_eq!(reader.totals().undefined_stacks, 0);

        let mut events = Reader::new(&*made.bytes).unwrap().sorted();
        let mut last = 0;
        let mut delivered = Vec::new();
        while let Some(event) = events.next_event().unwrap() {
            prop_assert!(event.header.timestamp >= last);
            last = event.header.timestamp;
            prop_assert_eq!(event.thread().index, event.header.thread);
            prop_assert_eq!(event.labels().is_empty(), event.header.label_list == 0);
            delivered.push((event.header.capture_thread, event.header.sequence_number,
                event.payload.to_vec()));
        }
        delivered.sort();
        let mut expected: Vec<_> =
            made.rows.iter().map(|row| (row.capture, row.sequence, row.payload.clone())).collect();
        expected.sort();
        prop_assert_eq!(delivered, expected);

        let report = nettrace_reader::verify(&*made.bytes).unwrap();
        prop_assert_eq!(&report.violations, &[]);
        prop_assert_eq!((report.lost, report.events), (made.lost, made.rows.len() as u64));
    }
}

/// Sorted events that release one event each, while very many threads have waiting events. The cost
/// does not depend on the number of threads. (Visiting every thread for every sorted event took
/// half a minute here.)
#[test]
fn many_threads_that_wait_do_not_slow_down_marks() {
    const THREADS: u64 = 40_000;
    let mut stream = Stream::new();
    stream.simple_metadata(1);
    for thread in 0..=THREADS {
        stream.thread(1 << 32 | thread);
    }
    for thread in 0..THREADS {
        stream.events(&[Row::new(1 << 32 | thread, 1, u64::MAX - thread)]);
    }
    let rows = (0..2 * THREADS).map(|at| {
        let row = Row::new(1 << 32 | THREADS, at as u32 + 1, at);
        if at % 2 == 1 { row.sorted() } else { row }
    });
    for rows in rows.collect::<Vec<_>>().chunks(1_000) {
        stream.events(rows);
    }
    let bytes = stream.end();
    let begun = std::time::Instant::now();
    let events = sorted(&bytes);
    assert!(begun.elapsed().as_secs() < 100, "{:?}", begun.elapsed());
    assert_eq!(events.len() as u64, 3 * THREADS);
    assert!(events.is_sorted_by_key(|(_, _, time)| *time));
}

/// One of the streams that a session writes if it rotates.
fn part(number: u32) -> Stream {
    let number = number.to_string();
    Stream::with_keys(&[("nettrace.recording", "1d"), ("nettrace.file", &number)])
}

fn with_stack(mut row: Row, stack: u32) -> Row {
    row.stack = stack;
    row
}

/// A dump of a flight recorder, before which the recorder had so many events.
fn dump(given_up: u64) -> Stream {
    let given_up = given_up.to_string();
    let keys =
        [("nettrace.recording", "1d"), ("nettrace.file", "1"), ("nettrace.given_up", &given_up)];
    let mut dump = Stream::with_keys(&keys);
    dump.simple_metadata(1);
    dump
}

/// Each event of dumps that overlap comes once, in every dialect.
#[test]
fn dumps_that_overlap_are_one_stream() {
    let mut first = dump(0);
    first.thread(5).thread(6);
    let rows = [Row::new(5, 1, 1010), Row::new(5, 2, 1020), Row::new(6, 1, 1025)];
    first.events(&rows).sequence_point(1027, 0, &[(5, 2), (6, 1)]);
    first.events(&[Row::new(5, 3, 1030), Row::new(6, 2, 1035)]);
    first.sequence_point(1040, 0, &[(5, 3), (6, 2)]);
    let mut second = dump(2);
    second.thread(5).thread(6).events(&[Row::new(6, 1, 1025)]);
    second.sequence_point(1027, 0, &[(5, 2), (6, 1)]);
    second.events(&[Row::new(5, 3, 1030), Row::new(6, 2, 1035)]);
    second.sequence_point(1040, 0, &[(5, 3), (6, 2)]);
    second.events(&[Row::new(5, 4, 1050)]).sequence_point(1060, 0, &[(5, 4), (6, 2)]);
    // Far later, so that its numbers seem to be smaller.
    let far = (1 << 31) + 9;
    let mut third = dump(1 << 33);
    third.thread(5).thread(7).events(&[Row::new(5, far, 2010), Row::new(7, far, 2020)]);
    let all = [first.end(), second.end(), third.end()].concat();

    for dialect in [Dialect::Specification, Dialect::Reference] {
        let options = Options::default().joined(true).dialect(dialect);
        let mut reader = options.clone().open(&all[..]).unwrap().sorted();
        let mut seen = Vec::new();
        while let Some(event) = reader.next_event().unwrap() {
            seen.push((event.header.thread, event.header.sequence_number));
        }
        let numbers = [(5, 1), (5, 2), (6, 1), (5, 3), (6, 2), (5, 4), (5, far), (7, far)];
        assert_eq!(seen, numbers, "{dialect:?}");
        if dialect == Dialect::Specification {
            let lost = u64::from(far - 5) + u64::from(far - 1);
            assert_eq!((reader.totals().lost, reader.totals().step_backs), (lost, 0));
        }
        // Those who write a stream again get nothing of what is left out.
        let mut reader = options.open(&all[..]).unwrap();
        let (mut points, mut rows) = (Vec::new(), 0);
        while let Some(item) = reader.next_item().unwrap() {
            match item {
                Item::SequencePoint(point) => points.push(point.timestamp),
                Item::Event(_) => rows += 1,
                _ => {}
            }
        }
        assert_eq!((points, rows), (vec![1027, 1040, 1060], 8));
    }
}

/// Streams of a recording define everything again, with ids that begin again.
#[test]
fn joined_streams_are_one() {
    let mut first = part(1);
    first.thread(5).thread(6).simple_metadata(1).stacks(1, &[&[0x10]]);
    // One is lost.
    first.events(&[Row::new(5, 2, 1010), with_stack(Row::new(5, 3, 1050), 1)]);
    let mut second = part(2);
    second.thread(6).thread(5).simple_metadata(1).stacks(1, &[&[0x20]]);
    second.events(&[with_stack(Row::new(6, 1, 1020), 1)]);
    second.events(&[with_stack(Row::new(5, 1, 1060), 1)]);
    // Two more are lost. A point is one of both.
    second.sequence_point(1070, 0, &[(5, 3), (6, 1)]);
    // The third has nothing of thread 6.
    let third = part(3).thread(5).simple_metadata(1).events(&[Row::new(5, 1, 1080)]).end();
    let fourth = part(4).thread(6).simple_metadata(1).events(&[Row::new(6, 1, 1090)]).end();
    let all = [first.end(), second.end(), third, fourth].concat();

    let options = Options::default().joined(true);
    let mut events = options.clone().open(&all[..]).unwrap().sorted();
    let mut found = Vec::new();
    while let Some(event) = events.next_event().unwrap() {
        let stack = event.stack().and_then(|stack| stack.addresses().next());
        found.push((event.header.capture_thread, event.header.timestamp, stack));
    }
    let expected = [
        (5, 1010, None),
        (6, 1020, Some(0x20)),
        (5, 1050, Some(0x10)),
        (5, 1060, Some(0x20)),
        (5, 1080, None),
        (6, 1090, None),
    ];
    assert_eq!(found, expected);
    assert_eq!((events.totals().events, events.totals().lost), (6, 3));
    let mut threads: Vec<_> =
        events.live_threads().map(|it| (it.thread.index, it.events, it.lost)).collect();
    threads.sort_unstable();
    assert_eq!(threads, [(5, 4, 3), (6, 2, 0)]);

    // Without the option, what stands behind the end of the stream is not read.
    assert_eq!(sorted(&all).len(), 2);
    // A part of something else, and one that is cut.
    let other = Stream::with_keys(&[("nettrace.recording", "2e")]).end();
    let read = |bytes: &[u8]| {
        let mut reader = options.clone().open(bytes).unwrap();
        reader.read_to_end().unwrap_err()
    };
    let mixed = [part(1).end(), other].concat();
    assert!(matches!(read(&mixed).kind(), ErrorKind::OtherRecording));
    let cut = &all[..all.len() - 2];
    assert!(matches!(read(cut).kind(), ErrorKind::Truncated { .. }));
    let twice = part(1).thread(5).thread(5).end();
    let twice = [part(1).thread(5).end(), twice].concat();
    assert!(matches!(read(&twice).kind(), ErrorKind::Duplicate { .. }));
}
