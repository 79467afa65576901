//! Handmade Heph traces, sound and damaged.

use nettrace_reader::{
    Error, ErrorKind,
    heph::{Datagrams, Kind, Options, Reader, Value, is_heph, verify},
};

/// The example of an event packet in the format's document: 91 bytes.
const EXAMPLE: &[u8] = b"\xC1\xFC\x1F\xB7\0\0\0\x5B\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\
    \0\0\0\0\0\0\0\x64\0\0\0\0\0\0\0\xC8\0\x08My event\
    \0\x04Test\x01\0\0\0\0\0\0\0\x7B\
    \0\x05Test2\x83\0\x02\x40\x5E\xDD\x2F\x1A\x9F\xBE\x77\x40\x88\xA8\0\0\0\0\0";

/// The example of a metadata packet in the format's document: 23 bytes.
const EPOCH: &[u8] = b"\x75\xD1\x1D\x4D\0\0\0\x17\0\x05epoch\x16\x58\x45\xE9\x12\x14\xEC\x90";

/// An event without attributes.
fn event(stream: u32, counter: u32) -> Vec<u8> {
    event_with(stream, counter, b"")
}

fn event_with(stream: u32, counter: u32, attributes: &[u8]) -> Vec<u8> {
    let mut out = vec![0xC1, 0xFC, 0x1F, 0xB7];
    out.extend((43 + attributes.len() as u32).to_be_bytes());
    out.extend(stream.to_be_bytes());
    out.extend(counter.to_be_bytes());
    out.extend([0; 24]);
    out.extend(b"\0\x01e");
    out.extend(attributes);
    out
}

fn option(name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = vec![0x75, 0xD1, 0x1D, 0x4D];
    out.extend((10 + name.len() as u32 + value.len() as u32).to_be_bytes());
    out.extend((name.len() as u16).to_be_bytes());
    out.extend(name);
    out.extend(value);
    out
}

/// The number of events that were read with all their attributes, and how reading ended.
fn read(bytes: &[u8]) -> (u64, Result<(), Error>) {
    let mut reader = Reader::new(bytes);
    let end = loop {
        match reader.next_event() {
            Ok(Some(event)) => {
                if let Some(error) = event.attributes().find_map(Result::err) {
                    break Err(error);
                }
            }
            Ok(None) => break Ok(()),
            Err(error) => {
                // The reader stays at its end.
                assert!(reader.next_event().unwrap().is_none());
                break Err(error);
            }
        }
    };
    (reader.totals().events, end)
}

fn error(bytes: &[u8]) -> Error {
    read(bytes).1.unwrap_err()
}

#[test]
fn the_documents_examples() {
    assert_eq!((EPOCH.len(), EXAMPLE.len()), (23, 91));
    assert!(is_heph(EPOCH) && is_heph(EXAMPLE));
    assert!(!is_heph(b"Nettrace") && !is_heph(&EPOCH[..3]));
    let bytes = [EPOCH, EXAMPLE].concat();
    let mut reader = Reader::new(&*bytes);
    assert_eq!(reader.epoch(), None);
    let event = reader.next_event().unwrap().unwrap();
    assert_eq!((event.offset, event.stream, event.counter, event.substream), (23, 0, 0, 1));
    assert_eq!((event.start, event.end, event.description), (100, 200, "My event"));
    let attributes: Vec<_> = event.attributes().map(Result::unwrap).collect();
    assert_eq!(attributes[0], ("Test", Value::U64(123)));
    let ("Test2", Value::Array(array)) = &attributes[1] else { panic!("{attributes:?}") };
    assert_eq!((array.kind(), array.len(), array.is_empty()), (Kind::F64, 2, false));
    let values: Vec<_> = array.iter().collect();
    assert_eq!(values, [Value::F64(123.456), Value::F64(789.0)]);
    assert_eq!(attributes.len(), 2);
    assert!(reader.next_event().unwrap().is_none());
    assert_eq!(reader.epoch(), Some(1_610_113_734_118_010_000));
    assert_eq!(reader.offset(), 114);
    assert_eq!(reader.totals().packets, 2);
    assert!(read(b"").1.is_ok());
    assert_eq!(read(EPOCH).0, 0);
}

#[test]
fn every_type_of_attribute() {
    let attributes = b"\0\x01a\x02\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFE\
        \0\x01b\x04\0\x02\xC3\xA9\
        \0\0\x84\0\x03\0\x01x\0\0\0\x02yz\
        \0\x01c\x81\0\0\
        \0\x01c\x82\0\x01\x80\0\0\0\0\0\0\0\
        \0\x01d\x03\x7F\xF0\0\0\0\0\0\0";
    let bytes = event_with(0, 0, attributes);
    let mut reader = Reader::new(&*bytes);
    let event = reader.next_event().unwrap().unwrap();
    let shown: Vec<_> = event
        .attributes()
        .map(Result::unwrap)
        .map(|(name, value)| match value {
            Value::Array(array) => {
                format!("{name} {:?} {:?}", array.kind(), array.iter().collect::<Vec<_>>())
            }
            value => format!("{name} {value:?}"),
        })
        .collect();
    let expected = [
        "a I64(-2)",
        "b Text(\"é\")",
        " Text [Text(\"x\"), Text(\"\"), Text(\"yz\")]",
        "c U64 []",
        "c I64 [I64(-9223372036854775808)]",
        "d F64(inf)",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn unknown_options_are_skipped_whatever_their_size() {
    let bytes = [
        &option(b"", b"")[..],
        &option(b"epoc", &[1; 9]),
        &option(b"epochs", &[1; 8]),
        &option(&[0xFF; 65_535], &[]), // not even text
        &option(b"big", &vec![7; 300_000]),
        &event(1, 1),
        EPOCH,
        &event(1, 2),
    ]
    .concat();
    // Unknown options may exceed the limit for packets, because they are skipped.
    let mut reader = Options::default().packet_limit(64).open(&*bytes);
    assert!(reader.next_event().unwrap().is_some());
    assert_eq!((reader.epoch(), reader.totals().unknown_options), (None, 5));
    assert!(reader.next_event().unwrap().is_some());
    assert_eq!(reader.epoch(), Some(1_610_113_734_118_010_000));
    assert!(reader.next_event().unwrap().is_none());
    assert_eq!((reader.totals().packets, reader.totals().lost), (8, 0));
}

#[test]
fn gaps_in_the_counters_are_losses() {
    let numbers = [
        (1, 5),
        (2, 0),
        (1, 6),
        (1, 9),        // 7 and 8 are missing
        (1, 8),        // late
        (1, 9),        // twice
        (2, u32::MAX), // behind 0, not four billion ahead of it
        (1, 10),
        (3, u32::MAX - 1),
        (3, u32::MAX),
        (3, 0),
        (3, 3),
    ];
    let bytes: Vec<u8> = numbers.iter().flat_map(|(s, n)| event(*s, *n)).collect();
    let mut reader = Reader::new(&*bytes);
    while reader.next_event().unwrap().is_some() {}
    let totals = reader.totals();
    assert_eq!((totals.events, totals.lost, totals.step_backs), (12, 4, 3));
    let mut streams: Vec<_> = reader.streams().copied().collect();
    streams.sort_by_key(|stream| stream.stream);
    let shown: Vec<_> =
        streams.iter().map(|s| (s.stream, s.events, s.lost, s.step_backs)).collect();
    assert_eq!(shown, [(1, 6, 2, 2), (2, 2, 0, 1), (3, 4, 2, 0)]);
    assert_eq!((streams[0].first_counter, streams[0].last_counter), (5, 10));
    assert_eq!((streams[2].first_counter, streams[2].last_counter), (u32::MAX - 1, 3));
    let report = verify(&*bytes, Options::default(), 2).unwrap();
    assert_eq!((report.count, report.violations.len(), report.lost), (3, 2, 4));
    assert_eq!(report.violations[0].offset, 4 * 43);
    assert_eq!(
        report.violations[0].to_string(),
        "at byte 172: event 8 of stream 1 comes after a later one (the format allows it, this \
         project does not)"
    );
}

/// An option states losses that no counter shows.
#[test]
fn losses_at_the_ends_of_a_stream_are_said() {
    let lost = |stream: u32, last: u32, count: u64| {
        let words = [u64::from(stream) << 32 | u64::from(last), count];
        option(b"nettrace.lost", &words.map(u64::to_be_bytes).concat())
    };
    let bytes = [
        lost(1, 4, 4), // before its first event
        event(1, 5),
        event(1, 7), // 6 is missing
        lost(1, 9, 2),
        event(1, 10),
        lost(2, u32::MAX, 3), // a stream without an event
        event(2, 1),          // 0 is missing
    ]
    .concat();
    let mut reader = Reader::new(&*bytes);
    while reader.next_event().unwrap().is_some() {}
    let totals = reader.totals();
    assert_eq!((totals.events, totals.lost, totals.step_backs), (4, 11, 0));
    assert_eq!((totals.packets, totals.unknown_options), (7, 0));
    let first = reader.streams().find(|stream| stream.stream == 1).unwrap();
    assert_eq!((first.lost, first.first_counter, first.last_counter), (7, 1, 10));
    // `verify` accepts such options.
    assert!(verify(&*bytes, Options::default(), 1).unwrap().is_sound());
    let most = [lost(1, 1, u64::MAX), lost(1, 2, 1)].concat();
    assert_eq!(verify(&*most, Options::default(), 1).unwrap().lost, u64::MAX);
    let error = error(&option(b"nettrace.lost", &[0; 17]));
    assert!(error.to_string().contains("16 bytes") && error.offset() == 23, "{error}");
}

/// Unused room that a file sink has reserved. Readers ignore what it contains.
#[test]
fn padding_is_skipped() {
    let pad = |size: usize| option(b"nettrace.pad", &event(9, 9).repeat(size / 43 + 1)[..size]);
    let bytes = [pad(100_000), event(1, 1), pad(0), event(1, 2), pad(43)].concat();
    let mut reader = Reader::new(&*bytes);
    while reader.next_event().unwrap().is_some() {}
    let totals = reader.totals();
    assert_eq!((totals.events, totals.lost, totals.packets), (2, 0, 5));
    assert_eq!((totals.unknown_options, totals.padding), (0, 3 * 22 + 100_043));
    assert!(verify(&*bytes, Options::default(), 1).unwrap().is_sound());
    let cut = error(&bytes[..bytes.len() - 1]);
    assert!(matches!(cut.kind(), ErrorKind::Truncated { missing: 1 }), "{cut}");
}

#[test]
fn an_event_that_ends_before_it_starts_is_a_violation() {
    let mut reversed = event(1, 1);
    reversed[31] = 1; // the start; the end is 0
    let bytes = [event(1, 0), reversed].concat();
    let report = verify(&*bytes, Options::default(), 5).unwrap();
    let violations: Vec<_> = report.violations.iter().map(ToString::to_string).collect();
    let remark = "(the format allows it, this project does not)";
    let expected = format!("at byte 43: event 1 of stream 1 ends before it starts {remark}");
    assert_eq!(violations, [expected]);
    assert!(report.events == 2 && report.keeps_format());
}

/// An event older than the epoch can be written in no other way.
#[test]
fn an_event_at_the_epoch_is_a_violation() {
    let mut span = event(1, 1);
    span[39] = 1; // it began at the epoch, and ended later
    let events = [event(1, 0), span].concat();
    let violations = |bytes: &[u8]| -> Vec<String> {
        let report = verify(bytes, Options::default(), 5).unwrap();
        assert!(report.keeps_format());
        report.violations.iter().map(|violation| violation.what.clone()).collect()
    };
    let expected = ["event 0 of stream 1 is as old as the epoch, or older"];
    assert_eq!(violations(&[EPOCH, &events].concat()), expected);
    // An epoch holds for what is before it, too.
    assert_eq!(violations(&[&events, EPOCH].concat()), expected);
    assert!(violations(&events).is_empty(), "nobody has said when the time begins");
}

#[test]
fn events_of_any_size_within_the_limit() {
    let text = [&b"\0\x01t\x84\xFF\xFF"[..], &[0; 2 * 65_535]].concat();
    let many = text.repeat(20);
    let bytes = [event_with(0, 0, &many), event(0, 1)].concat();
    assert_eq!(read(&bytes).0, 2);
    let size = bytes.len() - 43;
    let mut reader = Options::default().packet_limit(size).open(&*bytes);
    let first = reader.next_event().unwrap().unwrap();
    assert_eq!(first.attributes().count(), 20);
    assert!(reader.next_event().unwrap().is_some());
    let mut reader = Options::default().packet_limit(size - 1).open(&*bytes);
    let error = reader.next_event().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::LimitExceeded { limit, .. } if *limit == size - 1));
    let bytes: Vec<u8> = (0..50).flat_map(|stream| event(stream, 0)).collect();
    let mut reader = Options::default().streams_limit(2_000).open(&*bytes);
    let error = loop {
        match reader.next_event() {
            Ok(event) => assert!(event.is_some()),
            Err(error) => break error,
        }
    };
    assert!(matches!(error.kind(), ErrorKind::LimitExceeded { limit: 2_000, .. }), "{error}");
    assert!(reader.totals().events > 5);
}

#[test]
fn damage_has_a_place_and_a_kind() {
    let check = |bytes: &[u8], offset: u64, says: &str| {
        let error = error(bytes);
        assert_eq!(error.offset(), offset, "{error}");
        assert!(error.to_string().contains(says), "{error}");
        let report = verify(bytes, Options::default(), 10).unwrap();
        assert_eq!((report.count, report.violations[0].offset), (1, offset));
    };
    check(b"Nettrace", 0, "no Heph trace");
    check(b"\xC1\xFC", 0, "no Heph trace");
    let behind = |bytes: &[u8]| [&event(0, 0), bytes].concat();
    check(&behind(b"Nettrace"), 43, "neither an event nor an option");
    check(&behind(b"\xC1\xFC\x1F\xB7\0\0\0\x29rest"), 47, "its size");
    check(&behind(b"\x75\xD1\x1D\x4D\0\0\0\x09\0"), 47, "its size");
    check(&behind(b"\x75\xD1\x1D\x4D\0\0\0\x0B\0\x02ab"), 51, "exceeds its packet");
    check(&behind(&option(b"epoch", &[0; 7])), 58, "8 bytes");
    check(&behind(&option(b"epoch", &[0; 9])), 58, "8 bytes");
    // A description that is longer than its packet, and one that is not text.
    let mut bytes = event(0, 0);
    bytes[41] = 2;
    check(&bytes, 42, "ends inside a field");
    bytes[41] = 1;
    bytes[42] = 0x80;
    check(&bytes, 42, "UTF-8");
    check(&event_with(0, 0, b"\0"), 43, "ends inside a field");
    check(&event_with(0, 0, b"\0\x01a"), 46, "ends inside a field");
    for code in [0, 5, 0x80, 0x85, 0x40, 0x41, 0xFF] {
        let attribute = [0, 1, b'a', code, 0, 0, 0, 0, 0, 0, 0, 0];
        check(&event_with(0, 0, &attribute), 46, "a type that the format does not know");
    }
    check(&event_with(0, 0, b"\0\x01a\x81\0\x02\0\0\0\0\0\0\0\0"), 49, "ends inside a field");
    check(&event_with(0, 0, b"\0\x01a\x84\0\x02\0\x01x\0\x01\xFF"), 54, "UTF-8");
    let other = option(b"epoch", &[0; 8]);
    let report = verify(&*[EPOCH, EPOCH, &other].concat(), Options::default(), 1).unwrap();
    assert_eq!((report.count, report.violations[0].offset), (1, 46));
    assert!(verify(&*[EPOCH, EXAMPLE].concat(), Options::default(), 1).unwrap().is_sound());
}

/// A sample of everything.
fn sample() -> Vec<u8> {
    let attributes = b"\0\x01b\x04\0\x02\xC3\xA9\0\0\x84\0\x02\0\x01x\0\x01y\0\x01c\x81\0\0";
    let lost = option(b"nettrace.lost", b"\0\0\0\x07\0\0\0\x05\0\0\0\0\0\0\0\x02");
    let event = event_with(7, 1, attributes);
    [EPOCH, EXAMPLE, &option(b"colour", b"red"), &event, &self::event(7, 3), &lost].concat()
}

#[test]
fn every_cut_is_found_where_it_is() {
    let bytes = sample();
    let ends = [0, 23, 114, 133, 201, 244, 283];
    assert_eq!((read(&bytes).0, bytes.len()), (3, 283));
    for cut in 0..=bytes.len() {
        let (events, end) = read(&bytes[..cut]);
        let whole = ends.iter().filter(|end| **end > 0 && **end <= cut).count();
        assert_eq!(events, [0, 0, 1, 1, 2, 3, 3][whole], "{cut}");
        match end {
            Ok(()) => assert!(ends.contains(&cut), "{cut}"),
            Err(error) => {
                assert!(!ends.contains(&cut), "{cut}");
                assert_eq!(error.offset(), ends[whole] as u64, "{cut}: {error}");
                let missing = match error.kind() {
                    ErrorKind::Truncated { missing } => *missing,
                    ErrorKind::NotHeph if cut < 4 => continue,
                    _ => panic!("{cut}: {error}"),
                };
                let known = cut - ends[whole] >= 8;
                let size = if known { ends[whole + 1] - ends[whole] } else { 8 };
                // Of an option, the reader first asks only for enough to recognise it.
                assert!(missing <= (size - (cut - ends[whole])) as u64 && missing > 0, "{cut}");
            }
        }
    }
}

#[test]
fn flipped_bits_never_panic() {
    let bytes = sample();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << bit;
            let (events, end) = read(&bytes);
            assert!(events <= 3);
            if let Err(error) = end {
                assert!(error.offset() <= bytes.len() as u64);
            }
            let report = verify(&*bytes, Options::default(), 5).unwrap_or_default();
            assert!(report.bytes <= bytes.len() as u64);
        }
    }
}

/// An endless source. Skipped packets take no memory; other packets that are too large are refused.
#[test]
fn endless_sources_are_bounded() {
    use std::io::Read;
    let option = b"\x75\xD1\x1D\x4D\xFF\xFF\xFF\xFF\0\x03red";
    let event = b"\xC1\xFC\x1F\xB7\xFF\xFF\xFF\xFF";
    let mut reader = Reader::new(event.chain(std::io::repeat(0)));
    let error = reader.next_event().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::LimitExceeded { .. }));
    // Zeros are not a packet.
    let rest = std::io::repeat(0).take(64 << 20);
    let mut reader = Reader::new(option.chain(rest));
    let error = reader.next_event().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Truncated { missing } if *missing > 3 << 30));
    let mut reader = Reader::new(EXAMPLE.chain(std::io::repeat(0)));
    assert!(reader.next_event().unwrap().is_some());
    let error = reader.next_event().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Packet { .. }));
    assert_eq!(error.offset(), 91);
}

/// Datagrams that are no packets, or of senders that do not count, and numbers around 2^32.
#[test]
fn datagrams_of_all_kinds() {
    let take = |packets: &[&[u8]], window: usize| {
        let (mut datagrams, mut trace) = (Datagrams::new(window), Vec::new());
        packets.iter().for_each(|packet| datagrams.push(packet, &mut trace));
        datagrams.release(&mut trace);
        (trace, *datagrams.totals())
    };
    // A damaged packet would end the trace for a reader, so it is refused.
    let bad_text = event_with(1, 2, b"\0\x01a\x04\0\x01\xFF");
    let [good, damaged] = [event(1, 1), bad_text];
    let two = [&good[..], &good].concat();
    let bad_epoch = option(b"epoch", &[0; 7]);
    let bad_lost = option(b"nettrace.lost", &[0xFF; 16]);
    let junk: [&[u8]; 9] = [
        b"",
        b"x",
        &good[..41],
        &damaged,
        &two,
        b"Nettrace",
        &bad_epoch,
        &bad_lost,
        &option(b"nettrace.lost", &[0; 15]),
    ];
    for packet in junk {
        let (trace, totals) = take(&[packet], 4);
        assert_eq!((trace.len(), totals.refused), (0, 1), "{packet:?}");
    }
    // Two events with the number 0: nothing is missing, and nothing is late.
    let (zeros, others) = (event(1, 0), event_with(1, 0, b"\0\x01a\x04\0\x01b"));
    for window in [0, 1, 9] {
        let (trace, totals) = take(&[&zeros, &others, &others, &zeros], window);
        assert_eq!((totals.events, totals.late, totals.lost), (4, 0, 0), "{window}");
        assert!(verify(&*trace, Options::default(), 1).unwrap().is_sound());
    }
    // The counter wraps, in any order within the window.
    let numbers: Vec<_> =
        (0..64_u32).map(|at| event(1, (u32::MAX - 30).wrapping_add(at))).collect();
    let mut packets: Vec<&[u8]> = numbers.iter().map(|packet| &packet[..]).collect();
    packets.chunks_mut(8).for_each(<[_]>::reverse);
    packets.remove(20);
    let (trace, totals) = take(&packets, 16);
    assert_eq!((totals.events, totals.late, totals.lost), (63, 0, 1));
    let report = verify(&*trace, Options::default(), 1).unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(report.lost, 1);
    // What comes after the window is left out, and stays lost.
    let (trace, totals) = take(&[&event(1, 1), &event(1, 3), &event(1, 4), &event(1, 2)], 1);
    assert_eq!((totals.events, totals.late, totals.lost), (3, 1, 1));
    assert!(verify(&*trace, Options::default(), 1).unwrap().is_sound());
    // Losses that the sender states, in any order, with what the network has lost before them.
    let stated = option(b"nettrace.lost", b"\0\0\0\x01\0\0\0\x05\0\0\0\0\0\0\0\x02");
    let mark = option(b"nettrace.lost", b"\0\0\0\x01\0\0\0\x09\0\0\0\0\0\0\0\0");
    let [one, six, seven] = [1, 6, 7].map(|number| event(1, number));
    for packets in [
        [&one[..], &stated, &six, &seven, &mark],
        [&mark, &seven, &six, &stated, &one],
        [&seven, &mark, &one, &six, &stated],
    ] {
        let (trace, totals) = take(&packets, 9);
        // 2 and 3 on the way, 4 and 5 as stated, 8 and 9 after the last one.
        assert_eq!((totals.events, totals.late, totals.lost), (3, 0, 6), "{packets:?}");
        let report = verify(&*trace, Options::default(), 1).unwrap();
        assert!(report.is_sound() && report.lost == 6, "{report:?}");
    }
}

/// Whatever comes, a reader can read what is passed on to its end.
#[test]
fn damaged_datagrams_damage_no_trace() {
    let sample = sample();
    let mut packets = Vec::new();
    let mut rest = &sample[..];
    while let Some(size) = rest.get(4..8) {
        let size = u32::from_be_bytes(size.try_into().unwrap());
        let (packet, others) = rest.split_at(size as usize);
        packets.push(packet.to_vec());
        rest = others;
    }
    assert_eq!(packets.len(), 6);
    for window in [0, 2, 9] {
        for (at, bit) in (0..6).flat_map(|at| (0..packets[at].len() * 8).map(move |bit| (at, bit)))
        {
            let mut changed = packets.clone();
            changed[at][bit / 8] ^= 1 << (bit % 8);
            changed.rotate_left(bit % 6);
            let (mut datagrams, mut trace) = (Datagrams::new(window), Vec::new());
            changed.iter().for_each(|packet| datagrams.push(packet, &mut trace));
            datagrams.release(&mut trace);
            let mut reader = Reader::new(&*trace);
            while let Some(event) = reader.next_event().unwrap_or_else(|error| match trace[..] {
                [] => None,
                _ => panic!("{at} {bit}: {error}"),
            }) {
                assert!(event.attributes().all(|attribute| attribute.is_ok()));
            }
            assert_eq!(reader.totals().events, datagrams.totals().events, "{at} {bit}");
        }
    }
    // A sender that begins another trace: its counters begin again.
    let (mut datagrams, mut trace) = (Datagrams::new(4), Vec::new());
    let other = option(b"epoch", &[1; 8]);
    for packet in [EPOCH, &event(1, 1), &event(1, 2), EPOCH, &other, &event(1, 1), &event(1, 3)] {
        datagrams.push(packet, &mut trace);
    }
    datagrams.release(&mut trace);
    let totals = datagrams.totals();
    assert_eq!((totals.events, totals.lost, totals.late), (4, 1, 0));
}
