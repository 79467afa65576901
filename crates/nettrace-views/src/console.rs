//! The sink [`Console`]: events as text on the terminal, while a program is developed.
//!
//! The sink is given a trace, so a reader makes the text of it: the one of `nettrace tail`, on a
//! thread of its own. The thread that records does no more than for any other sink.
#![allow(clippy::disallowed_types, reason = "a thread of its own reads what the sink is given")]

use std::{
    cell::RefCell,
    io::{self, BufWriter, ErrorKind, Read, Write},
    rc::Rc,
    sync::mpsc::{Receiver, Sender, channel},
    thread::{self, JoinHandle},
    time::Duration,
};

use nettrace_reader::Reader;
use nettrace_writer::{
    Session, SessionBuilder,
    sink::{Batch, Sink, StreamEnd, StreamSink, WriteError},
};

use crate::{
    model::{Clock, PerType},
    text::{EventType, Lines, Look, Payload, wants_colors},
};

/// How often the session of [`Console::session`] writes: so that nobody waits for it.
const INTERVAL: Duration = Duration::from_millis(20);
/// After so many bytes it tells readers the order, if not before.
const ORDER_BYTES: u64 = 16 << 20;

/// A sink that shows events as text: on standard error, in colors if that is a terminal.
///
/// One line switches it on, as `tracing_subscriber::fmt::init()` does for `tracing`:
///
/// ```
/// use nettrace_views::console::Console;
/// use nettrace_writer::{Emit, TraceEvent};
///
/// #[derive(TraceEvent)]
/// #[trace_event(provider = "Contoso-Checkout", message = "{url} took {micros} µs")]
/// struct Answered<'a> {
///     url: &'a str,
///     micros: u64,
/// }
///
/// let session = Console::new().session().start_or_warn();
/// Answered { url: "/cart", micros: 180 }.emit();
/// // 09:41:07.089010  INFO Contoso-Checkout/Answered: /cart took 180 µs
/// ```
///
/// [`Lines`] says what lines look like. They are those of `nettrace tail`. [`pretty`](Self::pretty)
/// has several lines for each event, with its place and the spans around it.
///
/// Lines come from a thread of their own, in the order of time. They are there once
/// [`Session::flush`](nettrace_writer::Session::flush) returns, and when the session has finished.
/// What a program prints itself comes at once, and so before them. A process that is killed has not
/// shown what it recorded last.
pub struct Console {
    look: Look,
    colors: bool,
    /// Where to. `None`: the thread has it.
    out: Option<Box<dyn Write + Send>>,
    stream: Option<StreamSink<Feed>>,
}

impl Console {
    /// Shows a line for each event on standard error.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "there is nothing default about a destination")]
    pub fn new() -> Self {
        Self { colors: wants_colors(&io::stderr()), ..Self::to(io::stderr()) }
    }

    /// Shows a line for each event somewhere else, without colors.
    pub fn to(out: impl Write + Send + 'static) -> Self {
        Self { look: Look::Compact, colors: false, out: Some(Box::new(out)), stream: None }
    }

    /// Shows several lines for each event.
    #[must_use]
    pub fn pretty(self) -> Self {
        Self { look: Look::Pretty, ..self }
    }

    /// Whether there are colors, whatever [`new`](Self::new) and [`to`](Self::to) have chosen.
    #[must_use]
    pub fn colors(self, colors: bool) -> Self {
        Self { colors, ..self }
    }

    /// A session with this sink that writes every 20 ms, so that lines come soon. Another session
    /// can have the sink, too: with its intervals, lines come after up to a second.
    pub fn session(self) -> SessionBuilder {
        let builder = Session::builder().sink(self);
        builder.flush_interval(INTERVAL).sequence_points(ORDER_BYTES, INTERVAL)
    }

    fn stream(&mut self) -> io::Result<&mut StreamSink<Feed>> {
        self.stream.as_mut().ok_or_else(|| ErrorKind::NotConnected.into())
    }
}

impl Sink for Console {
    fn start(&mut self, header: &[u8], end: StreamEnd) -> io::Result<()> {
        let Some(out) = self.out.take() else {
            // A second stream needs the destination that the thread of the first has.
            return Err(ErrorKind::Unsupported.into());
        };
        let lines = Lines::new(self.look, self.colors);
        let (pieces, given) = channel();
        let (tell, shown) = channel();
        let thread = thread::Builder::new().name("nettrace-console".to_owned());
        let thread = thread.spawn(move || {
            let screen = Screen::new(RefCell::new(BufWriter::new(out)));
            let source = Given {
                pieces: given,
                piece: Vec::new(),
                read: 0,
                tell,
                screen: Rc::clone(&screen),
            };
            let shown = show(source, lines, &screen);
            let mut screen = screen.borrow_mut();
            // If the destination does not take it, nobody is there to hear of it.
            let _ = match shown {
                Ok(()) => screen.flush(),
                Err(error) => writeln!(screen, "no more events are shown: {error}"),
            };
        })?;
        let feed = Feed { bytes: Vec::new(), pieces: Some(pieces), shown, thread: Some(thread) };
        self.stream.insert(StreamSink::new(feed)).start(header, end)
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        self.stream()?.write(batch)
    }

    fn is_torn(&self) -> bool {
        self.stream.as_ref().is_some_and(Sink::is_torn)
    }

    fn finish(&mut self) -> io::Result<()> {
        let finished = self.stream()?.finish();
        // Ends the thread, and waits for it.
        self.stream = None;
        finished
    }
}

impl std::fmt::Debug for Console {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Console").field("look", &self.look).finish_non_exhaustive()
    }
}

/// The destination, on the thread that shows events.
type Screen = Rc<RefCell<BufWriter<Box<dyn Write + Send>>>>;

/// Shows the events of a trace.
fn show(source: Given, mut lines: Lines, screen: &Screen) -> nettrace_reader::Result<()> {
    let mut events = Reader::new(source)?.sorted();
    let clock = Clock::of(events.trace());
    let mut types = PerType::default();
    let mut text = Vec::new();
    // Neither text in memory nor a destination that takes nothing is a reason to end.
    loop {
        let _ = lines.lost(events.totals().lost, &mut text);
        let Some(event) = events.next_event()? else { break };
        let ty = types.of(&event, EventType::of);
        let _ = lines.event(&event, ty, &Payload::of(&event, ty), clock, &mut text);
        let _ = screen.borrow_mut().write_all(&text);
        text.clear();
    }
    let _ = lines.lost(events.totals().lost, &mut text);
    let _ = screen.borrow_mut().write_all(&text);
    Ok(())
}

/// Gives the bytes of the trace to the thread that shows it. A flush waits until it has.
struct Feed {
    bytes: Vec<u8>,
    /// `None` only while this is dropped.
    pieces: Option<Sender<Vec<u8>>>,
    shown: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Write for Feed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let piece = std::mem::take(&mut self.bytes);
        let sent = self.pieces.as_ref().is_some_and(|pieces| pieces.send(piece).is_ok());
        if !sent {
            return Err(ErrorKind::BrokenPipe.into());
        }
        // An error means that the thread has ended, as it does after the end of the trace.
        let _ = self.shown.recv();
        Ok(())
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.pieces = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The bytes of the trace, on the thread that shows it.
struct Given {
    pieces: Receiver<Vec<u8>>,
    piece: Vec<u8>,
    read: usize,
    tell: Sender<()>,
    screen: Screen,
}

impl Read for Given {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.piece.len() {
            if self.read > 0 {
                let _ = self.screen.borrow_mut().flush();
                let _ = self.tell.send(());
            }
            // Without a sender the trace has ended.
            let Ok(piece) = self.pieces.recv() else { return Ok(0) };
            (self.piece, self.read) = (piece, 0);
        }
        let rest = &self.piece[self.read..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.read += count;
        Ok(count)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test has another thread")]
mod tests {
    use std::sync::{Arc, Mutex};

    use nettrace_writer::{Emit as _, TraceEvent, TraceSpan};

    use super::*;

    #[derive(TraceEvent)]
    #[trace_event(provider = "Contoso-Console", level = Warning, message = "{what} is gone")]
    struct Gone {
        what: &'static str,
    }

    #[derive(TraceSpan)]
    #[trace_event(provider = "Contoso-Console")]
    struct Request {
        route: &'static str,
    }

    #[derive(Clone, Default)]
    struct Text(Arc<Mutex<Vec<u8>>>);

    impl Write for Text {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Text {
        /// The lines so far, without times and ids.
        fn lines(&self) -> Vec<String> {
            let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
            let without = |line: &str| match line.split_once(" [") {
                Some((head, rest)) => format!("{head}{}", rest.split_once(']').unwrap().1),
                None => line.to_owned(),
            };
            text.lines().map(|line| without(line.get(16..).unwrap_or(line))).collect()
        }
    }

    #[test]
    fn what_is_flushed_is_shown() {
        let text = Text::default();
        let console = Console::to(text.clone());
        let session = console.session().provider("Contoso-Console").start().unwrap();
        let span = Request { route: "/cart" }.enter();
        Gone { what: "tea" }.emit();
        thread::scope(|scope| {
            scope.spawn(|| Gone { what: "milk" }.emit());
        });
        session.flush().unwrap();
        let expected = [
            " INFO > Contoso-Console/Request route=\"/cart\"",
            " WARN   Contoso-Console/Gone: tea is gone",
            " WARN Contoso-Console/Gone: milk is gone",
        ];
        assert_eq!(text.lines(), expected);
        drop(span);
        assert_eq!(session.finish().unwrap().written, 4);
        let last = text.lines().pop().unwrap();
        assert!(last.starts_with(" INFO < Contoso-Console/Request ") && last.ends_with("s ok"));
        assert_eq!(text.lines().len(), 4);
    }

    #[test]
    fn a_destination_that_takes_nothing_ends_nothing() {
        struct Closed;

        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(ErrorKind::BrokenPipe.into())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        /// The other test does not see it.
        #[derive(TraceEvent)]
        #[trace_event(provider = "Contoso-Closed")]
        struct Unseen {
            number: u32,
        }

        let session = Console::to(Closed).pretty().session().provider("Contoso-Closed");
        let session = session.start().unwrap();
        Unseen { number: 1 }.emit();
        session.flush().unwrap();
        Unseen { number: 2 }.emit();
        let stats = session.finish().unwrap();
        assert_eq!((stats.written, stats.dropped()), (2, 0), "{stats:?}");
    }
}
