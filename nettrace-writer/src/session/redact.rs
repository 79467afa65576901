//! Which values a session does not write.

use std::iter;

use nettrace_event::secret;
use nettrace_format::{
    Stream,
    redact::{Redact, Redaction},
};

use crate::{
    process::description::{COMMAND_LINE, is_told},
    session::builder::SessionBuilder,
};

impl SessionBuilder {
    /// Keeps values out of this session's trace, whatever the code records: those of the fields,
    /// labels and key-values with a name, and those behind a key of a map or of the tags of a
    /// metric.
    ///
    /// A name can be the path of a field through objects and lists (`card.number`), or that of a
    /// key (`headers.authorization`). The name of an event or a span may precede it
    /// (`Sold:customer`). Of several names that fit a field, the last call decides; nothing is kept
    /// of an object or a map that goes. [`Redact`] says what replaces a value. The hashes have
    /// the key of [secrets](crate::secret): a text has the same hash everywhere.
    ///
    /// No name is an error, because types of events come when they come. A [name that nothing has
    /// had](crate::Warning::RedactsNothing) is among the [warnings](crate::Session::warnings), with
    /// what was probably meant: look there before the session ends. The names of panics, and of
    /// what this crate says of the process, are known from the start: `panic.message` and
    /// `panic.location` are in the [event](crate::record_panics) and in [dumps](crate::Triggers).
    ///
    /// A map has keys that are texts; a list of pairs is none. In a text of tags nothing but tags
    /// is looked for, and in any other text nothing: a message keeps what it says.
    ///
    /// The session's thread replaces the values before any sink gets the trace, also what a [flight
    /// recorder](Self::flight_recorder) keeps. It takes the events of such types apart, and writes
    /// all rows again. Threads that emit do what they always do, so their buffers have the values
    /// for a while: a core dump can show them. For the same reason [`start`](Self::start) refuses a
    /// [recorder file](Self::persistent) beside this. An event that becomes too large counts as
    /// [not in the format](crate::Stats::not_in_format).
    ///
    /// Names of threads and of events, descriptions, key-values of a
    /// [dump](crate::Session::dump_with), other sessions of the process and tracepoints of the
    /// kernel stay as they are. A [`Secret`](crate::Secret) is kept out of all of them.
    /// [Triggers](crate::Triggers) see what the trace has.
    ///
    /// ```
    /// use nettrace_writer::{Emit, Redact, Session, TraceEvent, sink::MemorySink};
    ///
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Contoso-Shop")]
    /// struct Sold<'a> {
    ///     customer: &'a str,
    ///     cents: u32,
    /// }
    ///
    /// let memory = MemorySink::new();
    /// let builder = Session::builder().sink(memory.clone());
    /// let session = builder.redact("customer", Redact::Mask).start()?;
    /// Sold { customer: "Ada", cents: 1_250 }.emit();
    /// session.finish()?;
    /// # let bytes = memory.bytes();
    /// # let mut reader = nettrace_reader::Reader::new(&bytes[..])?;
    /// # let event = reader.next_event()?.expect("there is one");
    /// let fields: Vec<_> = event.fields().collect::<Result<_, _>>()?;
    /// assert_eq!(fields[0], ("customer", nettrace_reader::Value::Text("***".into())));
    /// assert_eq!(fields[1], ("cents", nettrace_reader::Value::U32(1_250)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn redact(mut self, name: impl Into<String>, how: Redact) -> Self {
        let redacted = self.redacted.get_or_insert(Redacted { names: Vec::new(), leave_out });
        redacted.names.push((name.into(), how));
        self
    }

    /// The stream of the trace, and which values it leaves out.
    pub(crate) fn stream(&self) -> (Stream, Option<Redaction>) {
        let stream = Stream::new(self.format);
        match &self.redacted {
            None => (stream, None),
            Some(redacted) => (redacted.leave_out)(stream, redacted),
        }
    }
}

/// The names of values that a session does not write. The code that replaces values is known by its
/// address alone, so that an application that redacts nothing does not contain it.
pub(crate) struct Redacted {
    names: Vec<(String, Redact)>,
    leave_out: fn(Stream, &Self) -> (Stream, Option<Redaction>),
}

/// The stream without the values, and which they are.
fn leave_out(stream: Stream, redacted: &Redacted) -> (Stream, Option<Redaction>) {
    let redaction = redaction(&redacted.names);
    (stream.redacted(redaction.clone()), Some(redaction))
}

fn redaction(names: &[(String, Redact)]) -> Redaction {
    let hashes = names.iter().any(|(_, how)| *how == Redact::Hash);
    let mut all = Redaction::new(if hashes { secret::key() } else { [0; 2] });
    for (name, how) in names {
        let told = OF_PANIC.iter().filter(|(key, _)| key == name);
        let told = told.flat_map(|of| names_of_panic(of).filter(|name| name.starts_with(EVENT)));
        for name in iter::once(name.clone()).chain(told) {
            all = all.with(&name, *how);
            if may_come(&name) {
                // So something has it.
                all.hides(&name);
            }
        }
    }
    all
}

/// What is told of a panic: the key in a dump, and the fields of the event with the same.
pub(super) type OfPanic = (&'static str, &'static [&'static str]);

pub(super) const OF_PANIC: [OfPanic; 2] =
    [("panic.message", &["message"]), ("panic.location", &["location", "file", "line", "column"])];

/// What comes before the name of a field of that event.
const EVENT: &str = "Panic:";

/// All names that something has which is told of a panic.
pub(super) fn names_of_panic((key, fields): &OfPanic) -> impl Iterator<Item = String> {
    let fields = fields.iter().flat_map(|field| [format!("{EVENT}{field}"), (*field).to_owned()]);
    iter::once((*key).to_owned()).chain(fields)
}

/// Whether a name is that of something which this crate itself adds to a trace: of a panic, or of
/// the process. Whoever keeps it out of all traces has not misspelt it if nothing panics.
fn may_come(name: &str) -> bool {
    let mut of_panic = OF_PANIC.iter().flat_map(names_of_panic);
    is_told(name) || name == COMMAND_LINE || of_panic.any(|of| of == name)
}
