//! Where everything is in a recorder file, in bytes. Numbers are little-endian.
//!
//! | region | what it has |
//! |---|---|
//! | [`superblock`] | who writes the file, and where the other regions are |
//! | two of [`stream`] | the header of the stream that the session writes now, and of the one before |
//! | types | the rows of version 6 that describe the types, one after another |
//! | [`slot`]s | one for each thread that records |
//! | [`chunk`]s | one for each chunk: whose it is, and where its rows begin |
//! | memory | the rows, as the threads wrote them |
//! | ring | what a flight recorder keeps |
//!
//! The writer checks its own types against these constants when it is compiled. A change here needs
//! another [`VERSION`].

/// The first bytes of a recorder file.
pub const MAGIC: [u8; 8] = *b"NTRecord";

/// The version of this layout. There is no other way to tell.
pub const VERSION: u32 = 2;

/// The first page.
pub mod superblock {
    /// How many bytes it takes.
    pub const SIZE: usize = 4096;
    /// u32: the version of the layout.
    pub const VERSION: usize = 8;
    /// u32: 0 while the file is being made, [`USED`] while it is in use.
    pub const STATE: usize = 12;
    /// The state of a file that is in use.
    pub const USED: u32 = 1;
    /// u32: the process.
    pub const PROCESS: usize = 16;
    /// u32: how many slots have ever been used.
    pub const SLOTS_USED: usize = 20;
    /// u64: when the process began, in the system's unit (field 22 of `/proc/PID/stat`).
    pub const STARTED: usize = 24;
    /// 16 bytes: the system's boot.
    pub const BOOT: usize = 32;
    /// u64: the address at which the process has the memory.
    pub const ADDRESS: usize = 48;
    /// u32 each: how the memory is divided.
    pub const CHUNK_SIZE: usize = 56;
    /// See [`CHUNK_SIZE`].
    pub const CHUNKS: usize = 60;
    /// See [`CHUNK_SIZE`].
    pub const PARTS: usize = 64;
    /// See [`CHUNK_SIZE`].
    pub const SMALL_SIZE: usize = 68;
    /// See [`CHUNK_SIZE`].
    pub const JUMBO_SIZE: usize = 72;
    /// See [`CHUNK_SIZE`].
    pub const JUMBOS: usize = 76;
    /// u64 each: where a region begins.
    pub const TYPES_AT: usize = 80;
    /// See [`TYPES_AT`].
    pub const SLOTS_AT: usize = 88;
    /// See [`TYPES_AT`].
    pub const CHUNKS_AT: usize = 96;
    /// See [`TYPES_AT`].
    pub const MEMORY_AT: usize = 104;
    /// See [`TYPES_AT`].
    pub const RING_AT: usize = 112;
    /// u64: how many bytes the ring has; 0 without one.
    pub const RING_SIZE: usize = 120;
    /// u64: how many bytes of types there are.
    pub const TYPES_USED: usize = 128;
    /// u64: how many types found no room.
    pub const TYPES_LOST: usize = 136;
    /// u64: how many threads found no slot.
    pub const THREADS_LOST: usize = 144;
    /// u64: how many streams have begun. Odd and even ones have a [`stream`](super::stream) each.
    pub const STREAMS: usize = 152;
    /// u32: 1 if the sink writes other numbers than the session's streams have. Then
    /// [`DONE`](super::slot::DONE) says what it has, also if it writes files.
    pub const NOTED: usize = 160;
}

/// What is known of one stream.
pub mod stream {
    /// Where the first one begins. The second follows.
    pub const AT: usize = super::superblock::SIZE;
    /// How many bytes one takes.
    pub const SIZE: usize = 64 << 10;
    /// u32: how many bytes of header there are.
    pub const HEADER_LEN: usize = 0;
    /// u32: how many bytes the path of its file has; 0 if it is not a file.
    pub const PATH_LEN: usize = 4;
    /// The path. At most as long as [`MAX_PATH`].
    pub const PATH: usize = 8;
    /// The longest path.
    pub const MAX_PATH: usize = 4096;
    /// The header: the first bytes of the stream, up to the first block that is not the trace's.
    pub const HEADER: usize = PATH + MAX_PATH;
    /// The longest header.
    pub const MAX_HEADER: usize = SIZE - HEADER;
}

/// The types.
pub mod types {
    /// Where they begin.
    pub const AT: usize = super::stream::AT + 2 * super::stream::SIZE;
    /// The most bytes.
    pub const SIZE: usize = 8 << 20;
}

/// What is known of one thread.
pub mod slot {
    /// Where the first one begins.
    pub const AT: usize = super::types::AT + super::types::SIZE;
    /// How many bytes one takes.
    pub const SIZE: usize = 1024;
    /// The most threads at a time.
    pub const MOST: usize = 1 << 15;
    /// The first slot of a thread. Those before stand for events that no thread can be named for,
    /// and for threads that ended while nothing could be written.
    pub const FIRST: u32 = 2;

    /// u64: the address of the next row.
    pub const POS: usize = 16;
    /// u64: how many numbers the thread's events have been given.
    pub const OWN: usize = 32;
    /// u64: how many events were refused because they were nested.
    pub const NESTED: usize = 56;
    /// u64: the address of the last chunk.
    pub const START: usize = 80;
    /// u64: the serial of the last chunk before that one that is not empty (high half), and how
    /// many bytes of it are used.
    pub const BEFORE: usize = 112;

    /// u32: 1 while a thread has the slot.
    pub const STATE: usize = 512;
    /// u16: how many bytes its name has.
    pub const NAME_LEN: usize = 516;
    /// u16: how many bytes of keys and values follow the name.
    pub const PAIRS_LEN: usize = 518;
    /// u64: its id in the system.
    pub const OS_ID: usize = 520;
    /// u64: the index by which the session's streams name it; 0 if they do not yet.
    pub const INDEX: usize = 528;
    /// Two of (u64, u64): the number of a stream, and how many numbers of the thread come before
    /// the first in it. The stream's lowest bit is the index.
    pub const BASES: usize = 536;
    /// u64: a sink that is no file, or writes other numbers, has got the events up to this number.
    /// It has written them, or left them out.
    pub const DONE: usize = 568;
    /// The name, then keys and values as version 6 has them.
    pub const TEXT: usize = 576;
    /// The most bytes of both.
    pub const MAX_TEXT: usize = SIZE - TEXT;
}

/// What is known of one chunk.
pub mod chunk {
    /// How many bytes one takes.
    pub const SIZE: usize = 88;
    /// u64: 0 if nobody holds it. Otherwise the holder's slot plus 1 (high half), and the number of
    /// the chunk: a large chunk and its first part have one header.
    pub const HOLDER: usize = 0;
    /// u64: what the time of the first row counts from.
    pub const BASE_TS: usize = 8;
    /// u64: what is added to all times.
    pub const OFFSET: usize = 16;
    /// u64: the number of the first row.
    pub const FIRST_NUMBER: usize = 24;
    /// u64: the serial of the holder's last chunk before this one that is not empty (high half),
    /// and how many bytes of it are used.
    pub const BEFORE: usize = 56;
    /// u32: how many chunks the holder has had, this one included.
    pub const SERIAL: usize = 80;
}

/// What a flight recorder keeps: parts in a circle.
pub mod ring {
    /// u64: where the oldest part begins. 0: there is none.
    pub const HEAD: usize = 0;
    /// u64: the number that the next part will have. Those before it are whole.
    pub const NEXT: usize = 8;
    /// u64: how many events were given up, if there is no part. Otherwise these are as many as the
    /// newest part [counts](super::part::EVENTS) and the parts do not have.
    pub const GIVEN_UP: usize = 16;
    /// Where the first part begins.
    pub const PARTS: usize = 64;
}

/// What stands before the blocks of a part of the ring.
pub mod part {
    /// How many bytes it takes.
    pub const SIZE: usize = 40;
    /// u64: the part's number, from 1 on. 0: the ring goes on with its first part. So it does if
    /// there is no room for this.
    pub const NUMBER: usize = 0;
    /// u64: how many bytes of blocks follow.
    pub const LEN: usize = 8;
    /// u64: the number that the part had first. It moves when it is the oldest and has something
    /// that later parts need. Parts are to be read in this order; if two have one, the first
    /// counts.
    pub const ORDER: usize = 16;
    /// u64: 1 if the blocks repeat what parts before them say of threads.
    pub const DEFINES: usize = 24;
    /// u64: how many events had come when it was written, its own among them: those of all parts,
    /// and those that no part has had. A part that moves has no events, so it counts none.
    pub const EVENTS: usize = 32;
    /// What the place of a part is a multiple of.
    pub const ALIGNMENT: usize = 8;
}
