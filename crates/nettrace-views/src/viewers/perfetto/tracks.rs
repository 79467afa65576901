//! Tracks: processes, threads, asynchronous spans and counters.

use std::collections::HashMap;

use nettrace_reader::Thread;

use crate::viewers::{
    perfetto::numbers::{packet, track},
    proto::{self, close, open},
};

/// How many processes are remembered. A track may be described again.
const PROCESSES: usize = 1 << 16;

/// The largest id of a process or thread in Perfetto.
pub(super) const MAX_ID: u64 = i32::MAX as u64;

/// Describes tracks and gives them numbers.
#[derive(Debug)]
pub(super) struct Tracks {
    last: u64,
    processes: HashMap<Option<u64>, u64>,
    /// The process that was asked for last, and its track.
    recent: Option<(Option<u64>, u64)>,
}

/// A track that is described.
#[derive(Clone, Copy, Debug, Default)]
struct Track<'a> {
    uuid: u64,
    parent: Option<u64>,
    name: Option<&'a str>,
}

impl Tracks {
    pub(super) fn new() -> Self {
        Self { last: 0, processes: HashMap::new(), recent: None }
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The track of a process.
    pub(super) fn process(&mut self, process: Option<u64>, out: &mut Vec<u8>) -> u64 {
        if let Some((_, uuid)) = self.recent.filter(|&(recent, _)| recent == process) {
            return uuid;
        }
        if let Some(uuid) = self.processes.get(&process) {
            self.recent = Some((process, *uuid));
            return *uuid;
        }
        if self.processes.len() >= PROCESSES {
            self.processes.clear();
        }
        let uuid = self.next();
        self.processes.insert(process, uuid);
        self.recent = Some((process, uuid));
        describe_process(uuid, process, None, out);
        uuid
    }

    /// Names the track of a process.
    pub(super) fn process_name(&mut self, process: Option<u64>, name: &str, out: &mut Vec<u8>) {
        let uuid = self.process(process, out);
        describe_process(uuid, process, Some(name), out);
    }

    /// Makes the track of a thread.
    pub(super) fn thread(
        &mut self,
        process: Option<u64>,
        thread: &Thread,
        out: &mut Vec<u8>,
    ) -> u64 {
        let parent = self.process(process, out);
        let uuid = self.next();
        let is_known = |id: &u64| (1..=MAX_ID).contains(id);
        let ids = process.filter(is_known).zip(thread.os_thread_id.filter(is_known));
        let name = match (&thread.name, thread.os_thread_id) {
            (Some(name), Some(id)) if ids.is_none() => Some(format!("{name} ({id})")),
            (Some(name), _) => Some(name.clone()),
            (None, Some(id)) => ids.is_none().then(|| format!("thread {id}")),
            (None, None) => Some(format!("thread index {}", thread.index)),
        };
        let plain = name.as_deref().filter(|_| ids.is_none());
        describe(Track { uuid, parent: Some(parent), name: plain }, out, |out| {
            if let Some((pid, tid)) = ids {
                let body = open(out, track::THREAD);
                proto::uint(out, track::THREAD_PID, pid);
                proto::uint(out, track::THREAD_TID, tid);
                if let Some(name) = &name {
                    proto::bytes(out, track::THREAD_NAME, name.as_bytes());
                }
                close(out, body);
            }
            let mut facts = String::new();
            for (key, value) in &thread.key_values {
                facts.push_str(&format!("{key}={value}\n"));
            }
            if !facts.is_empty() {
                proto::bytes(out, track::DESCRIPTION, facts.as_bytes());
            }
        });
        uuid
    }

    /// Makes the track around the requests of a process.
    pub(super) fn requests(&mut self, process: Option<u64>, out: &mut Vec<u8>) -> u64 {
        let parent = self.process(process, out);
        let uuid = self.next();
        describe(Track { uuid, parent: Some(parent), name: Some("requests") }, out, |out| {
            proto::uint(out, track::CHILD_ORDERING, track::EXPLICIT);
        });
        uuid
    }

    /// Makes a track below another one, at this place among its siblings.
    pub(super) fn row(&mut self, parent: u64, name: &str, rank: usize, out: &mut Vec<u8>) -> u64 {
        let uuid = self.next();
        describe(Track { uuid, parent: Some(parent), name: Some(name) }, out, |out| {
            proto::uint(out, track::CHILD_ORDERING, track::EXPLICIT);
            proto::uint(out, track::SIBLING_ORDER_RANK, rank as u64);
        });
        uuid
    }

    /// Makes the track of one asynchronous span, below its process. Perfetto shows the tracks of
    /// one name as one, in as many rows as their slices need.
    pub(super) fn span(&mut self, process: Option<u64>, name: &str, out: &mut Vec<u8>) -> u64 {
        let parent = self.process(process, out);
        let uuid = self.next();
        describe(Track { uuid, parent: Some(parent), name: Some(name) }, out, |_| ());
        uuid
    }

    /// Makes the track of a counter.
    pub(super) fn counter(
        &mut self,
        process: Option<u64>,
        name: &str,
        unit: &str,
        out: &mut Vec<u8>,
    ) -> u64 {
        let parent = self.process(process, out);
        let uuid = self.next();
        describe(Track { uuid, parent: Some(parent), name: Some(name) }, out, |out| {
            let body = open(out, track::COUNTER);
            if !unit.is_empty() {
                proto::bytes(out, track::COUNTER_UNIT, unit.as_bytes());
            }
            close(out, body);
        });
        uuid
    }
}

fn describe_process(uuid: u64, process: Option<u64>, name: Option<&str>, out: &mut Vec<u8>) {
    let number = process.map_or("process".to_owned(), |id| format!("process {id}"));
    let pid = process.filter(|id| (1..=MAX_ID).contains(id));
    let plain = pid.is_none().then_some(name.unwrap_or(&number));
    describe(Track { uuid, parent: None, name: plain }, out, |out| {
        if let Some(id) = pid {
            let body = open(out, track::PROCESS);
            proto::uint(out, track::PROCESS_PID, id);
            if let Some(name) = name {
                proto::bytes(out, track::PROCESS_NAME, name.as_bytes());
            }
            close(out, body);
        }
    });
}

fn describe(of: Track<'_>, out: &mut Vec<u8>, more: impl FnOnce(&mut Vec<u8>)) {
    let opened = open(out, packet::PACKET);
    let body = open(out, packet::TRACK_DESCRIPTOR);
    proto::uint(out, track::UUID, of.uuid);
    if let Some(parent) = of.parent {
        proto::uint(out, track::PARENT, parent);
    }
    if let Some(name) = of.name {
        proto::bytes(out, track::NAME, name.as_bytes());
    }
    more(out);
    close(out, body);
    close(out, opened);
}
