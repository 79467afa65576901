//! [`ReadAhead`]: a thread reads the next bytes of a source while the reader uses the ones before.
//!
//! The thread reads pieces and sends them through a bounded queue. Used pieces return through a
//! second queue. A piece has free room in front. The few bytes that are left of the piece before
//! are copied there, and the piece then becomes the window itself. If more bytes are left than fit
//! there, the new bytes are copied after the old ones instead. The same happens if the source
//! returns so few bytes at a time that the same bytes would be moved again and again.
//!
//! The thread starts when the reader has used the first 2 MiB. A small file is read before a thread
//! with buffers of its own has saved what it costs: with a thread for each, `nettrace verify` took
//! a third more processor time for 81 rotated files of 1 MB than for the same events in one file.
//!
//! The thread does not parse. A decoded row header takes more bytes than an encoded one, so handing
//! it over costs as much as decoding it, and lookups must happen in order anyway. What the thread
//! saves is the time in system calls: half of the total if events are only counted. With one
//! processor there is nothing to save, and the source is read directly.

use std::{
    fmt,
    io::{self, Read},
    mem,
    sync::mpsc::{self, Receiver, SyncSender},
    thread,
};

use crate::input::{Pull, Window};

/// A source that a thread of its own reads ahead of the reader.
///
/// Use it for sources that take time to read: files, pipes, decompressors. It takes up to 4 MiB. It
/// may read more of the source than the reader needs, even beyond the end of the stream. The thread
/// starts when the reader has used 2 MiB, or [at once](Self::at_once). It ends with the source, or at
/// its next read after the `ReadAhead` is dropped. There is no thread if the process has only one
/// processor, or if the system has no thread for it.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use nettrace_reader::{ReadAhead, Reader};
///
/// let file = std::fs::File::open("service.nettrace")?;
/// let mut reader = Reader::new(ReadAhead::new(file))?;
/// reader.read_to_end()?;
/// println!("{} events", reader.totals().events);
/// # Ok(())
/// # }
/// ```
pub struct ReadAhead {
    reading: Reading,
    /// Called before the reader waits.
    before: Option<Box<dyn FnMut() + Send>>,
}

enum Reading {
    /// Without a thread, up to this offset of the stream.
    Directly(Source, u64),
    Ahead(Ahead),
}

type Source = Box<dyn Read + Send>;

/// The reader's side of the queues.
#[derive(Debug)]
struct Ahead {
    full: Receiver<io::Result<Piece>>,
    used: SyncSender<Vec<u8>>,
}

/// A buffer with [`ROOM`] free bytes and then `len` bytes of the source.
#[derive(Debug)]
struct Piece {
    buffer: Vec<u8>,
    len: usize,
}

/// The number of bytes to ask the source for at once.
const ASKED: usize = 512 << 10;

/// The room for bytes that are left of the piece before. Blocks of real producers have at most
/// 100 KiB.
const ROOM: usize = 128 << 10;

/// The number of pieces.
const PIECES: usize = 4;

/// The offset of the stream at which the thread starts.
const START: u64 = (PIECES * ASKED) as u64;

impl ReadAhead {
    /// Reads `source`, ahead if it is long. Errors of the source go to the reader, at their place
    /// in the stream.
    ///
    /// ```
    /// use nettrace_reader::{ReadAhead, Reader};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let file = nettrace_reader::example();
    /// let mut reader = Reader::new(ReadAhead::new(std::io::Cursor::new(file)))?;
    /// reader.read_to_end()?;
    /// assert_eq!(reader.totals().events, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new<R: Read + Send + 'static>(source: R) -> Self {
        Self { reading: Reading::Directly(Box::new(source), START), before: None }
    }

    /// Starts the thread now, also on a single processor. This is for a source that must not wait
    /// for the reader, such as a socket whose other end gives up.
    ///
    /// ```
    /// use nettrace_reader::{ReadAhead, Reader};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let socket = std::io::Cursor::new(nettrace_reader::example());
    /// let mut reader = Reader::new(ReadAhead::new(socket).at_once())?;
    /// reader.read_to_end()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn at_once(mut self) -> Self {
        self.reading.start();
        self
    }

    /// Has a function called on the reader's thread before the reader waits for the source: so a
    /// program that shows events as they come can write out what it has, and not after each event.
    /// While there is no thread, it is called before each read.
    ///
    /// ```
    /// use std::io::Write as _;
    ///
    /// use nettrace_reader::{ReadAhead, Reader};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let file = nettrace_reader::example();
    /// let source = ReadAhead::new(std::io::Cursor::new(file));
    /// let mut reader = Reader::new(source.before_waiting(|| {
    ///     let _ = std::io::stdout().flush();
    /// }))?;
    /// while let Some(event) = reader.next_event()? {
    ///     println!("{}", event.metadata().name);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn before_waiting(mut self, call: impl FnMut() + Send + 'static) -> Self {
        self.before = Some(Box::new(call));
        self
    }
}

impl Pull for ReadAhead {
    fn pull(&mut self, window: &mut Window, wanted: usize, consumed: u64) -> io::Result<usize> {
        self.reading.start_if_due(consumed);
        let mut before = || self.before.iter_mut().for_each(|call| call());
        match &mut self.reading {
            Reading::Ahead(ahead) => ahead.pull(window, before),
            Reading::Directly(source, _) => {
                before();
                source.pull(window, wanted, consumed)
            }
        }
    }
}

impl Reading {
    /// Starts the thread if enough has been read without it, and if there is a processor for it.
    fn start_if_due(&mut self, consumed: u64) {
        let Self::Directly(_, until) = self else { return };
        if consumed < *until {
            return;
        }
        *until = u64::MAX;
        if thread::available_parallelism().is_ok_and(|processors| processors.get() > 1) {
            self.start();
        }
    }

    /// Starts the thread. If the system has none, this changes nothing.
    fn start(&mut self) {
        let Self::Directly(source, _) = self else { return };
        let source = mem::replace(source, Box::new(io::empty()));
        *self = match Ahead::new(source) {
            Ok(ahead) => Self::Ahead(ahead),
            Err(source) => Self::Directly(source, u64::MAX),
        };
    }
}

impl fmt::Debug for ReadAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_thread = matches!(self.reading, Reading::Ahead(_));
        f.debug_struct("ReadAhead").field("has_thread", &has_thread).finish_non_exhaustive()
    }
}

impl Ahead {
    /// Returns the source if the system cannot start a thread.
    fn new(source: Source) -> Result<Self, Source> {
        let (to_reader, full) = mpsc::sync_channel(PIECES);
        let (used, from_reader) = mpsc::sync_channel(PIECES);
        // The thread gets the source when it runs, because one that does not start drops it.
        let (give, taken) = mpsc::sync_channel(1);
        let run = move || {
            if let Ok(source) = taken.recv() {
                read(source, &to_reader, &from_reader);
            }
        };
        match spawn(run) {
            Ok(()) => give.send(source).map(|()| Self { full, used }).map_err(|error| error.0),
            Err(_) => Err(source),
        }
    }

    /// Returns a buffer to the thread. A buffer that had to grow is not returned.
    fn give_back(&self, buffer: Vec<u8>) {
        if buffer.len() == ROOM + ASKED {
            // The queue has room for all pieces. If it is closed, the thread has ended and needs
            // none.
            let _ = self.used.try_send(buffer);
        }
    }

    fn pull(&mut self, window: &mut Window, mut before: impl FnMut()) -> io::Result<usize> {
        let piece = self.full.try_recv().or_else(|_| {
            before();
            self.full.recv()
        });
        // Without a sender, the source has ended.
        let Ok(piece) = piece else { return Ok(0) };
        let Piece { mut buffer, len } = piece?;
        let held = window.held();
        if held <= ROOM.min(len) {
            buffer[ROOM - held..ROOM].copy_from_slice(window.bytes());
            self.give_back(window.replace(buffer, ROOM - held, ROOM + len));
        } else {
            if let Some(outgrown) = window.make_room(len) {
                self.give_back(outgrown);
            }
            window.append(&buffer[ROOM..ROOM + len]);
            self.give_back(buffer);
        }
        Ok(len)
    }
}

#[expect(
    clippy::disallowed_types,
    reason = "the reader's only thread; it shares nothing but two queues"
)]
fn spawn(run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // The thread is not joined, because it may be in a read that never returns.
    thread::Builder::new().name("nettrace-read".to_owned()).spawn(run).map(drop)
}

/// The loop of the thread.
fn read(
    mut source: Source,
    to_reader: &SyncSender<io::Result<Piece>>,
    from_reader: &Receiver<Vec<u8>>,
) {
    let mut made = 0;
    loop {
        let mut buffer = if made < PIECES {
            made += 1;
            vec![0; ROOM + ASKED]
        } else {
            match from_reader.recv() {
                Ok(buffer) => buffer,
                Err(_) => return,
            }
        };
        let result = loop {
            match source.read(&mut buffer[ROOM..]) {
                Ok(0) => return,
                Ok(len) => break Ok(Piece { buffer, len }),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        let failed = result.is_err();
        if to_reader.send(result).is_err() || failed {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read};

    use super::{ASKED, PIECES, ROOM, ReadAhead, Reading, START};
    use crate::input::{Input, Pull as _, Window};

    /// A source that returns pieces of all sizes, and then fails if it is told to.
    struct Uneven {
        bytes: Vec<u8>,
        at: usize,
        reads: usize,
        fails: bool,
    }

    impl Read for Uneven {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            self.reads += 1;
            let most = match self.reads % 7 {
                0 => return Err(io::ErrorKind::Interrupted.into()),
                1 => 1,
                2 => 3000,
                3 => ROOM + 5,
                _ => usize::MAX,
            };
            let count = most.min(out.len()).min(self.bytes.len() - self.at);
            if count == 0 && self.fails {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            out[..count].copy_from_slice(&self.bytes[self.at..self.at + count]);
            self.at += count;
            Ok(count)
        }
    }

    fn bytes(len: usize) -> Vec<u8> {
        (0..len as u32).map(|i| (i % 65_521 % 251) as u8).collect()
    }

    /// Window sizes from 0 to several pieces, to cover all paths.
    #[test]
    fn windows_slide_over_the_source() {
        for (fails, at_once) in [(false, true), (true, true), (false, false), (true, false)] {
            let bytes = bytes(12 << 20);
            let source = Uneven { bytes: bytes.clone(), at: 0, reads: 0, fails };
            let mut input = Input::new(match at_once {
                true => ReadAhead::new(source).at_once(),
                false => ReadAhead::new(source),
            });
            let sizes = [0, 1, 17, 32_000, ROOM - 1, ROOM + 1, 100, ASKED, 3 * ASKED, 5, 200_000];
            let mut at = 0;
            for (i, size) in sizes.iter().cycle().enumerate() {
                let got = match input.fill(*size) {
                    Ok(got) => got.to_vec(),
                    Err(error) => {
                        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
                        assert!(fails);
                        break;
                    }
                };
                assert!(got == bytes[at..(at + size).min(bytes.len())], "{i}");
                assert_eq!(input.offset(), at as u64);
                // Sometimes only a part is consumed.
                let used = if i % 3 == 0 { got.len() / 2 } else { got.len() };
                input.consume(used);
                at += used;
                if got.len() < *size {
                    assert!(!fails);
                    break;
                }
            }
            assert!(at > bytes.len() - 4 * ASKED);
        }
    }

    #[test]
    fn the_thread_starts_when_a_source_is_long() {
        let mut source = ReadAhead::new(io::Cursor::new(bytes(START as usize + 10)));
        let processors = std::thread::available_parallelism().unwrap().get();
        let mut window = Window::default();
        let mut has_thread = |consumed| {
            source.pull(&mut window, 1, consumed).unwrap();
            matches!(source.reading, Reading::Ahead(_))
        };
        assert!(!has_thread(START - 1));
        assert_eq!(has_thread(START), processors > 1);
    }

    #[test]
    fn a_reader_that_goes_away_stops_the_thread() {
        struct Endless(std::sync::mpsc::Sender<()>);

        impl Read for Endless {
            fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
                out.fill(0);
                self.0.send(()).map_err(|_| io::ErrorKind::BrokenPipe)?;
                Ok(out.len())
            }
        }

        let (sender, reads) = std::sync::mpsc::channel();
        let mut input = Input::new(ReadAhead::new(Endless(sender)).at_once());
        assert_eq!(input.fill(10).unwrap(), [0; 10]);
        drop(input);
        // The channel closes when the thread ends, and the source with it.
        assert!(reads.iter().count() <= 2 * PIECES + 1);
    }
}
