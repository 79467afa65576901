//! Walks over the pieces of a batch, and the bytes that follow them, without copying.

use std::io::IoSlice;

/// The largest number of pieces for one system call. Linux, macOS and the BSDs allow 1,024.
/// Measurements with 512 and 1,024 were no faster, and an array of this length is on the stack.
pub(super) const WINDOW: usize = 128;

/// The bytes yet to be written: the rest of the pieces, then `tail`.
#[derive(Clone, Debug)]
pub(super) struct BatchCursor<'a> {
    pieces: &'a [IoSlice<'a>],
    /// The number of bytes of the first piece that are done. Less than its length, or 0 if there is
    /// no piece.
    done: usize,
    tail: &'a [u8],
}

impl<'a> BatchCursor<'a> {
    pub(super) fn new(pieces: &'a [IoSlice<'a>], tail: &'a [u8]) -> Self {
        let mut cursor = Self { pieces, done: 0, tail };
        cursor.advance(0); // steps over empty pieces
        cursor
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.tail.is_empty()
    }

    /// Fills `window` with what comes next. Returns how many slots it used, 0 only at the end.
    pub(super) fn fill(&self, window: &mut [IoSlice<'a>; WINDOW]) -> usize {
        let mut used = 0;
        let mut done = self.done;
        for piece in self.pieces {
            if used == WINDOW {
                return used;
            }
            if piece.len() > done {
                window[used] = IoSlice::new(&piece[done..]);
                used += 1;
            }
            done = 0;
        }
        if used < WINDOW && !self.tail.is_empty() {
            window[used] = IoSlice::new(self.tail);
            used += 1;
        }
        used
    }

    /// Steps over `bytes` bytes, or over what is left if that is less.
    pub(super) fn advance(&mut self, mut bytes: usize) {
        while let Some(first) = self.pieces.first() {
            let left = first.len() - self.done;
            if bytes < left {
                self.done += bytes;
                return;
            }
            bytes -= left;
            self.done = 0;
            self.pieces = &self.pieces[1..];
        }
        self.tail = &self.tail[bytes.min(self.tail.len())..];
    }

    /// Copies the next bytes into `target` and steps over them. Returns `false` if fewer are left.
    pub(super) fn take(&mut self, target: &mut [u8]) -> bool {
        let mut filled = 0;
        while filled < target.len() {
            let next = match self.pieces.first() {
                Some(piece) => &piece[self.done..],
                None if self.tail.is_empty() => return false,
                None => self.tail,
            };
            let count = next.len().min(target.len() - filled);
            target[filled..filled + count].copy_from_slice(&next[..count]);
            filled += count;
            self.advance(count);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_over_empty_pieces_and_into_the_tail() {
        let pieces = [b"".as_slice(), b"abc", b"", b"d", b""].map(IoSlice::new);
        let mut cursor = BatchCursor::new(&pieces, b"xy");
        let mut first = [0; 2];
        assert!(cursor.take(&mut first));
        assert_eq!(&first, b"ab");
        let mut window = [IoSlice::new(&[]); WINDOW];
        let used = cursor.fill(&mut window);
        let seen: Vec<&[u8]> = window[..used].iter().map(|slice| &**slice).collect();
        assert_eq!(seen, [b"c".as_slice(), b"d", b"xy"]);
        cursor.advance(3);
        let mut rest = [0; 1];
        assert!(cursor.take(&mut rest));
        assert_eq!(&rest, b"y");
        assert!(cursor.is_empty());
        assert!(!cursor.take(&mut rest));
    }

    #[test]
    fn a_window_is_bounded() {
        let pieces = vec![IoSlice::new(b"z"); WINDOW + 3];
        let mut cursor = BatchCursor::new(&pieces, b"t");
        let mut window = [IoSlice::new(&[]); WINDOW];
        assert_eq!(cursor.fill(&mut window), WINDOW);
        cursor.advance(WINDOW);
        assert_eq!(cursor.fill(&mut window), 4);
    }
}
