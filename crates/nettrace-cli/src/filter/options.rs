//! The command-line options that filter events.

use std::{fmt, str::FromStr};

use clap::{Arg, ArgMatches, Command};
use jiff::Timestamp;
use nettrace_format::spelling::time_unit;
use nettrace_reader::Thread;

use crate::{filter::Condition, spelling::LevelBound};

/// Options of `dump`, `headers` and `tail`: which events to show, and how many of them.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct FilterOptions {
    #[command(flatten)]
    pub(crate) events: EventFilter,
    /// Only the first N of these events. The rest of the trace is not read
    #[arg(long, value_name = "N", conflicts_with = "tail")]
    pub(crate) head: Option<u64>,
    /// Only the last N of these events
    #[arg(long, value_name = "N")]
    pub(crate) tail: Option<usize>,
}

/// Options of all commands that can be asked for some of the events. An event must pass all of
/// them.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct EventFilter {
    /// Only events of this provider, in any case. NAME* matches all names that begin with NAME.
    /// Repeat the option to accept several
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Vec<Pattern>,
    /// Only events with this name, or NAME*
    #[arg(long, value_name = "NAME")]
    pub(crate) event: Vec<Pattern>,
    /// Only events of this thread: its OS id, #INDEX for its index in the trace, its name, or
    /// NAME*. A stream of a Heph trace is a thread
    #[arg(long, value_name = "THREAD")]
    pub(crate) thread: Vec<ThreadPattern>,
    /// Only events from this time on: seconds since the start of the trace (1.5, or with a unit:
    /// 250ms, 80us, 9ns, 5m, 1.5h), or a time as 2026-01-31T23:59:59.5Z
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) from: Option<Bound>,
    /// Only events up to this time, as in --from
    #[arg(
        id = "until",
        long = "to",
        visible_alias = "until",
        value_name = "TIME",
        allow_negative_numbers = true
    )]
    pub(crate) to: Option<Bound>,
    /// Only events of this level or a more severe one: critical (crit), error, warning (warn),
    /// informational (info), verbose (trace), debug, which is verbose without what tracing and log
    /// call trace, or a number. Of errors and warnings, spans are not asked for their level but
    /// their outcome: the end of one that failed is an error
    #[arg(long, value_name = "LEVEL")]
    pub(crate) level: Option<LevelBound>,
    /// Only events with this value in a field or label. Other operators are != < <= > >= and ~
    /// (contains the text VALUE). a.b is field b of object a. For an array, one element is enough.
    /// FIELD=none finds an option without a value. A duration is written with its unit: 5ms. A
    /// time is written as 2026-01-31T23:59:59.5Z. provider, event and process stand for those of
    /// the event, unless a field is called so. If repeated, all conditions must hold
    #[arg(long = "where", value_name = "FIELD=VALUE")]
    pub(super) conditions: Vec<Condition>,
    /// Only events whose name, message, fields or labels contain this text, as they are shown.
    /// Repeat the option to accept several
    #[arg(long, value_name = "TEXT", value_parser = text)]
    pub(super) grep: Vec<String>,
}

impl EventFilter {
    /// Whether a condition is on this field.
    pub(crate) fn asks_for(&self, field: &str) -> bool {
        self.conditions.iter().any(|condition| condition.field() == field)
    }

    /// Whether a condition is on what is known of a span at its end.
    #[cfg(unix)]
    pub(crate) fn asks_of_spans(&self) -> bool {
        self.conditions.iter().any(|condition| super::SPAN_FACTS.contains(&condition.field()))
    }

    /// Whether any of them is given.
    pub(crate) fn is_given(&self) -> bool {
        let Self { provider, event, thread, from, to, level, conditions, grep } = self;
        let names = provider.len() + event.len() + thread.len() + conditions.len() + grep.len();
        names > 0 || from.is_some() || to.is_some() || level.is_some()
    }
}

fn text(text: &str) -> Result<String, &'static str> {
    if text.is_empty() { Err("every event contains an empty text") } else { Ok(text.to_owned()) }
}

/// The filters of a command whose option `--to` is another one: it has `--until` alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct FilterWithUntil(pub(crate) EventFilter);

impl clap::FromArgMatches for FilterWithUntil {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        EventFilter::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl clap::Args for FilterWithUntil {
    fn augment_args(command: Command) -> Command {
        let until = |arg: Arg| arg.long("until").visible_alias(None::<&'static str>);
        EventFilter::augment_args(command).mut_arg("until", until)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Writes the filters as options.
impl fmt::Display for EventFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn texts<T: ToString>(values: &[T]) -> impl Iterator<Item = String> + '_ {
            values.iter().map(T::to_string)
        }
        let Self { provider, event, thread, from, to, level, conditions, grep } = self;
        let named = [
            ("provider", texts(provider).collect::<Vec<_>>()),
            ("event", texts(event).collect()),
            ("thread", texts(thread).collect()),
            ("from", from.iter().map(Bound::to_string).collect()),
            ("to", to.iter().map(Bound::to_string).collect()),
            ("level", level.iter().map(LevelBound::to_string).collect()),
            ("where", texts(conditions).collect()),
            ("grep", texts(grep).collect()),
        ];
        let all = named.iter().flat_map(|(name, all)| all.iter().map(move |value| (name, value)));
        for (at, (name, value)) in all.enumerate() {
            let blank = if at == 0 { "" } else { " " };
            write!(f, "{blank}--{name} ")?;
            match value.contains(char::is_whitespace) {
                true => write!(f, "'{value}'")?,
                false => write!(f, "{value}")?,
            }
        }
        Ok(())
    }
}

/// A name, or the prefix of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    name: String,
    is_prefix: bool,
}

impl Pattern {
    pub(crate) fn matches(&self, name: &str) -> bool {
        if self.is_prefix { name.starts_with(&self.name) } else { name == self.name }
    }

    /// Matches without regard to the case of ASCII letters, as session filters do with the names of
    /// providers.
    pub(crate) fn matches_in_any_case(&self, name: &str) -> bool {
        let (name, wanted) = (name.as_bytes(), self.name.as_bytes());
        let name = if self.is_prefix { name.get(..wanted.len()) } else { Some(name) };
        name.is_some_and(|name| name.eq_ignore_ascii_case(wanted))
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, is_prefix) = match text.strip_suffix('*') {
            Some(prefix) => (prefix, true),
            None => (text, false),
        };
        if name.contains('*') {
            return Err("a * can only stand at the end: NAME* is every name that begins so".into());
        }
        Ok(Self { name: name.to_owned(), is_prefix })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.name, if self.is_prefix { "*" } else { "" })
    }
}

/// A thread, as a user specifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ThreadPattern {
    /// Its OS id.
    Id(u64),
    /// Its index in the trace.
    Index(u64),
    Name(Pattern),
}

impl ThreadPattern {
    /// Whether a thread is one of those meant.
    pub(crate) fn matches(&self, thread: &Thread) -> bool {
        match self {
            Self::Id(id) => thread.os_thread_id == Some(*id),
            Self::Index(index) => thread.index == *index,
            Self::Name(pattern) => thread.name.as_ref().is_some_and(|name| pattern.matches(name)),
        }
    }
}

impl FromStr for ThreadPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(index) = text.strip_prefix('#') {
            let index = index.parse().map_err(|_| "write a number behind #: #5 is thread index 5");
            return Ok(Self::Index(index?));
        }
        Ok(match text.parse() {
            Ok(id) => Self::Id(id),
            Err(_) => Self::Name(text.parse()?),
        })
    }
}

impl fmt::Display for ThreadPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Index(index) => write!(f, "#{index}"),
            Self::Name(pattern) => pattern.fmt(f),
        }
    }
}

/// A point in time, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    SinceStart(i128),
    /// Since 1970.
    Time(i128),
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SinceStart(nanos) => write!(f, "{nanos}ns"),
            Self::Time(nanos) => match Timestamp::from_nanosecond(*nanos) {
                Ok(time) => time.fmt(f),
                Err(_) => write!(f, "{nanos}ns"),
            },
        }
    }
}

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(nanos) = span(text) {
            return Ok(Self::SinceStart(nanos));
        }
        match text.parse::<Timestamp>() {
            Ok(time) => Ok(Self::Time(time.as_nanosecond())),
            Err(_) => {
                Err("write seconds since the start of the trace (1.5), a span with its unit \
                (250ms, 80us, 9ns, 5m, 1.5h), or a time with its zone (2026-01-31T23:59:59.5Z)"
                    .into())
            }
        }
    }
}

/// Parses a duration to nanoseconds; further digits are dropped. Without a unit: seconds.
fn span(text: &str) -> Option<i128> {
    let (number, nanos) = time_unit(text).unwrap_or((text, 1_000_000_000));
    let (number, nanos) = (number.trim_end(), i128::from(nanos));
    let (is_negative, number) = match number.strip_prefix('-') {
        Some(number) => (true, number),
        None => (false, number),
    };
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 20 || !are_digits(whole) || !are_digits(decimals) {
        return None;
    }
    let decimals = &decimals[..decimals.len().min(15)];
    let scale = 10_i128.pow(decimals.len() as u32);
    let digits: i128 = format!("{whole}{decimals}").parse().ok()?;
    let span = digits.checked_mul(nanos)? / scale;
    Some(if is_negative { -span } else { span })
}

#[cfg(test)]
mod tests {
    use super::{Bound, Pattern, ThreadPattern, span};

    #[test]
    fn spans() {
        for (text, nanos) in [
            ("0", 0),
            ("1.5", 1_500_000_000),
            ("-0.25", -250_000_000),
            ("250ms", 250_000_000),
            ("0.5 us", 500),
            ("9ns", 9),
            ("1.0000000019", 1_000_000_001),
            ("2s", 2_000_000_000),
            ("1.5m", 90_000_000_000),
            ("-2 h", -7_200_000_000_000),
        ] {
            assert_eq!(span(text), Some(nanos), "{text}");
        }
        for wrong in ["", "x", "1e3", ".5", "1.5d", "m", "--1", "1,5"] {
            assert_eq!(span(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn bounds() {
        let second = 1_000_000_000;
        for (text, bound) in [
            ("1970-01-01T00:00:02Z", Bound::Time(2 * second)),
            ("1970-01-01T01:00:02.5+01:00", Bound::Time(5 * second / 2)),
            ("7", Bound::SinceStart(7 * second)),
        ] {
            assert_eq!(text.parse(), Ok(bound), "{text}");
        }
        assert!("yesterday".parse::<Bound>().unwrap_err().contains("2026-01-31T23:59:59.5Z"));
    }

    #[test]
    fn names() {
        let matches = |pattern: &str, name| pattern.parse::<Pattern>().unwrap().matches(name);
        assert!(matches("Test", "Test") && !matches("Test", "Tests") && !matches("Test", "test"));
        assert!(matches("Te*", "Test") && matches("*", "") && !matches("Te*", "T"));
        let in_any_case =
            |pattern: &str, name| pattern.parse::<Pattern>().unwrap().matches_in_any_case(name);
        assert!(in_any_case("test", "Test") && in_any_case("tE*", "Test") && in_any_case("*", ""));
        assert!(!in_any_case("test", "Tests") && !in_any_case("tests*", "Test"));
        assert!("*st".parse::<Pattern>().is_err());
        assert_eq!("#7".parse(), Ok(ThreadPattern::Index(7)));
        assert_eq!("7".parse(), Ok(ThreadPattern::Id(7)));
        assert!("#x".parse::<ThreadPattern>().is_err());
    }
}
