//! Which values a session does not write.

use nettrace_event::secret;
use nettrace_format::{
    Stream,
    redact::{Redact, Redaction},
};

use crate::session::builder::SessionBuilder;

impl SessionBuilder {
    /// Keeps values out of this session's trace, whatever the code records: those of the fields,
    /// labels and key-values with a name, and those behind a key of a map or of the tags of a
    /// metric.
    ///
    /// A name can be the path of a field through objects and lists (`card.number`), or that of a
    /// key (`headers.authorization`). The name of an event or a span may precede it
    /// (`Sold:customer`). Of several names that fit a field, the last call decides; nothing is kept
    /// of an object or a map that goes. [`Redact`] says what becomes of a value. The hashes have
    /// the key of [secrets](crate::secret): a text has the same hash everywhere.
    ///
    /// No name is an error, because types of events come when they come. A [name that nothing has
    /// had](crate::Warning::RedactsNothing) is among the [warnings](crate::Session::warnings), with
    /// what was probably meant: look there before the session ends.
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
        let redacted = self.redacted.get_or_insert_with(|| Redacted {
            names: Vec::new(),
            redaction,
            stream: Stream::redacted,
        });
        redacted.names.push((name.into(), how));
        self
    }

    /// The stream of the trace, and which values it leaves out.
    pub(crate) fn stream(&self) -> (Stream, Option<Redaction>) {
        let stream = Stream::new(self.format);
        let Some(redacted) = &self.redacted else { return (stream, None) };
        let redaction = (redacted.redaction)(&redacted.names);
        ((redacted.stream)(stream, redaction.clone()), Some(redaction))
    }
}

/// The names of values that a session does not write. The code that replaces values is known by its
/// address alone, so that an application that redacts nothing does not contain it.
pub(crate) struct Redacted {
    names: Vec<(String, Redact)>,
    redaction: fn(&[(String, Redact)]) -> Redaction,
    stream: fn(Stream, Redaction) -> Stream,
}

fn redaction(names: &[(String, Redact)]) -> Redaction {
    let hashes = names.iter().any(|(_, how)| *how == Redact::Hash);
    let key = if hashes { secret::key() } else { [0; 2] };
    names.iter().fold(Redaction::new(key), |all, (name, how)| all.with(name, *how))
}
