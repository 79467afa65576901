//! The lines that a command prints: all of them, the first N, or the last N.

use std::{
    collections::VecDeque,
    io::{self, Write},
};

use crate::filter::FilterOptions;

/// Writes lines to `out`.
#[derive(Debug)]
pub(crate) struct Lines<'a, W> {
    out: &'a mut W,
    /// The current line. It goes to `out` in one piece, because small writes take longer.
    line: Vec<u8>,
    /// The number of lines that may still be printed.
    left: u64,
    /// With `--tail`: the last lines so far. The memory grows with N, not with the trace.
    last: Option<VecDeque<Vec<u8>>>,
    most: usize,
}

impl<'a, W: Write> Lines<'a, W> {
    pub(crate) fn new(options: &FilterOptions, out: &'a mut W) -> Self {
        Self {
            out,
            line: Vec::new(),
            left: options.head.unwrap_or(u64::MAX),
            last: options.tail.map(|_| VecDeque::new()),
            most: options.tail.unwrap_or(0),
        }
    }

    /// Whether no more lines are wanted.
    pub(crate) fn has_enough(&self) -> bool {
        self.left == 0
    }

    /// Adds what `write` writes.
    pub(crate) fn line(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(last) = &mut self.last else {
            self.left -= 1;
            self.line.clear();
            write(&mut self.line)?;
            return self.out.write_all(&self.line);
        };
        if self.most == 0 {
            return Ok(());
        }
        let mut line = match last.len() == self.most {
            true => last.pop_front().unwrap_or_default(),
            false => Vec::new(),
        };
        line.clear();
        write(&mut line)?;
        last.push_back(line);
        Ok(())
    }

    /// Prints the last lines.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.last.into_iter().flatten().try_for_each(|line| self.out.write_all(&line))
    }
}
