//! An event as a reader sees it: its type, its fields, and what they are.

mod support;

use std::{error::Error, fmt, io};

use nettrace_reader::Type;
use nettrace_writer::{Level, ProviderFilter};
use tracing::{Level as TracingLevel, event, info, level_filters::LevelFilter, trace, warn};
use tracing_nettrace::{KEYWORD_TRACE, Options};

use crate::support::{Way, both, message, record};

#[derive(Debug)]
struct Failed(io::Error);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot pay")
    }
}

impl Error for Failed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

#[test]
fn fields_have_the_types_that_were_recorded() {
    let error = Failed(io::Error::other("no route"));
    let error: &(dyn Error + 'static) = &error;
    let work = || {
        info!(
            signed = -3_i64,
            unsigned = u64::MAX,
            small = 7_u8,
            huge = i128::MIN,
            huger = u128::MAX,
            float = 1.5,
            flag = true,
            text = "tea é 🎈",
            bytes = &b"\0\xff"[..],
            error,
            debug = ?Some(3),
            display = %io::Error::other("x"),
            "all types"
        );
    };
    both(&Options::new(), work, |way, events| {
        assert_eq!(events.len(), 1, "{way:?}");
        let event = &events[0];
        let types: Vec<_> =
            event.metadata.fields.iter().map(|field| (&*field.name, &field.ty)).collect();
        let by_name = |name| types.iter().find(|(field, _)| *field == name).unwrap().1;
        assert_eq!(by_name("signed"), &Type::Int64);
        assert_eq!(by_name("unsigned"), &Type::UInt64);
        assert_eq!(by_name("small"), &Type::UInt64);
        assert!(matches!(by_name("huge"), Type::Object(_)));
        assert_eq!(by_name("float"), &Type::Double);
        let expected = [
            ("message", "all types"),
            ("signed", "-3"),
            ("unsigned", "18446744073709551615"),
            ("small", "7"),
            ("huge", "Object([(\"low\", U64(0)), (\"high\", I64(-9223372036854775808))])"),
            ("float", "1.5"),
            ("flag", "true"),
            ("text", "tea é 🎈"),
            ("bytes", "Bytes([0, 255])"),
            ("error", "cannot pay: no route"),
            ("debug", "Some(3)"),
            ("display", "x"),
        ];
        for (name, value) in expected {
            assert_eq!(event.field(name), value, "{way:?} {name}");
        }
        assert_eq!(types.len(), 13);
    });
}

#[test]
fn the_type_says_where_the_callsite_is() {
    let options = Options::new().keyword("events::inner", 0x10).keyword("events", 0x2);
    let work = || {
        event!(target: "events::inner::deep", TracingLevel::TRACE, "deep");
        warn!(name: "named", "with a name");
        event!(target: "other target", TracingLevel::ERROR, n = 1);
    };
    let line = line!() - 4;
    both(&options, work, |way, events| {
        let deep = message(events, "deep");
        assert_eq!((&*deep.metadata.provider, deep.metadata.level), ("events", 5), "{way:?}");
        assert_eq!(deep.metadata.keywords, 0x12 | KEYWORD_TRACE);
        assert_eq!(deep.name(), "events::inner::deep");
        assert_eq!(deep.key("level"), Some("TRACE"));
        assert_eq!(deep.key("target"), Some("events::inner::deep"));
        assert_eq!(deep.key("module"), Some("events"));
        assert_eq!(deep.key("line"), Some(&*line.to_string()));
        assert!(deep.key("file").unwrap().ends_with("tests/events.rs"));
        assert_eq!(deep.metadata.message_template.as_deref(), Some("{message}"));
        let named = message(events, "with a name");
        assert_eq!((named.name(), named.metadata.level), ("named", 3));
        assert_eq!(named.metadata.keywords, 0x2);
        assert_eq!((&*events[2].metadata.provider, events[2].metadata.level), ("other_target", 2));
        assert_eq!(events[2].metadata.message_template, None);
    });
    let whole = Options::new().whole_target(true);
    both(&whole, work, |way, events| {
        let provider = &message(events, "deep").metadata.provider;
        assert_eq!(provider, "events.inner.deep", "{way:?}");
    });
}

/// An event with a text of any length is in the trace, with what fits of the text.
#[test]
fn a_text_that_is_too_long_is_cut_and_marked() {
    let body = "{\"é\": 1}".repeat(20_000);
    let before = tracing_nettrace::stats().texts_cut;
    let work = || info!(%body, status = 500, "{} bytes", body.len());
    both(&Options::new(), work, |way, events| {
        let event = message(events, "180000 bytes");
        assert_eq!(event.field("status"), "500", "{way:?}");
        let kept = event.field("body").strip_suffix('…').expect("it is marked");
        assert!(body.starts_with(kept) && kept.encode_utf16().count() > 32_600);
    });
    assert_eq!(tracing_nettrace::stats().texts_cut, before + 2);
}

/// A callsite whose values differ in type, or are not there.
#[test]
fn one_callsite_has_a_type_for_each_signature() {
    fn generic<T: tracing::Value>(value: T, other: Option<u64>) {
        info!(name: "generic", value, other);
    }
    let work = || {
        generic(1_u64, None);
        generic("one", Some(1));
        generic(1_u64, None);
        generic(true, Some(2));
        info!(name: "empty", nothing = tracing::field::Empty);
    };
    both(&Options::new(), work, |way, events| {
        let shown: Vec<_> = events.iter().map(support::Seen::shown).collect();
        assert_eq!(
            shown,
            ["value=1", "value=one other=1", "value=1", "value=true other=2", ""],
            "{way:?}"
        );
        let ids: Vec<_> = events.iter().map(|event| event.metadata.event_id).collect();
        assert_eq!(ids[0], ids[2]);
        assert!(ids[0] != ids[1] && ids[1] != ids[3] && ids[0] != ids[3], "{ids:?}");
        // The same in each run, on each machine.
        assert!(ids.iter().all(|id| (8_192..65_535).contains(id)), "{ids:?}");
    });
}

/// What a `Debug` implementation logs comes before the event that it is a value of.
#[test]
fn a_value_may_log_and_may_panic() {
    struct Logs;

    impl fmt::Debug for Logs {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            info!(inner = 1, "from within");
            f.write_str("logs")
        }
    }

    struct Panics;

    impl fmt::Debug for Panics {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("on purpose")
        }
    }

    let before = tracing_nettrace::stats().panicked;
    let work = || {
        info!(value = ?Logs, "outer");
        let panicked = std::panic::catch_unwind(|| info!(n = 1, value = ?Panics, "lost"));
        assert!(panicked.is_err());
        info!("after");
    };
    both(&Options::new(), work, |way, events| {
        // `tracing` itself calls no scoped subscriber within another call of it.
        let messages: Vec<_> = events.iter().map(|event| event.field("message")).collect();
        assert_eq!(messages, ["outer", "after"], "{way:?}");
        assert_eq!(events[0].field("value"), "logs");
    });
    assert_eq!(tracing_nettrace::stats().panicked, before + 2);
}

#[test]
fn filters_of_sessions_decide() {
    let debug = ProviderFilter::new("events").level(Level::Verbose).keywords(!KEYWORD_TRACE);
    for way in Way::BOTH {
        let (events, _) = record(
            way,
            Options::new(),
            |session| session.provider(debug.clone()),
            || {
                trace!("too low");
                tracing::debug!("low enough");
                info!(target: "elsewhere", "another provider");
            },
        );
        assert_eq!(events.len(), 1, "{way:?}");
        assert_eq!(events[0].field("message"), "low enough");
    }
    let options = Options::new().directives("warn,events::loud=debug").unwrap();
    both(
        &options,
        || {
            info!("too low");
            warn!("passes");
            tracing::debug!(target: "events::loud", "passes, too");
        },
        |way, events| assert_eq!(events.len(), 2, "{way:?}"),
    );
}

/// While nobody listens, arguments are not even evaluated. A session that starts is seen at once.
#[test]
fn interest_follows_sessions() {
    use std::cell::Cell;

    use nettrace_writer::{Session, sink::MemorySink};

    let _alone = testkit::process::one_at_a_time();
    for way in Way::BOTH {
        let evaluated = Cell::new(0);
        let emit = || {
            let n = || {
                evaluated.set(evaluated.get() + 1);
                evaluated.get()
            };
            tracing::debug!(n = n());
        };
        tracing::dispatcher::with_default(&way.dispatch(Options::new()), || {
            emit();
            assert!(!tracing::enabled!(TracingLevel::ERROR));
            assert_eq!(LevelFilter::current(), LevelFilter::OFF);
            assert_eq!(evaluated.get(), 0, "{way:?}");
            let filters = ProviderFilter::parse_list("events::Informational").unwrap();
            let session = Session::builder().sink(MemorySink::new()).providers(filters);
            let session = session.start().unwrap();
            emit();
            assert_eq!(evaluated.get(), 0, "{way:?}: too low");
            assert!(tracing::enabled!(TracingLevel::INFO));
            session.set_providers(["events"]).unwrap();
            emit();
            assert_eq!(evaluated.get(), 1, "{way:?}");
            assert_eq!(session.finish().unwrap().written, 1);
            emit();
            assert_eq!(evaluated.get(), 1, "{way:?}");
        });
    }
}
