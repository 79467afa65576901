//! Which values a session does not write.

use std::{collections::BTreeMap, iter};

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
        self.redacted.own.push((name.into(), how));
        self.redacted.leave_out = Some(leave_out);
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
        self.redacted.scope = Scope::Alone;
        self
    }

    /// Adds the names that hold for the whole process to those of the session, and the other way
    /// round.
    pub(crate) fn share_redacted(&mut self) {
        let redacted = &mut self.redacted;
        if redacted.scope == Scope::Alone {
            redacted.known = usize::MAX;
            return;
        }
        redacted.shared = shared_redactions::all();
        redacted.known = redacted.shared.len();
        if redacted.scope == Scope::Process {
            redacted.known += shared_redactions::add(&redacted.own, redacted.leave_out);
        } else {
            let Redacted { shared, own, .. } = redacted;
            // What the code keeps out, nobody else lets in again.
            own.retain(|(name, how)| *how != Redact::Keep || !is_hidden(name, shared));
        }
        redacted.leave_out = redacted.leave_out.or_else(shared_redactions::leave_out);
    }

    /// The stream of the trace, and which values it leaves out.
    pub(crate) fn stream(&self) -> (Stream, Option<Redaction>) {
        let stream = Stream::new(self.format);
        match self.redacted.leave_out {
            None => (stream, None),
            Some(leave_out) => leave_out(stream, &self.redacted),
        }
    }
}

/// The names of values that a session does not write. The code that replaces values is known by its
/// address alone, so that an application that redacts nothing does not contain it.
#[derive(Default)]
pub(crate) struct Redacted {
    /// Those of the process, which come before its own.
    shared: Vec<(String, Redact)>,
    own: Vec<(String, Redact)>,
    scope: Scope,
    /// How many of the names of the process the session has, its own among them. A session that
    /// does without them has all that it needs.
    pub(crate) known: usize,
    /// `None`: there are no names.
    leave_out: Option<LeaveOut>,
}

/// For which sessions the names of a session hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Scope {
    /// For those that begin later, too.
    #[default]
    Process,
    /// For this one.
    Session,
    /// For this one, and no others hold for it.
    Alone,
}

pub(crate) type LeaveOut = fn(Stream, &Redacted) -> (Stream, Option<Redaction>);

impl Redacted {
    /// Whether some value is not written. The last of equal names counts.
    pub(crate) fn hides(&self) -> bool {
        let names = self.shared.iter().chain(&self.own).map(|(name, how)| (name, how));
        names.collect::<BTreeMap<_, _>>().into_values().any(|how| *how != Redact::Keep)
    }
}

/// [`SessionBuilder::redact`] for who starts a session on behalf of somebody else. The names hold
/// for no other session. What the program keeps out in code stays out, whatever they say.
pub fn redact_session(
    builder: SessionBuilder,
    names: impl IntoIterator<Item = (String, Redact)>,
) -> SessionBuilder {
    let mut builder =
        names.into_iter().fold(builder, |builder, (name, how)| builder.redact(name, how));
    builder.redacted.scope = Scope::Session;
    builder
}

/// Keeps values out of all traces of sessions that begin from now on, as if a session had
/// [said so](SessionBuilder::redact).
pub fn redact_sessions(names: &[(String, Redact)]) {
    shared_redactions::add(names, Some(leave_out));
}

/// Whether all names of the process are known to a session that knew so many.
pub(super) fn knows_all(known: usize) -> bool {
    known >= shared_redactions::all().len()
}

/// Whether one of these names may hide what has a name: their last parts are equal.
fn is_hidden(name: &str, by: &[(String, Redact)]) -> bool {
    let last = |name: &str| name.rsplit([':', '.']).next().map(str::to_owned);
    by.iter().any(|(other, how)| *how != Redact::Keep && last(other) == last(name))
}

/// What the process keeps out of its traces: a list that only grows, one entry for each session
/// that had names of its own.
mod shared_redactions {
    use std::{iter, sync::OnceLock};

    use nettrace_format::redact::Redact;

    use super::{LeaveOut, is_hidden};

    struct Entry {
        names: Vec<(String, Redact)>,
        leave_out: LeaveOut,
        next: OnceLock<Box<Entry>>,
    }

    static FIRST: OnceLock<Box<Entry>> = OnceLock::new();

    fn entries() -> impl Iterator<Item = &'static Entry> {
        iter::successors(FIRST.get(), |entry| entry.next.get()).map(|entry| &**entry)
    }

    pub(super) fn all() -> Vec<(String, Redact)> {
        entries().flat_map(|entry| &entry.names).cloned().collect()
    }

    pub(super) fn leave_out() -> Option<LeaveOut> {
        entries().next().map(|entry| entry.leave_out)
    }

    /// Adds names that are new. One that is kept is an exception from one before it. If there is
    /// none, the exception is from what others keep out, and holds for its session alone. Returns
    /// how many were added.
    pub(super) fn add(names: &[(String, Redact)], leave_out: Option<LeaveOut>) -> usize {
        let (Some(leave_out), known) = (leave_out, all()) else { return 0 };
        let is_shared = |(index, (name, how)): (usize, &(String, Redact))| {
            let is_known = known.iter().any(|(other, same)| (other, same) == (name, how));
            let is_exception = || is_hidden(name, &names[..index]) && !is_hidden(name, &known);
            !is_known && (*how != Redact::Keep || is_exception())
        };
        let new = names.iter().enumerate().filter(|name| is_shared(*name));
        let new: Vec<_> = new.map(|(_, name)| name.clone()).collect();
        let count = new.len();
        if count == 0 {
            return 0;
        }
        let mut entry = Box::new(Entry { names: new, leave_out, next: OnceLock::new() });
        let mut end = &FIRST;
        // Others may add theirs meanwhile.
        while let Err(refused) = end.set(entry) {
            entry = refused;
            end = end.get().map_or(end, |other| &other.next);
        }
        count
    }
}

/// The stream without the values, and which they are.
fn leave_out(stream: Stream, redacted: &Redacted) -> (Stream, Option<Redaction>) {
    let redaction = redaction(redacted);
    (stream.redacted(redaction.clone()), Some(redaction))
}

fn redaction(redacted: &Redacted) -> Redaction {
    let names = || redacted.shared.iter().chain(&redacted.own);
    let hashes = names().any(|(_, how)| *how == Redact::Hash);
    let mut all = Redaction::new(if hashes { secret::key() } else { [0; 2] });
    for (index, (name, how)) in names().enumerate() {
        let told = OF_PANIC.iter().filter(|(key, _)| key == name);
        let told = told.flat_map(|of| names_of_panic(of).filter(|name| name.starts_with(EVENT)));
        for name in iter::once(name.clone()).chain(told) {
            all = all.with(&name, *how);
            if index < redacted.shared.len() || may_come(&name) {
                // So something has it: another session may record what has the name.
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
