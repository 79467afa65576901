//! Checks what would be recovered if the process were killed now.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use nettrace_format::{
    recorder::{
        Recorder, Seen,
        layout::{chunk, slot, superblock, types},
    },
    v6::{END_OF_STREAM, read},
};
use nettrace_reader::{Label as Read, verify};

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
    state: State,
    next: State,
    /// The result of the last recovery.
    last: (Vec<u8>, Vec<u8>),
    /// Whether an event that had returned was recorded.
    recorded: Vec<Option<bool>>,
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
            headers: vec![0; count * chunk::SIZE],
            trace: Vec::new(),
        };
        Self {
            recorder,
            progress: open(files::PROGRESS),
            spans: open(files::SPANS),
            trace: folder.join(files::TRACE),
            recorded: vec![None; expected.len()],
            expected,
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
        if trace {
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
            self.check();
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
        self.read();
        let trace = &self.state.trace[..];
        let (mut seen, written) = (Seen::new(1), verify(trace).unwrap());
        assert!(written.is_sound(), "{:#?}", written.violations);
        see(trace, &mut seen);
        let recorder = Recorder::open(&self.bytes).unwrap();
        let recovered = recorder.recover(Some(&seen)).unwrap();
        assert_eq!((recovered.damaged, recovered.without_type), (0, 0), "{}", self.place());
        assert!(recorder.recover(None).unwrap().events >= recovered.events);
        let events = &self.state.progress[files::EVENTS as usize..];
        if (&self.last.0[..], &self.last.1[..]) == (&recovered.stream[..], events) {
            return;
        }
        self.counts.results += 1;
        let report = verify(&recovered.stream[..]).unwrap();
        assert!(report.is_sound(), "{}: {:#?}", self.place(), report.violations);
        assert_eq!((report.events, report.lost), (recovered.events, recovered.lost));
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
        let count = |least: u8| events.iter().filter(|state| **state >= least).count() as u64;
        let possible = count(RETURNED)..=count(BEGUN);
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
