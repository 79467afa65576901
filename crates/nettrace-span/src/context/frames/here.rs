//! This crate's locals of a thread, for code that looks at them several times: the frames, what is
//! known of the innermost one, and a place for the backend.
//!
//! A thread local that has a destructor is looked up by more instructions than it takes to put a
//! span in force. So a pointer to the frames stands beside what is read anyway.
//!
//! # Unsafe
//!
//! - H1: [`INNERMOST`] has no destructor, so it is there as long as its thread runs.
//! - H2: `frames` of it is null or points to the thread's [`FRAMES`]. Their destructor makes it
//!   null before anything else, and only [`find`] sets it, while they are there. A thread's
//!   destructors run after all other code of the thread, one after the other, or within a call that
//!   does not return. So a pointer that code has found is good until that code returns.
//! - H3: a [`Here`] has pointers to locals of its thread, and does not leave it: it is neither
//!   `Send` nor `Sync`. It stays in variables of functions, and what it lends does not outlive it.
#![allow(unsafe_code, reason = "H1, H2, H3")]

use std::{
    cell::{Cell, Ref, RefCell, RefMut},
    ptr,
};

use super::{Entered, FRAMES, Frames, SAMPLED_OUT, captured::inherit};
use crate::sync::{Ordering, compiler_fence};

/// What is known of the innermost frame without borrowing the frames, and what belongs to it.
pub(super) struct Innermost {
    /// 0 if nothing is in force.
    pub(super) version: Cell<u64>,
    /// 0 if there is no frame.
    pub(super) serial: Cell<u64>,
    /// See [`current`].
    current: Cell<*const ()>,
    /// See [`home`].
    home: Cell<*const ()>,
    /// The thread's frames, once they have been looked for: see H2.
    frames: Cell<*const RefCell<Frames>>,
}

thread_local! {
    pub(super) static INNERMOST: Innermost = const {
        Innermost {
            version: Cell::new(0),
            serial: Cell::new(0),
            current: Cell::new(nobody()),
            home: Cell::new(nobody()),
            frames: Cell::new(ptr::null()),
        }
    };
}

impl Innermost {
    /// Notes what is in force now. The backend has no place for it yet.
    #[inline]
    pub(super) fn set(&self, serial: u64, version: u64) {
        self.serial.set(serial);
        self.version.set(version);
        // After the change: a signal handler that emits in between may set a place.
        compiler_fence(Ordering::SeqCst);
        self.current.set(nobody());
    }

    /// Notes that the thread's frames are about to be destroyed.
    pub(super) fn forget_frames(&self) {
        self.frames.set(ptr::null());
        // Before that: a signal handler that comes in between must not find them.
        compiler_fence(Ordering::SeqCst);
    }
}

/// What stands for no place of the backend: [`NOBODY_LEN`] bytes, of which the first four are 1 as
/// a number of the machine, and the others 0. So the backend can read there what it reads in a
/// place of its own.
#[inline]
#[must_use]
pub const fn nobody() -> *const () {
    (&raw const NOBODY).cast()
}

/// How long that is.
pub const NOBODY_LEN: usize = 256;

/// How it is aligned.
pub const NOBODY_ALIGN: usize = align_of::<Nobody>();

#[repr(C, align(128))]
struct Nobody(u32, [u8; NOBODY_LEN - 4]);

static NOBODY: Nobody = Nobody(1, [0; NOBODY_LEN - 4]);

/// Where the backend records the next event of this thread. Whenever something else comes into
/// force, it is [`nobody`] until the backend sets it: so what is in force has not changed since.
#[inline]
#[must_use]
pub fn current() -> *const () {
    INNERMOST.with(|innermost| innermost.current.get())
}

/// Sets [`current`].
///
/// # Safety
/// The pointer is [`nobody`], or the backend's, which relies on what it points to. Only one backend
/// of a process ever calls this.
#[inline]
pub unsafe fn set_current(current: *const ()) {
    INNERMOST.with(move |innermost| innermost.current.set(current));
}

/// Where the backend recorded last, whatever is in force: for the first event of a span. The
/// backend sets it.
#[inline]
#[must_use]
pub fn home() -> *const () {
    INNERMOST.with(|innermost| innermost.home.get())
}

/// Sets [`home`].
///
/// # Safety
/// As for [`set_current`].
#[inline]
pub unsafe fn set_home(home: *const ()) {
    INNERMOST.with(move |innermost| innermost.home.set(home));
}

/// The thread's frames, for code that looks at them several times.
#[derive(Clone, Copy)]
pub(crate) struct Here {
    innermost: *const Innermost,
    frames: *const RefCell<Frames>,
}

impl Here {
    /// `None` if the thread's frames are gone.
    #[inline]
    pub(crate) fn get() -> Option<Self> {
        INNERMOST.with(|innermost| {
            let frames = innermost.frames.get();
            if frames.is_null() { find() } else { Some(Self { innermost, frames }) }
        })
    }

    #[inline]
    fn innermost(&self) -> &Innermost {
        // SAFETY: H1, H3.
        unsafe { &*self.innermost }
    }

    /// The frames, for a change. `None` if a change is under way, which a signal handler has
    /// interrupted.
    #[inline]
    pub(super) fn frames(&self) -> Option<RefMut<'_, Frames>> {
        // SAFETY: H2, H3.
        let frames = unsafe { &*self.frames }.try_borrow_mut().ok()?;
        // A signal handler sees the frames borrowed as long as they change.
        compiler_fence(Ordering::SeqCst);
        Some(frames)
    }

    /// The frames, to be read. `None` if a change is under way.
    #[inline]
    pub(super) fn frames_to_read(&self) -> Option<Ref<'_, Frames>> {
        // SAFETY: H2, H3.
        let frames = unsafe { &*self.frames }.try_borrow().ok()?;
        // A signal handler does not change the frames meanwhile.
        compiler_fence(Ordering::SeqCst);
        Some(frames)
    }

    #[inline]
    pub(crate) fn is_sampled_out(self) -> bool {
        self.innermost().version.get() & SAMPLED_OUT != 0
    }

    #[inline]
    pub(crate) fn is_innermost(self, entered: &Entered) -> bool {
        entered.is_something() && self.innermost().serial.get() == entered.serial
    }

    /// Puts a frame in force that has been written above the innermost one, which is
    /// [borrowed](Self::frames).
    #[inline]
    pub(super) fn enter_next(self, frames: &mut Frames, version: u64) -> Entered {
        let (depth, serial) = (frames.depth + 1, frames.last + 1);
        (frames.depth, frames.last) = (depth, serial);
        self.innermost().set(serial, version);
        compiler_fence(Ordering::SeqCst);
        Entered { depth, serial }
    }

    /// [`enter_span`](super::enter_span) for a span without `tracestate` that was the last one in
    /// force within the same: its frame is still there. `None` if it is not.
    #[inline]
    pub(crate) fn enter_again(self, number: u64) -> Option<Entered> {
        let mut frames = self.frames()?;
        let frames = &mut *frames;
        let span = inherit(number);
        let [outer, next, ..] = frames.frames.get_mut(frames.depth..)? else { return None };
        // The number of a span stands for it without labels.
        let version = if outer.start == outer.end { span } else { next.below_labels(span, outer)? };
        if next.version != version {
            return None;
        }
        next.serial = frames.last + 1;
        (next.start, next.end) = (outer.start, outer.end);
        Some(self.enter_next(frames, version))
    }

    /// Ends a scope if it is the innermost and has no `tracestate`. Returns `false` if it is not
    /// so.
    #[inline(always)]
    pub(crate) fn leave(self, entered: &Entered) -> bool {
        let Some(mut frames) = self.frames() else { return false };
        let frames = &mut *frames;
        let depth = entered.depth.wrapping_sub(1);
        let Some([outer, frame, ..]) = frames.frames.get(depth..) else { return false };
        let is_it = frames.depth == entered.depth && frame.serial == entered.serial;
        if !is_it || frame.state.is_some() {
            return false;
        }
        self.innermost().set(outer.serial, outer.version);
        frames.depth = depth;
        compiler_fence(Ordering::SeqCst);
        true
    }
}

/// [`Here::get`] for the first time on a thread.
#[cold]
#[inline(never)]
fn find() -> Option<Here> {
    let frames = FRAMES.try_with(ptr::from_ref).ok()?;
    INNERMOST.with(|innermost| {
        innermost.frames.set(frames);
        Some(Here { innermost, frames })
    })
}
