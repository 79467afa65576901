//! Filters, which select the events that a session records by provider, level and keywords; and
//! their text form.

use std::{fmt, str::FromStr};

use nettrace_event::{EventType, Level};
use nettrace_format::spelling::nearest;

/// Selects events of one provider, of providers with a common prefix, or of all providers.
///
/// A filter has a name, a level, keywords, and possibly ids of events. An event passes if it passes
/// all of them:
///
/// * *Name*: the provider has this name, ignoring ASCII case. A `*` at the end stands for any rest:
///   `Contoso-*` selects `Contoso-Checkout`, and `*` selects every provider.
/// * *Level*: the event has this level or a more severe one. [`Level::LogAlways`] always passes.
/// * *Keywords*: the event has at least one of these keywords, or no keywords at all.
/// * *Ids*: the event's id is among the [chosen ones](Self::only_ids), or not among the
///   [excepted ones](Self::except_ids). A filter has no ids unless it is given some.
///
/// A session records an event if it passes at least one filter. So filters add up: no filter
/// removes what another one selects.
///
/// ```
/// use nettrace_writer::{Level, ProviderFilter};
///
/// let filter = ProviderFilter::new("Contoso-*").level(Level::Warning).keywords(0x3);
/// assert_eq!(filter.to_string(), "Contoso-*:3:Warning");
/// ```
///
/// # Text form
///
/// [`parse_list`](Self::parse_list) reads filters from one string, for example from an
/// [environment variable](crate::SessionBuilder::providers_from_env) or a configuration file.
/// Commas separate the filters. Each filter has one of three forms:
///
/// | form | example | selects |
/// |---|---|---|
/// | `NAME[:KEYWORDS[:LEVEL]]` | `Contoso-Checkout:3:Warning` | as in `dotnet-trace` |
/// | `NAME=LEVEL` | `Contoso-*=warn` | that provider up to a level, as in `RUST_LOG` |
/// | `LEVEL` | `error` | all providers up to a level, as in `RUST_LOG` |
///
/// * `NAME` is a provider's name, a prefix followed by `*`, or `*` alone.
/// * `KEYWORDS` is a hexadecimal number, with or without `0x`. If it is empty, as in `NAME::LEVEL`,
///   it stands for all keywords.
/// * `LEVEL` is a number from 0 to 255 or one of `LogAlways`, `Critical`, `Error`, `Warning`
///   (`warn`), `Informational` (`info`) and `Verbose` (`debug`, `trace`), in any case. If it is
///   empty, it stands for all levels.
///
/// Spaces around a filter and empty filters between commas are ignored. A single word that names a
/// level is a level. For a provider with such a name write `NAME:`. The level `off` of `RUST_LOG`
/// is an error, because filters only add up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderFilter {
    /// The name as it was given, including a `*`.
    name: String,
    level: Level,
    keywords: u64,
    ids: EventIdFilter,
}

/// The ids of events that a filter selects.
#[derive(Clone, Debug, PartialEq, Eq)]
enum EventIdFilter {
    All,
    /// These, in ascending order.
    Only(Vec<u16>),
    /// All but these, in ascending order.
    Except(Vec<u16>),
}

impl EventIdFilter {
    fn select(&self, id: u16) -> bool {
        match self {
            Self::All => true,
            Self::Only(ids) => ids.binary_search(&id).is_ok(),
            Self::Except(ids) => ids.binary_search(&id).is_err(),
        }
    }
}

/// Selects events of every level. Applications may define levels above [`Level::Verbose`].
const ALL_LEVELS: Level = Level::new(u8::MAX);

/// The names of levels in filters: those of the format, and the short names of `RUST_LOG`.
const LEVELS: [(&str, Level); 10] = [
    ("LogAlways", Level::LogAlways),
    ("Critical", Level::Critical),
    ("Error", Level::Error),
    ("Warning", Level::Warning),
    ("Informational", Level::Informational),
    ("Verbose", Level::Verbose),
    ("warn", Level::Warning),
    ("info", Level::Informational),
    ("debug", Level::Verbose),
    ("trace", Level::Verbose),
];

/// The level of `RUST_LOG` that no filter has.
const OFF: &str = "off";

impl ProviderFilter {
    /// Selects all events of the provider with this name. If the name ends in `*`, selects all
    /// events of every provider whose name starts with the part before it.
    ///
    /// ```
    /// use nettrace_writer::{Session, sink::MemorySink};
    ///
    /// // A name alone is such a filter.
    /// let session = Session::builder().provider("Contoso-*").sink(MemorySink::new()).start()?;
    /// # session.finish()?;
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), level: ALL_LEVELS, keywords: u64::MAX, ids: EventIdFilter::All }
    }

    /// Selects all events of all providers, like `ProviderFilter::new("*")`.
    ///
    /// ```
    /// use nettrace_writer::{Level, ProviderFilter, Session, sink::MemorySink};
    ///
    /// // Errors of all providers.
    /// let errors = ProviderFilter::all().level(Level::Error);
    /// let session = Session::builder().provider(errors).sink(MemorySink::new()).start()?;
    /// # session.finish()?;
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    #[must_use]
    pub fn all() -> Self {
        Self::new("*")
    }

    /// Selects only events of this level or a more severe one. Events of [`Level::LogAlways`]
    /// always pass.
    ///
    /// ```
    /// use nettrace_writer::{Emit, Level, ProviderFilter, Session, TraceEvent, sink::MemorySink};
    ///
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Contoso-Levels", level = Warning)]
    /// struct Slow;
    ///
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Contoso-Levels", level = Verbose)]
    /// struct Detail;
    ///
    /// let filter = ProviderFilter::new("Contoso-Levels").level(Level::Informational);
    /// let session = Session::builder().provider(filter).sink(MemorySink::new()).start()?;
    /// Slow.emit();
    /// Detail.emit();
    /// assert_eq!(session.finish()?.written, 1);
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    #[must_use]
    pub fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// Selects only events that have at least one of these keywords, or no keywords at all.
    ///
    /// ```
    /// use nettrace_writer::{Emit, ProviderFilter, Session, TraceEvent, sink::MemorySink};
    ///
    /// const NETWORK: u64 = 1;
    /// const DISK: u64 = 2;
    ///
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Contoso-Keywords", keywords = NETWORK)]
    /// struct Sent;
    ///
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Contoso-Keywords", keywords = DISK)]
    /// struct Written;
    ///
    /// let filter = ProviderFilter::new("Contoso-Keywords").keywords(DISK);
    /// let session = Session::builder().provider(filter).sink(MemorySink::new()).start()?;
    /// Sent.emit();
    /// Written.emit();
    /// assert_eq!(session.finish()?.written, 1);
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    #[must_use]
    pub fn keywords(mut self, keywords: u64) -> Self {
        self.keywords = keywords;
        self
    }

    /// Selects only events with these ids. An event's id is the `id` of its derive, or a hash of
    /// its name. A later call, or one of [`except_ids`](Self::except_ids), takes its place.
    ///
    /// ```
    /// use nettrace_writer::{Emit, ProviderFilter, Session, TraceEvent, sink::MemorySink};
    ///
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Contoso-Ids", id = 1)]
    /// struct Sent;
    ///
    /// #[derive(TraceEvent)]
    /// #[trace_event(provider = "Contoso-Ids", id = 2)]
    /// struct Written;
    ///
    /// let filter = ProviderFilter::new("Contoso-Ids").only_ids([2]);
    /// let session = Session::builder().provider(filter).sink(MemorySink::new()).start()?;
    /// Sent.emit();
    /// Written.emit();
    /// assert_eq!(session.finish()?.written, 1);
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    #[must_use]
    pub fn only_ids(mut self, ids: impl IntoIterator<Item = u16>) -> Self {
        self.ids = EventIdFilter::Only(sorted(ids));
        self
    }

    /// Selects only events that have none of these ids. A later call, or one of
    /// [`only_ids`](Self::only_ids), takes its place.
    ///
    /// ```
    /// use nettrace_writer::ProviderFilter;
    ///
    /// let filter = ProviderFilter::new("Contoso-*").except_ids([17, 18]);
    /// // The text form has no place for ids.
    /// assert_eq!(filter.to_string(), "Contoso-*");
    /// ```
    #[must_use]
    pub fn except_ids(mut self, ids: impl IntoIterator<Item = u16>) -> Self {
        self.ids = EventIdFilter::Except(sorted(ids));
        self
    }

    /// Reads filters from a string in the [text form](Self#text-form).
    ///
    /// ```
    /// use nettrace_writer::{Level, ProviderFilter};
    ///
    /// let filters = ProviderFilter::parse_list("Contoso-Checkout:3:Warning, Fabrikam-*, error")?;
    /// let expected = [
    ///     ProviderFilter::new("Contoso-Checkout").keywords(0x3).level(Level::Warning),
    ///     ProviderFilter::new("Fabrikam-*"),
    ///     ProviderFilter::all().level(Level::Error),
    /// ];
    /// assert_eq!(filters, expected);
    ///
    /// let error = ProviderFilter::parse_list("Contoso-Checkout:3:loud").unwrap_err();
    /// assert!(error.to_string().contains("`loud` is not a level"));
    /// # Ok::<(), nettrace_writer::FilterError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`FilterError`] says which filter is wrong, and why. A string without any filter is an error
    /// too; to select everything, write `*`.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, FilterError> {
        let pieces = text.split(',').map(str::trim_ascii).filter(|piece| !piece.is_empty());
        let filters = pieces.map(str::parse).collect::<Result<Vec<_>, _>>()?;
        if filters.is_empty() { Err(FilterError::Empty) } else { Ok(filters) }
    }

    /// Whether events of this type pass.
    pub(crate) fn matches(&self, ty: &EventType) -> bool {
        let schema = ty.schema();
        self.selects(schema.provider.name, schema.level, schema.keywords)
            && self.ids.select(ty.id())
    }

    /// Whether events of this provider, level and keywords pass.
    pub(crate) fn selects(&self, provider: &str, level: Level, keywords: u64) -> bool {
        self.selects_provider(provider)
            && level <= self.level
            && (keywords == 0 || keywords & self.keywords != 0)
    }

    /// The highest level that passes.
    pub(crate) fn max_level(&self) -> Level {
        self.level
    }

    /// The name as it was given, including a `*`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether the name selects a provider. The level and keywords of its events do not matter.
    pub(crate) fn selects_provider(&self, provider: &str) -> bool {
        let (provider, name) = (provider.as_bytes(), self.name.as_bytes());
        match name.strip_suffix(b"*") {
            Some(prefix) => {
                provider.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
            }
            None => provider.eq_ignore_ascii_case(name),
        }
    }
}

/// The same as [`ProviderFilter::new`].
impl<T: Into<String>> From<T> for ProviderFilter {
    fn from(name: T) -> Self {
        Self::new(name)
    }
}

/// Writes the [text form](ProviderFilter#text-form), in the spelling of `dotnet-trace`. It can be
/// parsed again if the name is one that a provider can have. Ids are left out.
impl fmt::Display for ProviderFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        let has_level = self.level != ALL_LEVELS;
        if self.keywords != u64::MAX {
            write!(f, ":{:x}", self.keywords)?;
        } else if has_level {
            f.write_str(":")?;
        } else if level(&self.name).is_some() || self.name.eq_ignore_ascii_case(OFF) {
            // Without a colon the name would be read as a level.
            f.write_str(":")?;
        }
        match self.level.name() {
            _ if !has_level => Ok(()),
            Some(name) => write!(f, ":{name}"),
            None => write!(f, ":{}", self.level.number()),
        }
    }
}

impl FromStr for ProviderFilter {
    type Err = FilterError;

    /// Reads one filter of the [text form](ProviderFilter#text-form).
    fn from_str(text: &str) -> Result<Self, FilterError> {
        let filter = text.trim_ascii();
        let Some((name, rest)) = filter.split_once(':') else {
            if let Some(level) = level(filter) {
                return Ok(Self::all().level(level));
            }
            if filter.eq_ignore_ascii_case(OFF) {
                return Err(FilterError::Level { filter: filter.into(), level: filter.into() });
            }
            return match filter.rsplit_once('=') {
                Some((name, text)) => {
                    Ok(Self::named(name, filter)?.level(parse_level(text, filter)?))
                }
                None => Self::named(filter, filter),
            };
        };
        let mut parsed = Self::named(name, filter)?;
        let mut parts = rest.splitn(3, ':').map(str::trim_ascii);
        if let Some(keywords) = parts.next().filter(|part| !part.is_empty()) {
            parsed.keywords = parse_keywords(keywords, filter)?;
        }
        if let Some(level) = parts.next().filter(|part| !part.is_empty()) {
            parsed.level = parse_level(level, filter)?;
        }
        match parts.next().filter(|part| !part.is_empty()) {
            None => Ok(parsed),
            Some(arguments) => Err(FilterError::Arguments {
                filter: filter.to_owned(),
                arguments: arguments.to_owned(),
            }),
        }
    }
}

impl ProviderFilter {
    /// The filter with this name. `filter` is the whole text, for errors.
    fn named(name: &str, filter: &str) -> Result<Self, FilterError> {
        let (name, filter) = (name.trim_ascii(), filter.to_owned());
        let fixed = name.strip_suffix('*').unwrap_or(name);
        if name.is_empty() {
            Err(FilterError::NoName { filter })
        } else if fixed.contains('*') {
            Err(FilterError::Star { filter })
        } else if let Some(character) = fixed.chars().find(|&c| !may_be_in_name(c)) {
            Err(FilterError::Name { filter, character })
        } else {
            Ok(Self::new(name))
        }
    }
}

fn sorted(ids: impl IntoIterator<Item = u16>) -> Vec<u16> {
    let mut ids: Vec<_> = ids.into_iter().collect();
    ids.sort_unstable();
    ids
}

/// Whether the derive accepts this character in a provider's name.
fn may_be_in_name(character: char) -> bool {
    !matches!(character, '\0'..=' ' | ',' | ':' | ';' | '\x7f')
}

/// The level with this name, in any case.
fn level(text: &str) -> Option<Level> {
    let named = LEVELS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    named.map(|&(_, level)| level)
}

/// Asks whether the level is meant whose name is nearest.
fn meant_level(text: &str) -> String {
    let names = LEVELS.iter().map(|(name, _)| *name);
    nearest(text, names).map_or_else(String::new, |name| format!("is `{name}` meant? "))
}

fn parse_level(text: &str, filter: &str) -> Result<Level, FilterError> {
    let text = text.trim_ascii();
    let number = || {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().ok().map(Level::new)).flatten()
    };
    level(text)
        .or_else(number)
        .ok_or_else(|| FilterError::Level { filter: filter.to_owned(), level: text.to_owned() })
}

fn parse_keywords(text: &str, filter: &str) -> Result<u64, FilterError> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    // `from_str_radix` would accept a sign.
    let is_number = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let keywords = is_number.then(|| u64::from_str_radix(digits, 16).ok()).flatten();
    keywords.ok_or_else(|| FilterError::Keywords {
        filter: filter.to_owned(),
        keywords: text.to_owned(),
    })
}

/// A defect in the [text form](ProviderFilter#text-form) of filters.
///
/// ```
/// use nettrace_writer::{FilterError, ProviderFilter};
///
/// let error = ProviderFilter::parse_list("Contoso-*-Checkout").unwrap_err();
/// assert_eq!(error, FilterError::Star { filter: "Contoso-*-Checkout".into() });
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// There is no filter in the text.
    #[error("there is no filter; `*` selects every provider")]
    Empty,
    /// A filter has no name.
    #[error("the filter `{filter}` names no provider; `*` selects every provider")]
    NoName {
        /// The filter.
        filter: String,
    },
    /// The name has a `*` that is not at its end.
    #[error(
        "the filter `{filter}` has a `*` within its name; only a `*` at the end is allowed, and \
         stands for any rest of the name"
    )]
    Star {
        /// The filter.
        filter: String,
    },
    /// No provider's name can have this character.
    #[error(
        "the filter `{filter}` has {character:?} in its name, which no provider's name can contain"
    )]
    Name {
        /// The filter.
        filter: String,
        /// The first such character.
        character: char,
    },
    /// The keywords are not a hexadecimal number of at most 64 bits.
    #[error(
        "in the filter `{filter}`, `{keywords}` is not a set of keywords; write a hexadecimal \
         number of at most 16 digits (NAME:KEYWORDS:LEVEL), or NAME::LEVEL for a level alone"
    )]
    Keywords {
        /// The filter.
        filter: String,
        /// The text in the place of the keywords.
        keywords: String,
    },
    /// There is no such level.
    #[error(
        "in the filter `{filter}`, `{level}` is not a level; {meant}write Critical, Error, \
         Warning (warn), Informational (info), Verbose (debug, trace) or a number from 0 to 255; \
         to exclude a provider, leave it out",
        meant = meant_level(.level)
    )]
    Level {
        /// The filter.
        filter: String,
        /// The text in the place of the level.
        level: String,
    },
    /// The filter has a fourth part, as in `dotnet-trace`. Providers of this crate take no
    /// arguments.
    #[error(
        "in the filter `{filter}`, `{arguments}` is an argument; providers here take no arguments"
    )]
    Arguments {
        /// The filter.
        filter: String,
        /// The arguments.
        arguments: String,
    },
    /// The environment variable does not hold Unicode.
    #[error("the filters are not valid Unicode")]
    NotUnicode,
}
