//! Checks what would be recovered if the process were killed now.

use std::{
    fs::{self, File},
    ops::RangeInclusive,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use nettrace_format::{
    recorder::{
        Recorder, Recovered, Seen,
        layout::{chunk, ring, slot, superblock, types},
    },
    v6::{END_OF_STREAM, read},
};
use nettrace_reader::{Label as Read, Reader, verify};

use crate::{
    files::{self, BEGUN, RETURNED},
    script::{ABOUT, Expected, Fate, Script},
    trace_support,
};

/// The number of the slot of the only thread that emits.
const SLOT: u32 = slot::FIRST;

/// What of a slot decides what is recovered.
const OF_SLOT: [(usize, usize); 6] = [
    (slot::POS, 8),
    (slot::OWN, 8),
    (slot::NESTED, 8),
    (slot::START, 8),
    (slot::BEFORE, 8),
    (slot::STATE, slot::TEXT - slot::STATE),
];

/// How much was checked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) steps: u64,
    /// How often what decides had changed.
    pub(crate) states: u64,
    /// How often that recovers something else.
    pub(crate) results: u64,
}

/// What of the files decides what is recovered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    progress: Vec<u8>,
    superblock: Vec<u8>,
    slot: Vec<u8>,
    headers: Vec<u8>,
    /// What a flight recorder says of its parts.
    ring: Vec<u8>,
    trace: Vec<u8>,
}

pub(crate) struct Judge {
    recorder: File,
    progress: File,
    spans: File,
    trace: PathBuf,
    expected: Vec<Expected>,
    /// The recorder file, as far as it matters.
    bytes: Vec<u8>,
    /// Where headers and memory are in it.
    headers: (usize, usize),
    /// Where the parts of a flight recorder are in it, if the session is one.
    ring: Option<u64>,
    state: State,
    next: State,
    /// The result of the last recovery.
    last: (Vec<u8>, Vec<u8>),
    /// Whether an event that had returned was recorded.
    recorded: Vec<Option<bool>>,
    /// How many events a flight recorder had given up at first, and now.
    given_up: Option<(u64, u64)>,
    pub(crate) counts: Counts,
}

impl Judge {
    pub(crate) fn new(script: &Script, folder: &Path) -> Self {
        let open = |name| File::open(folder.join(name)).unwrap();
        let recorder = open(files::RECORDER);
        let expected = script.expected();
        let mut bytes = vec![0; recorder.metadata().unwrap().len() as usize];
        let front = superblock::SIZE + slot::SIZE;
        recorder.read_exact_at(&mut bytes[..types::AT + front], 0).unwrap();
        let place = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().unwrap()) as usize;
        assert_eq!(place(superblock::SLOTS_AT), slot::AT);
        let headers = (place(superblock::CHUNKS_AT), place(superblock::MEMORY_AT));
        let half = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().unwrap()) as usize;
        let count = half(superblock::CHUNKS) * half(superblock::PARTS) + half(superblock::JUMBOS);
        let next = State {
            progress: vec![0; files::EVENTS as usize + expected.len()],
            superblock: vec![0; superblock::STREAMS + 8],
            slot: vec![0; slot::SIZE],
            // Rows that a flight recorder keeps are told from those in chunks by their numbers.
            headers: vec![0; if script.keeps { 0 } else { count * chunk::SIZE }],
            ring: vec![0; if script.keeps { ring::PARTS } else { 0 }],
            trace: Vec::new(),
        };
        Self {
            recorder,
            progress: open(files::PROGRESS),
            spans: open(files::SPANS),
            trace: folder.join(files::TRACE),
            recorded: vec![None; expected.len()],
            given_up: None,
            expected,
            ring: script.keeps.then_some(place(superblock::RING_AT) as u64),
            bytes,
            headers,
            state: State::default(),
            next,
            last: Default::default(),
            counts: Counts::default(),
        }
    }

    /// After an instruction. Checks what would be recovered, if that has changed. Returns the phase
    /// of the stepped thread. `trace` says whether the trace can have changed.
    pub(crate) fn look(&mut self, trace: bool) -> u8 {
        self.counts.steps += 1;
        let next = &mut self.next;
        let slot_at = (slot::AT + SLOT as usize * slot::SIZE) as u64;
        self.progress.read_exact_at(&mut next.progress, 0).unwrap();
        self.recorder.read_exact_at(&mut next.superblock, 0).unwrap();
        self.recorder.read_exact_at(&mut next.slot, slot_at).unwrap();
        self.recorder.read_exact_at(&mut next.headers, self.headers.0 as u64).unwrap();
        if let Some(ring) = self.ring {
            self.recorder.read_exact_at(&mut next.ring, ring).unwrap();
        } else if trace {
            next.trace = fs::read(&self.trace).unwrap();
            if next.trace != fs::read(&self.trace).unwrap() {
                // A system call is writing it.
                return next.progress[files::PHASE as usize];
            }
        }
        let mut all = std::mem::take(&mut next.slot);
        let of_slot = OF_SLOT.map(|(at, len)| &all[at..at + len]).concat();
        next.slot = of_slot;
        let phase = next.progress[files::PHASE as usize];
        if self.next != self.state {
            self.state = self.next.clone();
            self.counts.states += 1;
            self.read();
            match self.ring {
                Some(_) => self.check_kept(),
                None => self.check(),
            }
        }
        all.resize(slot::SIZE, 0);
        self.next.slot = all;
        phase
    }

    /// Reads all of the recorder file that matters.
    fn read(&mut self) {
        let used = self.state.superblock[superblock::TYPES_USED..].first_chunk().unwrap();
        let used = u64::from_le_bytes(*used) as usize;
        let slots = slot::AT..slot::AT + (SLOT as usize + 2) * slot::SIZE;
        let places = [0..types::AT + used, slots, self.headers.0..self.bytes.len()];
        for place in places {
            let at = place.start as u64;
            self.recorder.read_exact_at(&mut self.bytes[place], at).unwrap();
        }
    }

    fn check(&mut self) {
        let trace = &self.state.trace[..];
        let (mut seen, written) = (Seen::new(1), verify(trace).unwrap());
        assert!(written.is_sound(), "{:#?}", written.violations);
        see(trace, &mut seen);
        let recorder = Recorder::open(&self.bytes).unwrap();
        let recovered = recorder.recover(Some(&seen)).unwrap();
        assert!(recorder.recover(None).unwrap().events >= recovered.events);
        if !self.is_new(&recovered) {
            return;
        }
        self.counts.results += 1;
        let events = &self.state.progress[files::EVENTS as usize..];
        let shown = written.events + written.lost;
        let mut is_there = vec![false; events.len()];
        let mut last = None;
        for (stream, before) in [(trace, 0), (&recovered.stream[..], shown)] {
            for event in trace_support::read(stream) {
                let number = event.value();
                assert!(last < Some(number), "{}: event {number} again", self.place());
                last = Some(number);
                assert_eq!(u64::from(event.number) + before, number + 1, "{}", self.place());
                self.check_event(&event, number);
                is_there[number as usize] = true;
            }
        }
        let is_there_count = is_there.iter().filter(|it| **it).count() as u64;
        let total = is_there_count + written.lost + recovered.lost;
        let possible = self.possible();
        assert!(possible.contains(&total), "{}: {total}, not {possible:?}", self.place());
        for (at, state) in events.iter().enumerate().filter(|(_, state)| **state == RETURNED) {
            let fate = self.expected[at].fate;
            let is_there = is_there[at];
            assert!(is_there || fate != Fate::Recorded, "{}: no event {at}", self.place());
            let recorded = *self.recorded[at].get_or_insert(is_there);
            assert_eq!(recorded, is_there, "{}: event {at} {state}", self.place());
        }
        self.last = (recovered.stream, events.to_vec());
    }

    /// How many events there can be.
    fn possible(&self) -> RangeInclusive<u64> {
        let events = &self.state.progress[files::EVENTS as usize..];
        let count = |least: u8| events.iter().filter(|state| **state >= least).count() as u64;
        count(RETURNED)..=count(BEGUN)
    }

    /// Whether this was not recovered at the last look, or other events have come since. If it is
    /// new, it must be sound and say what it has.
    fn is_new(&self, recovered: &Recovered) -> bool {
        assert_eq!((recovered.damaged, recovered.without_type), (0, 0), "{}", self.place());
        let events = &self.state.progress[files::EVENTS as usize..];
        if (&self.last.0[..], &self.last.1[..]) == (&recovered.stream[..], events) {
            return false;
        }
        let report = verify(&recovered.stream[..]).unwrap();
        assert!(report.is_sound(), "{}: {:#?}", self.place(), report.violations);
        assert_eq!((report.events, report.lost), (recovered.events, recovered.lost));
        true
    }

    /// The same for a flight recorder: it has the last events, and counts those before them.
    fn check_kept(&mut self) {
        let recovered = Recorder::open(&self.bytes).unwrap().recover(None).unwrap();
        if !self.is_new(&recovered) {
            return;
        }
        self.counts.results += 1;
        let events = &self.state.progress[files::EVENTS as usize..];
        let reader = Reader::new(&recovered.stream[..]).unwrap();
        let given_up: u64 = reader.trace().value("nettrace.given_up").unwrap().parse().unwrap();
        assert_eq!(recovered.lost, given_up, "{}", self.place());
        self.given_up.get_or_insert((given_up, given_up)).1 = given_up;
        let mut number = given_up;
        for event in trace_support::read(&recovered.stream) {
            assert_eq!(event.value(), number, "{}", self.place());
            self.check_event(&event, number);
            number += 1;
        }
        let possible = self.possible();
        assert!(possible.contains(&number), "{}: {number}, not {possible:?}", self.place());
        self.last = (recovered.stream, events.to_vec());
    }

    fn check_event(&self, event: &trace_support::Seen, number: u64) {
        let expected = &self.expected[number as usize];
        assert!(self.state.progress[files::EVENTS as usize + number as usize] >= BEGUN);
        assert_ne!(expected.fate, Fate::Lost, "{event:#?}");
        assert_eq!(event.name, expected.name, "{event:#?}");
        assert_eq!(event.payload, expected.payload(number), "{event:#?}");
        assert_eq!(event.stack, expected.stack(number), "{event:#?}");
        match expected.about {
            true => assert_eq!(event.about_name.as_deref(), Some(ABOUT), "{event:#?}"),
            false => assert_eq!(event.about, event.capture_thread, "{event:#?}"),
        }
        let Some(span) = expected.span else {
            assert_eq!(event.labels, expected.labels(), "{}: {event:#?}", self.place());
            return;
        };
        let mut ids = [0; files::SPAN as usize];
        let len = self.spans.read_at(&mut ids, span as u64 * files::SPAN).unwrap();
        // The event of its beginning comes before they are known.
        if len == ids.len() {
            let trace = Read::TraceId(*ids.first_chunk().unwrap());
            let span = Read::SpanId(u64::from_le_bytes(*ids.last_chunk().unwrap()));
            assert!(event.labels.contains(&trace) && event.labels.contains(&span), "{event:#?}");
        }
    }

    /// How many events a flight recorder has given up since it is watched.
    pub(crate) fn given_up(&self) -> u64 {
        self.given_up.map_or(0, |(first, now)| now - first)
    }

    /// How many events were recorded and how many lost, when the thread is through.
    pub(crate) fn outcome(&self) -> (usize, usize) {
        let count = |what| self.recorded.iter().filter(|it| **it == Some(what)).count();
        (count(true), count(false))
    }

    fn place(&self) -> String {
        let events = &self.state.progress[files::EVENTS as usize..];
        format!("after {} instructions, {events:?}", self.counts.steps)
    }
}

/// Adds the blocks of a stream, which begins with 20 bytes.
fn see(stream: &[u8], seen: &mut Seen) {
    let mut rest = &stream[20..];
    while !rest.starts_with(&END_OF_STREAM) {
        let len = 4 + (u32::from_le_bytes(rest[..4].try_into().unwrap()) & 0xff_ffff) as usize;
        let block = read::blocks(&rest[..len]).next().unwrap().unwrap();
        seen.add(&block).unwrap();
        rest = &rest[len..];
    }
}
