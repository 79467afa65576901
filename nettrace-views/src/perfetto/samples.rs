//! Samples with callstacks.

use std::collections::HashMap;

use nettrace_reader::{Metadata, Stack};

use crate::{
    perfetto::{
        SEQUENCE_ID,
        names::define,
        numbers::{interned, packet, sample},
    },
    proto::{self, close, open},
};

/// The limit on the memory for frames and stacks, in bytes. Stacks beyond it are defined again.
const LIMIT: usize = 64 << 20;

/// What a frame takes here.
const FRAME_BYTES: usize = 64;

/// The mapping of all frames: the trace does not say which file an address is of.
const MAPPING: u64 = 1;

/// Whether events of a type are samples of what the processor executes: those of .NET's sampler and
/// those of the provider that the format's authors reserve for all platforms.
pub(super) fn is_sample(metadata: &Metadata) -> bool {
    match &*metadata.provider {
        // The only event of this provider. Versions 4 and 5 have no name for it.
        "Microsoft-DotNETCore-SampleProfiler" => metadata.event_id == 0,
        "Universal.Events" => metadata.name == "cpu",
        _ => false,
    }
}

/// The frames and callstacks so far.
#[derive(Debug, Default)]
pub(super) struct Callstacks {
    frames: HashMap<u64, u64>,
    stacks: HashMap<Vec<u8>, u64>,
    /// The number of the last frame, and that of the last stack.
    last: (u64, u64),
    bytes: usize,
    has_mapping: bool,
}

impl Callstacks {
    /// The number of a stack. Writes its definition to `out` if it is new.
    pub(super) fn refer(&mut self, stack: Stack<'_>, out: &mut Vec<u8>) -> u64 {
        if let Some(number) = self.stacks.get(stack.bytes()) {
            return *number;
        }
        if self.bytes > LIMIT {
            // The numbers go on, so the old definitions stay valid.
            (self.frames, self.stacks, self.bytes) = Default::default();
        }
        let number = self.last.1 + 1;
        define(out, |out| {
            if !self.has_mapping {
                self.has_mapping = true;
                let mapping = open(out, interned::MAPPINGS);
                proto::uint(out, interned::IID, MAPPING);
                proto::uint(out, interned::MAPPING_START, 0);
                proto::uint(out, interned::MAPPING_END, i64::MAX as u64);
                close(out, mapping);
            }
            let mut numbers = Vec::new();
            for address in stack.addresses() {
                numbers.push(self.frame(address, out));
            }
            let callstack = open(out, interned::CALLSTACKS);
            proto::uint(out, interned::IID, number);
            // The outermost frame comes first here.
            for frame in numbers.iter().rev() {
                proto::uint(out, interned::STACK_FRAMES, *frame);
            }
            close(out, callstack);
        });
        self.last.1 = number;
        self.bytes += stack.bytes().len() + FRAME_BYTES;
        self.stacks.insert(stack.bytes().to_vec(), number);
        number
    }

    fn frame(&mut self, address: u64, out: &mut Vec<u8>) -> u64 {
        if let Some(number) = self.frames.get(&address) {
            return *number;
        }
        let number = self.last.0 + 1;
        self.last.0 = number;
        let function = open(out, interned::FUNCTIONS);
        proto::uint(out, interned::IID, number);
        proto::bytes(out, interned::TEXT, format!("{address:#x}").as_bytes());
        close(out, function);
        let frame = open(out, interned::FRAMES);
        proto::uint(out, interned::IID, number);
        proto::uint(out, interned::FRAME_FUNCTION, number);
        proto::uint(out, interned::FRAME_MAPPING, MAPPING);
        proto::uint(out, interned::FRAME_PC, address);
        close(out, frame);
        self.bytes += FRAME_BYTES;
        self.frames.insert(address, number);
        number
    }
}

/// A sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) timestamp: u64,
    pub(super) process: u64,
    pub(super) thread: u64,
    pub(super) processor: Option<u32>,
    pub(super) callstack: u64,
}

impl Sample {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let opened = open(out, packet::PACKET);
        proto::uint(out, packet::TIMESTAMP, self.timestamp);
        proto::uint(out, packet::SEQUENCE, SEQUENCE_ID);
        let body = open(out, packet::PERF_SAMPLE);
        if let Some(processor) = self.processor {
            proto::uint(out, sample::CPU, processor.into());
        }
        proto::uint(out, sample::PID, self.process);
        proto::uint(out, sample::TID, self.thread);
        proto::uint(out, sample::CALLSTACK, self.callstack);
        proto::uint(out, sample::CPU_MODE, sample::USER);
        close(out, body);
        close(out, opened);
    }
}
