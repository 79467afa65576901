//! What accompanies an event: its stack and its related thread, as the caller gives them and as escapes have them.

use nettrace_format::payload::Buffer as _;

use crate::{
    memory::Cursor,
    row::{self, Escape},
    thread::ThreadRef,
};

/// The most addresses that a stack can have.
pub const MAX_STACK_FRAMES: usize = 1_024;

/// What accompanies one event besides its payload.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    stack: &'a [u64],
    thread: Option<&'a ThreadRef>,
}

impl<'a> Context<'a> {
    /// Nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A call stack: return addresses, the innermost first; at most [`MAX_STACK_FRAMES`], else the event is
    /// refused and counted as too large.
    #[must_use]
    pub fn stack(mut self, addresses: &'a [u64]) -> Self {
        self.stack = addresses;
        self
    }

    /// The thread that the event is about, if that is not the one that emits it.
    #[must_use]
    pub fn thread(mut self, thread: &'a ThreadRef) -> Self {
        self.thread = Some(thread);
        self
    }

    /// Neither.
    pub(super) fn is_empty(&self) -> bool {
        self.stack.is_empty() && self.thread.is_none()
    }

    /// Writes what rows cannot hold as escapes before the row. `false`: it is too much.
    pub(super) fn write(&self, out: &mut Cursor) -> bool {
        if self.stack.len() > MAX_STACK_FRAMES {
            return false;
        }
        if !self.stack.is_empty() {
            begin_escape(out, Escape::Stack, self.stack.len() * 8);
            self.stack.iter().for_each(|address| out.put(&address.to_le_bytes()));
        }
        if let Some(thread) = self.thread {
            let name = thread.name().unwrap_or_default().as_bytes();
            begin_escape(out, Escape::Thread, 16 + name.len());
            out.put(&thread.number().to_le_bytes());
            out.put(&thread.os_id().to_le_bytes());
            out.put(name);
        }
        true
    }
}

/// No stack and no thread.
pub(super) static NO_CONTEXT: Context<'static> = Context { stack: &[], thread: None };

/// Writes an escape.
pub(super) fn escape(out: &mut Cursor, kind: Escape, bytes: &[u8]) {
    begin_escape(out, kind, bytes.len());
    out.put(bytes);
}

fn begin_escape(out: &mut Cursor, kind: Escape, len: usize) {
    out.put(&[row::ESCAPE, kind as u8]);
    out.put(&(len as u32).to_le_bytes());
}
