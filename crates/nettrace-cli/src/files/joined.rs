//! The files of a recording, one after another.

use std::{
    fs,
    io::{self, BufReader, Read, Take},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    vec,
};

use nettrace_format::v6;

use crate::files::ReadEnd;

/// The size of the header of a stream of version 6.
const STREAM_HEADER: usize = 20;

/// A file, block after block.
pub(crate) struct BlockFile(Take<BufReader<fs::File>>);

/// One of the files, and how many bytes of it are read. If there is a bound, the file may end there
/// in the middle.
pub(crate) type FilePart = (PathBuf, u64);

/// The bytes of several streams of version 6. Each file is opened when the one before has ended.
/// What stands behind the end of a stream is left out. A stream that ends early gets an end.
pub(crate) struct Joined {
    rest: vec::IntoIter<FilePart>,
    file: Option<(FilePart, BlockFile)>,
    /// A block, and how much of it has been read.
    block: Vec<u8>,
    read: usize,
    /// The number of bytes that have been handed out, with all of `block`.
    bytes: u64,
    end: Arc<Mutex<ReadEnd>>,
}

impl Joined {
    pub(crate) fn new(files: Vec<FilePart>, end: Arc<Mutex<ReadEnd>>) -> Self {
        let rest = files.into_iter();
        Self { rest, file: None, block: Vec::new(), read: 0, bytes: 0, end }
    }

    /// Gets the next block, or the header of a stream. Returns `false` at the end of all.
    fn next_block(&mut self) -> io::Result<bool> {
        self.block.clear();
        self.read = 0;
        let Some(((path, most), file)) = &mut self.file else {
            let Some((path, most)) = self.rest.next() else { return Ok(false) };
            let named = |error: io::Error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            };
            let file = BlockFile::open(&path, most, &mut self.block).map_err(named)?;
            let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(begins) = &mut end.begins {
                begins.push((self.bytes, path.clone()));
            }
            self.file = Some(((path, most), file));
            self.bytes += self.block.len() as u64;
            return Ok(true);
        };
        if !file.next_block(&mut self.block)? {
            // The caller knows of damage that bounds the file.
            if *most == u64::MAX {
                let why = "the file ends early; what stands before was read";
                let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
                end.damaged.push((path.clone(), why.into()));
            }
            self.block.clear();
            self.block.extend_from_slice(&v6::END_OF_STREAM);
        }
        if self.block[3] == v6::BlockKind::EndOfStream as u8 {
            self.file = None;
        }
        self.bytes += self.block.len() as u64;
        Ok(true)
    }
}

impl BlockFile {
    /// Opens a file, of which at most so many bytes are read. Appends the header of its stream.
    pub(crate) fn open(path: &Path, most: u64, out: &mut Vec<u8>) -> io::Result<Self> {
        let file = BufReader::with_capacity(256 << 10, fs::File::open(path)?);
        let mut file = Self(file.take(most));
        file.take(STREAM_HEADER, out)?;
        Ok(file)
    }

    /// Appends the next block. Returns whether it is whole.
    pub(crate) fn next_block(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        let start = out.len();
        if !self.take(v6::BLOCK_HEADER, out)? {
            return Ok(false);
        }
        let header = [out[start], out[start + 1], out[start + 2], 0];
        let is_end = out[start + 3] == v6::BlockKind::EndOfStream as u8;
        let size = if is_end { 0 } else { u32::from_le_bytes(header) as usize };
        self.take(size, out)
    }

    /// Appends so many bytes. Returns whether there were as many.
    fn take(&mut self, count: usize, out: &mut Vec<u8>) -> io::Result<bool> {
        Ok((&mut self.0).take(count as u64).read_to_end(out)? == count)
    }
}

impl Read for Joined {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut count = 0;
        while count < buffer.len() {
            if self.read == self.block.len() && !self.next_block()? {
                break;
            }
            let part = (buffer.len() - count).min(self.block.len() - self.read);
            let bytes = &self.block[self.read..self.read + part];
            buffer[count..count + part].copy_from_slice(bytes);
            self.read += part;
            count += part;
        }
        Ok(count)
    }
}
