//! Numbers in the bytes of a recorder file, which may be damaged: what is not there is 0.

use super::layout::{chunk, slot, stream, superblock};

#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn part(self, at: usize, len: usize) -> &'a [u8] {
        at.checked_add(len).and_then(|end| self.0.get(at..end)).unwrap_or_default()
    }

    pub(super) fn word(self, at: usize) -> u64 {
        self.part(at, 8).first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
    }

    pub(super) fn half(self, at: usize) -> u32 {
        self.part(at, 4).first_chunk().map_or(0, |word| u32::from_le_bytes(*word))
    }

    pub(super) fn quarter(self, at: usize) -> u16 {
        self.part(at, 2).first_chunk().map_or(0, |word| u16::from_le_bytes(*word))
    }

    /// A place in the file that the file itself names.
    pub(super) fn place(self, at: usize) -> usize {
        usize::try_from(self.word(at)).unwrap_or(usize::MAX)
    }

    pub(super) fn slot(self, number: u32) -> Self {
        let at = self.place(superblock::SLOTS_AT).saturating_add(number as usize * slot::SIZE);
        Self(self.part(at, slot::SIZE))
    }

    pub(super) fn stream(self, number: u64) -> Self {
        let at = stream::AT + (number & 1) as usize * stream::SIZE;
        Self(self.part(at, stream::SIZE))
    }
}

/// How the memory is divided into chunks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Division {
    chunk_size: usize,
    chunks: u32,
    parts: u32,
    small_size: usize,
    jumbo_size: usize,
    jumbos: u32,
}

impl Division {
    /// `None`: no writer divides it in this way.
    pub(super) fn of(file: Bytes<'_>) -> Option<Self> {
        let it = Self {
            chunk_size: file.half(superblock::CHUNK_SIZE) as usize,
            chunks: file.half(superblock::CHUNKS),
            parts: file.half(superblock::PARTS),
            small_size: file.half(superblock::SMALL_SIZE) as usize,
            jumbo_size: file.half(superblock::JUMBO_SIZE) as usize,
            jumbos: file.half(superblock::JUMBOS),
        };
        let headers = file.place(superblock::CHUNKS_AT);
        let memory = file.place(superblock::MEMORY_AT);
        let sizes = [it.chunk_size, it.small_size, it.jumbo_size];
        let is_sound = it.parts > 0
            && it.chunks.checked_mul(it.parts)?.checked_add(it.jumbos)? > 0
            && sizes.iter().all(|&size| (1..=1 << 24).contains(&size))
            && it.small_size.checked_mul(it.parts as usize)? <= it.chunk_size
            && headers.checked_add(it.headers().checked_mul(chunk::SIZE)?)? <= memory
            && memory.checked_add(it.len()?)? <= file.0.len();
        is_sound.then_some(it)
    }

    /// How many chunks have headers.
    pub(super) fn headers(self) -> usize {
        self.chunks as usize * self.parts as usize + self.jumbos as usize
    }

    fn len(self) -> Option<usize> {
        let jumbos = self.jumbo_size.checked_mul(self.jumbos as usize)?;
        self.chunk_size.checked_mul(self.chunks as usize)?.checked_add(jumbos)
    }

    /// Where a chunk is in the memory, and its size. `None`: there is no such chunk, or it does not
    /// have the header with this number.
    pub(super) fn place(self, number: u32, header: usize) -> Option<(usize, usize)> {
        // Small chunks, large ones, jumbo ones.
        let small = if self.parts > 1 { self.chunks * self.parts } else { 0 };
        let ordinary = self.chunks as usize * self.chunk_size;
        let (of, at, size) = if number < small {
            let (parent, part) = ((number / self.parts) as usize, (number % self.parts) as usize);
            (number, parent * self.chunk_size + part * self.small_size, self.small_size)
        } else if number - small < self.chunks {
            let large = number - small;
            (large * self.parts, large as usize * self.chunk_size, self.chunk_size)
        } else {
            let jumbo = Some(number - small - self.chunks).filter(|jumbo| *jumbo < self.jumbos)?;
            let at = ordinary + jumbo as usize * self.jumbo_size;
            (self.chunks * self.parts + jumbo, at, self.jumbo_size)
        };
        (of as usize == header).then_some((at, size))
    }
}
