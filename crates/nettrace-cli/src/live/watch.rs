//! Decodes a live trace while it comes, for the commands that show it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a command's own thread")]

use std::{
    io::{ErrorKind, Read},
    os::unix::net::UnixStream,
    sync::{Mutex, MutexGuard},
    thread,
    time::{Duration, Instant},
};

use nettrace_diagnostics::client::{ClientError, Live, Stopping, Target};
use nettrace_reader::{Event, Reader, Totals, Trace};
use rustix::event::{PollFd, PollFlags, poll};

use super::session::Signals;
use crate::{failure::Failure, read_options::ReadOptions, spelling::OneLine};

/// Time for a process to end its trace.
const PATIENCE: Duration = Duration::from_secs(30);

/// The trace to watch, and the duration.
pub(super) struct WatchOptions<'a> {
    pub(super) target: &'a Target,
    /// End the trace.
    pub(super) signals: &'a Signals,
    /// The time between two views.
    pub(super) interval: Duration,
    pub(super) duration: Option<Duration>,
    pub(super) limits: ReadOptions,
}

/// A view of a trace.
pub(super) trait TraceView: Send {
    /// Whether it needs the events in the order of time. A stream has those of each thread by
    /// themselves, so it can have the end of a span before its start.
    const IN_ORDER: bool = false;

    /// Takes what is known before the first event: the trace, and its major version.
    fn begin(&mut self, _: &Trace, _: u32) -> Result<(), Failure> {
        Ok(())
    }

    /// Takes an event.
    fn event(&mut self, event: &Event<'_>);

    /// Takes the counts so far, after each event.
    fn totals(&mut self, _: &Totals) {}
}

impl WatchOptions<'_> {
    /// Watches a trace until the time is over, a signal comes or the process ends. Calls `show` at
    /// each interval, and at the end.
    pub(super) fn run<V: TraceView>(
        &self,
        live: Live,
        view: V,
        show: &mut dyn FnMut(&mut V) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Live { id, stream } = live;
        let (ended, tell) = UnixStream::pair().map_err(Failure::Output)?;
        let source = stream.try_clone().map_err(Failure::Output)?;
        let view = Mutex::new(view);
        thread::scope(|scope| {
            let reading = scope.spawn(|| {
                let result = read(source, self.limits, &view);
                drop(tell); // wakes the other thread
                result
            });
            let mut stopping = None;
            let shown = self.show(id, &ended, &mut stopping, &mut || show(&mut lock(&view)));
            if shown.is_err() {
                // Nobody sees the rest. The thread that reads ends.
                let _ = stream.shutdown(std::net::Shutdown::Both);
            }
            let read = reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            shown?;
            match stopping.map(|stopping| stopping.and_then(Stopping::answer)) {
                Some(Err(error @ ClientError::Refused { .. })) => return Err(error.into()),
                _ => read?,
            }
            show(&mut lock(&view))
        })
    }

    /// Shows the view at each interval, until the trace has ended.
    fn show(
        &self,
        id: u64,
        ended: &UnixStream,
        stopping: &mut Option<Result<Stopping, ClientError>>,
        show: &mut dyn FnMut() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let begun = Instant::now();
        let mut end = self.duration.map(|duration| begun + duration);
        let mut next = begun + self.interval;
        loop {
            let due = end.map_or(next, |end| end.min(next));
            // Rounded up, so that the time is over when this wakes.
            let left = due.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            let mut polled =
                [PollFd::new(ended, PollFlags::IN), PollFd::new(&self.signals.pipe, PollFlags::IN)];
            match poll(&mut polled, left.try_into().ok().as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(Failure::Process(errno.to_string())),
            }
            if !polled[0].revents().is_empty() {
                return Ok(());
            }
            let now = Instant::now();
            let is_over = end.is_some_and(|end| end <= now);
            if self.signals.came() || is_over {
                if stopping.is_some() {
                    let words = "the process does not end the trace".to_owned();
                    return Err(Failure::Process(words));
                }
                // The process writes the rest first, so read on until its end.
                *stopping = Some(self.target.begin_stop(id));
                end = Some(now + PATIENCE);
            }
            if next <= now {
                if stopping.is_none() {
                    show()?;
                }
                next = (next + self.interval).max(now);
            }
        }
    }
}

/// Decodes the trace, until it ends.
pub(super) fn read<V: TraceView>(
    source: UnixStream,
    limits: ReadOptions,
    view: &Mutex<V>,
) -> Result<(), Failure> {
    let mut reader: Reader<ConnectionReader> = limits.options().open(ConnectionReader(source))?;
    let version = reader.major_version();
    lock(view).begin(reader.trace(), version)?;
    if V::IN_ORDER {
        let mut events = reader.sorted();
        while let Some(event) = events.next_event()? {
            lock(view).event(&event);
            lock(view).totals(events.totals());
        }
        lock(view).totals(events.totals());
        return Ok(());
    }
    loop {
        match reader.next_event()? {
            Some(event) => lock(view).event(&event),
            None => return Ok(()),
        }
        let mut view = lock(view);
        view.totals(reader.totals());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A connection. One that the other side resets has ended.
struct ConnectionReader(UnixStream);

impl Read for ConnectionReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.0.read(buffer) {
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(0),
            result => result,
        }
    }
}

/// A screen, or a file or pipe.
pub(super) enum OutputSurface {
    /// The rows and columns of a terminal.
    Screen(usize, usize),
    Lines,
}

impl OutputSurface {
    /// The kind of standard output.
    pub(super) fn of_stdout() -> Self {
        match rustix::termios::tcgetwinsize(std::io::stdout()) {
            Ok(size) if size.ws_row > 0 && size.ws_col > 0 => {
                Self::Screen(size.ws_row.into(), size.ws_col.into())
            }
            Ok(_) => Self::Screen(24, 80),
            Err(_) => Self::Lines,
        }
    }
}

/// Replaces what the terminal shows with these lines, as far as they fit, and all notes below them:
/// elsewhere the next lines would overwrite those. Both may have names from the process.
pub(super) fn draw(
    out: &mut impl std::io::Write,
    lines: &[String],
    notes: &[String],
    rows: usize,
    columns: usize,
) -> std::io::Result<()> {
    let letters = |line| OneLine(line).to_string().chars().collect::<Vec<_>>();
    let notes: Vec<_> = notes.iter().map(letters).collect();
    let notes: Vec<_> = notes.iter().flat_map(|note| note.chunks(columns.max(1))).collect();
    // To the corner, each line to its end, and then the rest of the screen. So nothing flickers.
    let mut text = String::from("\x1b[H");
    let lines = lines.iter().take(rows.saturating_sub(1 + notes.len()).max(1));
    let lines = lines.map(|line| letters(line).into_iter().take(columns).collect());
    for line in lines.chain(notes.into_iter().map(String::from_iter)).take(rows.saturating_sub(1)) {
        text.push_str(&line);
        text.push_str("\x1b[K\n");
    }
    text.push_str("\x1b[J");
    out.write_all(text.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::draw;

    #[test]
    fn what_is_drawn_has_no_escapes_but_its_own() {
        let mut out = Vec::new();
        let lines = ["a\u{1b}[2J\n\u{9b}b\u{202e}", "12345678"].map(str::to_owned);
        draw(&mut out, &lines, &[], 10, 30).unwrap();
        let text = "\x1b[Ha\\u{1b}[2J\\n\\u{9b}b\\u{202e}\x1b[K\n12345678\x1b[K\n\x1b[J";
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }

    #[test]
    fn notes_stay_below_the_lines_that_fit() {
        let lines = ["title", "one", "two", "three"].map(str::to_owned);
        let notes = ["a note", "ab\u{1b}"].map(str::to_owned);
        let drawn = |rows| {
            let mut out = Vec::new();
            draw(&mut out, &lines, &notes, rows, 5).unwrap();
            String::from_utf8(out).unwrap()
        };
        // A note goes on in the next line.
        let below = "a not\x1b[K\ne\x1b[K\nab\\u{\x1b[K\n1b}\x1b[K\n\x1b[J";
        assert_eq!(drawn(7), format!("\x1b[Htitle\x1b[K\none\x1b[K\n{below}"));
        assert_eq!(drawn(3), "\x1b[Htitle\x1b[K\na not\x1b[K\n\x1b[J");
    }
}
