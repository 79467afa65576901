//! The names of values that a session does not write, and those that hold for the whole process.

use std::{collections::BTreeMap, iter};

use nettrace_event::secret;
use nettrace_format::{
    Format, Stage, Transcoder,
    redact::{Redact, Redaction},
};

use crate::process::description::{COMMAND_LINE, is_told};

/// The names of values that a session does not write. The code that replaces values is known by its
/// address alone, so that an application that redacts nothing does not contain it.
#[derive(Default)]
pub(crate) struct RedactionSettings {
    /// Those of the process, which come before its own.
    shared: Vec<(String, Redact)>,
    own: Vec<(String, Redact)>,
    pub(super) scope: Scope,
    /// The number of names of the process that the session has, its own among them. A session that
    /// does without them has all that it needs.
    pub(crate) known: usize,
    /// `None`: there are no names.
    leave_out: Option<RedactingStage>,
}

/// For which sessions the names of a session hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Scope {
    /// For those that begin later, too.
    #[default]
    Process,
    /// For this one.
    Session,
    /// For this one, and no others hold for it.
    Alone,
}

pub(crate) type RedactingStage = fn(Format, &RedactionSettings) -> (Box<dyn Stage>, Redaction);

impl RedactionSettings {
    /// Adds a name of the session's own.
    pub(crate) fn add(&mut self, name: String, how: Redact) {
        self.own.push((name, how));
        self.leave_out = Some(leave_out);
    }

    /// Adds the names that hold for the whole process to those of the session, and the other way
    /// round.
    pub(crate) fn share(&mut self) {
        if self.scope == Scope::Alone {
            self.known = usize::MAX;
            return;
        }
        self.shared = shared_redactions::all();
        self.known = self.shared.len();
        if self.scope == Scope::Process {
            self.known += shared_redactions::add(&self.own, self.leave_out);
        } else {
            let Self { shared, own, .. } = self;
            // What the code keeps out, nobody else lets in again.
            own.retain(|(name, how)| *how != Redact::Keep || !is_hidden(name, shared));
        }
        self.leave_out = self.leave_out.or_else(shared_redactions::leave_out);
    }

    /// The stage that makes a trace of this format, and which values it leaves out.
    pub(crate) fn build(&self, format: Format) -> (Option<Box<dyn Stage>>, Option<Redaction>) {
        match self.leave_out {
            None => (Transcoder::stage(format), None),
            Some(leave_out) => {
                let (stage, redaction) = leave_out(format, self);
                (Some(stage), Some(redaction))
            }
        }
    }

    /// Whether some value is not written. The last of equal names counts.
    pub(crate) fn hides(&self) -> bool {
        let names = self.shared.iter().chain(&self.own).map(|(name, how)| (name, how));
        names.collect::<BTreeMap<_, _>>().into_values().any(|how| *how != Redact::Keep)
    }
}

/// Keeps values out of all traces of sessions that begin from now on, as if a session had
/// [said so](crate::SessionBuilder::redact).
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

/// The values that the process keeps out of its traces: a list that only grows, one entry for each
/// session that had names of its own.
mod shared_redactions {
    use std::{iter, sync::OnceLock};

    use nettrace_format::redact::Redact;

    use super::{RedactingStage, is_hidden};

    struct SharedNames {
        names: Vec<(String, Redact)>,
        leave_out: RedactingStage,
        next: OnceLock<Box<SharedNames>>,
    }

    static FIRST: OnceLock<Box<SharedNames>> = OnceLock::new();

    fn entries() -> impl Iterator<Item = &'static SharedNames> {
        iter::successors(FIRST.get(), |entry| entry.next.get()).map(|entry| &**entry)
    }

    pub(super) fn all() -> Vec<(String, Redact)> {
        entries().flat_map(|entry| &entry.names).cloned().collect()
    }

    pub(super) fn leave_out() -> Option<RedactingStage> {
        entries().next().map(|entry| entry.leave_out)
    }

    /// Adds names that are new. One that is kept is an exception from one before it. If there is
    /// none, the exception is from what others keep out, and holds for its session alone. Returns
    /// how many were added.
    pub(super) fn add(names: &[(String, Redact)], leave_out: Option<RedactingStage>) -> usize {
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
        let mut entry = Box::new(SharedNames { names: new, leave_out, next: OnceLock::new() });
        let mut end = &FIRST;
        // Others may add theirs meanwhile.
        while let Err(refused) = end.set(entry) {
            entry = refused;
            end = end.get().map_or(end, |other| &other.next);
        }
        count
    }
}

/// The stage that leaves out the values, and which they are.
fn leave_out(format: Format, settings: &RedactionSettings) -> (Box<dyn Stage>, Redaction) {
    let redaction = redaction(settings);
    (Box::new(Transcoder::new(format).redacted(redaction.clone())), redaction)
}

fn redaction(settings: &RedactionSettings) -> Redaction {
    let names = || settings.shared.iter().chain(&settings.own);
    let hashes = names().any(|(_, how)| *how == Redact::Hash);
    let mut all = Redaction::new(if hashes { secret::key() } else { [0; 2] });
    for (index, (name, how)) in names().enumerate() {
        let told = PANIC_FIELDS.iter().filter(|(key, _)| key == name);
        let told = told.flat_map(|of| names_of_panic(of).filter(|name| name.starts_with(EVENT)));
        for name in iter::once(name.clone()).chain(told) {
            all = all.with(&name, *how);
            if index < settings.shared.len() || may_come(&name) {
                // So something has it: another session may record what has the name.
                all.hides(&name);
            }
        }
    }
    all
}

/// The names that a panic has in a trace: the key in a dump, and the fields of the event with the
/// same.
pub(super) type PanicFields = (&'static str, &'static [&'static str]);

pub(super) const PANIC_FIELDS: [PanicFields; 2] =
    [("panic.message", &["message"]), ("panic.location", &["location", "file", "line", "column"])];

/// The prefix of a field's name in that event.
const EVENT: &str = "Panic:";

/// All names that something has which is told of a panic.
pub(super) fn names_of_panic((key, fields): &PanicFields) -> impl Iterator<Item = String> {
    let fields = fields.iter().flat_map(|field| [format!("{EVENT}{field}"), (*field).to_owned()]);
    iter::once((*key).to_owned()).chain(fields)
}

/// Whether a name is that of something which this crate itself adds to a trace: of a panic, or of
/// the process. Whoever keeps it out of all traces has not misspelt it if nothing panics.
fn may_come(name: &str) -> bool {
    let mut of_panic = PANIC_FIELDS.iter().flat_map(names_of_panic);
    is_told(name) || name == COMMAND_LINE || of_panic.any(|of| of == name)
}
