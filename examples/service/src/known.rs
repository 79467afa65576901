//! The program's own knowledge of its spans: how many there are, and each one's parent.
//!
//! A function that is a span gets the [`Call`] of its caller as an argument. So the tree comes from
//! who calls whom, and not from the contexts that the trace's tree comes from. A test compares the
//! two.

use std::{
    fs::File,
    io::{self, BufWriter, Write as _},
    path::Path,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use nettrace_writer::{Context, trace_context::SpanId};
use parking_lot::Mutex;

/// A span, its parent, and what it is.
struct Known {
    name: &'static str,
    span: SpanId,
    parent: Option<SpanId>,
}

static COUNT: AtomicU64 = AtomicU64::new(0);
static KNOWN: OnceLock<Mutex<Vec<Known>>> = OnceLock::new();

/// A call of a function that is a span.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Call(Option<SpanId>);

impl Call {
    /// A call that begins here, in the span that is in force. It is counted.
    pub(crate) fn begin(name: &'static str, caller: Self) -> Self {
        let is_recorded = |context: &Context| !context.is_sampled_out();
        let current = || Some(Context::current()).filter(is_recorded);
        let call = Self(is_kept().then(current).flatten().and_then(|it| it.span_id()));
        call.note(name, caller);
        call
    }

    /// The call of the span that a request's headers name, if calls are kept and it is recorded.
    pub(crate) fn from_headers(headers: &axum::http::HeaderMap) -> Self {
        let caller = || nettrace_tower::extract(headers);
        let caller = is_kept().then(caller).flatten();
        Self(caller.filter(|caller| caller.flags().is_sampled()).map(|caller| caller.span_id()))
    }

    /// Counts the call, and keeps it if calls are kept and it is recorded.
    pub(crate) fn note(self, name: &'static str, caller: Self) {
        COUNT.fetch_add(1, Ordering::Relaxed);
        if let (Some(known), Some(span)) = (KNOWN.get(), self.0) {
            known.lock().push(Known { name, span, parent: caller.0 });
        }
    }
}

/// From now on, calls are kept.
pub(crate) fn keep() {
    KNOWN.get_or_init(Mutex::default);
}

fn is_kept() -> bool {
    KNOWN.get().is_some()
}

/// How many calls there were.
pub(crate) fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// Writes the calls that were kept, a line of JSON for each.
pub(crate) fn write(path: &Path) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for Known { name, span, parent } in
        KNOWN.get().iter().flat_map(|known| known.lock().split_off(0))
    {
        let parent = parent.map(|parent| parent.to_string());
        let line = serde_json::json!({ "name": name, "span": span.to_string(), "parent": parent });
        writeln!(file, "{line}")?;
    }
    file.flush()
}
