//! Delivery in the order of time, and how much of a stream waits for it.

mod support;

use nettrace_reader::{ErrorKind, Options, Reader};
use proptest::prelude::*;
use support::{Row, Stream, random, samples};

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

/// A sorted event waits for nothing: it comes before an unsorted one of the same time on its thread.
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

#[test]
fn a_removed_thread_is_known_to_its_waiting_events() {
    let mut stream = Stream::new();
    stream.simple_metadata(1);
    for index in 5..9 {
        stream.thread(index).events(&[Row::new(index, 1, 2000 - index)]).remove_thread(index, 1);
    }
    // The same index once more, before the others have been delivered.
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

/// Marks that release nothing cost nothing, however many threads have events waiting.
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
    assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
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
    // What was read before is delivered, then comes the error.
    let (count, error) = read(100_000);
    assert!((100..200).contains(&count), "{count}");
    let error = error.unwrap();
    assert!(matches!(error.kind(), ErrorKind::LimitExceeded { limit: 100_000, .. }), "{error}");
    // Unsorted, the same stream needs no memory at all.
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

    /// Both orders deliver every event once, each thread's events in their order; the sorted one is
    /// sorted, and the numbers of lost events are right.
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

/// Marks that release one event each, while events of very many threads wait: what a mark costs does
/// not depend on how many. (Looking at each thread for each mark took half a minute here.)
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
    assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
    assert_eq!(events.len() as u64, 3 * THREADS);
    assert!(events.is_sorted_by_key(|(_, _, time)| *time));
}
