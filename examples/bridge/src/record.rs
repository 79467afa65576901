//! The JSON lines of `tracing-subscriber`, beside which our layer or our subscriber records.

use std::{
    fmt,
    fs::File,
    io::{self, BufWriter},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use tracing::{Event, Subscriber};
use tracing_subscriber::{
    Layer,
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{self, FmtSpan, Format, Json, JsonFields, Writer},
    },
    registry::LookupSpan,
};

/// How many lines there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    of_spans: AtomicU64,
    of_events: AtomicU64,
}

/// The file of the lines.
pub(crate) type Out = Arc<Mutex<BufWriter<File>>>;

impl Lines {
    /// A layer that writes a line for each event, and two for each span: when it is made and when
    /// it closes.
    pub(crate) fn layer<S>(&self, path: &Path) -> io::Result<(impl Layer<S> + use<S>, Out)>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let out = Arc::new(Mutex::new(BufWriter::new(File::create(path)?)));
        let writer = out.clone();
        let json = format::json().with_thread_names(true).with_file(true).with_line_number(true);
        let layer = tracing_subscriber::fmt::layer()
            .with_span_events(FmtSpan::NEW | FmtSpan::CLOSE)
            .fmt_fields(JsonFields::new())
            .event_format(WithIds { json, lines: self.clone() })
            .with_writer(move || Shared(writer.clone()));
        Ok((layer, out))
    }

    pub(crate) fn spans(&self) -> u64 {
        self.0.of_spans.load(Ordering::Relaxed) / 2
    }

    pub(crate) fn events(&self) -> u64 {
        self.0.of_events.load(Ordering::Relaxed)
    }
}

/// The JSON lines with one key more: `ids`, the ids of the spans that the event is in, the root
/// first. A line of a span has the span itself last. What the format writes itself tells spans of
/// the same name and fields not apart, and has no parent that is not the thread's current span.
struct WithIds {
    json: Format<Json>,
    lines: Lines,
}

impl<S, N> FormatEvent<S, N> for WithIds
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Counts { of_spans, of_events } = &*self.lines.0;
        let count = if event.metadata().is_span() { of_spans } else { of_events };
        count.fetch_add(1, Ordering::Relaxed);
        let mut line = String::new();
        self.json.format_event(context, Writer::new(&mut line), event)?;
        write!(writer, "{},\"ids\":[", line.trim_end().strip_suffix('}').ok_or(fmt::Error)?)?;
        let scope = context.event_scope().into_iter().flat_map(|scope| scope.from_root());
        for (number, span) in scope.enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(writer, "{comma}{}", span.id().into_u64())?;
        }
        writeln!(writer, "]}}")
    }
}

/// Writes to the file of the lines.
struct Shared(Out);

impl io::Write for Shared {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.lock().map_err(|_| io::ErrorKind::Other)?.write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
