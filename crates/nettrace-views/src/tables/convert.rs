//! Takes the events of a trace, and hands them to the tables.

use std::{io, path::Path};

use nettrace_reader::{Event, Totals, Trace};

use crate::{
    LeftOut, Target,
    model::{Clock, Processes, Role, process_of, role_of},
    tables::{
        BATCH, Options, Tables,
        columns::{
            events::{Events, Row},
            spans::Spans,
            stacks::Stacks,
        },
        facts::{Labels, Threads},
        folder::Folder,
        partition::{Day, Partition, day_of, times_of},
        size_of,
        span_files::SpanFiles,
        table::{Layout, Place, Table},
        types::{TypeTable, Types},
    },
};

/// After how many batches the memory of rows is counted.
const COUNT_EVERY: u32 = size_of(16, 2) as u32;

/// What could not be expressed.
#[derive(Debug, Default)]
struct Counts {
    /// Events of types that have no table.
    types: u64,
    /// Events some of whose fields cannot be decoded.
    damaged: u64,
    /// Events whose time nanoseconds since 1970 cannot express.
    times: u64,
    /// Events of a day that was over.
    days: u64,
}

/// Writes the tables of one trace.
pub(crate) struct Writer {
    folder: Folder,
    layout: Layout,
    version: u32,
    clock: Clock,
    /// The start of the trace, in nanoseconds since 1970.
    start: i64,
    threads: Threads,
    labels: Labels,
    types: Types,
    stacks: Stacks,
    spans: Spans,
    events: Events,
    event_table: Table,
    span_files: SpanFiles,
    stack_table: Table,
    type_tables: Vec<TypeTable>,
    next: i64,
    /// That of the rows that wait, and the times of it.
    day: Day,
    times: (i64, i64),
    batches: u32,
    rows_limit: usize,
    left_out: Counts,
}

impl Writer {
    pub(crate) fn new(
        tables: Tables,
        trace: &Trace,
        version: u32,
        out: &Path,
        options: &Options,
    ) -> io::Result<Self> {
        let partition = options.partition.as_deref();
        let partition = partition.map(|host| Partition::new(trace, host)).transpose()?;
        let is_partitioned = partition.is_some();
        let folder = match &partition {
            Some(partition) => Folder::part(out, partition.clone(), tables, options.force)?,
            None => Folder::create(out, options.force)?,
        };
        let root = folder.path().to_owned();
        let facts = trace.key_values.iter();
        let facts = facts.map(|(key, value)| (format!("nettrace.trace.{key}"), value.clone()));
        let layout = Layout { tables, root, partition, facts: facts.collect() };
        let process = process_of(trace);
        let clock = Clock::of(trace);
        let start = clock.start().and_then(|nanos| i64::try_from(nanos).ok());
        let start = start.filter(|start| *start >= 0).unwrap_or(0);
        let (day, times) = match is_partitioned {
            true => (day_of(start), times_of(day_of(start))),
            false => (0, (i64::MIN, i64::MAX)),
        };
        let table = |schema, name| Table::new(schema, Place::top(name), day, Vec::new());
        Ok(Self {
            folder,
            layout,
            version,
            clock,
            start,
            threads: Threads::new(process, Processes::of(trace)),
            labels: Labels::default(),
            types: Types::default(),
            stacks: Stacks::new(1),
            spans: Spans::new(options.spans_limit, is_partitioned),
            events: Events::default(),
            event_table: table(Events::schema(), "events"),
            span_files: SpanFiles::new(),
            stack_table: table(Stacks::schema(), "stacks"),
            type_tables: Vec::new(),
            next: 0,
            batches: 0,
            rows_limit: options.rows_limit,
            day,
            times,
            left_out: Counts::default(),
        })
    }
}

impl Target for Writer {
    fn event(&mut self, event: &Event<'_>) -> io::Result<()> {
        let header = event.header;
        let since_start = self.clock.since_start(header.timestamp);
        let time = self.start.saturating_add(since_start);
        if time < self.times.0 || time > self.times.1 {
            self.turn(time)?;
        }
        let Self { types, type_tables, layout, day, .. } = self;
        let ty = types.of(event, self.version, |metadata, name, place| {
            let table = TypeTable::new(layout, metadata, name, place, *day);
            let width = table.width();
            type_tables.push(table);
            width
        });
        let labels = self.labels.of(event);
        self.left_out.times += u64::from(time == i64::MAX || time == i64::MIN);
        let opcode = labels.ids.overrides.opcode;
        let role = match opcode {
            Some(_) => role_of(event.metadata(), opcode, self.version),
            None => ty.role,
        };
        let row = Row {
            has_parent: self.spans.has_parent(&labels, role),
            event: self.next,
            time,
            opcode: opcode.unwrap_or(ty.opcode),
            thread: self.threads.of(event),
            labels,
            ty,
            processor: header.processor,
            stack: self.stacks.of(event),
            payload_bytes: header.payload_size,
        };
        self.next += 1;
        self.events.push(&row);
        if role != Role::Inside {
            self.spans.event(&row, role, event);
            if self.spans.is_large() {
                self.write_spans(1)?;
                self.count_batch()?;
            }
        }
        match row.ty.table {
            Some(number) => {
                let table = &mut self.type_tables[number];
                self.left_out.damaged += u64::from(!table.push(&row, event));
                if table.is_full() {
                    let columns = table.finish();
                    table.table.write(&self.layout, columns)?;
                    self.count_batch()?;
                }
            }
            None => self.left_out.types += 1,
        }
        if self.events.is_full() {
            let columns = self.events.finish();
            self.event_table.write(&self.layout, columns)?;
            self.write_spans(BATCH)?;
            self.count_batch()?;
        }
        if self.stacks.is_full() {
            let columns = self.stacks.finish();
            self.stack_table.write(&self.layout, columns)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, _: &Totals) -> io::Result<LeftOut> {
        self.spans.end();
        self.write_spans(1)?;
        self.complete_types(self.day)?;
        let this = *self;
        for table in [this.event_table, this.stack_table] {
            table.finish(&this.layout)?;
        }
        this.span_files.finish(&this.layout, this.day)?;
        this.folder.publish()?;
        let mut left_out = LeftOut::default();
        let Counts { types, damaged, times, days } = this.left_out;
        left_out.miss(
            this.spans.given_up(),
            "ends of spans: too many were under way, or another began with the same id",
        );
        // The payloads of these are there as bytes.
        left_out.miss(damaged, "events' fields that cannot be decoded");
        left_out.miss(types, "events' fields, as there are too many event types");
        for (count, what) in [
            (times, "times that nanoseconds since 1970 cannot express"),
            (days, "days of events that follow events of a later day, whose folder they are in"),
        ] {
            left_out.add(count, what);
        }
        Ok(left_out)
    }
}

impl Writer {
    fn write_spans(&mut self, at_least: usize) -> io::Result<()> {
        if self.spans.len() >= at_least {
            for (day, columns) in self.spans.finish() {
                self.span_files.write(&self.layout, day, columns)?;
            }
        }
        Ok(())
    }

    /// Writes the rows that wait, except for spans, and completes the files of event types. Their
    /// next rows are of `day`.
    fn complete_types(&mut self, day: Day) -> io::Result<()> {
        if !self.stacks.is_empty() {
            let columns = self.stacks.finish();
            self.stack_table.write(&self.layout, columns)?;
        }
        if self.events.len() > 0 {
            let columns = self.events.finish();
            self.event_table.write(&self.layout, columns)?;
        }
        for table in &mut self.type_tables {
            if !table.is_empty() {
                let columns = table.finish();
                table.table.write(&self.layout, columns)?;
            }
            // One after the other: a file that is open takes memory for each column.
            table.table.turn(day)?;
        }
        Ok(())
    }

    /// Goes on with the day of `time`. A day that is over does not come again.
    fn turn(&mut self, time: i64) -> io::Result<()> {
        if time < self.times.0 && self.next > 0 {
            self.left_out.days += 1;
            return Ok(());
        }
        self.complete_types(day_of(time))?;
        self.day = day_of(time);
        self.times = times_of(self.day);
        self.event_table.turn(self.day)?;
        self.stack_table.turn(self.day)?;
        // Each day has the stacks of its events.
        self.stacks.forget();
        Ok(())
    }

    /// Writes the largest tables to their files if all rows together take too much memory.
    fn count_batch(&mut self) -> io::Result<()> {
        self.batches += 1;
        if self.batches % COUNT_EVERY != 0 {
            return Ok(());
        }
        let of_type = |table: &TypeTable| table.table.memory() + table.waiting();
        let all: usize = self.type_tables.iter().map(of_type).sum();
        let spans = self.span_files.memory();
        let [events, stacks] = [&self.event_table, &self.stack_table].map(Table::memory);
        if all + events + spans + stacks <= self.rows_limit {
            return Ok(());
        }
        self.event_table.flush()?;
        self.span_files.flush()?;
        self.stack_table.flush()?;
        for table in &mut self.type_tables {
            if !table.is_empty() && of_type(table) > 0 {
                let columns = table.finish();
                table.table.write(&self.layout, columns)?;
            }
            table.table.flush()?;
        }
        Ok(())
    }
}
