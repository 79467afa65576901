//! Records of the crate `log`.

use std::cell::Cell;

use log::{
    LevelFilter, Log, Record, SetLoggerError,
    kv::{Error, Key, Value, VisitSource, VisitValue},
};
use nettrace_writer::bridge;
use tracing_core::{Level, Metadata, dispatcher};

use crate::{
    options::Options,
    recorder::Recorder,
    sites::Site,
    sync::OnceLock,
    values::{Taken, Values},
};

/// Records what is logged through the crate [`log`]: target, module, file, line, level, and the
/// values of its keys with their types.
///
/// Records are events of the provider that their target names, as those of `tracing` are. They
/// carry the ids of the span in force.
///
/// With the feature `log-always`, `tracing` also logs its own spans and events. Those records are
/// left out, because the spans and events are recorded.
#[derive(Debug)]
pub struct Logger(Recorder);

/// The logger of the process, if [`Logger::install`] has made it.
static INSTALLED: OnceLock<Logger> = OnceLock::new();

thread_local! {
    /// The callsite whose event or span was recorded last. `tracing` may log it next.
    static LAST: Cell<Option<&'static Metadata<'static>>> = const { Cell::new(None) };
}

/// A logger for the crate `log`, as it is by default: see [`Logger::install`].
#[must_use]
pub fn logger() -> Logger {
    Options::new().logger()
}

/// Notes a callsite whose event or span is recorded.
#[inline]
pub(crate) fn note(metadata: &'static Metadata<'static>) {
    if INSTALLED.get().is_some() {
        LAST.set(Some(metadata));
    }
}

impl Logger {
    pub(crate) fn new(recorder: Recorder) -> Self {
        Self(recorder)
    }

    /// Makes this the logger of the process. [`log::max_level`] then follows the sessions: while
    /// none wants a level, `log`'s macros do nothing but compare it.
    ///
    /// ```
    /// use nettrace_writer::{Session, sink::MemorySink};
    ///
    /// tracing_nettrace::logger().install()?;
    /// log::info!("nobody listens");
    /// let session = Session::builder().sink(MemorySink::new()).start()?;
    /// log::info!(port = 8080; "listening");
    /// assert_eq!(session.finish()?.written, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`SetLoggerError`] if the process has a logger.
    pub fn install(self) -> Result<(), SetLoggerError> {
        // If there is one of ours, `set_logger` returns the error.
        log::set_logger(INSTALLED.get_or_init(|| self))?;
        bridge::on_change(follow);
        follow();
        Ok(())
    }

    fn is_echo(record: &Record<'_>) -> bool {
        // What `tracing` logs of the lives of spans.
        let is_of_span = record.target().strip_prefix("tracing::span");
        let is_of_span = is_of_span.is_some_and(|rest| rest.is_empty() || rest == "::active");
        let is_last = LAST.take().is_some_and(|last| {
            last.target() == record.target()
                && *last.level() == level(record.level())
                && last.line() == record.line()
                && last.file() == record.file()
        });
        is_last || (is_of_span && dispatcher::has_been_set())
    }
}

/// Lets through what sessions want now.
fn follow() {
    let Some(Logger(recorder)) = INSTALLED.get() else { return };
    log::set_max_level(match recorder.max_level_hint().into_level() {
        None => LevelFilter::Off,
        Some(Level::ERROR) => LevelFilter::Error,
        Some(Level::WARN) => LevelFilter::Warn,
        Some(Level::INFO) => LevelFilter::Info,
        Some(Level::DEBUG) => LevelFilter::Debug,
        Some(Level::TRACE) => LevelFilter::Trace,
    });
}

impl Log for Logger {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        self.0.passes(metadata.target(), level(metadata.level()))
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) || Self::is_echo(record) {
            return;
        }
        let site = Site {
            target: record.target(),
            module: record.module_path(),
            file: record.file(),
            line: record.line(),
            level: level(record.level()),
        };
        let source = record.key_values();
        let keys = |next: &mut dyn FnMut(&str)| {
            let _ = source.visit(&mut Keys(next));
        };
        self.0.log(&site, keys, || {
            Taken::by(|values| {
                values.put_text(0, |text| {
                    let _ = std::fmt::write(text, *record.args());
                });
                let _ = source.visit(&mut Pairs { values, index: 0 });
            })
        });
    }

    fn flush(&self) {}
}

fn level(level: log::Level) -> Level {
    match level {
        log::Level::Error => Level::ERROR,
        log::Level::Warn => Level::WARN,
        log::Level::Info => Level::INFO,
        log::Level::Debug => Level::DEBUG,
        log::Level::Trace => Level::TRACE,
    }
}

/// Passes on the keys of a record.
struct Keys<'a>(&'a mut dyn FnMut(&str));

impl<'kvs> VisitSource<'kvs> for Keys<'_> {
    fn visit_pair(&mut self, key: Key<'kvs>, _: Value<'kvs>) -> Result<(), Error> {
        (self.0)(key.as_str());
        Ok(())
    }
}

/// Keeps the values of a record.
struct Pairs<'a> {
    values: &'a mut Values,
    index: usize,
}

impl<'kvs> VisitSource<'kvs> for Pairs<'_> {
    fn visit_pair(&mut self, _: Key<'kvs>, value: Value<'kvs>) -> Result<(), Error> {
        self.index += 1;
        value.visit(Pair { values: self.values, index: self.index })
    }
}

struct Pair<'a> {
    values: &'a mut Values,
    index: usize,
}

impl<'v> VisitValue<'v> for Pair<'_> {
    fn visit_any(&mut self, value: Value<'_>) -> Result<(), Error> {
        self.values.put_text(self.index, |text| {
            let _ = std::fmt::write(text, format_args!("{value}"));
        });
        Ok(())
    }

    fn visit_null(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn visit_u64(&mut self, value: u64) -> Result<(), Error> {
        self.values.put_u64(self.index, value);
        Ok(())
    }

    fn visit_i64(&mut self, value: i64) -> Result<(), Error> {
        self.values.put_i64(self.index, value);
        Ok(())
    }

    fn visit_u128(&mut self, value: u128) -> Result<(), Error> {
        self.values.put_u128(self.index, value);
        Ok(())
    }

    fn visit_i128(&mut self, value: i128) -> Result<(), Error> {
        self.values.put_i128(self.index, value);
        Ok(())
    }

    fn visit_f64(&mut self, value: f64) -> Result<(), Error> {
        self.values.put_f64(self.index, value);
        Ok(())
    }

    fn visit_bool(&mut self, value: bool) -> Result<(), Error> {
        self.values.put_bool(self.index, value);
        Ok(())
    }

    fn visit_str(&mut self, value: &str) -> Result<(), Error> {
        self.values.put_text(self.index, |text| text.push_str(value));
        Ok(())
    }
}
