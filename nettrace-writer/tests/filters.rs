//! The events that filters select, their text form, and filters that change while a session is
//! live.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod trace_support;

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence},
    thread,
    time::Duration,
};

use nettrace_writer::{
    Emit, Error, FilterError, Level, OnFull, ProviderFilter, Session, TraceEvent, sink::MemorySink,
};
use proptest::prelude::*;
use testkit::process::{is_rerun, one_at_a_time, rerun};

use crate::trace_support::{check, read};

#[derive(TraceEvent)]
#[trace_event(provider = "Filters-Checkout", level = Error, keywords = 0x1)]
struct Failed {
    value: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Filters-Checkout", level = Verbose, keywords = 0x6)]
struct Detail {
    value: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "filters-cart", level = Warning)]
struct Other {
    value: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Fabrikam", level = LogAlways, keywords = 0x8)]
struct Always {
    value: u64,
}

/// Which of `Failed`, `Detail`, `Other`, `Always` a session records.
fn recorded(filters: &[ProviderFilter]) -> [bool; 4] {
    let sink = MemorySink::new();
    let builder = Session::builder().sink(sink.clone()).budget(1 << 20).prefault(0);
    let session = builder.providers(filters.iter().cloned()).start().unwrap();
    Failed { value: 1 }.emit();
    Detail { value: 2 }.emit();
    Other { value: 3 }.emit();
    Always { value: 4 }.emit();
    let stats = session.finish().unwrap();
    check(&sink.bytes(), &stats);
    let events = read(&sink.bytes());
    ["Failed", "Detail", "Other", "Always"].map(|name| events.iter().any(|e| e.name == name))
}

#[test]
fn a_filter_selects_by_name_prefix_level_and_keywords() {
    let _alone = one_at_a_time();
    let f = ProviderFilter::new;
    for (filters, expected) in [
        (vec![], [false; 4]),
        (vec![ProviderFilter::all()], [true; 4]),
        (vec![f("*")], [true; 4]),
        (vec![f("Filters-Checkout")], [true, true, false, false]),
        (vec![f("FILTERS-checkout")], [true, true, false, false]),
        (vec![f("Filters-")], [false; 4]),
        (vec![f("Filters-*")], [true, true, true, false]),
        (vec![f("FILTERS-C*")], [true, true, true, false]),
        (vec![f("Filters-Checkout*")], [true, true, false, false]),
        (vec![f("Filters-Checkout-*")], [false; 4]),
        (vec![f("ilters-*")], [false; 4]),
        (vec![ProviderFilter::all().level(Level::Error)], [true, false, false, true]),
        (vec![f("*").level(Level::LogAlways)], [false, false, false, true]),
        (vec![f("*").keywords(0x4)], [false, true, true, false]),
        (vec![f("*").keywords(0)], [false, false, true, false]),
        (vec![f("filters-*").level(Level::Warning)], [true, false, true, false]),
        (vec![f("Fabrikam").level(Level::Critical), f("filters-cart")], [false, false, true, true]),
        (
            ProviderFilter::parse_list("filters-*::warn,fabrikam").unwrap(),
            [true, false, true, true],
        ),
    ] {
        assert_eq!(recorded(&filters), expected, "{filters:?}");
    }
}

#[test]
fn filters_are_read_from_a_string() {
    let f = ProviderFilter::new;
    let all = ProviderFilter::all;
    for (text, expected) in [
        ("A", vec![f("A")]),
        ("*", vec![all()]),
        (" A , B-* ,, *::2,", vec![f("A"), f("B-*"), all().level(Level::Error)]),
        ("A:3:Warning", vec![f("A").keywords(3).level(Level::Warning)]),
        ("A:0xff:5", vec![f("A").keywords(0xff).level(Level::Verbose)]),
        ("A:0XFFFFFFFFFFFFFFFF:17", vec![f("A").level(Level::new(17))]),
        ("A:4c14fccbd", vec![f("A").keywords(0x4_c14f_ccbd)]),
        ("A:0", vec![f("A").keywords(0)]),
        ("A::", vec![f("A")]),
        ("A:::", vec![f("A")]),
        ("A::iNfOrMaTiOnAl", vec![f("A").level(Level::Informational)]),
        ("A: 1 : info ", vec![f("A").keywords(1).level(Level::Informational)]),
        ("A=warn,B-*=debug", vec![f("A").level(Level::Warning), f("B-*").level(Level::Verbose)]),
        ("A = 4", vec![f("A").level(Level::Informational)]),
        ("k=v=error", vec![f("k=v").level(Level::Error)]),
        ("k=v:", vec![f("k=v")]),
        ("error", vec![all().level(Level::Error)]),
        ("TRACE", vec![all().level(Level::Verbose)]),
        ("error:", vec![f("error")]),
        ("off:", vec![f("off")]),
        ("off*", vec![f("off*")]),
        ("5", vec![f("5")]),
        ("Größe", vec![f("Größe")]),
    ] {
        assert_eq!(ProviderFilter::parse_list(text), Ok(expected), "{text}");
    }
}

#[test]
fn a_filter_that_cannot_be_read_says_why() {
    for (text, expected) in [
        ("", "there is no filter; `*` selects every provider"),
        (" , ,", "there is no filter; `*` selects every provider"),
        ("A,:1:5", "the filter `:1:5` names no provider; `*` selects every provider"),
        ("=warn", "the filter `=warn` names no provider; `*` selects every provider"),
        (
            "*Contoso",
            "the filter `*Contoso` has a `*` within its name; only a `*` at the end is allowed, \
             and stands for any rest of the name",
        ),
        ("A B", "the filter `A B` has ' ' in its name, which no provider's name can contain"),
        ("A;B", "the filter `A;B` has ';' in its name, which no provider's name can contain"),
        (
            "A:-1",
            "in the filter `A:-1`, `-1` is not a set of keywords; write a hexadecimal number of at \
             most 16 digits (NAME:KEYWORDS:LEVEL), or NAME::LEVEL for a level alone",
        ),
        (
            "A:Warning",
            "in the filter `A:Warning`, `Warning` is not a set of keywords; write a hexadecimal \
             number of at most 16 digits (NAME:KEYWORDS:LEVEL), or NAME::LEVEL for a level alone",
        ),
        (
            "A::loud",
            "in the filter `A::loud`, `loud` is not a level; write Critical, Error, Warning \
             (warn), Informational (info), Verbose (debug, trace) or a number from 0 to 255; to \
             exclude a provider, leave it out",
        ),
        (
            "Shop=debgu",
            "in the filter `Shop=debgu`, `debgu` is not a level; is `debug` meant? write Critical, \
             Error, Warning (warn), Informational (info), Verbose (debug, trace) or a number from \
             0 to 255; to exclude a provider, leave it out",
        ),
        (
            "A:::k=v;l=w",
            "in the filter `A:::k=v;l=w`, `k=v;l=w` is an argument; providers here take no \
             arguments",
        ),
    ] {
        let error = ProviderFilter::parse_list(text).unwrap_err();
        assert_eq!(error.to_string(), expected, "{text}");
    }
    for (text, wrong) in [
        ("A:0x", "0x"),
        ("A:+1", "+1"),
        ("A:10000000000000000", "10000000000000000"),
        ("A:1g", "1g"),
    ] {
        let error = ProviderFilter::parse_list(text).unwrap_err();
        assert!(matches!(&error, FilterError::Keywords { keywords, .. } if keywords == wrong));
    }
    for (text, wrong) in [
        ("A::256", "256"),
        ("A=off", "off"),
        ("off", "off"),
        ("A,OFF", "OFF"),
        ("A=", ""),
        ("A::+1", "+1"),
    ] {
        let error = ProviderFilter::parse_list(text).unwrap_err();
        assert!(matches!(&error, FilterError::Level { level, .. } if level == wrong), "{error:?}");
    }
}

proptest! {
    #[test]
    fn what_is_shown_is_read_as_the_same(
        name in "[^\\x00-\\x20\\x7f,:;*]{1,12}\\*?|\\*|[Ee]rror|info|[Oo]ff",
        level in any::<u8>(),
        keywords in prop_oneof![Just(u64::MAX), Just(0), any::<u64>()],
    ) {
        let filter = ProviderFilter::new(&name).level(Level::new(level)).keywords(keywords);
        // `NAME=LEVEL` is not how a filter is shown.
        prop_assume!(level != 255 || keywords != u64::MAX || !name.contains('='));
        prop_assert_eq!(filter.to_string().parse(), Ok(filter));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,40}|[A*:,= 0-9x]{0,20}") {
        let _ = ProviderFilter::parse_list(&text);
    }
}

#[test]
fn an_environment_variable_replaces_the_filters() {
    let _alone = one_at_a_time();
    // The variable is the one through which `rerun` gives its argument.
    let count = || {
        let builder = Session::builder().sink(MemorySink::new()).provider("filters-cart");
        let session = builder.providers_from_env("NETTRACE_RERUN").start()?;
        Failed { value: 1 }.emit();
        Detail { value: 2 }.emit();
        Other { value: 3 }.emit();
        Ok::<_, Error>(session.finish()?.written)
    };
    if is_rerun().is_some() {
        match count() {
            Ok(count) => println!("recorded {count}"),
            Err(error @ Error::FilterVariable { .. }) => println!("{error}"),
            Err(error) => panic!("{error}"),
        }
        return;
    }
    assert_eq!(count().unwrap(), 1, "the variable is not set");
    for (value, expected) in [
        ("", "recorded 1"),
        (" ", "recorded 1"),
        ("Filters-Checkout::Error", "recorded 1"),
        ("filters-*", "recorded 3"),
        ("fabrikam", "recorded 0"),
        (
            "filters-*::no",
            "cannot read the filters in the environment variable `NETTRACE_RERUN`: in the filter \
             `filters-*::no`, `no` is not a level",
        ),
    ] {
        let test = "an_environment_variable_replaces_the_filters";
        let output = rerun(test, value);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains(expected), "{value:?}: {text}");
    }
}

#[derive(TraceEvent)]
#[trace_event(provider = "Live-First")]
struct First {
    value: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Live-Second")]
struct Second {
    value: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Live-Second", name = "Later")]
struct SecondLater {
    value: u64,
}

#[test]
fn a_change_holds_for_known_types_and_for_later_ones() {
    let _alone = one_at_a_time();
    let sink = MemorySink::new();
    let builder = Session::builder().sink(sink.clone()).provider("Live-First");
    let session = builder.start().unwrap();
    let emit = |value| {
        First { value }.emit();
        Second { value }.emit();
    };
    emit(1);
    session.set_providers(["Live-Second"]).unwrap();
    // Not written yet, and of a type that is not wanted any more: it must be defined all the same.
    emit(2);
    SecondLater { value: 2 }.emit();
    session.flush().unwrap();
    session.set_providers(Vec::<ProviderFilter>::new()).unwrap();
    emit(3);
    session.set_providers(["LIVE-*"]).unwrap();
    emit(4);
    thread::spawn(move || emit(5)).join().unwrap();
    let stats = session.finish().unwrap();
    check(&sink.bytes(), &stats);
    let seen: Vec<_> =
        read(&sink.bytes()).iter().map(|event| (event.name.clone(), event.value())).collect();
    let expected = [
        ("First", 1),
        ("Second", 2),
        ("Later", 2),
        ("First", 4),
        ("Second", 4),
        ("First", 5),
        ("Second", 5),
    ];
    assert_eq!(seen, expected.map(|(name, value)| (name.to_owned(), value)));
}

#[derive(TraceEvent)]
#[trace_event(provider = "Live-Kept")]
struct Kept {
    value: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Live-Flipped")]
struct Flipped {
    value: u64,
}

/// How often the filters have changed, doubled; odd while they are changing. A multiple of four:
/// `Live-Flipped` is recorded.
static PHASE: AtomicU64 = AtomicU64::new(0);

const THREADS: u64 = 8;

/// Of a thread's events: those that must be in the trace, and those that must not.
#[derive(Default)]
struct Log {
    present: Vec<u64>,
    absent: Vec<u64>,
    emitted: u64,
}

fn emit_while_filters_change(thread: u64) -> Log {
    let mut log = Log::default();
    let mut number = 0;
    while number < 4_000 || log.present.len() < 100 || log.absent.len() < 100 {
        let value = thread << 32 | number;
        let before = PHASE.load(Ordering::Acquire);
        Flipped { value }.emit();
        // An emit that saw a changed word makes this load see that the change had begun.
        fence(Ordering::SeqCst);
        if before == PHASE.load(Ordering::Relaxed) && before % 2 == 0 {
            let log = if before % 4 == 0 { &mut log.present } else { &mut log.absent };
            log.push(value);
        }
        Kept { value }.emit();
        number += 1;
        if number % 16 == 0 {
            thread::yield_now();
        }
    }
    log.emitted = number;
    log
}

fn flip(others: usize) {
    let sink = MemorySink::new();
    let builder = Session::builder().sink(sink.clone()).provider("Live-*");
    // So little memory that threads wait for it.
    let builder = builder.on_full(OnFull::Block).budget(512 << 10);
    let session = builder.start().unwrap();
    // With other sessions an event goes the slow way.
    let others: Vec<_> = (0..others)
        .map(|_| {
            let sink = MemorySink::new();
            let builder = Session::builder().sink(sink.clone()).provider("Live-Flipped");
            (sink, builder.on_full(OnFull::Block).start().unwrap())
        })
        .collect();
    PHASE.store(0, Ordering::SeqCst);
    let done = AtomicUsize::new(0);
    let logs: Vec<Log> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let done = &done;
                scope.spawn(move || {
                    let log = emit_while_filters_change(thread);
                    done.fetch_add(1, Ordering::Relaxed);
                    log
                })
            })
            .collect();
        let mut phase = 0;
        while done.load(Ordering::Relaxed) < THREADS as usize {
            PHASE.store(phase + 1, Ordering::SeqCst);
            let filters: &[&str] =
                if phase % 4 == 0 { &["live-kept"] } else { &["Live-Kept", "live-f*"] };
            session.set_providers(filters.iter().copied()).unwrap();
            phase += 2;
            PHASE.store(phase, Ordering::SeqCst);
            thread::sleep(Duration::from_micros(200));
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let emitted: u64 = logs.iter().map(|log| log.emitted).sum();
    let stats = session.finish().unwrap();
    check(&sink.bytes(), &stats);
    assert_eq!(stats.dropped(), 0);
    let events = read(&sink.bytes());
    let kept = events.iter().filter(|event| event.name == "Kept").count();
    assert_eq!(kept as u64, emitted, "the filter that stayed lost nothing");
    let mut flipped: Vec<_> =
        events.iter().filter(|event| event.name == "Flipped").map(|event| event.value()).collect();
    flipped.sort_unstable();
    for log in &logs {
        for value in &log.present {
            assert!(flipped.binary_search(value).is_ok(), "{value:x} was wanted");
        }
        for value in &log.absent {
            assert!(flipped.binary_search(value).is_err(), "{value:x} was not wanted any more");
        }
    }
    for (sink, session) in others {
        let stats = session.finish().unwrap();
        check(&sink.bytes(), &stats);
        assert_eq!(stats.written, emitted, "other sessions notice nothing");
    }
}

#[test]
fn filters_change_while_threads_emit() {
    let _alone = one_at_a_time();
    flip(0);
    flip(2);
}
