//! Where a trace goes: files, streams, memory, or a [`Sink`] of your own.
//!
//! | sink | for |
//! |---|---|
//! | [`FileSink`] | one file, which is a complete trace at every instant |
//! | [`RotatingFiles`] | a series of such files, bounded in size and number |
//! | [`StreamSink`] | pipes, sockets, standard output: any [`Write`](std::io::Write) |
//! | [`MemorySink`] | a trace in memory |
//! | [`DatagramSink`] | UDP: each packet of a Heph trace is a datagram; needs the feature `heph` |
//!
//! The session's thread passes whole blocks to the sink. A sink does not need to know the format.

mod batch_cursor;
mod complete;
#[cfg(feature = "heph")]
mod datagram;
pub(crate) mod failure;
mod file;
pub(crate) mod file_name;
#[cfg(unix)]
pub(crate) mod live;
mod memory;
mod own_file;
mod padding;
#[cfg(not(unix))]
#[path = "portable.rs"]
mod platform;
#[cfg(unix)]
#[path = "unix.rs"]
mod platform;
#[cfg(all(unix, test))]
mod portable; // compiled here too, so that tests on Unix cover it
mod publish;
pub(crate) mod ring;
mod rotate;
pub(crate) mod staged;
mod stream;

use std::{io, path::Path};

#[cfg(feature = "heph")]
pub use datagram::{DatagramCounter, DatagramCounts, DatagramSink};
pub use file::{FileOptions, FileSink};
pub use file_name::FileNameError;
pub use memory::MemorySink;
pub use nettrace_format::{Padding, StreamEnd};
pub use rotate::{RotatingFiles, RotationOptions};
pub use stream::StreamSink;

pub(crate) use own_file::OwnFile;
#[cfg(all(feature = "persistent", target_os = "linux", target_pointer_width = "64"))]
pub(crate) use platform::open_existing;
pub(crate) use publish::Existing;

/// The whole blocks that one flush adds to a trace, in order.
#[derive(Debug)]
#[non_exhaustive]
pub struct Batch<'a> {
    /// The bytes in pieces. So the session does not have to copy buffers into one piece.
    pub pieces: &'a [io::IoSlice<'a>],
    /// Where each block ends, in bytes from the start of the batch, in ascending order. The last
    /// end is the length of the batch. The list is empty if the batch is.
    pub block_ends: &'a [u64],
    /// The number of events up to each end. Empty if nobody has counted them.
    pub(crate) rows: &'a [u64],
}

impl<'a> Batch<'a> {
    /// Makes a batch, for tests of a sink.
    ///
    /// ```
    /// use std::io::IoSlice;
    ///
    /// use nettrace_writer::sink::{Batch, MemorySink, Sink, StreamEnd};
    ///
    /// let mut sink = MemorySink::new();
    /// sink.start(b"header", StreamEnd::new(b"end"))?;
    /// let pieces = [IoSlice::new(b"one block"), IoSlice::new(b"another")];
    /// sink.write(&Batch::new(&pieces, &[9, 16])).map_err(|error| error.source)?;
    /// assert_eq!(sink.bytes(), b"headerone blockanotherend");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub const fn new(pieces: &'a [io::IoSlice<'a>], block_ends: &'a [u64]) -> Self {
        Self { pieces, block_ends, rows: &[] }
    }
}

/// Why the sink did not take a whole batch, and how much of it the sink took.
///
/// The operator `?` converts an [`io::Error`] into a `WriteError` with 0 bytes [kept](Self::kept).
///
/// ```
/// use std::{io, path::Path};
///
/// use nettrace_writer::sink::{Batch, Sink, StreamEnd, WriteError};
///
/// /// Keeps what fits, and refuses the rest.
/// struct Bounded {
///     room: u64,
/// }
///
/// impl Sink for Bounded {
///     fn start(&mut self, _header: &[u8], _end: StreamEnd) -> io::Result<()> {
///         Ok(())
///     }
///
///     fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
///         let fits = batch.block_ends.iter().copied().take_while(|end| *end <= self.room);
///         let kept = fits.last().unwrap_or(0);
///         self.room -= kept;
///         if batch.block_ends.last().is_some_and(|end| *end > kept) {
///             return Err(WriteError::new(io::ErrorKind::StorageFull.into(), kept));
///         }
///         Ok(())
///     }
///
///     fn finish(&mut self) -> io::Result<()> {
///         Ok(())
///     }
/// }
///
/// let pieces = [io::IoSlice::new(b"one blockanother")];
/// let error = Bounded { room: 12 }.write(&Batch::new(&pieces, &[9, 16])).unwrap_err();
/// assert_eq!(error.kept, 9);
/// ```
#[derive(Debug, thiserror::Error)]
#[error("the sink took {kept} bytes of the batch")]
#[non_exhaustive]
pub struct WriteError {
    /// The error itself. Its kind decides [whether the session tries
    /// again](Sink#errors-that-pass-and-errors-that-are-final).
    pub source: io::Error,
    /// The number of bytes of the batch that readers will see: one of [`Batch::block_ends`], or 0.
    /// The session counts the events of the other blocks as lost. A partly written block may count
    /// as kept, if the sink completes it before it writes anything else.
    pub kept: u64,
}

impl WriteError {
    /// An error after `kept` bytes of the batch.
    #[must_use]
    pub const fn new(source: io::Error, kept: u64) -> Self {
        Self { source, kept }
    }
}

impl From<io::Error> for WriteError {
    fn from(source: io::Error) -> Self {
        Self::new(source, 0)
    }
}

/// The destination of a trace. Implement it for a destination of your own. For any
/// [`Write`](io::Write), use [`StreamSink`].
///
/// # Calls
///
/// The session makes one call after the other. The first call comes from the thread that starts the
/// session, all others from the session's own thread:
///
/// 1. [`start`](Self::start) once, within
///    [`SessionBuilder::start`](crate::SessionBuilder::start), which returns its error.
/// 2. [`write`](Self::write) with whole blocks, for each flush that has something to write.
/// 3. [`start`](Self::start) again when the trace goes on in a new stream. This happens only if the
///    open stream has no [`room`](Self::room), or if the sink [asks for it](Self::wants_restart).
/// 4. [`finish`](Self::finish) once. Only [`is_torn`](Self::is_torn) is called after that.
///
/// Each stream is a complete trace: its header, the blocks in order, and the bytes of its
/// [`StreamEnd`].
///
/// A sink may block. Threads that emit do not wait for it, but the session's memory can fill up
/// meanwhile. A sink may also emit events. Such events never wait for room. A sink must not flush
/// or finish its own session: that returns [`Error::InOwnSink`](crate::Error::InOwnSink).
///
/// # Errors that pass and errors that are final
///
/// After most errors the session tries again: once in each flush interval (once a second while
/// nobody emits), and at every call of [`Session::flush`](crate::Session::flush). Events that are
/// recorded meanwhile are lost. [`Stats::lost_in_sink`](crate::Stats::lost_in_sink) counts them,
/// and the trace shows a gap in the sequence numbers of their threads.
///
/// - After a failed [`write`](Self::write) the next batch continues the stream after the bytes that
///   were [kept](WriteError::kept). It repeats the definitions of the lost blocks.
/// - After a failed [`start`](Self::start) the next call is `start`.
///
/// Some errors are final, because no later attempt can succeed. Their kinds are `BrokenPipe`,
/// `ConnectionAborted`, `ConnectionReset`, `InvalidData`, `InvalidInput`, `NotConnected`,
/// `Unsupported` and `WriteZero`. The system's error for an invalid descriptor (`EBADF`) is final
/// too. A sink of your own ends the trace with an error of such a kind. A panic also ends it. After
/// that the session calls only [`finish`](Self::finish).
///
/// # Example
///
/// A sink that uploads a trace by HTTP while it is recorded. Each stream becomes one object on the
/// server. If the connection breaks, the sink cannot know how much of the object arrived. So it
/// asks for a new stream, and the trace goes on in another object.
///
/// ```
/// use std::{
///     io::{self, ErrorKind, IoSlice, Read, Write},
///     net::{SocketAddr, TcpStream},
/// };
///
/// use nettrace_writer::sink::{Batch, Sink, StreamEnd, WriteError};
///
/// struct Upload {
///     server: SocketAddr,
///     /// The number of objects so far.
///     objects: u32,
///     /// The connection that uploads the open stream.
///     connection: Option<TcpStream>,
///     end: &'static [u8],
/// }
///
/// impl Upload {
///     fn new(server: SocketAddr) -> Self {
///         Self { server, objects: 0, connection: None, end: &[] }
///     }
///
///     /// Sends one chunk of the object.
///     fn send(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<()> {
///         let Some(connection) = &mut self.connection else {
///             return Err(io::Error::other("there is no connection to the server"));
///         };
///         let size: usize = pieces.iter().map(|piece| piece.len()).sum();
///         if size == 0 {
///             return Ok(()); // a chunk of size 0 would end the object
///         }
///         write!(connection, "{size:x}\r\n")?;
///         for piece in pieces {
///             connection.write_all(piece)?;
///         }
///         connection.write_all(b"\r\n")
///     }
/// }
///
/// impl Sink for Upload {
///     fn start(&mut self, header: &[u8], end: StreamEnd) -> io::Result<()> {
///         // End the previous object, if there is one.
///         self.finish().map_err(passes)?;
///         let mut connection = TcpStream::connect(self.server).map_err(passes)?;
///         self.objects += 1;
///         write!(
///             connection,
///             "PUT /traces/{} HTTP/1.1\r\nHost: {}\r\nTransfer-Encoding: chunked\r\n\r\n",
///             self.objects, self.server
///         )
///         .map_err(passes)?;
///         self.connection = Some(connection);
///         self.end = end.bytes();
///         self.send(&[IoSlice::new(header)]).map_err(passes)
///     }
///
///     fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
///         self.send(batch.pieces).map_err(|error| {
///             self.connection = None;
///             WriteError::from(passes(error))
///         })
///     }
///
///     fn wants_restart(&mut self) -> bool {
///         self.connection.is_none()
///     }
///
///     fn finish(&mut self) -> io::Result<()> {
///         if self.connection.is_none() {
///             return Ok(());
///         }
///         let sent = self.send(&[IoSlice::new(self.end)]);
///         let Some(mut connection) = self.connection.take() else { return sent };
///         sent?;
///         connection.write_all(b"0\r\n\r\n")?;
///         let mut status = [0; 12];
///         connection.read_exact(&mut status)?;
///         if status.starts_with(b"HTTP/1.1 2") {
///             return Ok(());
///         }
///         Err(io::Error::other(format!("the server answers {}", status.escape_ascii())))
///     }
/// }
///
/// /// A broken connection must not end the trace, so the error gets a kind that is not final.
/// fn passes(error: io::Error) -> io::Error {
///     io::Error::other(format!("cannot upload the trace: {error}"))
/// }
///
/// # use nettrace_writer::{Emit, Session, TraceEvent};
/// # #[derive(TraceEvent)]
/// # #[trace_event(provider = "Docs-Upload")]
/// # struct Started { attempt: u32 }
/// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
/// # let server = listener.local_addr()?;
/// # let received = std::thread::spawn(move || {
/// #     let (mut connection, _) = listener.accept()?;
/// #     let mut request = Vec::new();
/// #     while !request.ends_with(b"\r\n0\r\n\r\n") {
/// #         let mut byte = [0];
/// #         connection.read_exact(&mut byte)?;
/// #         request.extend(byte);
/// #     }
/// #     connection.write_all(b"HTTP/1.1 201 Created\r\n\r\n")?;
/// #     io::Result::Ok(request)
/// # });
/// let session = Session::builder().sink(Upload::new(server)).start()?;
/// Started { attempt: 1 }.emit();
/// let stats = session.finish()?;
/// assert_eq!(stats.written, 1);
/// # let request = received.join().unwrap()?;
/// # let mut rest = &request[request.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4..];
/// # let mut trace = Vec::new();
/// # loop {
/// #     let line = rest.windows(2).position(|end| end == b"\r\n").unwrap();
/// #     let size = usize::from_str_radix(std::str::from_utf8(&rest[..line])?, 16)?;
/// #     rest = &rest[line + 2..];
/// #     trace.extend_from_slice(&rest[..size]);
/// #     if size == 0 { break }
/// #     rest = &rest[size + 2..];
/// # }
/// # let report = nettrace_reader::verify(&trace[..])?;
/// # assert!(report.is_sound() && report.events == 1, "{report:?}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a sink",
    label = "not a sink",
    note = "sinks are `FileSink`, `RotatingFiles`, `StreamSink`, `MemorySink` and types that \
            implement `Sink`; `StreamSink::new` makes one of any `Write + Send`; a `Result` needs \
            a `?` behind it"
)]
pub trait Sink: Send {
    /// Opens a stream, which starts with `header` and ends with the bytes of `end`.
    ///
    /// If a stream is open, the sink ends it first. Only a sink that keeps a file complete at every
    /// instant needs the [padding](StreamEnd::padding) of formats that have no end of stream.
    ///
    /// # Errors
    ///
    /// Returns an error if the stream cannot be opened.
    fn start(&mut self, header: &[u8], end: StreamEnd) -> io::Result<()>;

    /// Adds whole blocks to the open stream.
    ///
    /// After an error the batch can be empty. Such a call lets the sink complete what the previous
    /// call left unfinished. The batch can also be empty if the sink [holds blocks
    /// back](Self::holds_back).
    ///
    /// # Errors
    ///
    /// Returns what went wrong, and how much of the batch the sink took nevertheless.
    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError>;

    /// The number of bytes of blocks that the open stream still takes. The default is [`u64::MAX`],
    /// for no bound.
    ///
    /// The session begins a new stream with the first block that does not fit. It exceeds the bound
    /// only in an empty stream, and only by the minimum: the definitions that one event needs, the
    /// event, and a sequence point.
    ///
    /// ```
    /// use std::{
    ///     io,
    ///     sync::{Arc, Mutex},
    /// };
    ///
    /// use nettrace_writer::{
    ///     Emit, Session, TraceEvent,
    ///     sink::{Batch, Sink, StreamEnd, WriteError},
    /// };
    ///
    /// /// Cuts a trace into parts of 16 KiB, each of which is a trace.
    /// #[derive(Clone, Default)]
    /// struct Parts(Arc<Mutex<Vec<Vec<u8>>>>);
    ///
    /// impl Sink for Parts {
    ///     fn start(&mut self, header: &[u8], _end: StreamEnd) -> io::Result<()> {
    ///         self.0.lock().unwrap().push(header.to_vec());
    ///         Ok(())
    ///     }
    ///
    ///     fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
    ///         if let Some(part) = self.0.lock().unwrap().last_mut() {
    ///             batch.pieces.iter().for_each(|piece| part.extend_from_slice(piece));
    ///         }
    ///         Ok(())
    ///     }
    ///
    ///     fn room(&self) -> u64 {
    ///         let used = self.0.lock().unwrap().last().map_or(0, Vec::len);
    ///         (16_u64 << 10).saturating_sub(used as u64)
    ///     }
    ///
    ///     fn finish(&mut self) -> io::Result<()> {
    ///         Ok(())
    ///     }
    /// }
    ///
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Docs-Parts")]
    /// struct Read<'a> {
    ///     bytes: &'a [u8],
    /// }
    ///
    /// let parts = Parts::default();
    /// let session = Session::builder().sink(parts.clone()).start()?;
    /// for _ in 0..4 {
    ///     Read { bytes: &[0; 10_000] }.emit();
    ///     session.flush()?;
    /// }
    /// assert_eq!(session.finish()?.written, 4);
    /// assert!(parts.0.lock().unwrap().len() > 1);
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    fn room(&self) -> u64 {
        u64::MAX
    }

    /// Whether events should go into a new stream from now on, although the open one has room. For
    /// example, the open stream is old, or its connection broke. The default is `false`.
    ///
    /// The session asks before it adds events to a stream that already has some, and after a failed
    /// write. If it has nothing to write, it begins no new stream.
    fn wants_restart(&mut self) -> bool {
        false
    }

    /// The file of the open stream, if the sink writes one. After a kill `nettrace recover` finds
    /// there what a [recorder file](crate::SessionBuilder::persistent) need not repeat.
    fn file(&self) -> Option<&Path> {
        None
    }

    /// Says that the next stream is worth something only as a whole: it is a
    /// [dump](crate::Session::dump). A sink that gives a stream a name, or shows it in another way,
    /// should do so in [`finish`](Self::finish), and leave nothing if it is dropped before. The
    /// default is to do nothing.
    fn name_when_whole(&mut self) {}

    /// Whether the sink holds back blocks that it has taken, and writes them later. The default is
    /// `false`.
    ///
    /// While it does, the session calls [`write`](Self::write) with an empty batch if it has
    /// nothing to write: once in each flush interval, once a second while nobody emits. If the
    /// process exits while the sink holds something back, the session calls
    /// [`finish`](Self::finish).
    fn holds_back(&self) -> bool {
        false
    }

    /// The number of events of a thread that the sink holds back, by the index by which the
    /// session's stream names it, or of all threads. Events that were lost between them count, too.
    ///
    /// A [recorder file](crate::SessionBuilder::persistent) has the count, so that these events are
    /// told as lost if the process is killed. The session asks only if the sink [takes rows
    /// apart](Self::takes_rows_apart). The default is 0.
    fn held_back(&self, thread: Option<u64>) -> u64 {
        let _ = thread;
        0
    }

    /// Whether the sink writes some rows without others, or in another order. The default is
    /// `false`.
    ///
    /// Then each label list has all ids of its span, as with [`Ids::Both`](crate::Ids::Both).
    /// Otherwise a list may need [that of the parent](crate::Ids::Activities). A sink that passes
    /// rows on to another sink returns the answer of that sink.
    fn takes_rows_apart(&self) -> bool {
        false
    }

    /// Whether the last block that counts as [kept](WriteError::kept) is only partly written. The
    /// default is `false`.
    ///
    /// The session asks after [`finish`](Self::finish). If so, it counts the events of that block
    /// as lost. [`StreamSink`] answers `true` if its destination took a part of a block.
    fn is_torn(&self) -> bool {
        false
    }

    /// Ends the open stream, if there is one. The session writes nothing afterwards.
    ///
    /// # Errors
    ///
    /// Returns an error if the stream cannot be ended. For a regular file there is nothing left to
    /// write at that point.
    fn finish(&mut self) -> io::Result<()>;
}
