//! Random sound streams of versions 4 and 5, with what a reader should find in them.

use super::{
    Row,
    random::{Made, Random},
    utf16z,
    v5::{Objects, code, event_type, fields, simple_type, tag, tagged_fields},
};

/// A thread. Its number is 0 until it has recorded an event.
#[derive(Clone, Debug)]
struct Worker {
    id: u64,
    sequence: u32,
}

#[derive(Clone, Copy, Debug)]
struct WriterState {
    /// Whether the metadata has tags, as in version 5.
    tags: bool,
    /// Whether stacks 1 and 2 are defined.
    stacks: bool,
}

/// Makes a stream of `rounds` flushes. In each flush, threads begin, end, write events and drop
/// events.
pub fn make(seed: u64, rounds: u64) -> Made {
    let mut random = Random::new(seed);
    let mut made = Made::default();
    let mut stream = Objects::new();
    let mut state = WriterState { tags: random.chance(50), stacks: false };
    define_types(&mut stream, state.tags);
    let mut workers: Vec<Worker> = Vec::new();
    let mut next_id = 1 << random.below(40);
    let mut time = 1000;
    for _ in 0..rounds {
        for _ in 0..random.below(3) {
            next_id += 1 + random.below(9);
            workers.push(Worker { id: next_id, sequence: 0 });
        }
        if !state.stacks && random.chance(50) {
            stream.stacks(1, &[&[1, 2, 3], &[]]);
            state.stacks = true;
        }
        time = round(&mut random, &mut stream, &mut made, &mut workers, time, state);
        if random.chance(20) {
            time += 1;
            state.stacks = false;
            sequence_point(&mut random, &mut stream, &mut made, &mut workers, time);
        }
        workers.retain(|_| !random.chance(10));
    }
    made.bytes = stream.end();
    made
}

/// One flush: blocks of events of some threads, either one block for each thread or one for all.
/// The first row of a thread is marked as sorted where possible.
fn round(
    random: &mut Random,
    stream: &mut Objects,
    made: &mut Made,
    workers: &mut [Worker],
    time: u64,
    state: WriterState,
) -> u64 {
    let mut latest = time;
    let mut blocks = Vec::new();
    let ids: Vec<_> = workers.iter().map(|worker| worker.id).collect();
    for worker in workers.iter_mut() {
        let mut at = time;
        let mut rows = Vec::new();
        let (mut activity, mut related) = ([0; 16], [0; 16]);
        for _ in 0..random.below(6) {
            drop_some(random, made, worker);
            worker.sequence += 1;
            at += random.below(4) * random.below(200);
            let metadata = 1 + random.below(3) as u32;
            if random.chance(30) {
                activity = [random.below(3) as u8; 16];
            }
            if random.chance(30) {
                related = [random.below(3) as u8; 16];
            }
            rows.push(Row {
                metadata,
                payload: payload(random, metadata, state.tags),
                processor: if random.chance(20) { u32::MAX } else { random.below(4) as u32 },
                thread: match random.chance(10) {
                    true => ids[random.below(ids.len() as u64) as usize],
                    false => worker.id,
                },
                stack: if state.stacks && random.chance(30) {
                    1 + random.below(2) as u32
                } else {
                    0
                },
                activity,
                related,
                ..Row::new(worker.id, worker.sequence, at)
            });
        }
        latest = latest.max(at);
        if !rows.is_empty() {
            blocks.push(rows);
        }
    }
    blocks.sort_by_key(|rows: &Vec<Row>| rows[0].time);
    if let Some(first) = blocks.first_mut().filter(|_| random.chance(80)) {
        first[0].sorted = true;
    }
    for rows in blocks {
        if random.chance(15) {
            stream.plain_events(&rows, false, false);
        } else {
            stream.events(&rows);
        }
        made.rows.extend(rows);
    }
    latest
}

fn sequence_point(
    random: &mut Random,
    stream: &mut Objects,
    made: &mut Made,
    workers: &mut [Worker],
    time: u64,
) {
    let mut threads = Vec::new();
    for worker in workers.iter_mut().filter(|worker| worker.sequence > 0) {
        if random.chance(70) {
            drop_some(random, made, worker);
            threads.push((worker.id, worker.sequence));
        }
    }
    stream.sequence_point(time, &threads);
}

/// Drops some events. Nobody can tell what a thread drops before its first event.
fn drop_some(random: &mut Random, made: &mut Made, worker: &mut Worker) {
    if random.chance(5) {
        let dropped = random.below(1000) as u32;
        made.lost += u64::from(dropped);
        worker.sequence += dropped;
    }
}

fn define_types(stream: &mut Objects, tags: bool) {
    let numbers = fields(&[("a", code(&[9])), ("b", code(&[11]))]);
    let texts = match tags {
        true => {
            let fields = tagged_fields(&[("t", code(&[18])), ("u", code(&[19, 4]))]);
            [&[0; 4][..], &tag(2, &fields), &tag(1, &[2])].concat()
        }
        false => fields(&[("t", code(&[18]))]),
    };
    stream.metadata(&[simple_type(1), event_type(2, 2, "Numbers", &numbers)]);
    stream.plain_metadata(&[event_type(3, 3, "TextsStop", &texts)], false);
}

fn payload(random: &mut Random, metadata: u32, tags: bool) -> Vec<u8> {
    let mut out = Vec::new();
    match metadata {
        2 => {
            out.extend((random.below(1 << 40) as u32).to_le_bytes());
            out.extend(random.below(1 << 50).to_le_bytes());
        }
        3 => {
            out.extend(utf16z(["", "a", "текст", "long enough"][random.below(4) as usize]));
            if tags {
                out.extend([1, 0, b'x', 0]);
            }
        }
        _ => {}
    }
    out
}
