//! [`Reader`]: events in the order of the stream.

use nettrace_format::{Cursor, Damage, Metadata, v6};

use crate::{
    block,
    block_kind::BlockKind,
    error::{Error, ErrorKind, Result, Table},
    event::Event,
    framing::{BlockHead, Blocks, Format},
    input::Source,
    metadata,
    options::Options,
    rows::{EventBlock, Rows},
    sorted::SortedReader,
    tables::{
        Continues, Number, Slot, Tables, ThreadTotals, TypeTotals, cost_of_metadata, undefined,
    },
    typed::{EventSource, Events, ReadEvent},
};

mod counts;
pub(crate) mod items;
mod joined;
mod open;

pub use crate::reader::counts::Totals;
use crate::reader::joined::Part;

/// Reads a stream from front to back and lends its events in the order of the stream.
///
/// The memory that it takes does not grow with the length of the stream. Use
/// [`sorted`](Self::sorted) for events in the order of time.
///
/// ```
/// use nettrace_reader::Reader;
///
/// # let file = nettrace_reader::example();
/// let mut reader = Reader::new(&file[..])?;
/// let mut times = Vec::new();
/// while let Some(event) = reader.next_event()? {
///     times.push(event.header.timestamp);
/// }
/// assert_eq!(times, [2_000, 2_500]);
/// # Ok::<(), nettrace_reader::Error>(())
/// ```
#[derive(Debug)]
pub struct Reader<R> {
    pub(crate) blocks: Blocks<R>,
    pub(crate) tables: Tables,
    pub(crate) options: Options,
    totals: Totals,
    /// The time of the earliest event and that of the latest. Without events the earliest is
    /// `u64::MAX`.
    earliest: u64,
    latest: u64,
    finished_threads: Vec<ThreadTotals>,
    finished_types: Vec<TypeTotals>,
    /// About how many bytes `finished_threads` takes.
    finished_types_cost: usize,
    /// The first damage in a description of an event type.
    first_damage: Option<Damage>,
    /// Where the first Trace block stands that is not the first block.
    second_trace: Option<u64>,
    part: Part,
    pub(crate) current: Current,
    state: State,
}

/// The event block that is being read, and its last row so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Current {
    pub(crate) rows: Rows,
    pub(crate) end: usize,
    /// Stream offset of the block's body.
    pub(crate) base: u64,
    /// Where the last row's payload begins in the body.
    pub(crate) payload: usize,
    metadata_id: u32,
    pub(crate) metadata: Slot,
    capture_index: u64,
    pub(crate) capture_thread: Slot,
    thread_index: u64,
    pub(crate) thread: Slot,
    stack_id: u32,
    label_list: u32,
    /// Whether the fields above are valid. They save a lookup if a row refers to the same
    /// definitions as the row before.
    warm: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InEventBlock,
    BetweenBlocks,
    Ended,
}

/// What one step through the stream has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A row, which [`Reader::current`] describes.
    Row,
    /// The end of an event block.
    BlockEnd,
    /// A row or a sequence point that is left out, because a stream before had it.
    LeftOut,
    /// A sequence point. [`Reader::pass_sequence_point`] applies its effects on the tables.
    SequencePoint { flush_threads: bool, flush_metadata: bool },
    /// The end of the stream.
    End,
}

impl<R: Source> EventSource for Reader<R> {
    fn lend_event(&mut self) -> Result<Option<Event<'_>>> {
        self.next_event()
    }
}

impl<R: Source> Reader<R> {
    /// Opens a stream with the default [`Options`].
    ///
    /// # Errors
    /// Those of [`Options::open`].
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let file = std::fs::File::open("service.nettrace")?;
    /// let reader = nettrace_reader::Reader::new(file)?;
    /// println!("process {:?}", reader.trace().value("ProcessId"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(source: R) -> Result<Self> {
        Options::default().open(source)
    }

    /// The next event. Returns `None` at the end of the stream, and after an error.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the source fails. The other kinds mean that the stream is damaged or
    /// ends early, or that reading on would exceed a limit of [`Options`].
    ///
    /// ```
    /// use nettrace_reader::Reader;
    ///
    /// # let file = nettrace_reader::example();
    /// // What is before the damage is delivered. An error follows, and then nothing.
    /// let mut reader = Reader::new(&file[..file.len() - 4])?;
    /// assert!(reader.next_event()?.is_some());
    /// assert!(reader.next_event()?.is_some());
    /// assert!(reader.next_event().is_err());
    /// assert!(reader.next_event()?.is_none());
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[inline]
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>> {
        if self.step_like() || self.next_row()? {
            return Ok(Some(self.current_event()));
        }
        Ok(None)
    }

    /// Reads to the end of the stream and only counts: see [`totals`](Self::totals),
    /// [`type_totals`](Self::type_totals) and [`live_threads`](Self::live_threads). This is several
    /// times faster than a look at every event.
    ///
    /// # Errors
    /// Those of [`next_event`](Self::next_event). The counts include everything before the damage.
    ///
    /// ```
    /// # let file = nettrace_reader::example();
    /// let mut reader = nettrace_reader::Reader::new(&file[..])?;
    /// reader.read_to_end()?;
    /// let totals = reader.totals();
    /// assert_eq!((totals.events, totals.payload_bytes, totals.lost), (2, 8, 0));
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    pub fn read_to_end(&mut self) -> Result<()> {
        loop {
            match self.step()? {
                Step::Row => {
                    self.pass_like_rows();
                    continue;
                }
                Step::BlockEnd | Step::LeftOut => {}
                Step::SequencePoint { flush_threads, flush_metadata } => {
                    self.pass_sequence_point(flush_threads, flush_metadata);
                }
                Step::End => return Ok(()),
            }
            self.tables.forget_removed();
        }
    }

    /// Converts this into a reader that delivers the events in the order of time.
    ///
    /// ```
    /// # let file = nettrace_reader::example();
    /// let mut events = nettrace_reader::Reader::new(&file[..])?.sorted();
    /// assert_eq!(events.next_event()?.unwrap().header.sequence_number, 1);
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    pub fn sorted(self) -> SortedReader<R> {
        SortedReader::new(self)
    }

    /// The events of one type, as values: see [`ReadEvent`].
    pub fn events<T: ReadEvent>(&mut self) -> Events<'_, Self, T> {
        Events::new(self)
    }

    /// Moves on to the next row, if there is one.
    #[inline(never)]
    fn next_row(&mut self) -> Result<bool> {
        loop {
            match self.step()? {
                Step::Row => return Ok(true),
                Step::BlockEnd | Step::LeftOut => {}
                Step::SequencePoint { flush_threads, flush_metadata } => {
                    self.pass_sequence_point(flush_threads, flush_metadata);
                }
                Step::End => return Ok(false),
            }
            self.tables.forget_removed();
        }
    }

    /// Moves on by one row, if there is one and it states nothing but its time, as most rows do.
    #[inline(always)]
    fn step_like(&mut self) -> bool {
        // Between blocks no row is left.
        if !self.current.warm {
            return false;
        }
        let Some(payload) = self.current.rows.next_like(self.blocks.body()) else { return false };
        self.current.payload = payload;
        let header = &self.current.rows.header;
        self.totals.events += 1;
        self.totals.payload_bytes += u64::from(header.payload_size);
        self.earliest = self.earliest.min(header.timestamp);
        self.latest = self.latest.max(header.timestamp);
        self.tables.count_type(self.current.metadata, 1, header.payload_size);
        let thread = self.tables.thread_mut(self.current.capture_thread);
        thread.events += 1;
        // The number follows that of the row before, so nothing was lost.
        thread.last_sequence = header.sequence_number;
        true
    }

    /// Moves on to the next row, or to the next thing that matters to a caller who waits for rows.
    #[inline]
    pub(crate) fn step(&mut self) -> Result<Step> {
        if self.state == State::InEventBlock {
            if self.step_like() {
                return Ok(Step::Row);
            }
            if self.current.rows.position < self.current.end {
                let step = self.read_row();
                if step.is_err() {
                    self.state = State::Ended;
                    self.current.warm = false;
                }
                return step;
            }
            self.current.warm = false;
            self.state = State::BetweenBlocks;
            return Ok(Step::BlockEnd);
        }
        let step = self.next_block();
        if !matches!(
            step,
            Ok(Step::Row | Step::BlockEnd | Step::LeftOut | Step::SequencePoint { .. })
        ) {
            self.state = State::Ended;
        }
        step
    }

    #[inline]
    fn read_row(&mut self) -> Result<Step> {
        let body = self.blocks.body();
        let current = &mut self.current;
        let start = current.rows.position;
        current.payload = match current.rows.next(body, current.base) {
            Ok(payload) => payload,
            Err(damage) => return Err(Error::malformed(BlockKind::Event, damage)),
        };
        if current.rows.refers_anew || !current.warm {
            let header = &current.rows.header;
            let unchanged = current.warm
                && header.metadata_id == current.metadata_id
                && header.capture_thread == current.capture_index
                && header.thread == current.thread_index
                && header.stack_id == current.stack_id
                && header.label_list == current.label_list;
            if !unchanged {
                self.resolve(start)?;
            }
        }
        if self.tables.continues == Continues::Again && self.is_repeated() {
            self.current.warm = false;
            self.part.left_out += 1;
            return Ok(Step::LeftOut);
        }
        let header = &self.current.rows.header;
        self.totals.events += 1;
        self.totals.payload_bytes += u64::from(header.payload_size);
        self.earliest = self.earliest.min(header.timestamp);
        self.latest = self.latest.max(header.timestamp);
        self.tables.count_type(self.current.metadata, 1, header.payload_size);
        let thread = self.tables.thread_mut(self.current.capture_thread);
        thread.events += 1;
        let before = thread.step_backs;
        let lost = thread.advance(Number::Event(header.sequence_number));
        if lost != 0 {
            self.totals.lost += u64::from(lost);
            self.totals.step_backs += thread.step_backs - before;
        }
        Ok(Step::Row)
    }

    /// Counts the rows after the last one that differ from it only in time and payload. The last of
    /// them becomes the current row, but the caller must not ask
    /// [`current_event`](Self::current_event) for it.
    #[inline]
    pub(crate) fn pass_like_rows(&mut self) {
        let current = &mut self.current;
        if !current.warm {
            return;
        }
        let passed = current.rows.pass_like(self.blocks.body());
        if passed.rows == 0 {
            return;
        }
        let header = &current.rows.header;
        let (events, size) = (u64::from(passed.rows), header.payload_size);
        self.totals.events += events;
        self.totals.payload_bytes += events * u64::from(size);
        self.earliest = self.earliest.min(passed.earliest);
        self.latest = self.latest.max(passed.latest);
        self.tables.count_type(current.metadata, events, size);
        let thread = self.tables.thread_mut(current.capture_thread);
        thread.events += events;
        thread.last_sequence = header.sequence_number;
    }

    /// Looks up the definitions that a row refers to. The row begins at `start` of the body.
    #[inline(never)]
    fn resolve(&mut self, start: usize) -> Result<()> {
        let Self { current, tables, totals, .. } = self;
        let header = current.rows.header;
        let fail = |table, id| undefined(current.base + start as u64, table, id);
        if !current.warm || header.metadata_id != current.metadata_id {
            current.metadata = tables
                .metadata_slot(header.metadata_id)
                .ok_or_else(|| fail(Table::Metadata, header.metadata_id.into()))?;
            current.metadata_id = header.metadata_id;
        }
        if !current.warm || header.capture_thread != current.capture_index {
            let number = Number::Event(header.sequence_number);
            let (offset, index) = (current.base + start as u64, header.capture_thread);
            current.capture_thread = tables.numbered_thread_at(offset, index, number)?;
            current.capture_index = header.capture_thread;
        }
        if !current.warm || header.thread != current.thread_index {
            current.thread = tables.thread_at(current.base + start as u64, header.thread)?;
            current.thread_index = header.thread;
        }
        if !tables.has_label_list(header.label_list) {
            return Err(fail(Table::LabelList, header.label_list.into()));
        }
        let undefined_stack = !tables.has_stack(header.stack_id);
        totals.undefined_stacks += u64::from(undefined_stack);
        current.label_list = header.label_list;
        current.stack_id = header.stack_id;
        // Rows with undefined stacks must be looked up again, because each of them is counted.
        current.warm = !undefined_stack;
        Ok(())
    }

    /// The row that [`step`](Self::step) found.
    #[inline]
    pub(crate) fn current_event(&self) -> Event<'_> {
        let Current { rows, base, payload, metadata, capture_thread, thread, .. } = &self.current;
        let end = payload + rows.header.payload_size as usize;
        Event {
            header: &rows.header,
            payload: &self.blocks.body()[*payload..end],
            payload_offset: base + *payload as u64,
            tables: &self.tables,
            definitions: self.tables.definitions(),
            metadata: *metadata,
            capture_thread: *capture_thread,
            thread: *thread,
        }
    }

    fn next_block(&mut self) -> Result<Step> {
        if self.state == State::Ended {
            return Ok(Step::End);
        }
        let head = self.blocks.next()?;
        self.totals.blocks += 1;
        let step = self.parse_block(head).map_err(|stop| match stop {
            Stop::Error(error) => error,
            Stop::Damage(damage) => Error::malformed(head.kind, damage),
        });
        if head.kind == BlockKind::EndOfStream && self.options.joined && self.next_stream()? {
            return Ok(Step::BlockEnd);
        }
        let is_last = matches!(step, Ok(Step::End)) && self.options.alone && !self.options.joined;
        if is_last {
            let offset = self.blocks.offset();
            if self.blocks.another_begins()? {
                return Err(Error::new(offset, ErrorKind::AnotherStream));
            }
        }
        step
    }

    fn parse_block(&mut self, head: BlockHead) -> std::result::Result<Step, Stop> {
        let Self {
            blocks,
            tables,
            totals,
            finished_threads,
            finished_types_cost,
            first_damage,
            second_trace,
            part,
            options,
            current,
            ..
        } = self;
        let format = blocks.format();
        let body = blocks.body();
        let mut cursor = Cursor::new(body, head.body);
        match head.kind {
            BlockKind::EndOfStream => {
                if let (Some(offset), None) = (*second_trace, *first_damage) {
                    let what = "it is the second one, and was passed over; everything else was \
                                delivered, with the clock of the first";
                    return Err(Error::malformed(BlockKind::Trace, Damage { offset, what }).into());
                }
                let Some(Damage { offset, what }) = *first_damage else { return Ok(Step::End) };
                let kind = ErrorKind::DamagedTypes { count: totals.damaged_types, what };
                return Err(Error::new(offset, kind).into());
            }
            BlockKind::Event => {
                let block = EventBlock::parse(format, body, head.body)?;
                *current = Current {
                    rows: block.rows,
                    end: body.len(),
                    base: head.body,
                    ..Current::default()
                };
                self.state = State::InEventBlock;
                return Ok(Step::BlockEnd);
            }
            BlockKind::Trace => {
                second_trace.get_or_insert(head.offset);
                return Ok(Step::BlockEnd);
            }
            BlockKind::Metadata => {
                metadata::parse_metadata(format, body, head.body, |row| {
                    if let Some(damage) = row.damage {
                        totals.damaged_types += 1;
                        first_damage.get_or_insert(damage);
                    }
                    let Some(metadata) = row.metadata else { return Ok(()) };
                    totals.unknown_parts += u64::from(metadata.has_unknown_parts);
                    totals.deep_types += u64::from(metadata.is_deep());
                    tables.define_metadata(row.offset, metadata).map_err(Stop::Error)
                })?;
            }
            BlockKind::Stack => v6::read_stacks(&mut cursor, |offset, id, addresses| {
                tables.define_stack(offset, id, addresses).map_err(Stop::Error)
            })?,
            BlockKind::LabelList => v6::read_label_lists(cursor, |offset, index, list| {
                tables.define_label_list(offset, index, list).map(drop).map_err(Stop::Error)
            })?,
            BlockKind::Thread => v6::read_thread_rows(cursor, |offset, thread| {
                totals.unknown_parts += u64::from(thread.has_unknown_parts);
                tables.define_thread(offset, thread).map_err(Stop::Error)
            })?,
            BlockKind::RemoveThread => v6::read_removed_threads(cursor, |offset, last| {
                let slot =
                    checkpoint(tables, totals, offset, last.thread, Number::Last(last.sequence))?;
                if options.keep_thread_totals && !tables.thread(slot).is_repeated() {
                    finished_threads.push(tables.thread(slot).clone());
                    check_kept(offset, finished_threads.len(), options.definitions_limit)?;
                }
                tables.remove_thread(last.thread);
                Ok::<_, Stop>(())
            })?,
            BlockKind::SequencePoint => {
                let (_, flags) =
                    block::parse_sequence_point(format, &mut cursor, |offset, last| {
                        let number = Number::Bound(last.sequence);
                        checkpoint(tables, totals, offset, last.thread, number).map(|_| ())
                    })?;
                let is_later = tables.continues != Continues::NextFile && tables.stream() > 0;
                if is_later && totals.events == part.first {
                    // It is older than the end of the streams before.
                    tables.flush_stream();
                    return Ok(Step::LeftOut);
                }
                totals.sequence_points += 1;
                if options.keep_thread_totals && (flags.flush_threads || format == Format::V5) {
                    let kept = finished_threads.len() + tables.live_threads().count();
                    check_kept(head.offset, kept, options.definitions_limit)?;
                }
                if options.keep_type_totals && flags.flush_metadata {
                    let types = tables.all_metadata().iter();
                    *finished_types_cost += types.map(cost_of_metadata).sum::<usize>();
                    if *finished_types_cost > options.definitions_limit {
                        let limit = options.definitions_limit;
                        let what = "keeping the totals of all event types";
                        return Err(Error::new(
                            head.offset,
                            ErrorKind::LimitExceeded { what, limit },
                        )
                        .into());
                    }
                }
                return Ok(Step::SequencePoint {
                    flush_threads: flags.flush_threads,
                    flush_metadata: flags.flush_metadata,
                });
            }
            BlockKind::Unknown(_) | BlockKind::UnknownObject => totals.unknown_blocks += 1,
        }
        Ok(Step::BlockEnd)
    }

    /// Removes the definitions that a sequence point makes invalid. Everything before the point has
    /// been delivered.
    pub(crate) fn pass_sequence_point(&mut self, flush_threads: bool, flush_metadata: bool) {
        let forgotten = self.tables.flush_epoch();
        if self.options.keep_thread_totals {
            self.finished_threads.extend(forgotten);
        }
        self.tables.forget_removed();
        if flush_threads {
            if self.options.keep_thread_totals {
                self.finished_threads.extend(self.tables.live_threads().cloned());
            }
            self.tables.flush_threads();
        }
        if flush_metadata {
            let (types, counts) = self.tables.flush_metadata();
            if self.options.keep_type_totals {
                let types = types.into_iter().zip(counts);
                self.finished_types.extend(types.map(|(it, counts)| type_totals(it, counts)));
            }
        }
    }
}

fn type_totals(metadata: Metadata, (events, payload_bytes): (u64, u64)) -> TypeTotals {
    TypeTotals { metadata, events, payload_bytes }
}

/// Checks that the totals of removed threads keep to the limit.
fn check_kept(offset: u64, threads: usize, limit: usize) -> std::result::Result<(), Stop> {
    if threads * 2 * size_of::<ThreadTotals>() <= limit {
        return Ok(());
    }
    let what = "keeping the totals of all threads";
    Err(Stop::Error(Error::new(offset, ErrorKind::LimitExceeded { what, limit })))
}

/// Notes the sequence number that a sequence point or a removal gives for a thread.
fn checkpoint(
    tables: &mut Tables,
    totals: &mut Totals,
    offset: u64,
    index: u64,
    number: Number,
) -> std::result::Result<Slot, Stop> {
    let slot = tables.numbered_thread_at(offset, index, number).map_err(Stop::Error)?;
    let is_again = tables.continues == Continues::Again;
    let thread = tables.thread_mut(slot);
    if (is_again || thread.comes_later) && thread.has_passed(number.value()) {
        // A dump says, too, what happened before its first event.
        return Ok(slot);
    }
    let before = thread.step_backs;
    totals.lost += u64::from(thread.advance(number));
    totals.step_backs += thread.step_backs - before;
    Ok(slot)
}

/// Why a block is refused: it is damaged, or it contradicts the blocks before it.
enum Stop {
    Damage(Damage),
    Error(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<Damage> for Stop {
    fn from(damage: Damage) -> Self {
        Self::Damage(damage)
    }
}
