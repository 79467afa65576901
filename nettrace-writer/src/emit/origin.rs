//! The origin of an event: its stack and its related thread. The caller gives them, and escapes
//! hold them in the chunk.

use nettrace_event::payload::{Buffer as _, SliceBuffer};
use nettrace_format::v6;

use crate::{process::thread::ThreadRef, protocol::row::Escape};

/// The most addresses that a stack can have.
pub const MAX_STACK_FRAMES: usize = 1_024;

/// What accompanies one event besides its payload: see [`Emit::emit_with`](crate::Emit::emit_with).
///
/// ```
/// use std::thread;
///
/// use nettrace_writer::{Origin, Emit, Session, ThreadRef, TraceEvent, sink::MemorySink};
///
/// /// A watchdog found a worker that does not move.
/// #[derive(TraceEvent)]
/// #[trace_event(provider = "Contoso-Checkout", level = Warning)]
/// struct Stalled {
///     millis: u64,
/// }
///
/// let session = Session::builder().sink(MemorySink::new()).start()?;
/// let worker = thread::spawn(ThreadRef::current).join().unwrap();
/// let addresses = [0x5555_0010, 0x5555_0200];
/// Stalled { millis: 900 }.emit_with(&Origin::new().stack(&addresses).thread(&worker));
/// assert_eq!(session.finish()?.written, 1);
/// # Ok::<(), nettrace_writer::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Origin<'a> {
    stack: &'a [u64],
    thread: Option<&'a ThreadRef>,
}

impl<'a> Origin<'a> {
    /// An origin with neither a stack nor a thread.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a call stack: return addresses, the innermost first. If there are more than
    /// [`MAX_STACK_FRAMES`], or one is larger than this machine's pointers, the event is refused
    /// and counted as too large.
    ///
    /// ```
    /// use nettrace_writer::{Origin, Emit, Session, TraceEvent, sink::MemorySink};
    ///
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Contoso-Checkout")]
    /// struct Sampled;
    ///
    /// let memory = MemorySink::new();
    /// let session = Session::builder().sink(memory.clone()).start()?;
    /// Sampled.emit_with(&Origin::new().stack(&[0x2010, 0x1020]));
    /// session.finish()?;
    /// let bytes = memory.bytes();
    /// let mut reader = nettrace_reader::Reader::new(&bytes[..])?;
    /// let event = reader.next_event()?.expect("there is one event");
    /// assert!(event.stack().expect("it has a stack").addresses().eq([0x2010, 0x1020]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn stack(mut self, addresses: &'a [u64]) -> Self {
        self.stack = addresses;
        self
    }

    /// Adds the thread that the event is about, if another thread emits it.
    ///
    /// ```
    /// use std::thread;
    ///
    /// use nettrace_writer::{Origin, Emit, Session, ThreadRef, TraceEvent, sink::MemorySink};
    ///
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Contoso-Checkout")]
    /// struct Woken;
    ///
    /// let memory = MemorySink::new();
    /// let session = Session::builder().sink(memory.clone()).start()?;
    /// let worker = thread::Builder::new().name("worker".into()).spawn(ThreadRef::current)?;
    /// let worker = worker.join().expect("it does not panic");
    /// Woken.emit_with(&Origin::new().thread(&worker));
    /// session.finish()?;
    /// let bytes = memory.bytes();
    /// let mut reader = nettrace_reader::Reader::new(&bytes[..])?;
    /// let event = reader.next_event()?.expect("there is one event");
    /// assert_eq!(event.thread().name.as_deref(), Some("worker"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn thread(mut self, thread: &'a ThreadRef) -> Self {
        self.thread = Some(thread);
        self
    }

    /// Whether there is neither a stack nor a thread.
    pub(super) fn is_empty(&self) -> bool {
        self.stack.is_empty() && self.thread.is_none()
    }

    /// Writes the context as escapes before the row; `previous` is as for
    /// [`escape`](super::labels::escape). Returns `false` if the stack has too many addresses, or
    /// one that is too large.
    pub(super) fn write(&self, previous: u32, out: &mut SliceBuffer<'_>) -> bool {
        if !takes_stack(self.stack, size_of::<usize>() as u32) {
            return false;
        }
        if !self.stack.is_empty() {
            out.put(&Escape::Stack.head(self.stack.len() * 8, previous));
            self.stack.iter().for_each(|address| out.put(&address.to_le_bytes()));
        }
        if let Some(thread) = self.thread {
            let name = thread.name().unwrap_or_default().as_bytes();
            out.put(&Escape::Thread.head(16 + name.len(), previous));
            out.put(&thread.number().to_le_bytes());
            out.put(&thread.os_id().to_le_bytes());
            out.put(name);
        }
        true
    }
}

/// No stack and no thread.
pub(super) static NO_ORIGIN: Origin<'static> = Origin { stack: &[], thread: None };

/// Whether a trace with pointers of this size can hold a stack.
fn takes_stack(stack: &[u64], pointer_size: u32) -> bool {
    let mut addresses = stack.iter();
    stack.len() <= MAX_STACK_FRAMES
        && addresses.all(|&address| v6::takes_address(address, pointer_size))
}

#[cfg(test)]
mod tests {
    use nettrace_format::{
        Format, Transcoder,
        content::{SystemTimeParts, TraceInfo},
        v6,
    };

    use super::{MAX_STACK_FRAMES, takes_stack};
    /// The stream must take every stack that is not refused with its event. An error of the stream
    /// would end the session.
    #[test]
    fn a_stream_takes_every_stack_that_is_not_refused() {
        let just_fits = vec![u64::from(u32::MAX); MAX_STACK_FRAMES];
        let too_deep = vec![1; MAX_STACK_FRAMES + 1];
        let stacks = [&[1_u64][..], &just_fits, &too_deep, &[1, 1 << 32], &[u64::MAX], &[]];
        for format in [Format::V6, Format::V5, Format::V4] {
            for (pointer_size, expected) in [
                (4, [true, true, false, false, false, true]),
                (8, [true, true, false, true, true, true]),
            ] {
                assert_eq!(stacks.map(|stack| takes_stack(stack, pointer_size)), expected);
                let mut stage = Transcoder::stage(format);
                let info = TraceInfo {
                    sync_utc: SystemTimeParts::from_unix_millis(0),
                    sync_ticks: 0,
                    ticks_per_second: 1_000,
                    pointer_size,
                    key_values: &[],
                };
                let mut out = Vec::new();
                if let Some(stage) = &mut stage {
                    stage.begin(&info, &mut out).unwrap();
                }
                for (id, stack) in (1..).zip(stacks) {
                    let mut block = Vec::new();
                    let taken = v6::stack_block(id, &[stack], pointer_size, &mut block);
                    if takes_stack(stack, pointer_size) {
                        taken.unwrap_or_else(|error| panic!("{format:?}: {error}"));
                        if let Some(stage) = &mut stage {
                            assert_eq!(stage.blocks(&block, &mut out), Ok(0), "{format:?}");
                        }
                    } else if taken.is_err() {
                        assert!(block.is_empty(), "{format:?}: a refused stack leaves nothing");
                    }
                }
            }
        }
    }
}
