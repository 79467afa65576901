//! Every way to read a stream finds the same, whether the stream is sound or damaged: event by
//! event, by counting alone, in the order of time, with read-ahead or without.

use std::{
    collections::BTreeMap,
    io::{self, Read},
};

use nettrace_reader::{
    Event, Options, ReadAhead, Reader, Source, ThreadTotals, Totals, Violation, verify,
};
use testkit::streams::{Row, Stream, random, samples, v5_random, v5_samples};

/// A source that returns a few bytes at a time, like a pipe, or many.
#[derive(Clone)]
struct Dribble {
    bytes: Vec<u8>,
    at: usize,
    most: usize,
}

impl Dribble {
    fn new(bytes: &[u8], most: usize) -> Self {
        Self { bytes: bytes.to_vec(), at: 0, most }
    }
}

impl Read for Dribble {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = out.len().min(self.bytes.len() - self.at).min(self.most);
        out[..count].copy_from_slice(&self.bytes[self.at..self.at + count]);
        self.at += count;
        self.most = self.most * 7 % 1009 + 1;
        Ok(count)
    }
}

/// The number of events and of bytes, by provider, event id, name and fields.
type Types = BTreeMap<String, (u64, u64)>;

/// Everything that is counted, and how reading ended.
#[derive(Debug, Default, PartialEq)]
struct Counted {
    totals: Totals,
    types: Types,
    threads: Vec<ThreadTotals>,
    times: Option<(u64, u64)>,
    offset: u64,
    end: Option<String>,
}

fn counted<S: Source>(reader: &Reader<S>, end: nettrace_reader::Result<()>) -> Counted {
    let mut types = Types::new();
    for it in reader.type_totals().filter(|it| it.events > 0) {
        let metadata = &it.metadata;
        let key = format!(
            "{} {} {} {:?}",
            metadata.provider, metadata.event_id, metadata.name, metadata.fields
        );
        let (events, bytes) = types.entry(key).or_default();
        *events += it.events;
        *bytes += it.payload_bytes;
    }
    let threads = reader.live_threads().chain(reader.finished_threads());
    let mut threads: Vec<_> = threads.cloned().collect();
    threads.sort_by_key(|it| (it.thread.index, it.last_sequence, it.events));
    Counted {
        totals: reader.totals().clone(),
        types,
        threads,
        times: reader.time_span(),
        offset: reader.offset(),
        end: end.err().map(|error| error.to_string()),
    }
}

fn options() -> Options {
    Options::default().keep_thread_totals(true).keep_type_totals(true)
}

fn one_by_one<S: Source>(
    source: S,
    mut see: impl FnMut(&Event<'_>),
) -> nettrace_reader::Result<Counted> {
    let mut reader = options().open(source)?;
    let end = loop {
        match reader.next_event() {
            Ok(Some(event)) => see(&event),
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    // The reader stays at its end.
    assert!(matches!(reader.next_event(), Ok(None)));
    Ok(counted(&reader, end))
}

fn by_counting<S: Source>(source: S) -> nettrace_reader::Result<Counted> {
    let mut reader = options().open(source)?;
    let end = reader.read_to_end();
    assert!(reader.read_to_end().is_ok());
    Ok(counted(&reader, end))
}

/// The events in the order of time, as text, and how reading ended.
fn sorted<S: Source>(source: S) -> nettrace_reader::Result<(Vec<String>, Option<String>)> {
    let mut reader = options().open(source)?.sorted();
    let mut events = Vec::new();
    loop {
        match reader.next_event() {
            Ok(Some(event)) => events.push(shown(&event)),
            Ok(None) => return Ok((events, None)),
            Err(error) => return Ok((events, Some(error.to_string()))),
        }
    }
}

fn shown(event: &Event<'_>) -> String {
    format!(
        "{:?} {:?} at {} of {:?}, {:?}",
        event.header,
        event.payload,
        event.payload_offset,
        event.metadata().name,
        event.thread()
    )
}

fn text<T>(result: nettrace_reader::Result<T>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

/// Checks one stream in every way. Returns the number of its events.
fn check(name: &str, bytes: &[u8]) -> u64 {
    let ahead = |most| ReadAhead::new(Dribble::new(bytes, most)).at_once();

    // Count independently of the reader.
    let (mut events, mut types) = (Vec::new(), Types::new());
    let (mut payload_bytes, mut times) = (0, None);
    let expected = text(one_by_one(bytes, |event| {
        events.push(shown(event));
        let metadata = event.metadata();
        let key = format!(
            "{} {} {} {:?}",
            metadata.provider, metadata.event_id, metadata.name, metadata.fields
        );
        let (count, bytes) = types.entry(key).or_default();
        *count += 1;
        *bytes += event.payload.len() as u64;
        payload_bytes += event.payload.len() as u64;
        let (first, last) = times.unwrap_or((u64::MAX, 0));
        let time = event.header.timestamp;
        times = Some((time.min(first), time.max(last)));
    }));
    if let Ok(counted) = &expected {
        assert_eq!(counted.totals.events, events.len() as u64, "{name}");
        assert_eq!(counted.totals.payload_bytes, payload_bytes, "{name}");
        assert_eq!(counted.types, types, "{name}");
        assert_eq!(counted.times, times, "{name}");
        let by_threads: u64 = counted.threads.iter().map(|thread| thread.events).sum();
        assert_eq!(by_threads, counted.totals.events, "{name}");
    }

    assert_eq!(text(by_counting(bytes)), expected, "{name}");
    assert_eq!(text(by_counting(ahead(1))), expected, "{name}");
    assert_eq!(text(by_counting(ahead(usize::MAX / 8))), expected, "{name}");
    let mut seen = Vec::new();
    let read_ahead = text(one_by_one(ahead(5), |event| seen.push(shown(event))));
    assert_eq!((read_ahead, &seen), (expected, &events), "{name}");

    let in_time = text(sorted(bytes));
    assert_eq!(text(sorted(ahead(300))), in_time, "{name}");
    if let Ok((mut in_time, _)) = in_time {
        assert_eq!(in_time.len(), events.len(), "{name}");
        in_time.sort_unstable();
        seen.sort_unstable();
        assert_eq!(in_time, seen, "{name}");
    }
    let violations = |report: nettrace_reader::Report| -> (Vec<Violation>, u64, u64) {
        (report.violations, report.count, report.events)
    };
    let plainly = verify(bytes).map(violations).unwrap();
    assert_eq!(verify(ahead(40)).map(violations).unwrap(), plainly, "{name}");
    events.len() as u64
}

#[test]
fn sound_streams() {
    let mut events = 0;
    for (name, bytes) in samples::all().into_iter().chain(v5_samples::all()) {
        events += check(name, &bytes);
    }
    for seed in 0..20 {
        events += check("random", &random::make(seed, 15).bytes);
        events += check("random, version 5", &v5_random::make(seed, 15).bytes);
    }
    assert!(events > 2000, "{events}");
}

/// Runs of similar rows, of all lengths, with rows that interrupt them.
#[test]
fn stretches() {
    let mut stream = Stream::new();
    stream.thread(5).thread(6).simple_metadata(1).simple_metadata(2);
    let (mut numbers, mut time) = ([0_u32; 2], 2000_u64);
    for length in 0..40_usize {
        for interruption in 0..7 {
            let which = length % 2;
            let mut rows = Vec::new();
            for i in 0..=length {
                // Differences of one, two and more bytes.
                time += [0, 1, 127, 128, 16_383, 16_384, 1 << 40][(i + length) % 7];
                numbers[which] += 1;
                let row = Row::new(5 + which as u64, numbers[which], time).payload(&[7; 3]);
                rows.push(row);
            }
            time += 1;
            numbers[which] += 1;
            let mut last = Row::new(5 + which as u64, numbers[which], time).payload(&[7; 3]);
            match interruption {
                0 => last.metadata = 2,
                1 => last.sorted = true,
                2 => last.payload = vec![1, 2],
                3 => {
                    numbers[which] += 2;
                    last.sequence += 2;
                }
                4 => last.thread = 6,
                5 => last.processor = 1,
                _ => {}
            }
            rows.push(last);
            for _ in 0..length % 3 {
                time += 1;
                numbers[which] += 1;
                rows.push(Row::new(5 + which as u64, numbers[which], time).payload(&[9; 3]));
            }
            stream.events(&rows);
        }
    }
    let events = check("stretches", &stream.end());
    assert_eq!(events, (0..40).map(|length| 7 * (length + 2 + length % 3)).sum::<u64>());
}

#[test]
fn damaged_streams() {
    let mut damaged = 0;
    for seed in 0..400_u64 {
        let mut bytes = match seed % 4 {
            0 => random::make(seed, 8).bytes,
            1 => v5_random::make(seed, 8).bytes,
            2 => samples::all().swap_remove(seed as usize % samples::all().len()).1,
            _ => v5_samples::all().swap_remove(seed as usize % v5_samples::all().len()).1,
        };
        let at = 20 + (seed as usize * 7919) % (bytes.len() - 20);
        if seed % 3 == 0 {
            bytes.truncate(at);
        } else {
            bytes[at] ^= 1 << (seed / 4 % 8);
        }
        damaged += u64::from(verify(&*bytes).unwrap().count > 0);
        check(&format!("damaged {seed}"), &bytes);
    }
    assert!(damaged > 200, "{damaged}");
}
