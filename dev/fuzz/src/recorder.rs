//! Recorder files that are damaged in a few places.

use std::{cell::RefCell, fs, io, ops::Range, time::Duration};

use nettrace_format::recorder::{
    Recorder,
    layout::{chunk, slot, stream, superblock, types},
};
use nettrace_reader::verify;
use nettrace_writer::{Emit, Keep, Label, Session, TraceEvent, enter_labels};

#[derive(TraceEvent)]
#[trace_event(provider = "Fuzz-Recorder")]
struct Two {
    a: u64,
    b: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Fuzz-Recorder")]
struct Text<'a> {
    text: &'a str,
    number: u16,
}

/// A recorder file, and the parts of it that say anything.
struct File {
    bytes: Vec<u8>,
    parts: Vec<Range<usize>>,
}

thread_local! {
    static FILES: RefCell<[File; 2]> =
        RefCell::new([false, true].map(|keeps| make(keeps).expect("a recorder file")));
}

/// Damages a recorder file as the input says, and recovers what there is: the result must be a
/// sound stream that has as many events as is said, or an error.
///
/// # Panics
/// If it is not.
pub fn check_recorder(input: &[u8]) {
    let Some((way, orders)) = input.split_first() else { return };
    FILES.with_borrow_mut(|files| {
        let file = &mut files[usize::from(way & 1)];
        let mut undo = Vec::new();
        for order in orders.chunks_exact(5) {
            let [a, b, c, how, value] = order.try_into().expect("five bytes");
            let place = u32::from_le_bytes([a, b, c, 0]) as usize;
            let Some(at) = file.place(place) else { continue };
            undo.push((at, file.bytes[at]));
            let byte = &mut file.bytes[at];
            *byte = match how & 3 {
                0 => *byte ^ value,
                1 => 0,
                2 => 0xff,
                _ => value,
            };
        }
        let len = if way & 2 == 0 {
            file.bytes.len()
        } else {
            file.bytes.len() / 256 * usize::from(way >> 2)
        };
        let recovered = Recorder::open(&file.bytes[..len]).and_then(|it| it.recover(None));
        if let Ok(recovered) = recovered {
            let report = verify(&recovered.stream[..]).expect("a stream of version 6");
            assert_eq!(report.events, recovered.events, "{:#?}", report.violations);
        }
        for (at, byte) in undo.into_iter().rev() {
            file.bytes[at] = byte;
        }
    });
}

impl File {
    /// A place among the bytes that say anything.
    fn place(&self, number: usize) -> Option<usize> {
        let total = self.parts.iter().map(Range::len).sum::<usize>();
        let mut number = number % total.max(1);
        self.parts.iter().find_map(|part| {
            if number < part.len() {
                return Some(part.start + number);
            }
            number -= part.len();
            None
        })
    }
}

fn make(keeps: bool) -> io::Result<File> {
    let folder = std::env::temp_dir().join(format!("nettrace-fuzz-{}-{keeps}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let path = folder.join("recorder");
    let builder = if keeps {
        Session::builder().flight_recorder(Keep::last(Duration::from_secs(60)).within(1 << 20))
    } else {
        Session::builder().file(folder.join("trace.nettrace"))
    };
    let builder = builder.provider("Fuzz-Recorder").persistent(&path).chunk_size(8 << 10);
    let session = builder.flush_interval(Duration::from_secs(3_600)).budget(512 << 10);
    let session = session.start().map_err(io::Error::other)?;
    for round in 0..2 {
        let emit = move || {
            for number in 0..100 {
                let _labels =
                    (number % 7 == 0).then(|| enter_labels(&[Label::Str("key", "value")]));
                Two { a: number, b: round }.emit();
                Text { text: &"text".repeat(number as usize % 9), number: number as u16 }.emit();
            }
        };
        std::thread::spawn(emit).join().expect("it does not panic");
        emit();
        if round == 0 {
            session.flush().map_err(io::Error::other)?;
        }
    }
    let bytes = fs::read(&path)?;
    drop(session);
    let _ = fs::remove_dir_all(&folder);
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("a word"));
    let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("half a word"));
    let mut parts = vec![0..superblock::RING_SIZE + 8];
    for at in [stream::AT, stream::AT + stream::SIZE] {
        parts.extend([at..at + 64, at + stream::HEADER..at + stream::HEADER + 512]);
    }
    parts.push(types::AT..types::AT + word(superblock::TYPES_USED) as usize);
    for number in 0..half(superblock::SLOTS_USED) as usize {
        let at = slot::AT + number * slot::SIZE;
        parts.extend([at..at + 128, at + slot::STATE..at + slot::TEXT + 32]);
    }
    let (headers, memory) = (word(superblock::CHUNKS_AT), word(superblock::MEMORY_AT));
    parts.push(headers as usize..headers as usize + 64 * chunk::SIZE);
    parts.push(memory as usize..memory as usize + (64 << 10));
    let ring = word(superblock::RING_AT) as usize;
    parts.push(ring..(ring + (16 << 10)).min(bytes.len()));
    Ok(File { bytes, parts })
}
