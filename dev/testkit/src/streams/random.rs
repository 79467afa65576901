//! Random sound streams, with what a reader should find in them.

use super::{EventType, Row, Stream, string, utf16z, varint};

/// Pseudo-random numbers. The same seed gives the same numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed ^ 0x9E37_79B9_7F4A_7C15)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound.max(1)
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// A stream and its contents.
#[derive(Clone, Debug, Default)]
pub struct Made {
    pub bytes: Vec<u8>,
    /// The events in the order of the stream.
    pub rows: Vec<Row>,
    pub lost: u64,
}

#[derive(Clone, Debug)]
struct Worker {
    index: u64,
    sequence: u32,
}

/// Makes a stream of `rounds` flushes. In each flush, threads begin, end, write events and drop
/// events.
pub fn make(seed: u64, rounds: u64) -> Made {
    let mut random = Random::new(seed);
    let mut made = Made::default();
    let mut stream = Stream::new();
    define_types(&mut stream);
    let mut workers: Vec<Worker> = Vec::new();
    let mut next_index = 5;
    let mut time = 1000;
    let mut epoch = false; // whether stack 1 and label list 1 are defined
    for _ in 0..rounds {
        for _ in 0..random.below(3) {
            stream.thread(next_index);
            workers.push(Worker { index: next_index, sequence: 0 });
            next_index += 1;
        }
        if !epoch && random.chance(50) {
            define_references(&mut stream);
            epoch = true;
        }
        time = round(&mut random, &mut stream, &mut made, &mut workers, time, epoch);
        if random.chance(10) {
            stream.block(77, &[0; 9]);
        }
        for i in (0..workers.len()).rev() {
            if random.chance(10) {
                let dropped = drop_some(&mut random, &mut made);
                let gone = workers.swap_remove(i);
                stream.remove_thread(gone.index, gone.sequence.wrapping_add(dropped));
            }
        }
        if random.chance(20) {
            time += 1;
            epoch = false;
            sequence_point(&mut random, &mut stream, &mut made, &mut workers, time);
        }
    }
    made.bytes = stream.end();
    made
}

/// One flush: a block of events of some threads. The first row is marked as sorted where possible.
fn round(
    random: &mut Random,
    stream: &mut Stream,
    made: &mut Made,
    workers: &mut [Worker],
    time: u64,
    epoch: bool,
) -> u64 {
    let mut latest = time;
    let mut blocks = Vec::new();
    let indices: Vec<_> = workers.iter().map(|worker| worker.index).collect();
    for worker in workers.iter_mut() {
        let mut at = time;
        let mut rows = Vec::new();
        for _ in 0..random.below(6) {
            let dropped = drop_some(random, made);
            worker.sequence = worker.sequence.wrapping_add(dropped).wrapping_add(1);
            at += random.below(4) * random.below(200);
            let mut row = Row::new(worker.index, worker.sequence, at);
            row.metadata = 1 + random.below(3) as u32;
            row.payload = payload(random, row.metadata);
            row.processor = random.below(4) as u32;
            if random.chance(10) {
                row.thread = indices[random.below(indices.len() as u64) as usize];
            }
            if epoch && random.chance(30) {
                row.stack = 1 + random.below(2) as u32;
                row.labels = 1 + random.below(2) as u32;
            }
            rows.push(row);
        }
        latest = latest.max(at);
        if !rows.is_empty() {
            blocks.push(rows);
        }
    }
    blocks.sort_by_key(|rows| rows[0].time);
    if let Some(first) = blocks.first_mut().filter(|_| random.chance(80)) {
        first[0].sorted = true;
    }
    for rows in blocks {
        if random.chance(15) {
            stream.block(super::EVENT, &super::plain_event_block(&rows));
        } else {
            stream.events(&rows);
        }
        made.rows.extend(rows);
    }
    latest
}

fn sequence_point(
    random: &mut Random,
    stream: &mut Stream,
    made: &mut Made,
    workers: &mut Vec<Worker>,
    time: u64,
) {
    let mut threads = Vec::new();
    for worker in workers.iter_mut() {
        if random.chance(70) {
            worker.sequence = worker.sequence.wrapping_add(drop_some(random, made));
            threads.push((worker.index, worker.sequence));
        }
    }
    let flags = if random.chance(20) { random.below(4) as u32 } else { 0 };
    stream.sequence_point(time, flags, &threads);
    if flags & 1 != 0 {
        workers.clear();
    }
    if flags & 2 != 0 {
        define_types(stream);
    }
}

fn drop_some(random: &mut Random, made: &mut Made) -> u32 {
    let dropped = if random.chance(5) { random.below(1000) as u32 } else { 0 };
    made.lost += u64::from(dropped);
    dropped
}

fn define_types(stream: &mut Stream) {
    stream
        .metadata(&EventType::new(1, "Chance", 1, "Empty"))
        .metadata(&EventType::new(2, "Chance", 2, "Numbers").field("a", &[9]).field("b", &[20]))
        .metadata(&EventType::new(3, "Other", 2, "Texts").field("t", &[18]).field("u", &[19, 23]));
}

fn define_references(stream: &mut Stream) {
    let mut label = vec![5];
    string(&mut label, "key");
    string(&mut label, "value");
    stream.stacks(1, &[&[1, 2, 3], &[0xFFFF_FFFF_FFFF_FFFF]]);
    stream.label_lists(1, &[&[label, vec![9, 2]], &[vec![7, 9]]]);
}

fn payload(random: &mut Random, metadata: u32) -> Vec<u8> {
    let mut out = Vec::new();
    match metadata {
        2 => {
            out.extend((random.below(1 << 40) as u32).to_le_bytes());
            varint(&mut out, random.below(1 << 50) as i64 - (1 << 49));
        }
        3 => {
            let text = ["", "a", "текст", "long enough to matter"][random.below(4) as usize];
            out.extend(utf16z(text));
            let len = random.below(20);
            out.extend((len as u16).to_le_bytes());
            out.extend((0..len).map(|i| b'a' + i as u8));
        }
        _ => {}
    }
    out
}
