//! Reads everything that a stream states, in its order.

use nettrace_reader::{Item, Reader, SequencePoint};
use testkit::{
    allocations::{self, Counting},
    streams::{LABEL_LIST, Row, Stream, random, samples, v5_random, v5_samples},
};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Items as short texts.
fn items(bytes: &[u8]) -> Vec<String> {
    let mut reader = Reader::new(bytes).unwrap();
    let mut items = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        items.push(match item {
            Item::EventBlock => "block".to_owned(),
            Item::Event(event) => format!("event {}", event.header.timestamp),
            Item::Metadata(types) => {
                format!("types {:?}", types.iter().map(|of| of.id).collect::<Vec<_>>())
            }
            Item::Threads(threads) => {
                format!("threads {:?}", threads.iter().map(|of| of.index).collect::<Vec<_>>())
            }
            Item::RemovedThreads(threads) => format!("gone {threads:?}"),
            Item::Stacks(stacks) => format!(
                "stacks {:?}",
                stacks
                    .iter()
                    .map(|(id, stack)| (*id, stack.addresses().collect::<Vec<_>>()))
                    .collect::<Vec<_>>()
            ),
            Item::LabelLists(lists) => {
                format!("labels {:?}", lists.map(|(id, _)| id).collect::<Vec<_>>())
            }
            Item::SequencePoint(SequencePoint { timestamp, flush_threads, threads, .. }) => {
                format!("point {timestamp} {flush_threads} {threads:?}")
            }
            _ => "other".to_owned(),
        });
    }
    assert!(reader.next_item().unwrap().is_none());
    items
}

/// What a block of label lists costs beside the definitions does not grow with their number.
#[test]
fn label_lists_are_lent() {
    const LISTS: u32 = 100_000;
    let mut body = [1_u32.to_le_bytes(), LISTS.to_le_bytes()].concat();
    body.extend([0x89, 3].repeat(LISTS as usize));
    let bytes = Stream::new().block(LABEL_LIST, &body).end();
    let mut reader = Reader::new(&*bytes).unwrap();
    let made = allocations::of(|| {
        let Some(Item::LabelLists(lists)) = reader.next_item().unwrap() else { panic!() };
        assert_eq!(lists.clone().next().unwrap().0, 1);
    });
    assert!(made < 100, "{made}");
    let mut reader = Reader::new(&*bytes).unwrap();
    let Some(Item::LabelLists(lists)) = reader.next_item().unwrap() else { panic!() };
    assert_eq!(lists.last().unwrap().0, LISTS);
}

#[test]
fn a_stream_by_hand() {
    let mut stream = Stream::new();
    stream.thread(5).simple_metadata(1).stacks(3, &[&[16, 17], &[]]);
    stream.label_lists(1, &[&[vec![7, 3]]]).block(99, &[1, 2, 3]);
    stream.events(&[Row::new(5, 1, 1001), Row::new(5, 2, 1002).labels(1)]);
    stream.events(&[Row::new(5, 3, 1003)]).sequence_point(1004, 1, &[(5, 4)]);
    stream.thread(5).remove_thread(5, 0);
    let expected = [
        "threads [5]",
        "types [1]",
        "stacks [(3, [16, 17]), (4, [])]",
        "labels [1]",
        "block",
        "event 1001",
        "event 1002",
        "block",
        "event 1003",
        "point 1004 true [(5, 4)]",
        "threads [5]",
        "gone [(5, 0)]",
    ];
    assert_eq!(items(&stream.end()), expected);
}

#[test]
fn events_are_those_of_the_other_way() {
    let by_hand = samples::all().into_iter().chain(v5_samples::all()).map(|(_, bytes)| bytes);
    let by_chance =
        (0..6).flat_map(|seed| [random::make(seed, 20).bytes, v5_random::make(seed, 20).bytes]);
    for bytes in by_hand.chain(by_chance) {
        let mut reader = Reader::new(&*bytes).unwrap();
        let mut expected = Vec::new();
        while let Some(event) = reader.next_event().unwrap() {
            expected.push(format!("{:?} {:?} {:?}", event.header, event.payload, event.thread()));
        }
        let mut other = Reader::new(&*bytes).unwrap();
        let mut found = Vec::new();
        while let Some(item) = other.next_item().unwrap() {
            if let Item::Event(event) = item {
                found.push(format!("{:?} {:?} {:?}", event.header, event.payload, event.thread()));
            }
        }
        assert_eq!(expected, found);
        assert_eq!(reader.totals(), other.totals());
    }
}

#[test]
fn damage_is_the_same_error() {
    let whole = samples::flushes();
    let mut errors = 0;
    for end in 60..whole.len() {
        let by_events = |bytes: &[u8]| {
            let mut reader = Reader::new(bytes)?;
            while reader.next_event()?.is_some() {}
            Ok::<_, nettrace_reader::Error>(())
        };
        let by_items = |bytes: &[u8]| {
            let mut reader = Reader::new(bytes)?;
            while reader.next_item()?.is_some() {}
            Ok::<_, nettrace_reader::Error>(())
        };
        let cut = &whole[..end];
        let said = |result: Result<(), nettrace_reader::Error>| result.map_err(|it| it.to_string());
        let (events, items) = (said(by_events(cut)), said(by_items(cut)));
        assert_eq!(events, items);
        errors += usize::from(events.is_err());
    }
    assert!(errors > 100, "{errors}");
}
