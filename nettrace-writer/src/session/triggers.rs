//! The triggers of a flight recorder: when it writes a dump by itself, and where. [`dumps`] writes
//! it.

pub(crate) mod control;
mod dumps;
mod request;

cfg_if::cfg_if! {
    if #[cfg(all(unix, feature = "signals"))] {
        mod on_signal;
    } else {
        #[path = "triggers/no_signal.rs"]
        mod on_signal;
    }
}

use std::{
    collections::VecDeque, ffi::OsString, fs, ops::RangeBounds, path::PathBuf, sync::Arc,
    time::Duration,
};

use nettrace_event::{Level, keys};
use nettrace_format::redact::Redaction;

use self::{control::TriggerControl, dumps::DumpWriter, on_signal::SignalThread};
use crate::{
    flusher::OwnThread,
    panics::{self, AfterPanic},
    session::{
        conditions::{Condition, Matcher},
        low_memory::MemoryPressure,
        recorder::Recorder,
    },
    shared::{
        channel::{self, Receiver, RecvError},
        error::Error,
    },
    sink::{failure::during, file_name},
};

/// Starts the thread that writes dumps. The code is known by its address alone, so that an
/// application without triggers does not contain it.
pub(crate) type StartDumpThread =
    Box<dyn FnOnce(Recorder, Option<Redaction>) -> Result<DumpThread, Error> + Send + Sync>;

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
    signals: Vec<i32>,
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

    /// Time that the recorder goes on before it writes, so that a dump has what came after its
    /// trigger, too. The default is zero. Triggers that come meanwhile have the same dump.
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

    /// Time in which triggers of the same name are left out after one, 60 s by default. They are
    /// [counted](crate::DumpCounts::left_out). The first 64 names have each a rate of their own.
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

    /// The number of dumps of this session that stay, 10 by default and at least 1. The oldest is
    /// deleted when a newer one is complete. A dump gets its name when it is complete: one that
    /// fails, for example because the disk is full, leaves no file.
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

    /// Writes a dump when the process gets this signal: with `SIGUSR1`, `kill -USR1 PID` asks for
    /// one. The name of the trigger is that of the signal. A thread of the session waits for it.
    ///
    /// From the start of the session on, the signal does nothing else, also after the session has
    /// ended, unless the program has a handler of its own: that is called, too. So these signals
    /// alone can be asked for: `SIGUSR1`, `SIGUSR2`, `SIGHUP`, `SIGQUIT`, and the real-time signals
    /// of Linux. Otherwise the start of the session fails with [`Error::Signal`]. A program that
    /// ends by `SIGTERM` calls [`Trigger::fire`](crate::Trigger::fire) where it handles it, and
    /// [finishes](crate::Session::finish) the session. For crashes there is
    /// [`persistent`](crate::SessionBuilder::persistent).
    ///
    /// ```
    /// # use nettrace_writer::Triggers;
    /// const SIGUSR1: i32 = 10; // libc::SIGUSR1
    /// let triggers = Triggers::new("dumps", "shop").on_signal(SIGUSR1);
    /// ```
    #[cfg(all(unix, feature = "signals"))]
    pub fn on_signal(mut self, signal: i32) -> Self {
        self.signals.push(signal);
        self
    }

    /// Writes a dump when memory is short, on Linux. By the name `low-memory`: tasks of the
    /// process's control group have waited for memory in a tenth of the last second. By the name
    /// `out-of-memory`: the group has reached its limit and could not free memory, or a process of
    /// it was killed. Without a control group of version 2 the machine's pressure counts. The
    /// thread that writes dumps looks once a second.
    ///
    /// Where the system does not tell, [`DumpCounts::last_error`](crate::DumpCounts::last_error)
    /// says so.
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

impl Triggers {
    /// Starts their thread when the session begins.
    pub(crate) fn starter(self) -> StartDumpThread {
        Box::new(|recorder, redaction| DumpThread::start(self, recorder, redaction))
    }
}

/// The triggers of a session, and their thread.
#[derive(Debug)]
pub(crate) struct DumpThread {
    pub(crate) control: Arc<TriggerControl>,
    on_signal: Option<SignalThread>,
    thread: OwnThread,
    /// Closed when the thread has ended.
    ended: Receiver<()>,
}

impl DumpThread {
    /// Begins to write the dumps of a recorder.
    fn start(
        triggers: Triggers,
        recorder: Recorder,
        redaction: Option<Redaction>,
    ) -> Result<Self, Error> {
        let (requests, inbox) = channel::bounded(64);
        let control = Arc::new(TriggerControl::new(triggers.every, requests, redaction));
        let stem = file_name::expand(&triggers.stem).map_err(Error::FileName)?;
        let on_signal = SignalThread::start(&triggers.signals, &control)?;
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
        let pressure = triggers.on_low_memory.then(MemoryPressure::new).and_then(|pressure| {
            let say = |error| {
                let error = format!("cannot tell whether memory is short: {error}");
                control.count(|counts| counts.last_error = Some(error));
            };
            pressure.map_err(say).ok()
        });
        let mut dumps = DumpWriter {
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
        self.control.close();
        if matches!(self.ended.recv_timeout(patience), Err(RecvError::Gone)) {
            self.thread.join();
        }
    }
}
