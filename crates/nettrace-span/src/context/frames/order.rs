//! Scopes that end in another order than they began in, such as a guard in a variable that a new
//! one replaces: the new one begins before the old one is dropped.
//!
//! A frame is taken out from below others by moving it to the top and ending it there, so that the
//! others keep all that they have put in force. They move down, and the scopes that were entered
//! for them say where they were. So a frame is found by its number: frames stand in the order of
//! their numbers, and never move up.

use super::{Entered, Frames, set_innermost};

impl Frames {
    /// Where a scope's frame is. `None` if it has ended.
    #[inline]
    pub(super) fn depth_of(&self, entered: &Entered) -> Option<usize> {
        let depth = entered.depth.min(self.depth);
        let frames = self.frames.get(1..=depth)?;
        match frames.last() {
            Some(frame) if frame.serial == entered.serial => Some(depth),
            _ => Some(frames.binary_search_by_key(&entered.serial, |frame| frame.serial).ok()? + 1),
        }
    }

    /// Ends a scope that is not the innermost, unless it has ended, and those within it.
    #[cold]
    #[inline(never)]
    pub(super) fn cut_off(&mut self, entered: &Entered) {
        if let Some(depth) = self.depth_of(entered) {
            self.cut(depth - 1);
        }
    }

    /// Ends the scopes within one. Returns `false` if that one has ended.
    #[inline]
    pub(super) fn return_to(&mut self, entered: &Entered) -> bool {
        let depth = self.depth_of(entered);
        if let Some(depth) = depth.filter(|depth| *depth < self.depth) {
            self.cut(depth);
        }
        depth.is_some()
    }

    fn cut(&mut self, depth: usize) {
        for frame in self.frames[..=self.depth].iter_mut().skip(depth + 1) {
            frame.state = None;
        }
        self.depth = depth;
        let innermost = &self.frames[depth];
        set_innermost(innermost.serial, innermost.version);
    }

    /// Ends a scope that is not the innermost, unless it has ended. Those within it stay.
    #[cold]
    #[inline(never)]
    pub(super) fn take_out(&mut self, entered: &Entered) {
        if self.raise(entered).is_some() {
            self.cut(self.depth - 1);
        }
    }

    /// Moves a scope's frame to the top, unless it has ended.
    pub(super) fn raise(&mut self, entered: &Entered) -> Option<Entered> {
        let depth = self.depth_of(entered)?;
        let top = self.depth;
        let (used, labels) = (self.used(), self.frames[depth].start..self.frames[depth].end);
        let end = used + labels.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes.copy_within(labels.clone(), used);
        self.frames[depth..=top].rotate_left(1);
        self.last += 1;
        let raised = &mut self.frames[top];
        (raised.serial, raised.start, raised.end) = (self.last, used, end);
        let version = raised.version;
        self.close_gap(depth);
        set_innermost(self.last, version);
        Some(Entered { depth: top, serial: self.last })
    }

    /// Moves labels down, from those of a frame on, so that they follow those of the frame below.
    /// Otherwise a variable whose guard is replaced for ever would take more and more room.
    fn close_gap(&mut self, depth: usize) {
        let Some((below, frames)) = self.frames[depth - 1..=self.depth].split_first_mut() else {
            return;
        };
        let (mut from, mut to) = (below.start..below.end, below.start..below.end);
        for frame in frames {
            // A frame may have the same as the one below, and no other.
            if from != (frame.start..frame.end) {
                from = frame.start..frame.end;
                to = to.end..to.end + from.len();
                self.bytes.copy_within(from.clone(), to.start);
            }
            (frame.start, frame.end) = (to.start, to.end);
        }
    }
}
