//! Requests for dumps, from every part of a program, and the counts of the dumps.

use std::{borrow::Cow, fmt, path::PathBuf, sync::Arc, time::Duration};

use nettrace_format::redact::Redaction;

use super::request::{DumpRequest, short};
use crate::{
    panics::AfterPanic,
    process::{generation, reserved},
    protocol::clock::Stopwatch,
    session::redactions::{PANIC_FIELDS, PanicFields, names_of_panic},
    shared::{
        channel::{self, Sender},
        locks,
    },
    sink::ring::Dump,
    sync::Mutex,
};

/// The number of triggers with a rate of their own. All others share one.
const MOST_NAMES: usize = 64;
/// The name whose rate panics have that end the process.
const THE_END: &str = "a panic that ends the process";
/// Time that a panic waits that ends the process.
const PANIC_PATIENCE: Duration = Duration::from_secs(2);

/// Makes a session write a dump. [`Session::trigger`](crate::Session::trigger) returns it. Clones
/// can go wherever there is something to watch.
#[derive(Clone, Debug)]
pub struct Trigger {
    control: Option<Arc<TriggerControl>>,
    name: Arc<str>,
}

impl Trigger {
    pub(crate) fn new(control: Option<Arc<TriggerControl>>, name: &str) -> Self {
        Self { control, name: short(name).into() }
    }

    /// Asks for a dump, in a thread of its own: this does not wait. The trigger's name is in the
    /// name of the file and, with `key_values`, in the trace. Keys that the session states itself
    /// are moved aside, as those of [`key_value`](crate::SessionBuilder::key_value).
    ///
    /// A trace has 64 KiB of such names, keys and values at most. What has no room is left out, and
    /// counted there: `nettrace.trigger.more` says how many more triggers the dump is for, and
    /// `nettrace.trigger.left_out` how many key-values it lacks. Of a name the first 1,024 bytes
    /// count.
    ///
    /// Returns `false` if there will be no dump: because one of the same name came shortly before,
    /// because 64 others wait, or because the session has ended or has no triggers.
    ///
    /// See [`Triggers`](crate::Triggers) for an example.
    #[expect(clippy::must_use_candidate, reason = "most callers do not mind what is left out")]
    pub fn fire(&self, key_values: &[(&str, &str)]) -> bool {
        let Some(control) = &self.control else { return false };
        let ask = || {
            let given = reserved::given_keys(key_values);
            let given: Vec<_> = given.iter().map(|(key, value)| (&**key, *value)).collect();
            control.ask(&self.name, &given, false, None)
        };
        locks::holding_locks(ask).unwrap_or(false)
    }
}

/// The counts of a session's triggers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DumpCounts {
    /// The number of dumps that were written.
    pub written: u64,
    /// The number of dumps that could not be written.
    pub failed: u64,
    /// The number of triggers that were left out, because one of the same name came shortly before.
    pub left_out: u64,
    /// The last dump.
    pub last: Option<(PathBuf, Dump)>,
    /// Why the last dump could not be written that was not.
    pub last_error: Option<String>,
}

/// The triggers of a session that records.
pub(crate) struct TriggerControl {
    /// Of the process that has the thread, and not of one that was forked from it.
    generation: u32,
    every: Duration,
    /// Taken when the session ends.
    requests: Mutex<Option<Sender<DumpRequest>>>,
    rates: Mutex<Vec<(String, Stopwatch)>>,
    counts: Mutex<DumpCounts>,
    /// For what this crate says of panics.
    redaction: Mutex<Option<Redaction>>,
}

impl fmt::Debug for TriggerControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("every", &self.every).finish_non_exhaustive()
    }
}

impl TriggerControl {
    pub(super) fn new(
        every: Duration,
        requests: Sender<DumpRequest>,
        redaction: Option<Redaction>,
    ) -> Self {
        Self {
            generation: generation(),
            every,
            requests: Mutex::new(Some(requests)),
            rates: Mutex::default(),
            counts: Mutex::default(),
            redaction: Mutex::new(redaction),
        }
    }

    /// Asks for a dump. Returns `false` if it is left out. Never waits.
    pub(crate) fn ask(
        &self,
        name: &str,
        key_values: &[(&str, &str)],
        is_urgent: bool,
        done: Option<Sender<()>>,
    ) -> bool {
        if self.generation != generation() {
            return false; // A thread of the parent may hold the locks below for ever.
        }
        // Where somebody waits, the process ends. That has a rate of its own, so that panics before
        // that were caught do not cost the last dump.
        if !self.is_due(if done.is_some() { THE_END } else { name }) {
            self.counts.lock().left_out += 1;
            return false;
        }
        let request = DumpRequest::new(name, key_values, is_urgent, done);
        let requests = self.requests.lock();
        let is_sent = requests
            .as_ref()
            .is_some_and(|requests| requests.try_send(request, Duration::ZERO).is_ok());
        if !is_sent {
            self.counts.lock().left_out += 1;
        }
        is_sent
    }

    fn is_due(&self, name: &str) -> bool {
        let mut rates = self.rates.lock();
        let is_full = rates.len() >= MOST_NAMES && name != THE_END;
        let known = match rates.iter().position(|(known, _)| known == name) {
            None if is_full => Some(0),
            known => known,
        };
        let Some(known) = known else {
            rates.push((name.to_owned(), Stopwatch::start()));
            return true;
        };
        let is_due = rates[known].1.elapsed() >= self.every;
        if is_due {
            rates[known].1 = Stopwatch::start();
        }
        is_due
    }

    pub(crate) fn counts(&self) -> DumpCounts {
        self.counts.lock().clone()
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut DumpCounts)) {
        change(&mut self.counts.lock());
    }

    /// Takes no more requests. The thread that writes dumps ends after those it has.
    pub(super) fn close(&self) {
        drop(self.requests.lock().take());
    }
}

impl TriggerControl {
    /// The value of a panic's key-value, redacted.
    fn redacted<'a>(&self, of: &PanicFields, value: &'a str) -> Cow<'a, str> {
        let mut redaction = self.redaction.lock();
        let Some(redaction) = redaction.as_mut() else { return value.into() };
        let hides = names_of_panic(of).find(|name| redaction.hides(name));
        hides.map_or(value.into(), |name| redaction.text(&name, value))
    }
}

impl AfterPanic for TriggerControl {
    fn panicked(&self, message: &str, place: &str, ends_process: bool) {
        // In the child of a fork, a thread that is not there may hold any of the locks.
        if self.generation != generation() {
            return;
        }
        let (done, is_done) = channel::bounded(1);
        let [of_message, of_place] = &PANIC_FIELDS;
        let (message, place) = (self.redacted(of_message, message), self.redacted(of_place, place));
        let key_values = [(of_message.0, &*message), (of_place.0, &*place)];
        let done = ends_process.then_some(done);
        let is_asked = locks::holding_locks(|| self.ask("panic", &key_values, true, done));
        if is_asked == Some(true) && ends_process {
            let _ = is_done.recv_timeout(PANIC_PATIENCE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_has_a_rate_of_its_own_whatever_came_before() {
        let (requests, _inbox) = channel::bounded(1);
        let control = TriggerControl::new(Duration::from_secs(3_600), requests, None);
        for number in 0..MOST_NAMES {
            assert!(control.is_due(&number.to_string()));
        }
        assert!(!control.is_due("one more"), "it shares a rate");
        assert!(control.is_due(THE_END));
        assert!(!control.is_due(THE_END));
    }
}
