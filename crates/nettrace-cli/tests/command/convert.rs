//! Converts traces, and compares the contents of the result with those of the source.

use nettrace_reader::{Event, Reader};
use testkit::{
    reference::dotnet_traces,
    streams::{
        EventType, Row, STACK, Stream, fields_of, random, samples, utf16z, v5_random, v5_samples,
    },
};

use crate::{
    convert_support::{
        convert, events, heph_events, is_activity, is_sound, items, left_out, lost, shown, values,
    },
    program::{nettrace, stderr, stdout},
};

/// Handmade and random streams of version 6.
fn current() -> Vec<(String, Vec<u8>)> {
    let by_hand = samples::all().into_iter().map(|(name, bytes)| (name.to_owned(), bytes));
    let by_chance = (0..12).map(|i| (format!("seed {i}"), random::make(i, 10 + i * 8).bytes));
    by_hand.chain(by_chance).collect()
}

/// Streams of versions 4 and 5: handmade, random, and from real programs.
fn older() -> Vec<(String, Vec<u8>)> {
    let by_hand = v5_samples::all().into_iter().map(|(name, bytes)| (name.to_owned(), bytes));
    let by_chance = (0..12).map(|i| (format!("seed {i}"), v5_random::make(i, 10 + i * 8).bytes));
    let real = dotnet_traces().into_iter().map(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, std::fs::read(path).unwrap())
    });
    by_hand.chain(by_chance).chain(real).collect()
}

/// The number of unknown blocks, which every conversion drops.
fn unknown_blocks(bytes: &[u8]) -> u64 {
    let mut reader = Reader::new(bytes).unwrap();
    reader.read_to_end().unwrap();
    reader.totals().unknown_blocks
}

/// The same without the longest real trace.
fn short_older() -> impl Iterator<Item = (String, Vec<u8>)> {
    older().into_iter().filter(|(_, bytes)| bytes.len() < 1 << 20)
}

#[test]
fn version_6_to_6_keeps_everything() {
    for (name, bytes) in current() {
        let (converted, said) = convert(&bytes, "v6");
        let (before, after) = (items(&bytes), items(&converted));
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before, after, "{name}");
        }
        assert_eq!(before.len(), after.len(), "{name}");
        assert_eq!(lost(&bytes), lost(&converted), "{name}");
        assert_eq!(is_sound(&bytes), is_sound(&converted), "{name}");
        assert_eq!(left_out(&said), unknown_blocks(&bytes), "{name}: {said}");
        // A second conversion changes nothing.
        assert!(convert(&converted, "v6").0 == converted, "{name}");
    }
}

/// An event of version 4 or 5 with the opcode that its name stands for, if its type states none.
fn with_opcode(event: &Event<'_>, number: u32) -> String {
    let name = event.metadata().name.to_ascii_lowercase();
    let opcode = match () {
        () if name.ends_with("start") => "oSome(1)",
        () if name.ends_with("stop") => "oSome(2)",
        () => "oNone",
    };
    shown(event, number).replace(" oNone message ", &format!(" {opcode} message "))
}

#[test]
fn versions_5_and_4_to_6_keep_everything() {
    for (name, bytes) in older() {
        let (converted, said) = convert(&bytes, "v6");
        let (before, after) = (events(&bytes, with_opcode), events(&converted, shown));
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before, after, "{name}");
        }
        assert_eq!(before.len(), after.len(), "{name}");
        assert_eq!(lost(&bytes), lost(&converted), "{name}");
        assert!(!is_sound(&bytes) || is_sound(&converted), "{name}");
        let (from, to) = (Reader::new(&*bytes).unwrap(), Reader::new(&*converted).unwrap());
        assert_eq!(from.trace(), to.trace(), "{name}");
        assert_eq!(to.major_version(), 6);
        let is_renumbered = said.contains("threads' numbers");
        let left_out = left_out(&said) - unknown_blocks(&bytes);
        assert!(left_out == 0 || is_renumbered, "{name}: {said}");
        if !is_renumbered {
            let number = |event: &Event<'_>, _| event.header.sequence_number.to_string();
            assert_eq!(events(&bytes, number), events(&converted, number), "{name}");
        }
        assert!(convert(&converted, "v6").0 == converted, "{name}");
    }
}

/// Converts to the older versions. Payloads are compared by their values.
#[test]
fn version_6_to_5_keeps_what_5_can_say() {
    let show = |event: &Event<'_>, number: u32| {
        let header = event.header;
        let labels: Vec<_> = event.labels().iter().filter(|it| is_activity(it)).cloned().collect();
        let stack: Option<Vec<u64>> = event.stack().map(|stack| stack.addresses().collect());
        let number = if event.capture_thread().events == 1 { number.min(1) } else { number };
        format!(
            "{} #{number} of {:?} about {:?} on {} sorted {} stack {stack:?} labels {labels:?} {} \
             {} {:?} {:?}",
            header.timestamp,
            event.capture_thread().thread.os_thread_id,
            event.thread().os_thread_id,
            header.processor,
            header.is_sorted,
            event.metadata().provider,
            event.metadata().event_id as u16,
            event.metadata().name.replace('\0', "\u{FFFD}"),
            values(event)
        )
    };
    let mut converted_whole = 0;
    for (name, bytes) in current() {
        let (converted, said) = convert(&bytes, "v5");
        // The first number of a thread is 1, so earlier losses show up after it. Losses of a thread
        // without events show up on another thread. So numbers are not compared for these streams.
        let show = |event: &Event<'_>, number| match &*name {
            "losses" | "flushes" => show(event, 0),
            _ => show(event, number),
        };
        let (before, after) = (events(&bytes, show), events(&converted, show));
        let is_whole = !said.contains(" events whose payload");
        // A thread without an id, or with the id of another thread, gets a new id.
        let has_ids = !["threads", "names"].contains(&&*name);
        if is_whole && has_ids {
            for (before, after) in before.iter().zip(&after) {
                assert_eq!(before, after, "{name}");
            }
            assert_eq!(before.len(), after.len(), "{name}");
            converted_whole += 1;
        }
        assert!(is_sound(&converted), "{name}");
        assert!(convert(&converted, "v5").0 == converted, "{name}");
    }
    assert!(converted_whole > 15, "{converted_whole}");
}

#[test]
fn losses_are_the_same_in_every_version() {
    for (name, bytes) in current() {
        for to in ["v5", "v4"] {
            let (converted, said) = convert(&bytes, to);
            let refused: u64 = said
                .lines()
                .filter(|line| line.contains(" events whose payload"))
                .map(|line| line.split(": ").nth(1).unwrap().split(' ').next().unwrap())
                .map(|count| count.parse::<u64>().unwrap())
                .sum();
            assert_eq!(lost(&converted), lost(&bytes) + refused, "{name} {to}: {said}");
            assert!(is_sound(&converted), "{name} {to}");
        }
    }
    for (name, bytes) in older() {
        for to in ["v5", "v4"] {
            let (converted, said) = convert(&bytes, to);
            assert!(!said.contains(" events whose payload"), "{name} {to}: {said}");
            assert_eq!(lost(&converted), lost(&bytes), "{name} {to}");
            assert!(!is_sound(&bytes) || is_sound(&converted), "{name} {to}");
        }
    }
}

#[test]
fn version_5_to_5_and_4_keeps_the_rows() {
    let show = |event: &Event<'_>, _| {
        let header = event.header;
        format!("{header:?} {:?} {:?}", event.metadata().name, event.labels())
            .replace(&format!("metadata_id: {}", header.metadata_id), "")
            .replace(&format!("payload_size: {}", header.payload_size), "")
    };
    for (name, bytes) in older() {
        for to in ["v5", "v4"] {
            let (converted, _) = convert(&bytes, to);
            assert_eq!(events(&bytes, show), events(&converted, show), "{name} {to}");
        }
        let (converted, _) = convert(&bytes, "v5");
        let payload = |event: &Event<'_>, _| format!("{:?}", event.payload);
        assert_eq!(events(&bytes, payload), events(&converted, payload), "{name}");
        assert!(convert(&converted, "v5").0 == converted, "{name}");
    }
}

/// Converts from version 5 to version 6, which must not lose anything.
#[test]
fn there_and_back() {
    for (name, bytes) in short_older() {
        let (current, _) = convert(&bytes, "v6");
        let (back, _) = convert(&current, "v5");
        let (again, _) = convert(&back, "v6");
        // In version 5 the first number of a thread is 1, so earlier losses show up after it.
        let show = |event: &Event<'_>, number| match event.capture_thread().events {
            1 => shown(event, 1),
            _ => shown(event, number),
        };
        let (before, after) = (events(&current, show), events(&again, show));
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before, after, "{name}");
        }
        assert_eq!(before.len(), after.len(), "{name}");
        assert_eq!(lost(&bytes), lost(&back), "{name}");
    }
}

#[test]
fn heph_has_every_event() {
    for (name, bytes) in current().into_iter().chain(short_older()) {
        let (converted, said) = convert(&bytes, "heph");
        let read = heph_events(&converted);
        let expected = events(&bytes, |event, _| {
            let trace = event.trace();
            let ticks = u128::from(event.header.timestamp.saturating_sub(trace.sync_ticks));
            let nanos = ticks * 1_000_000_000 / u128::from(trace.ticks_per_second);
            format!("{} {} {}", nanos, event.metadata().provider, event.metadata().event_id)
        });
        let shown: Vec<_> = read
            .iter()
            .map(|(_, _, start, attributes)| {
                let value = |key: &str| {
                    let rest = attributes.split(&format!("{key}=")).nth(1).unwrap();
                    rest.split_once('(').unwrap().1.split(')').next().unwrap().to_owned()
                };
                let provider = attributes.split("@provider=Text(\"").nth(1).unwrap();
                let provider = provider.split("\") @event=").next().unwrap();
                format!("{start} {provider} {}", value("@id"))
            })
            .collect();
        assert!(!said.contains(" events, whose"), "{name}: {said}");
        if !["names", "text"].contains(&&*name) {
            assert_eq!(expected, shown, "{name}");
        }
        assert_eq!(expected.len(), shown.len(), "{name}");
        let mut reader = nettrace_reader::heph::Options::default().open(&*converted);
        while reader.next_event().unwrap().is_some() {}
        assert_eq!(reader.totals().lost, lost(&bytes), "{name}");
    }
}

/// Lists everything in the source that the target cannot store.
#[test]
fn what_nobody_describes_is_listed() {
    const VAR_UINT: u8 = 21;
    const ACTIVITY: u8 = 1;
    let mut stream = Stream::new();
    stream.thread(1);
    stream.metadata(&EventType::new(1, "P", 1, "E").field("a", &[VAR_UINT]));
    let activity = |byte| [&[ACTIVITY], &[byte; 16][..]].concat();
    stream.label_lists(1, &[&[activity(7), activity(8)]]);
    // Three bytes after the field, and a time before the start of the trace.
    let longer = Row::new(1, 1, 10).payload(&[5, 1, 2, 3]);
    let labelled = Row::new(1, 2, 2_000).payload(&[5]).labels(1);
    let mut on_a_stack = Row::new(1, 3, 2_001).payload(&[5]);
    on_a_stack.stack = 5;
    stream.events(&[longer, labelled, on_a_stack]).block(99, b"something of the future");
    let bytes = stream.end();
    let (longer, blocks) =
        ("1 events' bytes behind the last field of their type", "1 blocks of unknown kinds");
    let (labels, names) = ("1 labels of events", "1 names of threads");
    let early = "1 times before the start of the trace, which became the start";
    let stacks = "1 references to stacks that the source does not define";
    let keys = "2 key-values of the trace";
    for (to, listed) in [
        ("v6", &[blocks][..]),
        ("v5", &[longer, blocks, labels, names]),
        ("v4", &[longer, blocks, labels, names]),
        ("heph", &[longer, blocks, early, stacks, keys]),
    ] {
        let (_, said) = convert(&bytes, to);
        for line in listed {
            assert!(said.contains(&format!(" cannot express it: {line}\n")), "{to} {line}: {said}");
        }
        assert_eq!(said.lines().count(), listed.len() + 1, "{to}: {said}");
    }
}

/// Dates of sixteen bytes become dates of eight, and data that several locations share is copied
/// for each. A date that does not exist cannot be converted, which the exit code says.
#[test]
fn long_dates_and_shared_data() {
    let date = long_date;
    let pair = fields_of(&[("at", vec![16]), ("n", vec![6])]);
    let dates = EventType::new(1, "P", 1, "Dates").field("t", &[16]);
    let dates = dates.field("list", &[&[19, 1][..], &pair].concat()).field("text", &[18]);
    let dates = dates.field("near", &[24, 16]).field("n", &[6]);
    let shared = EventType::new(2, "P", 2, "Shared").field("a", &[25, 7]);
    let shared = shared.field("b", &[25, 7]).field("c", &[24, 7]).field("n", &[6]);
    let location = |at: u16, size: u16| [at.to_le_bytes(), size.to_le_bytes()].concat();
    let with_dates = |month| {
        let list = [&[1, 0][..], &date(2), &[4]].concat();
        [date(month), list, utf16z("é"), location(1, 16), vec![7], date(3)].concat()
    };
    let numbers: Vec<u8> = (1..=20_i16).flat_map(i16::to_le_bytes).collect();
    let (a, b, c) = (location(13, 40), location(15, 38), location(1, 40));
    let sharing = [&*a, &*b, &*c, &[7], &*numbers].concat();
    let stream = |rows: &[Row]| {
        let mut stream = Stream::at(1);
        stream.thread(1).metadata(&dates).metadata(&shared).events(rows).end()
    };
    let good = [
        Row::new(1, 1, 10).payload(&with_dates(11)),
        Row::new(1, 2, 11).metadata(2).payload(&sharing),
    ];
    let bytes = stream(&good);
    for to in ["v6", "v5", "v4", "heph"] {
        let (converted, said) = convert(&bytes, to);
        assert!(!said.contains("payload"), "{to}: {said}");
        let (v6, _) = convert(&converted, "v6");
        let dumped = nettrace(&["dump", "-"], &v6);
        let text = stdout(&dumped);
        let numbers = |from: i16| (from..=20).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
        for part in [
            "2026-11-21T09:39:11.005",
            "2026-02-21T09:39:11.005",
            "2026-03-21T09:39:11.005",
            "text=\"é\"",
            &format!("[{}]", numbers(1)),
            &format!("[{}]", numbers(2)),
        ] {
            assert!(text.contains(part), "{to} {part}: {text}");
        }
        assert_eq!(text.matches("n=7").count(), 2, "{to}: {text}");
    }
    let never = [Row::new(1, 1, 10).payload(&with_dates(13)), Row::new(1, 2, 11).metadata(2)];
    for to in ["v5", "v4"] {
        let output = nettrace(&["convert", "-", "-", "--to", to], &stream(&never));
        assert_eq!(output.status.code(), Some(3), "{to}: {}", stderr(&output));
        let line = "could not be converted: 2 events whose payload does not fit their type\n";
        assert!(stderr(&output).contains(line), "{to}: {}", stderr(&output));
        assert!(nettrace_reader::verify(&output.stdout[..]).unwrap().is_sound(), "{to}");
    }
    // Fields that cannot be decoded, in targets that show values.
    let short = stream(&[Row::new(1, 1, 10).metadata(2).payload(&[1])]);
    for (to, code) in [("chrome", 3), ("perfetto", 3), ("csv", 3), ("jsonl", 3), ("folded", 0)] {
        let output = nettrace(&["convert", "-", "-", "--to", to], &short);
        assert_eq!(output.status.code(), Some(code), "{to}: {}", stderr(&output));
    }
}

#[test]
fn pointers_of_unusual_sizes_become_64_bits() {
    const POINTER_SIZE: usize = 56; // its position in a stream
    let with_stack = |event: &Event<'_>, number: u32| {
        let stack: Option<Vec<u64>> = event.stack().map(|stack| stack.addresses().collect());
        format!("#{number} stack {stack:x?}")
    };
    for size in [1_u8, 2, 3, 4, 5, 8] {
        let mut stack = vec![1, 0, 0, 0, 1, 0, 0, 0, size * 2, 0, 0, 0];
        for byte in [0x11_u8, 0x22] {
            stack.extend(std::iter::repeat_n(byte, size.into()));
        }
        let mut stream = Stream::at(1);
        stream.bytes[POINTER_SIZE] = size;
        let mut row = Row::new(1, 1, 10);
        row.stack = 1;
        stream.thread(1).simple_metadata(1).block(STACK, &stack).events(&[row]);
        let bytes = stream.end();
        let before = events(&bytes, with_stack);
        assert_eq!(before.len(), 1);
        assert!(before[0].contains("[11") && before[0].contains(", 22"), "{before:?}");
        for to in ["v6", "v5", "v4"] {
            let (converted, _) = convert(&bytes, to);
            assert_eq!(events(&converted, with_stack), before, "{size} bytes, {to}");
            let reader = Reader::new(&*converted).unwrap();
            assert_eq!(reader.trace().pointer_size, if size == 4 { 4 } else { 8 });
        }
    }
}

/// A date of sixteen bytes, in 2026.
fn long_date(month: i16) -> Vec<u8> {
    let parts = [2026_i16, month, 6, 21, 9, 39, 11, 5];
    parts.iter().flat_map(|part| part.to_le_bytes()).collect()
}

/// Rows of such types are copied as they are, unless they have dates.
#[test]
fn long_dates_in_types_that_need_no_conversion() {
    let ty = EventType::new(1, "P", 1, "Dates").field("t", &[16]).field("n", &[6]);
    let payload = |month| [&*long_date(month), &[7]].concat();
    let short = [&134_082_000_000_000_000_u64.to_le_bytes()[..], &[7]].concat();
    let row = |number, payload: &[u8]| Row::new(1, number, 9 + u64::from(number)).payload(payload);
    let rows = [1, 2, 3, 4].map(|number| match number {
        3 => row(number, &short),
        4 => row(number, &payload(13)),
        number => row(number, &payload(number as i16)),
    });
    let trace = Stream::at(1).thread(1).metadata(&ty).events(&rows).end();
    for to in ["v5", "v4"] {
        let output = nettrace(&["convert", "-", "-", "--to", to], &trace);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{to}: {said}");
        let line = "could not be converted: 1 events whose payload does not fit their type\n";
        assert!(said.contains(line), "{to}: {said}");
        let dumped = nettrace(&["dump", "--json", "--show", "payload", "-"], &output.stdout);
        let text = stdout(&dumped);
        assert_eq!(text.matches("\"payload_bytes\":9,").count(), 3, "{to}: {text}");
        for part in ["2026-01-21T09:39:11.005", "2026-02-21T09:39:11.005"] {
            assert!(text.contains(part), "{to} {part}: {text}");
        }
    }
}
