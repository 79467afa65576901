//! The facts of a [`Reader`] about the stream so far: facts, definitions and counts.

use nettrace_format::{Metadata, Trace};

use crate::{
    framing::Format,
    input::Source,
    reader::{Reader, type_totals},
    tables::{ThreadTotals, TypeTotals},
};

/// The counts of a reader so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// The number of events.
    pub events: u64,
    /// The size of their payloads in bytes.
    pub payload_bytes: u64,
    /// The number of lost events, which show as gaps in the sequence numbers of their threads. See
    /// [`ThreadTotals::lost`].
    pub lost: u64,
    /// How often the sequence numbers of a thread went back. If this is not 0, `lost` is not
    /// reliable.
    pub step_backs: u64,
    /// The number of blocks of all kinds.
    pub blocks: u64,
    /// The number of blocks of unknown kinds. The reader skips them.
    pub unknown_blocks: u64,
    /// The number of threads and event types with optional parts of an unknown kind. The reader
    /// skips these parts.
    pub unknown_parts: u64,
    /// The number of event types whose description is damaged. The reader skips what is behind the
    /// damage. See [`ErrorKind::DamagedTypes`](crate::ErrorKind::DamagedTypes).
    pub damaged_types: u64,
    /// The number of event types with fields that are nested too deep. See
    /// [`Type::Deep`](crate::Type::Deep).
    pub deep_types: u64,
    /// The number of sequence points.
    pub sequence_points: u64,
    /// The number of rows that refer to an undefined stack. (Other undefined references are
    /// errors.)
    pub undefined_stacks: u64,
}

impl<R: Source> Reader<R> {
    /// Facts about the whole trace.
    ///
    /// ```
    /// # let file = nettrace_reader::example();
    /// let reader = nettrace_reader::Reader::new(&file[..])?;
    /// let trace = reader.trace();
    /// assert_eq!(trace.sync_time.to_string(), "2026-03-04T05:06:07.0890000Z");
    /// assert_eq!((trace.ticks_per_second, trace.pointer_size), (1_000_000, 8));
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    pub fn trace(&self) -> &Trace {
        &self.tables.trace
    }

    /// The major version of the format: 4, 5 or 6. A stream of version 5 does not state its
    /// version. It counts as version 4 until the reader comes to metadata with tags.
    ///
    /// ```
    /// # let file = nettrace_reader::example();
    /// let reader = nettrace_reader::Reader::new(&file[..])?;
    /// assert_eq!((reader.major_version(), reader.minor_version()), (6, 0));
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    pub fn major_version(&self) -> u32 {
        match self.blocks.format() {
            Format::V6 => 6,
            Format::V5 if self.tables.has_tags => 5,
            Format::V5 => 4,
        }
    }

    /// The minor version of the format, as the stream states it. It is 0 for versions 4 and 5.
    pub fn minor_version(&self) -> u32 {
        self.blocks.minor_version()
    }

    /// The counts so far.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The event types that are defined at this point.
    ///
    /// ```
    /// # let file = nettrace_reader::example();
    /// let mut reader = nettrace_reader::Reader::new(&file[..])?;
    /// assert!(reader.metadata().is_empty());
    /// reader.next_event()?;
    /// assert_eq!(reader.metadata()[0].name, "Sale");
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    pub fn metadata(&self) -> &[Metadata] {
        self.tables.all_metadata()
    }

    /// The threads that are defined at this point, in no particular order.
    ///
    /// ```
    /// # let file = nettrace_reader::example();
    /// let mut reader = nettrace_reader::Reader::new(&file[..])?;
    /// reader.read_to_end()?;
    /// for thread in reader.live_threads() {
    ///     assert_eq!(thread.thread.name.as_deref(), Some("main"));
    ///     assert_eq!((thread.events, thread.last_sequence), (2, 2));
    /// }
    /// # assert_eq!(reader.live_threads().count(), 1);
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    pub fn live_threads(&self) -> impl Iterator<Item = &ThreadTotals> {
        self.tables.live_threads()
    }

    /// The threads that the stream has removed. Empty unless
    /// [`keep_thread_totals`](crate::Options::keep_thread_totals) is set, which has an example.
    pub fn finished_threads(&self) -> &[ThreadTotals] {
        &self.finished_threads
    }

    /// The event types that are defined at this point, each with its number of events so far. If
    /// [`keep_type_totals`](crate::Options::keep_type_totals) is set, also those that the stream
    /// has made invalid.
    ///
    /// ```
    /// # let file = nettrace_reader::example();
    /// let mut reader = nettrace_reader::Reader::new(&file[..])?;
    /// reader.read_to_end()?;
    /// let most = reader.type_totals().max_by_key(|totals| totals.events).unwrap();
    /// assert_eq!((&*most.metadata.name, most.events), ("Sale", 2));
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    pub fn type_totals(&self) -> impl Iterator<Item = TypeTotals> {
        let live = self.tables.all_metadata().iter().zip(self.tables.type_counts());
        let live = live.map(|(metadata, counts)| type_totals(metadata.clone(), *counts));
        self.finished_types.iter().cloned().chain(live)
    }

    /// The times of the earliest and the latest event so far, in ticks. `None` without events.
    ///
    /// ```
    /// # let file = nettrace_reader::example();
    /// let mut reader = nettrace_reader::Reader::new(&file[..])?;
    /// assert_eq!(reader.time_span(), None);
    /// reader.read_to_end()?;
    /// assert_eq!(reader.time_span(), Some((2_000, 2_500)));
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    pub fn time_span(&self) -> Option<(u64, u64)> {
        (self.totals.events > 0).then_some((self.earliest, self.latest))
    }

    /// How many bytes of the stream the reader has used.
    ///
    /// ```
    /// # let file = nettrace_reader::example();
    /// let mut reader = nettrace_reader::Reader::new(&file[..])?;
    /// reader.read_to_end()?;
    /// assert_eq!(reader.offset(), file.len() as u64);
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    pub fn offset(&self) -> u64 {
        self.blocks.offset()
    }
}
