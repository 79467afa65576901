//! Samples, as V8's profiler writes them: a profile for each thread, in chunks. A profile is a tree
//! of calls; a sample is the number of a node.

use std::collections::HashMap;

use super::{Ids, event};
use crate::viewers::{
    json::{self, show, string},
    stacks::{Frames, Samples},
};

/// How many samples a chunk has at most.
const CHUNK: usize = 10_000;

/// The profiles so far.
#[derive(Debug, Default)]
pub(super) struct Profiles {
    last: u64,
}

impl Profiles {
    /// Writes a profile for each thread.
    pub(super) fn write(&mut self, samples: &Samples, ids: &mut Ids, out: &mut Vec<u8>) {
        let mut frames = Frames::default();
        let stacks: Vec<_> =
            samples.stacks.iter().map(|stack| frames.of(stack, &samples.symbols)).collect();
        let mut of_threads = vec![Vec::new(); samples.threads.len()];
        for sample in &samples.taken {
            of_threads[sample.thread as usize].push(*sample);
        }
        for (thread, taken) in samples.threads.iter().zip(of_threads) {
            let Some(first) = taken.first() else { continue };
            let place = ids.thread(thread, out);
            self.last += 1;
            let begin = |out: &mut Vec<u8>, name: &str, at: i64| {
                event(out, b'P', place, at);
                let cat = "disabled-by-default-v8.cpu_profiler";
                show(out, format_args!(",\"id\":\"{:#x}\",\"name\":\"{name}\"", self.last));
                show(out, format_args!(",\"cat\":\"{cat}\",\"args\":{{\"data\":{{"));
            };
            begin(out, "Profile", first.at);
            out.extend_from_slice(b"\"startTime\":");
            json::micros(out, first.at);
            out.extend_from_slice(b"}}}");
            let mut tree = Tree::default();
            let mut before = first.at;
            for chunk in taken.chunks(CHUNK) {
                begin(out, "ProfileChunk", chunk[0].at);
                let known = tree.nodes.len();
                let numbers: Vec<_> =
                    chunk.iter().map(|sample| tree.node(&stacks[sample.stack as usize])).collect();
                out.extend_from_slice(b"\"cpuProfile\":{\"nodes\":");
                // The root has the number 1.
                let is_first = usize::from(known == 0);
                let nodes = tree.nodes[known..].iter().zip(known as u64 + 2..);
                let root = std::iter::repeat_n((None, None, 1), is_first);
                let nodes = nodes.map(|((parent, frame), id)| (Some(parent), Some(frame), id));
                json::list(out, root.chain(nodes), |out, (parent, frame, id)| {
                    show(out, format_args!("{{\"id\":{id},\"callFrame\":{{\"functionName\":"));
                    let frame = frame.map(|frame| &frames.names[*frame as usize]);
                    string(out, frame.map_or("(root)", |frame| &frame.name));
                    out.extend_from_slice(b",\"scriptId\":0}");
                    if let Some(parent) = parent {
                        show(out, format_args!(",\"parent\":{parent}"));
                    }
                    out.push(b'}');
                });
                out.extend_from_slice(b",\"samples\":");
                json::list(out, numbers.iter(), show);
                out.extend_from_slice(b"},\"timeDeltas\":");
                json::list(out, chunk.iter(), |out, sample| {
                    json::micros(out, sample.at.saturating_sub(before));
                    before = sample.at;
                });
                out.extend_from_slice(b"}}}");
            }
        }
    }
}

/// The calls of a thread.
#[derive(Debug, Default)]
struct Tree {
    /// The number of the parent, and the frame. The first one has the number 2.
    nodes: Vec<(u64, u32)>,
    numbers: HashMap<(u64, u32), u64>,
}

impl Tree {
    fn node(&mut self, stack: &[u32]) -> u64 {
        let mut at = 1;
        for frame in stack {
            let next = self.nodes.len() as u64 + 2;
            let number = *self.numbers.entry((at, *frame)).or_insert(next);
            if number == next {
                self.nodes.push((at, *frame));
            }
            at = number;
        }
        at
    }
}
