//! The setting of values that a session does not write.

use nettrace_format::redact::Redact;

use super::SessionBuilder;
use crate::session::redactions::Scope;

impl SessionBuilder {
    /// Keeps values out of this session's trace, whatever the code records: those of the fields,
    /// labels and key-values with a name, and those behind a key of a map or of the tags of a
    /// metric. The same names hold for all sessions of the process that begin later, those of tools
    /// that attach and of the environment among them, unless a session says otherwise: by
    /// [`Redact::Keep`] of a name, or by [`redact_alone`](Self::redact_alone).
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
    /// [dump](crate::Session::dump_with), sessions that have begun before and tracepoints of the
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
        self.redactions.add(name.into(), how);
        self
    }

    /// Makes the [names](Self::redact) of this session its own: they hold for no other session, and
    /// those of other sessions do not hold for it.
    ///
    /// ```
    /// use nettrace_writer::{Redact, Session, sink::MemorySink};
    ///
    /// let builder = Session::builder().sink(MemorySink::new());
    /// let session = builder.redact("customer", Redact::Mask).start()?;
    /// // A trace that stays in this process, with everything.
    /// let whole = Session::builder().sink(MemorySink::new()).redact_alone().start()?;
    /// # whole.finish()?;
    /// # session.finish()?;
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    pub fn redact_alone(mut self) -> Self {
        self.redactions.scope = Scope::Alone;
        self
    }
}

/// [`SessionBuilder::redact`] for code that starts a session on behalf of a client. The names hold
/// for no other session. What the program keeps out in code stays out, whatever they say.
pub fn redact_session(
    builder: SessionBuilder,
    names: impl IntoIterator<Item = (String, Redact)>,
) -> SessionBuilder {
    let mut builder =
        names.into_iter().fold(builder, |builder, (name, how)| builder.redact(name, how));
    builder.redactions.scope = Scope::Session;
    builder
}
