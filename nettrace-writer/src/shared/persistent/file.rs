//! Writes a session's recorder file.

use std::{io, mem::offset_of, path::Path, ptr::NonNull, sync::Arc};

use nettrace_event::EventSchema;
use nettrace_format::{
    recorder::layout::{chunk, slot, stream, superblock, types},
    v6,
};

use super::{Recovered, UnattributedCounter, owner, shared_file::SharedFile};
use crate::{
    process::thread::ThreadRef,
    protocol::{
        chunk_header::ChunkHeader,
        memory::{Memory, Table, mapping::Mapping},
        pool::{Layout, Pool},
        record::Record,
    },
    shared::buffer::ThreadBuffer,
    sink::{failure::during, ring::Log},
    sync::{AtomicBool, Mutex, Ordering, compiler_fence},
};

const PAGE: usize = 4096;
/// The number of bytes by which the room for types or slots grows.
const STEP: usize = 64 << 10;
/// The number of slots to look at before a new one is used.
const LOOKS: u32 = 64;

// What reads the file relies on these places.
const _: () = {
    assert!(size_of::<ThreadBuffer>() <= slot::STATE && slot::SIZE % align_of::<Record>() == 0);
    assert!(slot::AT % slot::SIZE == 0 && slot::AT % PAGE == 0 && types::AT % PAGE == 0);
    assert!(size_of::<ChunkHeader>() == chunk::SIZE);
    assert!(slot::FIRST == UnattributedCounter::ALL.len() as u32);
    let [pos, own, nested, start, before] = Record::PLACES;
    assert!(pos == slot::POS && own == slot::OWN && nested == slot::NESTED);
    assert!(start == slot::START && before == slot::BEFORE);
    assert!(offset_of!(ChunkHeader, holder) == chunk::HOLDER);
    assert!(offset_of!(ChunkHeader, base_ts) == chunk::BASE_TS);
    assert!(offset_of!(ChunkHeader, offset) == chunk::OFFSET);
    assert!(offset_of!(ChunkHeader, first_number) == chunk::FIRST_NUMBER);
    assert!(offset_of!(ChunkHeader, before) == chunk::BEFORE);
    assert!(offset_of!(ChunkHeader, serial) == chunk::SERIAL);
    assert!(offset_of!(ThreadBuffer, record) == 0);
};

/// A session's recorder file.
#[derive(Debug)]
pub(crate) struct Persistent {
    /// All but chunks and their headers.
    front: Mapping,
    file: Arc<SharedFile>,
    room: Mutex<Room>,
    /// Where the flight recorder's part is, and its size.
    ring: (usize, usize),
    /// Whether the session has begun.
    has_begun: AtomicBool,
}

/// The allocated part of the file, and the next slot to look at.
#[derive(Debug)]
struct Room {
    types: usize,
    slots: u32,
    next_slot: u32,
}

impl Persistent {
    /// Makes the file, and a pool whose memory is in it. A file of that name whose process is gone
    /// is renamed.
    /// `ring` is how many bytes a flight recorder keeps; 0 if the session is none. `to` is where a
    /// trace goes of what the process before has left.
    pub(crate) fn create(
        path: &Path,
        layout: Layout,
        ring: usize,
        to: Option<&Path>,
    ) -> io::Result<(Self, Pool, Option<Recovered>)> {
        let left = owner::make_way(path, to)?;
        let context = || format!("cannot make the recorder file {}", path.display());
        let made = Self::new(path, layout, ring);
        let (persistent, pool) = made.map_err(|error| during(context(), error))?;
        Ok((persistent, pool, left))
    }

    fn new(path: &Path, layout: Layout, ring: usize) -> io::Result<(Self, Pool)> {
        let pages = |len: usize| len.next_multiple_of(PAGE);
        let headers_at = pages(slot::AT + slot::MOST * slot::SIZE);
        let headers_len = pages(layout.headers() * chunk::SIZE);
        let (memory_at, memory_len) = (headers_at + headers_len, pages(layout.memory()));
        let (ring_at, ring_len) = (memory_at + memory_len, log_size(ring));
        let file = Arc::new(SharedFile::create(path, ring_at + ring_len)?);
        let made = (|| -> io::Result<_> {
            file.reserve(0, types::AT + STEP)?;
            file.reserve(slot::AT, STEP)?;
            // Pages of headers and chunks, which no write can refuse any more.
            file.reserve(headers_at, headers_len + memory_len + ring_len)?;
            let front = file.map(0, headers_at)?;
            let headers = Table::of(file.map(headers_at, headers_len)?, layout.headers());
            Ok((front, headers, file.map(memory_at, memory_len)?))
        })();
        let (front, headers, memory) = made.inspect_err(|_| file.remove())?;
        let slots = (STEP / slot::SIZE) as u32;
        let room = Mutex::new(Room { types: STEP, slots, next_slot: slot::FIRST });
        let has_begun = AtomicBool::new(false);
        let recorder = Self { front, file, room, ring: (ring_at, ring_len), has_begun };
        recorder.begin(&layout, memory.address(), [headers_at, memory_at]);
        Ok((recorder, Pool::of(layout, headers, Memory::of(memory))))
    }

    /// Fills the first page, which has the beginning of it.
    fn begin(&self, layout: &Layout, address: usize, [headers_at, memory_at]: [usize; 2]) {
        let front = &self.front;
        for (at, value) in [
            (superblock::PROCESS, std::process::id()),
            (superblock::SLOTS_USED, slot::FIRST),
            (superblock::CHUNK_SIZE, layout.chunk_size as u32),
            (superblock::CHUNKS, layout.chunks),
            (superblock::PARTS, layout.parts),
            (superblock::SMALL_SIZE, layout.small_size() as u32),
            (superblock::JUMBO_SIZE, layout.jumbo_size as u32),
            (superblock::JUMBOS, layout.jumbos),
        ] {
            front.half(at).store(value, Ordering::Relaxed);
        }
        for (at, value) in [
            (superblock::STARTED, owner::started()),
            (superblock::ADDRESS, address as u64),
            (superblock::TYPES_AT, types::AT as u64),
            (superblock::SLOTS_AT, slot::AT as u64),
            (superblock::CHUNKS_AT, headers_at as u64),
            (superblock::MEMORY_AT, memory_at as u64),
            (superblock::RING_AT, self.ring.0 as u64),
            (superblock::RING_SIZE, self.ring.1 as u64),
        ] {
            front.word(at).store(value, Ordering::Relaxed);
        }
        front.write(superblock::BOOT, &owner::boot());
        for nobody in UnattributedCounter::ALL {
            self.describe(nobody.slot(), 0, nobody.name(), &[]);
            self.slot_is_used(nobody.slot());
        }
    }

    /// Where a flight recorder keeps its events. To be called once.
    pub(crate) fn log(&self) -> io::Result<Log> {
        let (at, len) = self.ring;
        let file = Arc::clone(&self.file);
        // A dump can go on after the session's end.
        Ok(Log::new(self.file.map(at, len)?, len, move || file.release(at, len)))
    }

    /// A slot for a thread that gets a buffer: its number, and where the buffer goes. `None`: there
    /// is no room. Under the lock of the roster.
    pub(crate) fn take_slot(&self, thread: &ThreadRef) -> Option<(u32, NonNull<u8>)> {
        let found = self.free_slot();
        let Some(number) = found else {
            self.front.word(superblock::THREADS_LOST).fetch_add(1, Ordering::Relaxed);
            return None;
        };
        // Taken, but it does not count yet.
        self.state(number).store(2, Ordering::Relaxed);
        self.describe(number, thread.os_id(), thread.name().unwrap_or(""), thread.key_values());
        Some((number, self.front.place(at(number), slot::SIZE)))
    }

    fn free_slot(&self) -> Option<u32> {
        let mut room = self.room.lock();
        let used = self.front.half(superblock::SLOTS_USED).load(Ordering::Relaxed);
        let count = used - slot::FIRST;
        let place = |number: u32| slot::FIRST + number % count.max(1);
        let start = room.next_slot - slot::FIRST;
        // Acquire pairs with the release in `give_slot`: the slot's buffer is gone.
        let is_free = |number: &u32| self.state(*number).load(Ordering::Acquire) == 0;
        let near = (start..start + count.min(LOOKS)).map(place).find(is_free);
        let found = near.or_else(|| {
            if used == room.slots && (used as usize) < slot::MOST {
                let more = (STEP / slot::SIZE) as u32;
                if self.file.reserve(at(used), STEP).is_ok() {
                    room.slots += more;
                }
            }
            if used < room.slots {
                self.front.half(superblock::SLOTS_USED).store(used + 1, Ordering::Relaxed);
                return Some(used);
            }
            (0..count).map(place).find(is_free)
        })?;
        room.next_slot = found + 1;
        Some(found)
    }

    /// Writes what identifies a thread. A name or a pair that has no room is left out.
    fn describe(&self, number: u32, os_id: u64, name: &str, pairs: &[(String, String)]) {
        let (front, at) = (&self.front, at(number));
        let name = if name.len() <= slot::MAX_TEXT { name } else { "" };
        let mut text = name.as_bytes().to_vec();
        for (key, value) in pairs {
            let before = text.len();
            v6::put_text(key, &mut text);
            v6::put_text(value, &mut text);
            if text.len() > slot::MAX_TEXT {
                text.truncate(before);
            }
        }
        let lens = name.len() as u32 | ((text.len() - name.len()) as u32) << 16;
        front.half(at + slot::NAME_LEN).store(lens, Ordering::Relaxed);
        front.word(at + slot::OS_ID).store(os_id, Ordering::Relaxed);
        front.write(at + slot::INDEX, &[0; slot::TEXT - slot::INDEX]);
        front.write(at + slot::TEXT, &text);
    }

    fn state(&self, number: u32) -> &crate::sync::AtomicU32 {
        self.front.half(at(number) + slot::STATE)
    }

    /// Notes that the slot has its buffer.
    pub(crate) fn slot_is_used(&self, number: u32) {
        compiler_fence(Ordering::Release);
        self.state(number).store(1, Ordering::Relaxed);
    }

    /// Gives a slot back, whose buffer is gone.
    pub(crate) fn give_slot(&self, number: u32) {
        // Release pairs with the acquire in `free_slot`.
        self.state(number).store(0, Ordering::Release);
    }

    /// Writes a type that the session meets. Under the lock of those that it has met.
    pub(crate) fn add_type(&self, id: u32, schema: &EventSchema) {
        let mut row = Vec::new();
        if v6::metadata_row(id, schema, &mut row).is_err() {
            return; // the session does not record it
        }
        let used = self.front.word(superblock::TYPES_USED);
        let begin = used.load(Ordering::Relaxed) as usize;
        let end = begin + row.len();
        let mut room = self.room.lock();
        if end > room.types && end <= types::SIZE {
            let more = (end - room.types).next_multiple_of(STEP).min(types::SIZE - room.types);
            if self.file.reserve(types::AT + room.types, more).is_ok() {
                room.types += more;
            }
        }
        if end > room.types {
            self.front.word(superblock::TYPES_LOST).fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.front.write(types::AT + begin, &row);
        compiler_fence(Ordering::Release);
        used.store(end as u64, Ordering::Relaxed);
    }

    /// Notes the header of the stream that begins next.
    pub(crate) fn begin_stream(&self, number: u64, header: &[u8]) -> io::Result<()> {
        if header.len() > stream::MAX_HEADER {
            let text = "the key-values of the trace are too long for a recorder file";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let (front, at) = (&self.front, stream_at(number));
        front.word(at + stream::HEADER_LEN).store(0, Ordering::Relaxed);
        compiler_fence(Ordering::Release);
        front.write(at + stream::HEADER, header);
        compiler_fence(Ordering::Release);
        front.half(at + stream::HEADER_LEN).store(header.len() as u32, Ordering::Relaxed);
        front.word(superblock::STREAMS).store(number, Ordering::Relaxed);
        // Only now can the file be read.
        front.half(superblock::STATE).store(superblock::USED, Ordering::Relaxed);
        Ok(())
    }

    /// Notes the path of the file of a stream that has begun.
    pub(crate) fn set_path(&self, number: u64, path: &Path) {
        let path = path.as_os_str().as_encoded_bytes();
        if path.len() <= stream::MAX_PATH {
            let at = stream_at(number);
            self.front.write(at + stream::PATH, path);
            compiler_fence(Ordering::Release);
            self.front.half(at + stream::PATH_LEN).store(path.len() as u32, Ordering::Relaxed);
        }
    }

    /// Notes the index by which streams name a thread.
    pub(crate) fn set_index(&self, number: u32, index: u64) {
        self.front.word(at(number) + slot::INDEX).store(index, Ordering::Relaxed);
    }

    /// Notes how many numbers of a thread come before the first in a stream that begins.
    pub(crate) fn set_base(&self, number: u32, stream: u64, base: u64) {
        let at = at(number) + slot::BASES + (stream & 1) as usize * 16;
        let (of, value) = (self.front.word(at), self.front.word(at + 8));
        of.store(0, Ordering::Relaxed);
        compiler_fence(Ordering::Release);
        value.store(base, Ordering::Relaxed);
        compiler_fence(Ordering::Release);
        of.store(stream, Ordering::Relaxed);
    }

    /// Notes that the sink has a thread's events up to a number.
    pub(crate) fn set_done(&self, number: u32, done: u64) {
        self.front.word(at(number) + slot::DONE).store(done, Ordering::Relaxed);
    }

    /// Notes how many events something has lost that is no thread.
    pub(crate) fn set_attempted(&self, nobody: UnattributedCounter, attempted: u64) {
        // Several threads may note it.
        self.front.word(at(nobody.slot()) + slot::OWN).fetch_max(attempted, Ordering::Relaxed);
    }

    /// Notes that the numbers in the sink's files are not those of the session's streams.
    pub(crate) fn numbers_are_noted(&self) {
        self.front.half(superblock::NOTED).store(1, Ordering::Relaxed);
    }

    /// Notes that the session has begun. A start that fails leaves no file behind.
    pub(crate) fn has_begun(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    /// Removes the file, because the session has ended, and gives its memory back. What threads may
    /// still touch stays until they let go of it.
    pub(crate) fn end(&self) {
        self.file.remove();
        let front = slot::AT + slot::MOST * slot::SIZE;
        self.file.release(front, self.ring.0 - front);
        self.file.unlock();
    }
}

impl Drop for Persistent {
    fn drop(&mut self) {
        if !self.has_begun.load(Ordering::Relaxed) {
            self.file.remove();
        }
    }
}

/// The size of a log that keeps `bytes`: a twentieth more, for what stands before each part, and
/// for what has no room at the end.
fn log_size(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        bytes => (bytes + bytes / 20).next_multiple_of(PAGE),
    }
}

/// Where a slot is.
fn at(number: u32) -> usize {
    slot::AT + number as usize * slot::SIZE
}

fn stream_at(number: u64) -> usize {
    stream::AT + (number & 1) as usize * stream::SIZE
}
