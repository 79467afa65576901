//! A sink that fails by a plan, and events as a trace has them, found by their ids.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

use std::{
    collections::VecDeque,
    io::{self, ErrorKind},
    sync::Arc,
};

use nettrace_reader::{Label, Options, Value, heph, verify};
use nettrace_writer::{
    Format,
    sink::{Batch, Sink, StreamEnd, WriteError},
};
use parking_lot::{Mutex, MutexGuard};

/// How a call of the sink ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    Takes,
    /// Fails with one of [`errors`], and keeps the blocks up to one of the ends.
    Fails(u8, u8),
}

/// Errors that may pass.
fn errors(which: u8) -> io::Error {
    match which % 8 {
        0 => ErrorKind::StorageFull.into(),
        1 => ErrorKind::TimedOut.into(),
        2 => ErrorKind::WouldBlock.into(),
        3 => ErrorKind::Interrupted.into(),
        4 => ErrorKind::PermissionDenied.into(),
        5 => io::Error::other("a sink's own"),
        6 => io::Error::from_raw_os_error(24),
        _ => io::Error::from_raw_os_error(5),
    }
}

/// The state of a [`Faulty`] sink.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The results of the next calls. Then the sink takes everything.
    pub(crate) answers: VecDeque<Answer>,
    /// Whether every call fails.
    pub(crate) always: bool,
    /// How many bytes a stream takes, if it is bounded.
    pub(crate) room: Option<u64>,
    /// The streams without their ends.
    streams: Vec<Vec<u8>>,
    end: &'static [u8],
    /// How often the sink has failed, and its last error.
    pub(crate) failures: u64,
    pub(crate) last: Option<(ErrorKind, Option<i32>)>,
}

impl Plan {
    /// The streams so far, each with its end.
    pub(crate) fn streams(&self) -> Vec<Vec<u8>> {
        self.streams.iter().map(|bytes| [&**bytes, self.end].concat()).collect()
    }

    fn answer(&mut self) -> Answer {
        match self.answers.pop_front() {
            _ if self.always => Answer::Fails(0, 0),
            answer => answer.unwrap_or(Answer::Takes),
        }
    }

    fn fail(&mut self, which: u8) -> io::Error {
        let error = errors(which);
        self.failures += 1;
        self.last = Some((error.kind(), error.raw_os_error()));
        error
    }
}

/// Keeps traces in memory, and fails by its plan.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faulty(Arc<Mutex<Plan>>);

impl Faulty {
    pub(crate) fn plan(&self) -> MutexGuard<'_, Plan> {
        self.0.lock()
    }
}

impl Sink for Faulty {
    fn start(&mut self, header: &[u8], end: StreamEnd) -> io::Result<()> {
        let mut plan = self.plan();
        if let Answer::Fails(error, _) = plan.answer() {
            return Err(plan.fail(error));
        }
        plan.streams.push(header.to_vec());
        plan.end = end.bytes();
        Ok(())
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        let mut plan = self.plan();
        let pieces = batch.pieces.iter().flat_map(|piece| piece.iter().copied());
        let (kept, written) = match plan.answer() {
            Answer::Takes => (u64::MAX, Ok(())),
            Answer::Fails(error, kept) => {
                let blocks = usize::from(kept) % (batch.block_ends.len() + 1);
                let kept = blocks.checked_sub(1).map_or(0, |last| batch.block_ends[last]);
                (kept, Err(WriteError::new(plan.fail(error), kept)))
            }
        };
        let stream = plan.streams.last_mut().expect("no stream was started");
        stream.extend(pieces.take(kept as usize));
        written
    }

    fn room(&self) -> u64 {
        let plan = self.plan();
        let length = plan.streams.last().map_or(0, Vec::len) as u64;
        plan.room.map_or(u64::MAX, |room| room.saturating_sub(length))
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An event as a trace has it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The position of its stream.
    pub(crate) stream: usize,
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) text: Option<String>,
    pub(crate) number: u32,
    /// How rows name the thread that recorded it, and the thread's name if the format has that.
    pub(crate) thread: u64,
    pub(crate) thread_name: Option<String>,
    /// The thread that it is about, if that is another: its id in the operating system, or its
    /// name, depending on the format.
    pub(crate) about: Option<Result<String, u64>>,
    pub(crate) labels: Vec<Label>,
    pub(crate) stack: Vec<u64>,
}

/// All events of a trace, and how many are missing. The trace must keep every promise of a writer.
pub(crate) fn read(format: Format, bytes: &[u8]) -> (Vec<Seen>, u64) {
    if format == Format::Heph {
        let report = heph::verify(bytes, heph::Options::default(), 5).unwrap();
        assert!(report.is_sound(), "{:?}", report.violations);
        let mut reader = heph::Reader::new(bytes);
        let mut events = Vec::new();
        while let Some(event) = reader.next_event().unwrap() {
            events.push(packet(&event));
        }
        return (events, reader.totals().lost);
    }
    let report = verify(bytes).unwrap();
    assert!(report.is_sound(), "{format:?} {:?}", report.violations);
    let mut reader = Options::default().open(bytes).unwrap();
    let mut events = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        let (mut id, mut text) = (0, None);
        for (name, value) in event.fields().map(Result::unwrap) {
            match (name, value) {
                ("id", Value::U64(value)) => id = value,
                ("text", Value::Text(value)) => text = Some(value.to_string()),
                other => panic!("{other:?}"),
            }
        }
        let of = event.capture_thread();
        let is_about_another = event.header.thread != event.header.capture_thread;
        let about = match format {
            Format::V6 => Ok(event.thread().name.clone().unwrap_or_default()),
            _ => Err(event.header.thread),
        };
        events.push(Seen {
            stream: 0,
            id,
            name: event.metadata().name.clone(),
            text,
            number: event.header.sequence_number,
            thread: event.header.capture_thread,
            thread_name: of.thread.name.clone(),
            about: is_about_another.then_some(about),
            labels: event.labels().to_vec(),
            stack: event.stack().map_or(Vec::new(), |stack| stack.addresses().collect()),
        });
    }
    (events, reader.totals().lost)
}

fn packet(event: &heph::Event<'_>) -> Seen {
    let mut seen = Seen {
        stream: 0,
        id: 0,
        name: String::new(),
        text: None,
        number: event.counter,
        thread: event.stream.into(),
        thread_name: None,
        about: None,
        labels: Vec::new(),
        stack: Vec::new(),
    };
    for (key, value) in event.attributes().map(Result::unwrap) {
        match (key, value) {
            ("id", heph::Value::U64(id)) => seen.id = id,
            ("text", heph::Value::Text(text)) => seen.text = Some(text.to_owned()),
            ("@event", heph::Value::Text(text)) => seen.name = text.to_owned(),
            ("@thread", heph::Value::Text(text)) => seen.thread_name = Some(text.to_owned()),
            ("@subject_thread", heph::Value::Text(text)) => seen.about = Some(Ok(text.to_owned())),
            ("@activity", heph::Value::Text(text)) => {
                let id = u128::from_str_radix(&text.replace('-', ""), 16).unwrap();
                seen.labels.push(Label::ActivityId(id.to_be_bytes()));
            }
            ("@stack", heph::Value::Array(values)) => {
                seen.stack.extend(values.iter().map(|value| match value {
                    heph::Value::U64(address) => address,
                    other => panic!("an address {other:?}"),
                }));
            }
            (key, heph::Value::Text(text)) if key.starts_with("@label.") => {
                seen.labels.push(Label::Str(key[7..].into(), text.to_owned()));
            }
            _ => {}
        }
    }
    seen
}
