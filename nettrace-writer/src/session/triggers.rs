//! What makes a flight recorder write a dump by itself. [`dumps`] writes it.

mod dumps;
mod request;

use std::{
    borrow::Cow, collections::VecDeque, ffi::OsString, fmt, fs, ops::RangeBounds, path::PathBuf,
    sync::Arc, time::Duration,
};

use nettrace_event::{Level, keys};
use nettrace_format::redact::Redaction;

use self::{
    dumps::Dumps,
    request::{Request, short},
};
use crate::{
    flusher::OwnThread,
    panics::{self, AfterPanic},
    process::{generation, reserved},
    protocol::clock::Stopwatch,
    session::{
        conditions::{Condition, Matcher},
        low_memory::Pressure,
        on_signal::OnSignal,
        recorder::Recorder,
        redact::{OF_PANIC, OfPanic, names_of_panic},
    },
    shared::{
        channel::{self, Missing, Receiver, Sender},
        error::Error,
        local,
    },
    sink::{failure::during, file_name, ring::Dump},
    sync::Mutex,
};

/// How many kinds of triggers have a rate of their own. All others share one.
const MOST_NAMES: usize = 64;
/// What has the rate of panics that end the process.
const THE_END: &str = "a panic that ends the process";
/// How long a panic waits that ends the process.
const PANIC_PATIENCE: Duration = Duration::from_secs(2);

/// When a [flight recorder](crate::SessionBuilder::flight_recorder) writes a dump by itself, and
/// where.
///
/// ```
/// use std::time::Duration;
///
/// use nettrace_writer::{Keep, Session, Triggers};
///
/// # let directory = tempfile::tempdir()?;
/// # let directory = directory.path();
/// let triggers = Triggers::new(directory, "shop-{pid}")
///     .after(Duration::from_millis(50))
///     .at_most_every(Duration::from_secs(60))
///     .files(10)
///     .on_panic();
/// let keep = Keep::last(Duration::from_secs(10));
/// let session = Session::builder().flight_recorder(keep).triggers(triggers).start()?;
///
/// let slow = session.trigger("slow");
/// // In a handler, when a request took too long:
/// slow.fire(&[("route", "/cart")]);
/// # session.finish()?;
/// # let name = format!("shop-{}-slow-1.nettrace", std::process::id());
/// # assert!(directory.join(name).exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Triggers {
    folder: PathBuf,
    stem: OsString,
    after: Duration,
    every: Duration,
    files: usize,
    on_panic: bool,
    on_low_memory: bool,
    pub(super) signals: Vec<i32>,
    conditions: Vec<Condition>,
}

impl Triggers {
    /// Dumps `FOLDER/STEM-TRIGGER-NUMBER.nettrace`. The folder is made if it does not exist. The
    /// stem can have the placeholders of [`SessionBuilder::file`](crate::SessionBuilder::file).
    ///
    /// ```
    /// # use nettrace_writer::Triggers;
    /// // dumps/shop-4711-slow-1.nettrace
    /// let triggers = Triggers::new("dumps", "{exe}-{pid}");
    /// ```
    pub fn new(folder: impl Into<PathBuf>, stem: impl Into<OsString>) -> Self {
        let (folder, stem) = (folder.into(), stem.into());
        let every = Duration::from_secs(60);
        Self {
            folder,
            stem,
            after: Duration::ZERO,
            every,
            files: 10,
            on_panic: false,
            on_low_memory: false,
            signals: Vec::new(),
            conditions: Vec::new(),
        }
    }

    /// How long the recorder goes on before it writes, so that a dump has what came after its
    /// trigger, too. The default is not at all. Triggers that come meanwhile have the same dump.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use nettrace_writer::Triggers;
    /// let triggers = Triggers::new("dumps", "shop").after(Duration::from_secs(2));
    /// ```
    pub fn after(mut self, time: Duration) -> Self {
        self.after = time;
        self
    }

    /// How long triggers of the same name are left out after one, 60 s by default. They are
    /// [counted](DumpCounts::left_out). The first 64 names have each a rate of their own.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use nettrace_writer::Triggers;
    /// let triggers = Triggers::new("dumps", "shop").at_most_every(Duration::from_secs(600));
    /// ```
    pub fn at_most_every(mut self, time: Duration) -> Self {
        self.every = time;
        self
    }

    /// How many dumps of this session stay, 10 by default and at least 1. The oldest is deleted
    /// when a newer one is complete. A dump gets its name when it is complete: one that fails, for
    /// example because the disk is full, leaves no file.
    ///
    /// ```
    /// # use nettrace_writer::Triggers;
    /// let triggers = Triggers::new("dumps", "shop").files(3);
    /// ```
    pub fn files(mut self, files: usize) -> Self {
        self.files = files.max(1);
        self
    }

    /// Writes a dump when a thread panics, at once and by the name `panic`. The panic is an event
    /// in it, as [`record_panics`](crate::record_panics) says, which this implies. Its message and
    /// place are key-values, too. A panic that ends the process waits for the dump, for two seconds
    /// at most: that of the main thread, and one that cannot unwind. Others do not wait, and do not
    /// keep these from having a dump ([`at_most_every`](Self::at_most_every)).
    ///
    /// ```
    /// # use nettrace_writer::Triggers;
    /// let triggers = Triggers::new("dumps", "shop").on_panic();
    /// ```
    pub fn on_panic(mut self) -> Self {
        self.on_panic = true;
        self
    }

    /// Writes a dump when memory is short, on Linux. By the name `low-memory`: tasks of the
    /// process's control group have waited for memory in a tenth of the last second. By the name
    /// `out-of-memory`: the group has reached its limit and could not free memory, or a process of
    /// it was killed. Without a control group of version 2 the machine's pressure counts. The
    /// thread that writes dumps looks once a second.
    ///
    /// Where the system does not tell, [`DumpCounts::last_error`] says so.
    ///
    /// ```
    /// # use nettrace_writer::Triggers;
    /// let triggers = Triggers::new("dumps", "shop").on_low_memory();
    /// ```
    pub fn on_low_memory(mut self) -> Self {
        self.on_low_memory = true;
        self
    }

    /// Writes a dump when an event of this level, or of a more severe one, is recorded. The name of
    /// the trigger is that of the level: `error`. Events of the level `LogAlways` count only if
    /// that is asked for.
    ///
    /// This and the following are decided in the session's thread, when it collects events: a
    /// [flush interval](crate::SessionBuilder::flush_interval) after the event at most. They see
    /// what the session records. An event costs its thread nothing more. The dump has the
    /// key-value `nettrace.trigger.event`: provider and name of the event.
    ///
    /// ```
    /// # use nettrace_writer::{Level, Triggers};
    /// let triggers = Triggers::new("dumps", "shop").on_level(Level::Error);
    /// ```
    pub fn on_level(mut self, level: Level) -> Self {
        self.conditions.push(Condition::level(level));
        self
    }

    /// Writes a dump when an event of this type is recorded. The name of the trigger is that of the
    /// event.
    ///
    /// ```
    /// # use nettrace_writer::Triggers;
    /// let triggers = Triggers::new("dumps", "shop").on_event("Contoso-Shop", "PaymentRefused");
    /// ```
    pub fn on_event(mut self, provider: &str, event: &str) -> Self {
        self.conditions.push(Condition::event(provider, event));
        self
    }

    /// Writes a dump when an integer of an event is in a range. The name of the trigger is that of
    /// the event. Conditions on one event share that name, and with it the rate. Elements of lists
    /// are not looked at.
    ///
    /// ```
    /// # use nettrace_writer::Triggers;
    /// let triggers = Triggers::new("dumps", "shop")
    ///     .on_number("Contoso-Shop", "Answered", "status", 500..600);
    /// ```
    pub fn on_number(
        mut self,
        provider: &str,
        event: &str,
        field: &str,
        range: impl RangeBounds<i64>,
    ) -> Self {
        self.conditions.push(Condition::number(provider, event, field, range));
        self
    }

    /// Writes a dump when a span ends that has taken as long as `time` or longer. `span` is its
    /// name: that of the function, or of its Start event without `Start`. The name of the trigger
    /// is the span's with `-slow`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use nettrace_writer::Triggers;
    /// // The requests that `nettrace-tower` records in a service.
    /// let triggers = Triggers::new("dumps", "shop")
    ///     .on_slow_span("NetTrace-Tower", "ServerRequest", Duration::from_millis(250));
    /// ```
    pub fn on_slow_span(mut self, provider: &str, span: &str, time: Duration) -> Self {
        self.conditions.push(Condition::slow(provider, span, time));
        self
    }

    /// Writes a dump when a span ends by an error or a panic. The name of the trigger is the span's
    /// with `-failed`.
    ///
    /// ```
    /// # use nettrace_writer::Triggers;
    /// let triggers = Triggers::new("dumps", "shop").on_failed_span("Contoso-Shop", "check_out");
    /// ```
    pub fn on_failed_span(mut self, provider: &str, span: &str) -> Self {
        self.conditions.push(Condition::failed(provider, span));
        self
    }
}

/// Makes a session write a dump. [`Session::trigger`](crate::Session::trigger) returns it. Clones
/// can go wherever there is something to watch.
#[derive(Clone, Debug)]
pub struct Trigger {
    control: Option<Arc<Control>>,
    name: Arc<str>,
}

impl Trigger {
    pub(crate) fn new(control: Option<Arc<Control>>, name: &str) -> Self {
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
    /// See [`Triggers`] for an example.
    #[expect(clippy::must_use_candidate, reason = "most callers do not mind what is left out")]
    pub fn fire(&self, key_values: &[(&str, &str)]) -> bool {
        let Some(control) = &self.control else { return false };
        let ask = || {
            let given = reserved::given_keys(key_values);
            let given: Vec<_> = given.iter().map(|(key, value)| (&**key, *value)).collect();
            control.ask(&self.name, &given, false, None)
        };
        local::holding_locks(ask).unwrap_or(false)
    }
}

/// What has become of a session's triggers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DumpCounts {
    /// How many dumps were written.
    pub written: u64,
    /// How many dumps could not be written.
    pub failed: u64,
    /// How many triggers were left out, because one of the same name came shortly before.
    pub left_out: u64,
    /// The last dump.
    pub last: Option<(PathBuf, Dump)>,
    /// Why the last dump could not be written that was not.
    pub last_error: Option<String>,
}

/// The triggers of a session that records.
pub(crate) struct Control {
    /// Of the process that has the thread, and not of one that was forked from it.
    generation: u32,
    every: Duration,
    /// Taken when the session ends.
    requests: Mutex<Option<Sender<Request>>>,
    rates: Mutex<Vec<(String, Stopwatch)>>,
    counts: Mutex<DumpCounts>,
    /// For what this crate says of panics.
    redaction: Mutex<Option<Redaction>>,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("every", &self.every).finish_non_exhaustive()
    }
}

/// The triggers of a session, and their thread.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) control: Arc<Control>,
    on_signal: Option<OnSignal>,
    thread: OwnThread,
    /// Closed when the thread has ended.
    ended: Receiver<()>,
}

impl Watch {
    /// Begins to write the dumps of a recorder.
    pub(crate) fn start(
        triggers: Triggers,
        recorder: Recorder,
        redaction: Option<Redaction>,
    ) -> Result<Self, Error> {
        let (requests, inbox) = channel::bounded(64);
        let control = Arc::new(Control {
            generation: generation(),
            every: triggers.every,
            requests: Mutex::new(Some(requests)),
            rates: Mutex::default(),
            counts: Mutex::default(),
            redaction: Mutex::new(redaction),
        });
        let stem = file_name::expand(&triggers.stem).map_err(Error::FileName)?;
        let on_signal = OnSignal::start(&triggers.signals, &control)?;
        fs::create_dir_all(&triggers.folder).map_err(|error| {
            let action = format!("cannot make the folder {}", triggers.folder.display());
            Error::Sink(during(action, error))
        })?;
        // The current folder may change.
        let folder = std::path::absolute(&triggers.folder).map_err(Error::Sink)?;
        if triggers.on_panic {
            let control = Arc::clone(&control) as Arc<dyn AfterPanic>;
            panics::tell(Arc::downgrade(&control));
        }
        if !triggers.conditions.is_empty() {
            let fire = Arc::clone(&control);
            let fire = move |name: &str, event: &str| {
                fire.ask(name, &[(keys::TRIGGER_EVENT, event)], false, None);
            };
            recorder.ring.show(Box::new(Matcher::new(triggers.conditions, Box::new(fire))));
        }
        let pressure = triggers.on_low_memory.then(Pressure::new).and_then(|pressure| {
            let say = |error| {
                let error = format!("cannot tell whether memory is short: {error}");
                control.counts.lock().last_error = Some(error);
            };
            pressure.map_err(say).ok()
        });
        let mut dumps = Dumps {
            recorder,
            pressure,
            control: Arc::clone(&control),
            folder,
            stem,
            after: triggers.after,
            most: triggers.files,
            files: VecDeque::new(),
            number: 0,
        };
        let (alive, ended) = channel::bounded::<()>(1);
        let thread = OwnThread::start(c"nettrace-dumps", move || {
            let _alive = alive;
            dumps.run(&inbox);
        });
        Ok(Self { control, on_signal, thread: thread.map_err(Error::Thread)?, ended })
    }

    /// Writes what is owed, and ends. Gives up waiting for a file that blocks.
    pub(crate) fn end(mut self, patience: Duration) {
        self.on_signal = None;
        drop(self.control.requests.lock().take());
        if matches!(self.ended.recv_timeout(patience), Err(Missing::Gone)) {
            self.thread.join();
        }
    }
}

impl Control {
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
        let request = Request::new(name, key_values, is_urgent, done);
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
}

impl Control {
    /// What a key-value tells of a panic.
    fn redacted<'a>(&self, of: &OfPanic, value: &'a str) -> Cow<'a, str> {
        let mut redaction = self.redaction.lock();
        let Some(redaction) = redaction.as_mut() else { return value.into() };
        let hides = names_of_panic(of).find(|name| redaction.hides(name));
        hides.map_or(value.into(), |name| redaction.text(&name, value))
    }
}

impl AfterPanic for Control {
    fn panicked(&self, message: &str, place: &str, ends_process: bool) {
        // In the child of a fork, a thread that is not there may hold any of the locks.
        if self.generation != generation() {
            return;
        }
        let (done, is_done) = channel::bounded(1);
        let [of_message, of_place] = &OF_PANIC;
        let (message, place) = (self.redacted(of_message, message), self.redacted(of_place, place));
        let key_values = [(of_message.0, &*message), (of_place.0, &*place)];
        let done = ends_process.then_some(done);
        let is_asked = local::holding_locks(|| self.ask("panic", &key_values, true, done));
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
        let control = Control {
            generation: generation(),
            every: Duration::from_secs(3_600),
            requests: Mutex::default(),
            rates: Mutex::default(),
            counts: Mutex::default(),
            redaction: Mutex::default(),
        };
        for number in 0..MOST_NAMES {
            assert!(control.is_due(&number.to_string()));
        }
        assert!(!control.is_due("one more"), "it shares a rate");
        assert!(control.is_due(THE_END));
        assert!(!control.is_due(THE_END));
    }
}
