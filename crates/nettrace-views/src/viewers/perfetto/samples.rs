//! Samples with callstacks.

use std::{collections::HashMap, rc::Rc};

use crate::{
    model::{FrameNames, Place},
    viewers::{
        perfetto::{
            SEQUENCE_ID,
            names::define,
            numbers::{interned, packet, sample},
            timestamp,
        },
        proto::{self, close, open},
        stacks::Samples,
    },
};

/// The mapping of frames whose file the trace does not say.
const MAPPING: u64 = 1;

/// The frames and callstacks so far.
#[derive(Debug, Default)]
pub(super) struct Callstacks {
    /// The numbers of frames, in one call of [`Callstacks::write`].
    frames: HashMap<(Option<u64>, u64), u64>,
    mappings: HashMap<Rc<str>, u64>,
    /// The number of the last frame, stack and mapping.
    last: (u64, u64, u64),
}

impl Callstacks {
    /// Writes samples, and the stacks that they have.
    pub(super) fn write(&mut self, samples: &Samples, out: &mut Vec<u8>) {
        if samples.taken.is_empty() {
            return;
        }
        let first = self.last.1 + 1;
        // What is known of addresses may be more than before.
        self.frames.clear();
        for stack in &samples.stacks {
            let number = self.last.1 + 1;
            self.last.1 = number;
            define(out, |out| {
                let mut numbers = Vec::new();
                if stack.is_external {
                    let place = Place {
                        function: Some(FrameNames::EXTERNAL.into()),
                        module: None,
                        offset: None,
                    };
                    numbers.push(self.frame((None, 0), &place, out));
                }
                for address in &stack.addresses {
                    let place = samples.symbols.find(stack.process, *address);
                    numbers.push(self.frame((stack.process, *address), &place, out));
                }
                let callstack = open(out, interned::CALLSTACKS);
                proto::uint(out, interned::IID, number);
                // The outermost frame comes first here.
                for frame in numbers.iter().rev() {
                    proto::uint(out, interned::STACK_FRAMES, *frame);
                }
                close(out, callstack);
            });
        }
        for sample in &samples.taken {
            let thread = &samples.threads[sample.thread as usize];
            let Some((process, thread)) = thread.process.zip(thread.id) else {
                continue;
            };
            let opened = open(out, packet::PACKET);
            proto::uint(out, packet::TIMESTAMP, timestamp(sample.at));
            proto::uint(out, packet::SEQUENCE, SEQUENCE_ID);
            let body = open(out, packet::PERF_SAMPLE);
            if sample.processor != u32::MAX {
                proto::uint(out, sample::CPU, sample.processor.into());
            }
            proto::uint(out, sample::PID, process);
            proto::uint(out, sample::TID, thread);
            proto::uint(out, sample::CALLSTACK, first + u64::from(sample.stack));
            proto::uint(out, sample::CPU_MODE, sample::USER);
            close(out, body);
            close(out, opened);
        }
    }

    fn frame(&mut self, key: (Option<u64>, u64), place: &Place, out: &mut Vec<u8>) -> u64 {
        if let Some(number) = self.frames.get(&key) {
            return *number;
        }
        let mapping = self.mapping(place, out);
        let number = self.last.0 + 1;
        self.last.0 = number;
        let (_, address) = key;
        let name = match &place.function {
            Some(name) => name.to_string(),
            None => place.name(address),
        };
        let function = open(out, interned::FUNCTIONS);
        proto::uint(out, interned::IID, number);
        proto::bytes(out, interned::TEXT, name.as_bytes());
        close(out, function);
        let frame = open(out, interned::FRAMES);
        proto::uint(out, interned::IID, number);
        proto::uint(out, interned::FRAME_FUNCTION, number);
        proto::uint(out, interned::FRAME_MAPPING, mapping);
        proto::uint(out, interned::FRAME_PC, address);
        close(out, frame);
        self.frames.insert(key, number);
        number
    }

    /// The number of a frame's file, by its name.
    fn mapping(&mut self, place: &Place, out: &mut Vec<u8>) -> u64 {
        let name = place.module.clone().unwrap_or_else(|| "".into());
        if let Some(number) = self.mappings.get(&name) {
            return *number;
        }
        let number = MAPPING + self.last.2;
        self.last.2 += 1;
        if !name.is_empty() {
            let path = open(out, interned::MAPPING_PATHS);
            proto::uint(out, interned::IID, number);
            proto::bytes(out, interned::TEXT, name.as_bytes());
            close(out, path);
        }
        let mapping = open(out, interned::MAPPINGS);
        proto::uint(out, interned::IID, number);
        proto::uint(out, interned::MAPPING_START, 0);
        proto::uint(out, interned::MAPPING_END, i64::MAX as u64);
        if !name.is_empty() {
            proto::uint(out, interned::MAPPING_PATH, number);
        }
        close(out, mapping);
        self.mappings.insert(name, number);
        number
    }
}
