//! Sessions that keep values out of their traces, whatever the code records.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use nettrace_reader::{Reader, Value, verify};
use nettrace_writer::{
    Emit, Error, Format, Keep, Label, Redact, Secret, Session, SessionBuilder, TraceEvent,
    TraceField, TraceSpan, Triggers, Warning, enter_labels,
    event::Pairs,
    record_panics,
    secret::Hashed,
    sink::{MemorySink, RotationOptions},
    traced,
};
use testkit::{process::alone, reference::judged};

const HIDDEN: &str = "Ada-Lovelace-of-1815";
const NUMBER: u64 = 0x7a6b_5c4d_3e2f_1a0b;
const PROVIDER: &str = "Testing-Redacted";

#[derive(TraceField)]
struct Card<'a> {
    number: u64,
    holder: &'a str,
    kind: &'a str,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Testing-Redacted")]
struct Sold<'a> {
    item: &'a str,
    customer: &'a str,
    #[trace_event(encoding = utf8_rel_loc)]
    customer_located: &'a str,
    #[trace_event(encoding = utf16_nul)]
    customer_nul: &'a str,
    id: u64,
    wide: u128,
    maybe: Option<&'a str>,
    cards: Vec<Option<Card<'a>>>,
    cents: u32,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Testing-Redacted")]
struct Audit<'a> {
    customer: &'a str,
    same: Secret<&'a str, Hashed>,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Testing-Redacted")]
struct Tick {
    cents: u32,
}

#[derive(TraceSpan)]
#[trace_event(provider = "Testing-Redacted", later = [customer: String])]
struct Checkout {
    id: u64,
}

#[traced(provider = "Testing-Redacted", mode = single, fields = [customer], err)]
fn pay(customer: &str) -> Result<u32, String> {
    Err("no money".to_owned())
}

fn work() {
    let labels = [Label::Str("customer", HIDDEN), Label::Int("id", NUMBER as i64)];
    for round in 0..20 {
        let labels = (round % 3 != 0).then(|| enter_labels(&labels).unwrap());
        let card = || Some(Card { number: NUMBER, holder: HIDDEN, kind: "gold" });
        Sold {
            item: "a book",
            customer: HIDDEN,
            customer_located: HIDDEN,
            customer_nul: HIDDEN,
            id: NUMBER,
            wide: u128::from(NUMBER),
            maybe: Some(HIDDEN),
            cards: vec![card(), None, card()],
            cents: round,
        }
        .emit();
        Tick { cents: round }.emit();
        let mut checkout = Checkout { id: NUMBER }.enter();
        checkout.record_customer(HIDDEN.to_owned());
        let _ = pay(HIDDEN);
        drop(labels);
    }
}

const NAMES: [&str; 8] = [
    "customer",
    "customer_located",
    "customer_nul",
    "Sold:id",
    "id",
    "wide",
    "maybe",
    "cards.number",
];

/// A session whose names hold for it alone: other tests record in the same process.
fn unshared() -> SessionBuilder {
    Session::builder().redact_alone()
}

fn without_customers(builder: SessionBuilder, how: Redact) -> SessionBuilder {
    let builder =
        builder.provider(PROVIDER).key_value("customer", HIDDEN).key_value("kept", "kept");
    let names = NAMES.iter().chain(&["cards.holder"]);
    names.fold(builder, |builder, name| builder.redact(*name, how))
}

/// Panics if a part of a value is in a trace.
fn assert_none(place: &str, trace: &[u8]) {
    let utf16: Vec<_> = HIDDEN.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let number = NUMBER.to_le_bytes();
    let mut parts = HIDDEN.as_bytes().windows(6).chain(utf16.windows(12)).chain(number.windows(4));
    let has = |part: &&[u8]| trace.windows(part.len()).any(|bytes| bytes == *part);
    if let Some(part) = parts.find(has) {
        panic!("{place}: {:?}", String::from_utf8_lossy(part));
    }
}

#[test]
fn no_byte_of_a_redacted_value_is_in_a_trace() {
    if !alone("redacted::no_byte_of_a_redacted_value_is_in_a_trace") {
        return;
    }
    record_panics();
    let plain = MemorySink::new();
    let other = unshared().sink(plain.clone()).provider(PROVIDER).start().unwrap();
    for format in [Format::V6, Format::V5, Format::V4, Format::Heph] {
        for how in [Redact::Mask, Redact::Hash] {
            let memory = MemorySink::new();
            let builder = unshared().sink(memory.clone()).format(format);
            let session = without_customers(builder, how).start().unwrap();
            work();
            std::thread::spawn(work).join().unwrap();
            let stats = session.finish().unwrap();
            assert_eq!((stats.dropped(), stats.not_in_format), (0, 0), "{format:?}");
            let trace = memory.bytes();
            assert_none(&format!("{format:?} {how:?}"), &trace);
            if format == Format::Heph {
                continue;
            }
            let report = verify(&trace[..]).unwrap();
            assert!(report.is_sound(), "{format:?}: {report:?}");
            assert_eq!((report.events, report.lost), (stats.written, 0), "{format:?}");
            if let Some(verdict) = judged(&trace) {
                verdict.assert_holds(report.events, report.lost);
            }
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let files = RotationOptions::new(directory.path(), "t").file_size(64 << 10).build().unwrap();
    let session = without_customers(unshared().sink(files), Redact::Hash).start().unwrap();
    (0..20).for_each(|_| work());
    session.finish().unwrap();
    let files: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert!(files.len() > 2, "{files:?}");
    for file in files {
        let path = file.unwrap().path();
        assert_none("a file", &std::fs::read(path).unwrap());
    }
    let keep = Keep::last(Duration::from_secs(3_600)).within(1 << 20);
    let recorder = unshared().flight_recorder(keep);
    let session = without_customers(recorder, Redact::Mask).start().unwrap();
    work();
    let memory = MemorySink::new();
    assert!(session.dump(memory.clone()).unwrap().events > 5);
    assert_none("a dump", &memory.bytes());

    other.finish().unwrap();
    let plain = plain.bytes();
    assert!(plain.windows(6).any(|bytes| bytes == b"Ada-Lo"), "the labels of another session");
}

/// All values of the events of a trace, by field, as text.
fn values(trace: &[u8]) -> Vec<(String, String, String)> {
    let mut reader = Reader::new(trace).unwrap();
    let mut all = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        let name = &event.metadata().name;
        let row = event.header;
        all.push((name.clone(), "time".to_owned(), row.timestamp.to_string()));
        all.push((name.clone(), "number".to_owned(), row.sequence_number.to_string()));
        for (field, value) in event.fields().map(Result::unwrap) {
            all.push((name.clone(), field.to_owned(), format!("{value:?}")));
        }
        for label in event.labels().iter() {
            all.push((name.clone(), "label".to_owned(), format!("{label:?}")));
        }
    }
    all
}

/// Two sessions have the same events, and differ in nothing but in what one of them must not have.
#[test]
fn all_other_values_are_as_in_a_session_without_redaction() {
    if !alone("redacted::all_other_values_are_as_in_a_session_without_redaction") {
        return;
    }
    let memories = [MemorySink::new(), MemorySink::new()];
    let [one, two] = memories.each_ref().map(|memory| unshared().sink(memory.clone()));
    let one = one.provider(PROVIDER).clock(nettrace_writer::Clock::Monotonic).start().unwrap();
    let two = without_customers(two, Redact::Mask).clock(nettrace_writer::Clock::Monotonic);
    let two = two.start().unwrap();
    work();
    Audit { customer: HIDDEN, same: HIDDEN.into() }.emit();
    one.finish().unwrap();
    two.finish().unwrap();
    let [plain, redacted] = memories.each_ref().map(MemorySink::bytes);
    let (plain, redacted) = (values(&plain), values(&redacted));
    assert_eq!(plain.len(), redacted.len());
    let mut replaced = 0;
    for (before, after) in plain.iter().zip(&redacted) {
        assert_eq!((&before.0, &before.1), (&after.0, &after.1));
        // Each session reads the clock itself.
        if matches!(&*before.1, "time" | "started" | "duration" | "busy") {
            continue;
        }
        let is_secret = before.2.contains(HIDDEN) || before.2.contains(&NUMBER.to_string());
        if !is_secret {
            assert_eq!(before, after);
            continue;
        }
        replaced += 1;
        let expected = before.2.replace(HIDDEN, "***").replace(&NUMBER.to_string(), "0");
        // An option becomes empty, as an array does.
        assert!(after.2 == expected || after.2 == "Array([])", "{before:?} {after:?}");
        assert!(!after.2.contains(HIDDEN), "{after:?}");
    }
    assert!(replaced > 20 * 8, "{replaced}");
}

#[test]
fn a_hash_is_that_of_a_secret_and_the_last_name_decides() {
    if !alone("redacted::a_hash_is_that_of_a_secret_and_the_last_name_decides") {
        return;
    }
    let record = |names: &[(&str, Redact)]| {
        let memory = MemorySink::new();
        let builder = unshared().sink(memory.clone()).provider(PROVIDER);
        let builder =
            names.iter().fold(builder, |builder, (name, how)| builder.redact(*name, *how));
        let session = builder.start().unwrap();
        Audit { customer: HIDDEN, same: HIDDEN.into() }.emit();
        session.finish().unwrap();
        let bytes = memory.bytes();
        let mut reader = Reader::new(&bytes[..]).unwrap();
        let event = reader.next_event().unwrap().unwrap();
        let mut fields = event.fields().map(|field| match field.unwrap().1 {
            Value::Text(text) => text.into_owned(),
            other => panic!("{other:?}"),
        });
        (fields.next().unwrap(), fields.next().unwrap())
    };
    let (customer, same) = record(&[("customer", Redact::Hash)]);
    assert!(customer.len() == 16 && customer == same, "{customer} {same}");
    let keep = ("Audit:customer", Redact::Keep);
    assert_eq!(record(&[("customer", Redact::Hash), keep]).0, HIDDEN);
    assert_eq!(record(&[keep, ("customer", Redact::Mask)]).0, "***");
    assert_eq!(record(&[("Sold:customer", Redact::Mask)]).0, HIDDEN);
}

#[derive(TraceEvent)]
#[trace_event(provider = "Testing-Redacted")]
struct Large<'a> {
    #[trace_event(encoding = utf8)]
    customer: &'a str,
    parts: [&'a [u8]; 3],
}

#[test]
fn an_event_that_becomes_too_large_is_counted() {
    if !alone("redacted::an_event_that_becomes_too_large_is_counted") {
        return;
    }
    let memory = MemorySink::new();
    let builder = unshared().sink(memory.clone()).provider(PROVIDER);
    let session = builder.redact("customer", Redact::Mask).start().unwrap();
    let bytes = vec![7; nettrace_format::payload::MAX_PAYLOAD];
    let large = |customer, room: usize| {
        // Beside the text and four counts.
        let rest = bytes.len() - 4 * 2 - room - 2 * 20_000;
        Large { customer, parts: [&bytes[..20_000], &bytes[..20_000], &bytes[..rest]] }.emit();
    };
    large("a", 3);
    // The mask has two bytes more than the text.
    (0..3).for_each(|_| large("a", 2));
    large("abc", 3);
    let stats = session.finish().unwrap();
    assert_eq!((stats.attempted, stats.written, stats.not_in_format), (5, 2, 3), "{stats:?}");
    let report = verify(&memory.bytes()[..]).unwrap();
    assert!(report.is_sound() && (report.events, report.lost) == (2, 3), "{report:?}");
}

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[test]
fn a_recorder_file_beside_a_redaction_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.recorder");
    let plain = unshared().sink(MemorySink::new());
    let recorder = unshared().flight_recorder(Keep::last(Duration::from_secs(60)));
    for builder in [plain, recorder] {
        let builder = builder.redact("customer", Redact::Mask).persistent(&path);
        let error = builder.start().unwrap_err();
        assert!(matches!(error, Error::RedactedRecorder), "{error}");
        // What to do instead.
        let said = error.to_string();
        assert!(said.contains("leave out `persistent`") && said.contains("`Secret`"), "{said}");
        assert!(!path.exists());
    }
}

/// A service that runs in any case is recorded, without what the values would be in.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[test]
fn a_service_that_redacts_is_recorded_without_a_recorder_file() {
    #[derive(TraceEvent)]
    #[trace_event(provider = "Redacted-Service")]
    struct Served {
        customer: &'static str,
    }
    let directory = tempfile::tempdir().unwrap();
    for (name, redacts, why) in [
        ("t.recorder", true, "leave out `persistent`"),
        ("nowhere/t.recorder", false, "cannot make the recorder file"),
    ] {
        let (path, memory) = (directory.path().join(name), MemorySink::new());
        let builder = unshared().sink(memory.clone()).provider("Redacted-Service");
        let builder = if redacts { builder.redact("customer", Redact::Mask) } else { builder };
        let session = builder.persistent(&path).start_or_warn().unwrap();
        Served { customer: "Ada" }.emit();
        let health = nettrace_writer::health();
        let words = ["but not in a recorder file", why];
        let told = |problem: &String| words.iter().all(|word| problem.contains(word));
        assert!(health.problems.iter().any(told), "{:?}", health.problems);
        session.finish().unwrap();
        assert_eq!(verify(&memory.bytes()[..]).unwrap().events, 1);
        assert!(!path.exists());
    }
}

/// A name can have colons itself, as events of `tracing` have, and the events of a span have the
/// name of the span, too.
#[test]
fn names_with_colons_and_of_spans() {
    #[derive(TraceEvent)]
    #[trace_event(provider = "Testing-Redacted-Colons", name = "shop::db")]
    struct Colons<'a> {
        #[trace_event(rename = "http:user")]
        user: &'a str,
    }
    #[traced(provider = "Testing-Redacted-Colons", fields = [customer])]
    fn pay_now(customer: &str) {
        let _labels = enter_labels(&[Label::Str("a:b", customer)]).unwrap();
        Colons { user: customer }.emit();
    }
    let leaks = |names: &[&str]| {
        let memory = MemorySink::new();
        let builder = unshared().sink(memory.clone()).provider("Testing-Redacted-Colons");
        let names = names.iter();
        let session = names.fold(builder, |builder, name| builder.redact(*name, Redact::Mask));
        let session = session.start().unwrap();
        pay_now(HIDDEN);
        session.finish().unwrap();
        let wide: Vec<_> = HIDDEN.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let is_there = |text: &[u8]| memory.bytes().windows(text.len()).any(|bytes| bytes == text);
        is_there(HIDDEN.as_bytes()) || is_there(&wide)
    };
    for names in [
        ["pay_now:customer", "a:b", "http:user"],
        ["pay_nowStart:customer", "a:b", "shop::db:http:user"],
    ] {
        assert!(!leaks(&names), "{names:?}");
        for left_out in 0..3 {
            let fewer: Vec<_> = (0..3).filter(|it| *it != left_out).map(|it| names[it]).collect();
            assert!(leaks(&fewer), "{fewer:?}");
        }
    }
}

#[derive(TraceField)]
struct Address<'a> {
    street: &'a str,
    floor: u32,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Testing-Redacted-Maps")]
struct Requested<'a> {
    headers: Pairs<'a, &'a str, &'a str>,
    ids: BTreeMap<String, u64>,
    maybe: Option<BTreeMap<&'a str, Vec<&'a str>>>,
    each: Vec<BTreeMap<&'a str, &'a str>>,
    nested: BTreeMap<&'a str, BTreeMap<&'a str, &'a str>>,
    addresses: BTreeMap<&'a str, Address<'a>>,
    same: Secret<&'a str, Hashed>,
    after: &'a str,
}

fn request() {
    let headers = [("accept", "kept-header"), ("user", HIDDEN), ("user", HIDDEN)];
    let person: BTreeMap<_, _> = [("user", HIDDEN), ("zone", "kept-zone")].into();
    Requested {
        headers: Pairs(&headers),
        ids: [("user".to_owned(), NUMBER), ("zone".to_owned(), 0x1122_3344)].into(),
        maybe: Some([("user", vec![HIDDEN, HIDDEN]), ("zone", vec!["kept-maybe"])].into()),
        each: vec![person.clone(), person.clone()],
        nested: [("home", person)].into(),
        addresses: [("home", Address { street: HIDDEN, floor: 3 })].into(),
        same: HIDDEN.into(),
        after: "kept-after",
    }
    .emit();
}

/// A trace of [`request`] without what has these names.
fn requested(format: Format, names: &[(&str, Redact)]) -> Vec<u8> {
    let memory = MemorySink::new();
    let builder = unshared().sink(memory.clone()).provider("Testing-Redacted-Maps");
    let builder = builder.format(format);
    let builder = names.iter().fold(builder, |builder, (name, how)| builder.redact(*name, *how));
    let session = builder.start().unwrap();
    request();
    let stats = session.finish().unwrap();
    assert_eq!((stats.written, stats.not_in_format), (1, 0), "{format:?}");
    memory.bytes()
}

/// The values of one event, as text.
fn shown(trace: &[u8]) -> BTreeMap<String, String> {
    let all = values(trace).into_iter();
    all.map(|(_, field, value)| (field, value)).collect()
}

#[test]
fn the_keys_of_maps_are_names() {
    if !alone("redacted::the_keys_of_maps_are_names") {
        return;
    }
    let formats = [Format::V6, Format::V5, Format::V4, Format::Heph];
    for (format, how) in
        formats.into_iter().flat_map(|format| [Redact::Mask, Redact::Hash].map(|how| (format, how)))
    {
        // The street is within a value whose key was not named.
        let trace = requested(format, &[("user", how), ("addresses.home", how)]);
        assert_none(&format!("{format:?} {how:?}"), &trace);
        for kept in ["kept-header", "kept-zone", "kept-maybe", "kept-after"] {
            let wide: Vec<_> = kept.encode_utf16().flat_map(u16::to_le_bytes).collect();
            let has = |text: &[u8]| trace.windows(text.len()).any(|bytes| bytes == text);
            assert!(has(kept.as_bytes()) || has(&wide), "{format:?} {how:?}: {kept}");
        }
        if format != Format::Heph {
            if let Some(verdict) = judged(&trace) {
                verdict.assert_holds(1, 0);
            }
        }
    }
    let plain = shown(&requested(Format::V6, &[]));
    let masked = shown(&requested(Format::V6, &[("user", Redact::Mask)]));
    for (field, before) in &plain {
        let after = before.replace(HIDDEN, "***").replace(&NUMBER.to_string(), "0");
        let after = after.replace(r#"Array([Text("***"), Text("***")])"#, "Array([])");
        match &**field {
            "time" => {}
            "addresses" => assert_eq!(&masked[field], before),
            _ => assert_eq!(masked[field], after, "{field}"),
        }
    }
    assert!(masked["headers"].contains("***") && masked["ids"].contains("U64(0)"), "{masked:?}");

    // A hash is that of a secret.
    let hashed = shown(&requested(Format::V6, &[("user", Redact::Hash)]));
    let same = hashed["same"].strip_prefix("Text(\"").and_then(|it| it.strip_suffix("\")"));
    let same = same.filter(|same| same.len() == 16).unwrap();
    for field in ["headers", "maybe", "each", "nested"] {
        assert!(hashed[field].contains(same), "{field}: {hashed:?}");
    }
}

#[test]
fn a_key_can_have_a_path_and_exceptions() {
    if !alone("redacted::a_key_can_have_a_path_and_exceptions") {
        return;
    }
    let (mask, keep) = (Redact::Mask, Redact::Keep);
    for (names, hidden) in [
        (&[("headers.user", mask)][..], &["headers"][..]),
        (&[("Requested:headers.user", mask), ("Other:user", mask)], &["headers"]),
        (&[("each.user", mask)], &["each"]),
        (&[("maybe.user", mask)], &["maybe"]),
        (&[("nested.Value.user", mask)], &["nested"]),
        (&[("nested.home", mask)], &["nested"]),
        (&[("user", mask), ("each.user", keep)], &["headers", "maybe", "nested"]),
        // The last one decides.
        (&[("each.user", keep), ("user", mask)], &["headers", "maybe", "nested", "each"]),
        (&[("headers.Value", mask), ("headers.user", keep)], &[]),
        (&[("headers.user", keep), ("headers.Value", mask)], &["headers"]),
        // Nothing is kept of what goes as a whole, and a part goes of what stays.
        (&[("headers", mask), ("headers.user", keep)], &["headers"]),
        (&[("street", mask), ("addresses.home", keep)], &["addresses"]),
    ] {
        let redacted = shown(&requested(Format::V6, names));
        for field in ["headers", "maybe", "each", "nested", "addresses"] {
            let is_hidden = !redacted[field].contains(HIDDEN);
            assert_eq!(is_hidden, hidden.contains(&field), "{names:?} {field}: {redacted:?}");
        }
    }
    let redacted = shown(&requested(Format::V6, &[("headers.Value", mask), ("user", keep)]));
    let headers = &redacted["headers"];
    assert!(!headers.contains("kept-header") && headers.contains(HIDDEN), "{headers}");
}

/// Who starts a session does not know whether something will panic, or what there is to say of the
/// process.
#[test]
fn names_of_what_this_crate_itself_records_are_known() {
    let known = ["panic.message", "panic.location", "Panic:message", "Panic:line", "column"];
    let known = [&known[..], &["process.command_line", "container.id", "systemd.unit"]].concat();
    let wrong = ["panic.mesage", "panic.line", "Panick:message", "container.ids"];
    for format in [Format::V6, Format::Heph] {
        let builder = unshared().sink(MemorySink::new()).format(format);
        let names = known.iter().chain(&wrong);
        let builder = names.fold(builder, |builder, name| builder.redact(*name, Redact::Mask));
        let session = builder.start().unwrap();
        Tick { cents: 1 }.emit();
        session.flush().unwrap();
        let mut told = Vec::new();
        for warning in session.warnings() {
            if let Warning::RedactsNothing { name, .. } = warning {
                told.push(name);
            }
        }
        assert_eq!(told, wrong, "{format:?}");
        session.finish().unwrap();
    }
}

/// By the key that a dump has for it.
#[test]
fn what_is_told_of_a_panic_is_redacted_in_the_event_and_in_the_dump() {
    if !alone("redacted::what_is_told_of_a_panic_is_redacted_in_the_event_and_in_the_dump") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, hides_message) in
        [("panic.message", true), ("panic.location", false), ("Panic:file", false)]
    {
        let triggers = Triggers::new(folder.path(), name).on_panic();
        let recorder = unshared().flight_recorder(Keep::last(Duration::from_secs(3_600)));
        let session = recorder.triggers(triggers).redact(name, Redact::Mask).start().unwrap();
        std::thread::spawn(|| panic!("{HIDDEN}")).join().unwrap_err();
        let begun = Instant::now();
        while session.dump_counts().written == 0 {
            assert!(begun.elapsed() < Duration::from_secs(240), "{:?}", session.dump_counts());
            std::thread::sleep(Duration::from_millis(2));
        }
        let dump = std::fs::read(session.dump_counts().last.unwrap().0).unwrap();
        let has = |text: &str| {
            let wide: Vec<_> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            let in_dump = |part: &[u8]| dump.windows(part.len()).any(|bytes| bytes == part);
            [in_dump(text.as_bytes()), in_dump(&wide)]
        };
        assert_eq!(has(HIDDEN), [!hides_message; 2], "{name}");
        assert_eq!(has("testing/redacted.rs"), [hides_message; 2], "{name}");
        session.finish().unwrap();
    }
}

/// What nothing has is told, with what was probably meant, until something has it.
#[test]
fn a_name_that_nothing_has_is_a_warning() {
    if !alone("redacted::a_name_that_nothing_has_is_a_warning") {
        return;
    }
    let names = ["costumer", "label", "zone", "each.zone", "service", "Sold:cents", "usr"];
    let names = [&names[..], &["card.nubmer"]].concat();
    let builder = unshared().sink(MemorySink::new()).key_value("service", "shop");
    let builder = names.iter().fold(builder, |builder, name| builder.redact(*name, Redact::Mask));
    let session = builder.start().unwrap();
    let unused = || {
        session.flush().unwrap();
        let mut unused = Vec::new();
        for warning in session.warnings() {
            if let Warning::RedactsNothing { name, .. } = &warning {
                let said = warning.to_string();
                assert!(said.contains(&format!("`{name}`")), "{said}");
                let meant = warning.meant().map(ToOwned::to_owned);
                assert!(meant.iter().all(|meant| said.contains(&format!("`{meant}` meant"))));
                unused.push((name.clone(), meant));
            }
        }
        unused
    };
    let as_said = |unused: &[(String, Option<String>)]| -> Vec<String> {
        unused.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(
        as_said(&unused()),
        ["costumer", "label", "zone", "each.zone", "Sold:cents", "usr", "card.nubmer"]
    );
    request();
    assert_eq!(as_said(&unused()), ["costumer", "label", "Sold:cents", "usr", "card.nubmer"]);
    {
        let _labels = enter_labels(&[Label::Str("label", HIDDEN)]).unwrap();
        Tick { cents: 1 }.emit();
    }
    assert_eq!(as_said(&unused()), ["costumer", "Sold:cents", "usr", "card.nubmer"]);
    work();
    let unused = unused();
    let meant = |name: &str, meant: &str| (name.to_owned(), Some(meant.to_owned()));
    assert_eq!(unused[0], meant("costumer", "customer"));
    assert_eq!(as_said(&unused), ["costumer", "usr", "card.nubmer"]);
    assert_eq!(unused[2], meant("card.nubmer", "number"));
    session.finish().unwrap();
}
