//! A client's request, in the form of a provider's arguments: `key=value` pairs, separated by
//! semicolons.

use std::{collections::BTreeMap, time::Duration};

use crate::metrics::state::Instrument;

/// The shortest interval.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);
/// The longest interval that is told from "never".
const MOST_INTERVAL: Duration = Duration::from_secs(1 << 20);
/// The interval of clients that name none.
const INTERVAL: Duration = Duration::from_secs(1);
/// The number of series for a client that names no number.
const MAX_SERIES: usize = 1_000;
/// The number of histograms for a client that names no number.
const MAX_HISTOGRAMS: usize = 20;

/// The arguments of a provider. A value can be in double quotes, and then contain semicolons.
pub(crate) fn pairs(arguments: &str) -> BTreeMap<String, String> {
    let mut pairs = BTreeMap::new();
    let mut rest = arguments;
    while let Some((key, after)) = rest.split_once('=') {
        // A pair without a value is left out.
        let key = key.rsplit(';').next().unwrap_or(key).trim();
        let (value, after) = match after.strip_prefix('"').and_then(|text| text.split_once('"')) {
            Some((value, after)) => (value, after.split_once(';').map_or("", |(_, after)| after)),
            None => after.split_once(';').unwrap_or((after, "")),
        };
        pairs.insert(key.to_owned(), value.to_owned());
        rest = after;
    }
    pairs
}

/// Instruments that a client wants: those of a meter, or one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InstrumentSelection {
    /// A name, or the beginning of one and `*`.
    meter: String,
    instrument: Option<String>,
}

impl InstrumentSelection {
    pub(crate) fn new(text: &str) -> Self {
        match text.split_once('\\') {
            Some((meter, name)) => {
                Self { meter: meter.to_owned(), instrument: Some(name.to_owned()) }
            }
            None => Self { meter: text.to_owned(), instrument: None },
        }
    }

    pub(crate) fn selects(&self, instrument: &Instrument) -> bool {
        let has_name = |name: &String| name.eq_ignore_ascii_case(&instrument.name);
        matches(&self.meter, &instrument.meter.name)
            && self.instrument.as_ref().is_none_or(has_name)
    }
}

/// Whether a name is a pattern's: ASCII case does not matter, and a `*` at the end stands for any
/// rest.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => {
            name.get(..start.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(start))
        }
        None => pattern.eq_ignore_ascii_case(name),
    }
}

/// The arguments of `System.Diagnostics.Metrics`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arguments {
    /// The name that all events for this client have.
    pub(crate) session: String,
    pub(crate) wanted: Vec<InstrumentSelection>,
    pub(crate) interval: Duration,
    pub(crate) max_series: usize,
    pub(crate) max_histograms: usize,
    /// Messages for the client about its arguments.
    pub(crate) messages: Vec<String>,
    /// Errors in them.
    pub(crate) errors: Vec<String>,
}

impl Arguments {
    pub(crate) fn read(arguments: &str, make_name: impl FnOnce() -> String) -> Self {
        let pairs = pairs(arguments);
        let (mut messages, mut errors) = (Vec::new(), Vec::new());
        let session = match pairs.get("SessionId") {
            Some(name) => name.clone(),
            None => {
                let name = make_name();
                messages.push(format!("no SessionId was given; it is {name}"));
                name
            }
        };
        let mut number = |key: &str, default: usize| match pairs.get(key).map(|text| text.parse()) {
            Some(Ok(number)) => number,
            Some(Err(_)) => {
                errors.push(format!("{key} is not a number; it is {default}"));
                default
            }
            None => default,
        };
        let max_series = number("MaxTimeSeries", MAX_SERIES);
        let max_histograms = number("MaxHistograms", MAX_HISTOGRAMS);
        let interval = match pairs.get("RefreshInterval").map(|text| interval(text)) {
            Some(Some(interval)) => interval,
            Some(None) => {
                errors.push("RefreshInterval is not a number of seconds; it is 1".to_owned());
                INTERVAL
            }
            None => INTERVAL,
        };
        let wanted = pairs.get("Metrics").map_or_else(Vec::new, |text| {
            let parts = text.split([',', ';']).map(str::trim).filter(|part| !part.is_empty());
            parts.map(InstrumentSelection::new).collect()
        });
        if wanted.is_empty() {
            messages.push("no Metrics were given; instruments are named only".to_owned());
        }
        Self { session, wanted, interval, max_series, max_histograms, messages, errors }
    }
}

/// An interval in seconds, kept between a tenth of a second and twelve days.
pub(crate) fn interval(seconds: &str) -> Option<Duration> {
    let seconds: f64 = seconds.trim().parse().ok().filter(|seconds: &f64| *seconds > 0.0)?;
    let interval = Duration::try_from_secs_f64(seconds).unwrap_or(MOST_INTERVAL);
    Some(interval.clamp(LEAST_INTERVAL, MOST_INTERVAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Arguments {
        Arguments::read(text, || "made".to_owned())
    }

    #[test]
    fn what_the_tools_send_is_understood() {
        let text = "SessionId=SHARED;Metrics=Example-Service,System.Runtime\\gc;\
                    RefreshInterval=1.5;MaxTimeSeries=7;MaxHistograms=2;ClientId=1234";
        let arguments = read(text);
        assert_eq!(arguments.session, "SHARED");
        let wanted =
            ["Example-Service", "System.Runtime\\gc"].map(InstrumentSelection::new).to_vec();
        assert_eq!(arguments.wanted, wanted);
        assert_eq!(wanted[1].instrument.as_deref(), Some("gc"));
        assert_eq!(arguments.interval, Duration::from_millis(1_500));
        assert_eq!((arguments.max_series, arguments.max_histograms), (7, 2));
        assert!(arguments.messages.is_empty() && arguments.errors.is_empty());
    }

    #[test]
    fn what_is_missing_or_wrong_has_a_default_and_a_message() {
        let arguments = read("RefreshInterval=soon;MaxHistograms=-1;nothing");
        assert_eq!((&*arguments.session, arguments.interval), ("made", INTERVAL));
        assert_eq!((arguments.max_series, arguments.max_histograms), (1_000, 20));
        assert_eq!((arguments.messages.len(), arguments.errors.len()), (2, 2), "{arguments:?}");
        assert_eq!(read("RefreshInterval=0.001").interval, LEAST_INTERVAL);
        assert_eq!(read("RefreshInterval=1e300").interval, MOST_INTERVAL);
        assert_eq!(read("RefreshInterval=NaN").interval, INTERVAL);
    }

    #[test]
    fn values_in_quotes_contain_semicolons() {
        let pairs = pairs("a=\"1;2=3\";b=4;c;d=;=5");
        let found: Vec<_> = pairs.iter().map(|(key, value)| (&**key, &**value)).collect();
        assert_eq!(found, [("", "5"), ("a", "1;2=3"), ("b", "4"), ("d", "")]);
    }

    #[test]
    fn names_match_by_their_beginning() {
        assert!(matches("contoso-*", "Contoso-Shop") && matches("*", "") && matches("A", "a"));
        assert!(!matches("Contoso-*", "Contoso") && !matches("A", "Ab") && !matches("é*", "e"));
    }
}
