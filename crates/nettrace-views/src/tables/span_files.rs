//! The files of the table of spans: more than one if spans began on several days.

use std::{collections::HashMap, io};

use arrow_array::ArrayRef;

use crate::tables::{
    columns::spans::Spans,
    partition::Day,
    size_of,
    table::{Layout, Place, Table},
};

/// For how many days files are open at once.
const OPEN: usize = size_of(4, 2);

/// The tables of spans by the day on which they began, or ended if their start is unknown. A span
/// has its row when it ends, so rows of earlier days may follow.
pub(crate) struct SpanFiles {
    /// The one that was written last is at the end.
    open: Vec<(Day, Table)>,
    /// How many files each day has, if one was completed too early.
    files: HashMap<Day, u32>,
}

impl SpanFiles {
    pub(crate) fn new() -> Self {
        Self { open: Vec::new(), files: HashMap::new() }
    }

    /// Adds rows of a day.
    pub(crate) fn write(
        &mut self,
        layout: &Layout,
        day: Day,
        columns: Vec<ArrayRef>,
    ) -> io::Result<()> {
        let (_, mut table) = match self.open.iter().position(|(open, _)| *open == day) {
            Some(at) => self.open.remove(at),
            None => {
                if self.open.len() >= OPEN {
                    self.open.remove(0).1.finish(layout)?;
                }
                (day, self.table(day))
            }
        };
        table.write(layout, columns)?;
        self.open.push((day, table));
        Ok(())
    }

    fn table(&mut self, day: Day) -> Table {
        let number = self.files.entry(day).or_default();
        *number += 1;
        let mut place = Place::top("spans");
        if *number > 1 {
            place.file = format!("spans~{number}");
        }
        Table::new(Spans::schema(), place, day, Vec::new())
    }

    /// The memory that rows take which are not in files yet, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.open.iter().map(|(_, table)| table.memory()).sum()
    }

    /// Writes all rows to their files.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.open.iter_mut().try_for_each(|(_, table)| table.flush())
    }

    /// Completes all files. If there are none, there is one of `day` afterwards.
    pub(crate) fn finish(mut self, layout: &Layout, day: Day) -> io::Result<()> {
        if self.files.is_empty() {
            let table = self.table(day);
            self.open.push((day, table));
        }
        self.open.into_iter().try_for_each(|(_, table)| table.finish(layout))
    }
}
