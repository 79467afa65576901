//! Samples, their stacks, and the names of the frames: one piece for all targets.
//!
//! Samples are collected, because the names of .NET's methods come at the end of a trace. They take
//! 24 bytes each, and each different stack is kept once. A target that writes samples into a stream
//! gets those that are collected when their memory reaches a bound.

use foldhash::HashMap;
use nettrace_reader::{Event, Thread, Value};

use crate::model::{FrameNames, Place};

/// About what a stack takes beside its addresses.
const STACK_BYTES: usize = 128;

/// For how many ticks the thread of a context switch was switched out.
pub(crate) fn ticks_waited(event: &Event<'_>) -> u64 {
    match event.fields().next() {
        Some(Ok((_, Value::U64(ticks)))) => ticks,
        _ => 0,
    }
}

/// A thread that was sampled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sampled {
    pub(crate) process: Option<u64>,
    pub(crate) id: Option<u64>,
    /// The index in the trace, for a thread without id.
    pub(crate) index: u64,
    pub(crate) name: Option<String>,
}

impl Sampled {
    pub(crate) fn of(thread: &Thread, process: Option<u64>) -> Self {
        let index = if thread.os_thread_id.is_some() { 0 } else { thread.index };
        Self { process, id: thread.os_thread_id, index, name: thread.name.clone() }
    }

    /// The name for people.
    pub(crate) fn title(&self) -> String {
        match (&self.name, self.id) {
            (Some(name), Some(id)) => format!("{name} ({id})"),
            (Some(name), None) => name.clone(),
            (None, Some(id)) => format!("thread {id}"),
            (None, None) => format!("thread index {}", self.index),
        }
    }
}

/// A stack that a sample has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct SampledStack {
    pub(crate) process: Option<u64>,
    /// The innermost frame first.
    pub(crate) addresses: Vec<u64>,
    /// Whether the frame [`FrameNames::EXTERNAL`] is inside of them.
    pub(crate) is_external: bool,
}

/// A sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Nanoseconds since the start of the trace.
    pub(crate) at: i64,
    /// The place of the thread in [`Samples::threads`].
    pub(crate) thread: u32,
    /// The place of the stack in [`Samples::stacks`].
    pub(crate) stack: u32,
    /// `u32::MAX` if it is not known.
    pub(crate) processor: u32,
}

/// A time in which a thread waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    /// As in [`Sample`].
    pub(crate) thread: u32,
    pub(crate) stack: u32,
    pub(crate) nanos: u64,
}

/// The samples so far.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    pub(crate) threads: Vec<Sampled>,
    pub(crate) stacks: Vec<SampledStack>,
    pub(crate) taken: Vec<Sample>,
    pub(crate) waits: Vec<Wait>,
    /// How many other events have each stack. A stack that has none can be missing.
    pub(crate) events: Vec<u64>,
    pub(crate) symbols: FrameNames,
    thread_numbers: HashMap<Sampled, u32>,
    stack_numbers: HashMap<SampledStack, u32>,
    /// The thread of the last sample, and its process and number.
    last: Option<(Thread, Option<u64>, u32)>,
    /// The stack that is looked up.
    looked_up: SampledStack,
    bytes: usize,
}

impl Samples {
    /// Adds a sample. Returns `false` if the event has no stack.
    pub(crate) fn take(&mut self, event: &Event<'_>, process: Option<u64>, at: i64) -> bool {
        let Some(stack) = self.stack(event, process) else { return false };
        let thread = self.thread(event.thread(), process);
        let processor = event.header.processor;
        self.taken.push(Sample { at, thread, stack, processor });
        self.bytes += size_of::<Sample>();
        true
    }

    /// Adds a context switch, before which the thread waited so long. Returns `false` if the event
    /// has no stack.
    pub(crate) fn wait(&mut self, event: &Event<'_>, process: Option<u64>, nanos: u64) -> bool {
        let Some(stack) = self.stack(event, process) else { return false };
        let thread = self.thread(event.thread(), process);
        self.waits.push(Wait { thread, stack, nanos });
        self.bytes += size_of::<Wait>();
        true
    }

    /// Counts the stack of another event. Returns `false` if it has none.
    pub(crate) fn event(&mut self, event: &Event<'_>, process: Option<u64>) -> bool {
        if event.stack().is_none_or(|stack| stack.bytes().is_empty()) {
            return false;
        }
        let Some(stack) = self.stack(event, process) else { return false };
        if self.events.len() <= stack as usize {
            self.events.resize(stack as usize + 1, 0);
        }
        self.events[stack as usize] += 1;
        true
    }

    /// The place of an event's stack in [`Samples::stacks`].
    fn stack(&mut self, event: &Event<'_>, process: Option<u64>) -> Option<u32> {
        let stack = event.stack()?;
        let wanted = &mut self.looked_up;
        wanted.process = process;
        wanted.addresses.clear();
        wanted.addresses.extend(stack.addresses());
        wanted.is_external = FrameNames::is_external(event);
        match self.stack_numbers.get(&self.looked_up) {
            Some(number) => Some(*number),
            None => Some(self.add_stack()),
        }
    }

    /// About how many bytes are in use for samples and stacks.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets everything but the names.
    pub(crate) fn clear(&mut self) {
        let symbols = std::mem::take(&mut self.symbols);
        *self = Self { symbols, ..Self::default() };
    }

    fn add_stack(&mut self) -> u32 {
        let stack = self.looked_up.clone();
        let number = self.stacks.len() as u32;
        self.bytes += 2 * (8 * stack.addresses.len() + STACK_BYTES);
        self.stacks.push(stack.clone());
        self.stack_numbers.insert(stack, number);
        number
    }

    fn thread(&mut self, thread: &Thread, process: Option<u64>) -> u32 {
        if let Some((last, of, number)) = &self.last {
            if *of == process && last == thread {
                return *number;
            }
        }
        let sampled = Sampled::of(thread, process);
        let number = match self.thread_numbers.get(&sampled) {
            Some(number) => *number,
            None => {
                let number = self.threads.len() as u32;
                self.bytes += 2 * STACK_BYTES;
                self.threads.push(sampled.clone());
                self.thread_numbers.insert(sampled, number);
                number
            }
        };
        self.last = Some((thread.clone(), process, number));
        number
    }
}

/// The frames of stacks by their names: each name once, with a number.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    pub(crate) names: Vec<Frame>,
    numbers: HashMap<String, u32>,
    by_address: HashMap<(Option<u64>, u64), u32>,
}

/// A frame.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) name: String,
    /// An address in it: the first one that was met. 0 for [`FrameNames::EXTERNAL`].
    pub(crate) address: u64,
    pub(crate) place: Place,
}

impl Frames {
    /// The frames of a stack, the outermost first.
    pub(crate) fn of(&mut self, stack: &SampledStack, symbols: &FrameNames) -> Vec<u32> {
        let addresses = stack.addresses.iter().rev();
        let mut frames: Vec<_> =
            addresses.map(|address| self.address(stack.process, *address, symbols)).collect();
        if stack.is_external {
            frames.push(self.plain(FrameNames::EXTERNAL));
        }
        frames
    }

    /// The number of a frame that has no address.
    pub(crate) fn plain(&mut self, name: &str) -> u32 {
        let place = Place { function: Some(name.into()), module: None, offset: None };
        self.number(Frame { name: name.to_owned(), address: 0, place })
    }

    /// The number of the frame around all those of a process, if the trace names the process.
    pub(crate) fn process(&mut self, process: Option<u64>, symbols: &FrameNames) -> Option<u32> {
        symbols.process_name(process).map(|name| self.plain(name))
    }

    /// Looks all addresses up again: what is known of them may be more than before.
    pub(crate) fn forget_addresses(&mut self) {
        self.by_address.clear();
    }

    fn address(&mut self, process: Option<u64>, address: u64, symbols: &FrameNames) -> u32 {
        if let Some(number) = self.by_address.get(&(process, address)) {
            return *number;
        }
        let place = symbols.find(process, address);
        let number = self.number(Frame { name: place.name(address), address, place });
        self.by_address.insert((process, address), number);
        number
    }

    fn number(&mut self, frame: Frame) -> u32 {
        if let Some(number) = self.numbers.get(&frame.name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.numbers.insert(frame.name.clone(), number);
        self.names.push(frame);
        number
    }
}
