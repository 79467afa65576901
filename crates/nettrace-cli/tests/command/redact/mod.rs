//! `nettrace redact`: no byte of what was to be left out is in the result, and all else is.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use nettrace_reader::{ReadEvent, ReadField, Reader, SortedReader, Value, verify};
use nettrace_writer::{
    Emit, Label, Session, TraceEvent, TraceField, enter_labels,
    metrics::{Meter, Reporter},
    sink::MemorySink,
};
use testkit::{
    reference::{dotnet_traces, judged},
    streams::{EventType, Row, Stream},
};

use crate::program::{nettrace, stderr};

const SECRET: &str = "Ada-Lovelace-1815";
const NUMBER: u64 = 0x5EC2_E75E_C2E7_5EC2;

#[derive(Clone, Debug, PartialEq, TraceField, ReadField)]
struct Card {
    number: u64,
    kind: String,
}

#[derive(Clone, Debug, PartialEq, TraceEvent, ReadEvent)]
#[trace_event(provider = "Redact-Shop")]
struct Sold {
    item: String,
    customer: String,
    #[trace_event(encoding = utf8)]
    customer_utf8: String,
    #[trace_event(encoding = utf16_nul)]
    customer_nul: String,
    #[trace_event(encoding = utf8_data_loc)]
    customer_located: String,
    #[trace_event(encoding = rel_loc)]
    numbers: Vec<u64>,
    maybe: Option<String>,
    card: Card,
    cards: Vec<Card>,
    pairs: [(u8, u64); 2],
    maybe_cards: Option<Vec<Card>>,
    cards_or_none: Vec<Option<Card>>,
    id: u64,
    #[trace_event(encoding = varint)]
    variable: u64,
    at: SystemTime,
    map: BTreeMap<String, u64>,
    cents: u32,
    #[trace_event(encoding = rel_loc)]
    kept: String,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Redact-Shop")]
struct Seen {
    customer: String,
}

fn card() -> Card {
    Card { number: NUMBER, kind: "gold".into() }
}

fn sold(customer: &str) -> Sold {
    Sold {
        item: "a book".into(),
        customer: customer.into(),
        customer_utf8: customer.into(),
        customer_nul: customer.into(),
        customer_located: customer.into(),
        numbers: vec![NUMBER; 3],
        maybe: Some(customer.into()),
        card: card(),
        cards: vec![card(), card()],
        pairs: [(7, NUMBER), (8, NUMBER)],
        maybe_cards: Some(vec![card()]),
        cards_or_none: vec![None, Some(card())],
        id: NUMBER,
        variable: NUMBER,
        at: SystemTime::UNIX_EPOCH,
        map: [(customer.to_owned(), NUMBER)].into(),
        cents: 1_250,
        kept: "kept".into(),
    }
}

fn trace() -> Vec<u8> {
    // Other tests emit the same events.
    let _alone = testkit::process::one_at_a_time();
    let memory = MemorySink::new();
    let session = Session::builder()
        .sink(memory.clone())
        .provider("Redact-Shop")
        .key_value("customer", SECRET)
        .key_value("kept", "kept");
    let session = session.start().unwrap();
    for customer in [SECRET, "Charles-Babbage", SECRET] {
        let labels = [Label::Str("customer", customer), Label::Int("id", NUMBER as i64)];
        let _labels = enter_labels(&labels).unwrap();
        sold(customer).emit();
        Seen { customer: "nobody".into() }.emit();
    }
    session.finish().unwrap();
    memory.bytes()
}

/// The names of all that is secret.
const NAMES: &str = "customer,customer_utf8,customer_nul,customer_located,numbers,maybe,\
    card.number,cards.number,maybe_cards.number,cards_or_none.number,pairs.1,Sold:id,id,\
    variable,map";

fn redact(trace: &Path, out: &Path, more: &[&str]) -> (i32, String) {
    let paths = [trace, out].map(|path| path.to_str().unwrap());
    let args = [&["redact", paths[0], "-o", paths[1], "--force"], more].concat();
    let output = nettrace(&args, b"");

    (output.status.code().unwrap(), stderr(&output).to_owned())
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn all<T: ReadEvent>(trace: &[u8]) -> Vec<T> {
    Reader::new(trace).unwrap().events::<T>().map(|event| event.unwrap().value).collect()
}

#[test]
fn no_byte_of_a_secret_stays() {
    let folder = tempfile::tempdir().unwrap();
    let [path, out] = ["t.nettrace", "out.nettrace"].map(|name| folder.path().join(name));
    let trace = trace();
    let utf16: Vec<u8> = SECRET.encode_utf16().flat_map(u16::to_le_bytes).collect();
    // As LEB128: 63 bits in nine bytes.
    let bits = |at: u32| (NUMBER >> (7 * at)) as u8 & 0x7F;
    let variable: Vec<u8> = (0..9).map(|at| bits(at) | if at < 8 { 0x80 } else { 0 }).collect();
    let secrets = [SECRET.as_bytes(), &utf16, &NUMBER.to_le_bytes(), &variable];
    for (at, secret) in secrets.iter().enumerate() {
        assert!(contains(&trace, secret), "{at}: the test has what it looks for");
    }
    fs::write(&path, &trace).unwrap();

    for more in [&["--fields", NAMES][..], &["--fields", NAMES, "--hash"]] {
        let (code, said) = redact(&path, &out, more);
        assert_eq!(code, 0, "{said}");
        let redacted = fs::read(&out).unwrap();
        for (at, secret) in secrets.iter().enumerate() {
            assert!(!contains(&redacted, secret), "{at} is in the result of {more:?}");
        }
        let report = verify(&redacted[..]).unwrap();
        assert!(report.is_sound() && report.events == 6, "{report:?}");
        if let Some(verdict) = judged(&redacted) {
            verdict.assert_holds(report.events, report.lost);
        }
        // All else is as it was.
        let kept = |event: Sold| (event.item, event.cents, event.kept, event.at, event.card.kind);
        let before: Vec<_> = all::<Sold>(&trace).into_iter().map(kept).collect();
        let after: Vec<_> = all::<Sold>(&redacted).into_iter().map(kept).collect();
        assert_eq!((before.len(), &after), (3, &before));
        let times = |trace: &[u8]| -> Vec<_> {
            let mut reader = Reader::new(trace).unwrap();
            let times = reader.events::<Sold>();
            times.map(|event| event.unwrap().header.timestamp).collect()
        };
        assert_eq!(times(&redacted), times(&trace));
        let reader = Reader::new(&redacted[..]).unwrap();
        let kept = reader.trace().key_values.iter().find(|(key, _)| key == "kept");
        assert_eq!(kept.unwrap().1, "kept");
    }
}

#[test]
fn a_mask_is_the_same_for_all_and_a_hash_for_equal_values() {
    let folder = tempfile::tempdir().unwrap();
    let [path, out, key] = ["t", "out", "key"].map(|name| folder.path().join(name));
    fs::write(&path, trace()).unwrap();
    let read = |more: &[&str]| {
        let (code, said) = redact(&path, &out, more);
        assert_eq!(code, 0, "{said}");
        all::<Sold>(&fs::read(&out).unwrap())
    };
    let masked = &read(&["--fields", NAMES])[0];
    let expected = Sold {
        numbers: Vec::new(),
        maybe: None,
        card: Card { number: 0, ..card() },
        cards: vec![Card { number: 0, ..card() }; 2],
        pairs: [(7, 0), (8, 0)],
        maybe_cards: Some(vec![Card { number: 0, ..card() }]),
        cards_or_none: vec![None, Some(Card { number: 0, ..card() })],
        id: 0,
        variable: 0,
        map: BTreeMap::new(),
        ..sold("***")
    };
    assert_eq!(*masked, expected);

    // However they are encoded.
    let all = &read(&["--fields", NAMES, "--hash"])[0];
    assert!(all.customer.len() == 16 && all.customer.is_ascii(), "{all:?}");
    for other in [&all.customer_utf8, &all.customer_nul, &all.customer_located] {
        assert_eq!(*other, all.customer);
    }
    assert_eq!((all.variable, all.card.number, all.pairs[1].1), (all.id, all.id, all.id));
    assert_eq!(all.maybe.as_ref(), Some(&all.customer));

    let hashed = read(&["--fields", "customer,Sold:id", "--hash"]);
    assert_eq!(hashed[0].customer, hashed[2].customer);
    assert_ne!(hashed[0].customer, hashed[1].customer);
    assert!(hashed[0].customer.len() == 16 && hashed[0].id != NUMBER, "{hashed:?}");
    assert_eq!((hashed[0].id, hashed[0].maybe.as_deref()), (hashed[1].id, Some(SECRET)));
    // Another run has another key, unless it is given.
    assert_ne!(read(&["--fields", "customer", "--hash"])[0].customer, hashed[0].customer);
    fs::write(&key, "000102030405060708090a0b0c0d0e0f\n").unwrap();
    let with_key = ["--fields", "customer,maybe", "--hash", "--key-file", key.to_str().unwrap()];
    let [once, again] = [(); 2].map(|()| read(&with_key));
    assert_eq!(once, again);
    assert_eq!(once[0].maybe.as_ref(), Some(&once[0].customer));
}

#[test]
fn a_name_that_nothing_has_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let [path, out] = ["t", "out"].map(|name| folder.path().join(name));
    fs::write(&path, trace()).unwrap();
    for (names, wrong) in [("customer,costumer", "`costumer`"), ("Seen:item", "`Seen:item`")] {
        let (code, said) = redact(&path, &out, &["--fields", names]);
        assert_eq!((code, out.exists()), (2, false), "{said}");
        assert!(said.contains(wrong), "{said}");
    }
    // Nor is anything on its way.
    let args = ["redact", path.to_str().unwrap(), "-o", "-", "--fields", "customer,costumer"];
    let output = nettrace(&args, b"");
    let said = stderr(&output);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{said}");
    assert!(said.contains("`costumer` (is `customer` meant?)"), "{said}");
    let output = nettrace(&["redact", args[1], "-o", "-", "--fields", "customer"], b"");
    assert!(output.status.success(), "{}", stderr(&output));
    // Only the event that was named.
    let (code, _) = redact(&path, &out, &["--fields", "Seen:customer"]);
    let bytes = fs::read(&out).unwrap();
    assert_eq!((code, all::<Sold>(&bytes)[0].customer.as_str()), (0, SECRET));
    let (code, _) = redact(&path, &out, &["--fields", "customer"]);
    assert_eq!((code, output.stdout), (0, fs::read(&out).unwrap()));
    fs::write(&path, "not a key").unwrap();
    let key = path.to_str().unwrap();
    let args = ["--fields", "customer", "--hash", "--key-file", key];
    let (code, said) = redact(&path, &out, &args);
    assert!(code == 2 && said.contains("32 hexadecimal digits"), "{said}");
}

/// Each field of each trace of .NET: the result has as many events, and the field's texts are gone.
#[test]
fn traces_of_dotnet_can_be_redacted() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    for path in dotnet_traces() {
        let bytes = fs::read(&path).unwrap();
        let before = verify(&bytes[..]).unwrap();
        let mut names = std::collections::BTreeSet::new();
        let options = nettrace_reader::Options::default().runtime_events(false);
        let mut reader = options.clone().open(&bytes[..]).unwrap();
        reader.read_to_end().unwrap();
        for field in reader.metadata().iter().flat_map(|metadata| &metadata.fields) {
            if !field.name.contains([',', ':']) && !field.name.is_empty() {
                names.insert(field.name.clone());
            }
        }
        if names.is_empty() {
            continue;
        }
        let names: Vec<_> = names.into_iter().collect();
        let (code, said) = redact(&path, &out, &["--fields", &names.join(",")]);
        assert!(matches!(code, 0 | 3), "{}: {said}", path.display());
        let redacted = fs::read(&out).unwrap();
        let after = verify(&redacted[..]).unwrap();
        // Of the runtime's own events the fields are not described: they go as a whole.
        let is_all = after.events == before.events;
        assert_eq!(is_all, code == 0, "{}: {said}", path.display());
        assert!(is_all || said.contains("events whose payload does not fit"), "{said}");
        if let Some(verdict) = judged(&redacted) {
            verdict.assert_accepted();
        }
        let mut reader: SortedReader<_> = options.open(&redacted[..]).unwrap().sorted();
        while let Some(event) = reader.next_event().unwrap() {
            for (name, value) in event.fields().filter_map(Result::ok) {
                if let Value::Text(text) = value {
                    assert_eq!(text, "***", "{}: {name}", path.display());
                }
            }
        }
    }
}

/// A type of objects of no bytes, and one of locations that all have the same bytes.
#[test]
fn traces_made_to_hurt_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let [path, out] = ["t", "out"].map(|name| folder.path().join(name));
    let fixed = |count: u16, element: Vec<u8>| -> Vec<u8> {
        [vec![22], element, count.to_le_bytes().to_vec()].concat()
    };
    let field = |name: &str, ty: &[u8]| -> Vec<u8> {
        let field = [&[name.len() as u8], name.as_bytes(), ty].concat();
        [&(field.len() as u16).to_le_bytes()[..], &field].concat()
    };
    let nothing = [&[1][..], &[0, 0]].concat();
    let object = [&[1][..], &[1, 0], &field("customer", &nothing)].concat();
    let empty = fixed(65_535, fixed(65_535, fixed(65_535, object)));
    // Arrays of no elements of a size that varies.
    let no_bytes = fixed(65_535, fixed(65_535, fixed(65_535, fixed(0, vec![20]))));
    let located = fixed(12_000, vec![25, 6]);
    let mut same = [2_u8, 0, 0xFF, 0x3F].repeat(12_000);
    same.extend([7; 0x4000]);
    for (ty, payload) in [(empty, vec![0]), (no_bytes, vec![0]), (located, same)] {
        let mut stream = Stream::new();
        let ty = EventType::new(1, "P", 1, "E").field("a", &ty).field("customer", &[6]);
        stream.metadata(&ty).thread(1);
        stream.events(&[Row { payload, ..Row::new(1, 1, 2_000) }]);
        fs::write(&path, stream.end()).unwrap();
        let begun = Instant::now();
        let (code, said) = redact(&path, &out, &["--fields", "customer"]);
        assert!(matches!(code, 0 | 3), "{said}");
        for to in ["v6", "v5", "v4", "heph"] {
            let output = nettrace(&["convert", path.to_str().unwrap(), "-", "--to", to], b"");
            assert!(matches!(output.status.code(), Some(0 | 3)), "{}", stderr(&output));
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    }
}

/// Events of which nobody knows what is in them are left out, and threads tell no process that was
/// to be left out.
#[test]
fn what_is_not_described_is_not_copied() {
    let folder = tempfile::tempdir().unwrap();
    let [path, out] = ["t", "out"].map(|name| folder.path().join(name));
    let mut stream = Stream::new();
    let text = [19, 4];
    stream.metadata(&EventType::new(1, "P", 1, "Known").field("customer", &text));
    stream.metadata(&EventType::new(2, "P", 2, "Without"));
    stream.metadata(&EventType::new(3, "P", 3, "Unknown").field("what", &[99]));
    stream.thread(1);
    let secret = [&[9, 0][..], &utf16("SECRETTED")].concat();
    let row = |metadata, number| Row::new(1, number, 2_000 + u64::from(number)).metadata(metadata);
    stream.events(&[
        row(1, 1).payload(&secret),
        row(2, 2).payload(&secret),
        row(2, 3),
        row(3, 4).payload(&secret),
    ]);
    fs::write(&path, stream.end()).unwrap();
    let (code, said) = redact(&path, &out, &["--fields", "customer,ProcessId"]);
    let bytes = fs::read(&out).unwrap();
    assert_eq!(code, 3, "{said}");
    assert!(!contains(&bytes, &utf16("SECRETTED")));
    assert_eq!(verify(&bytes[..]).unwrap().events, 2, "{said}");

    fs::write(&path, trace()).unwrap();
    let (code, said) = redact(&path, &out, &["--fields", "ProcessId"]);
    assert_eq!(code, 0, "{said}");
    let bytes = fs::read(&out).unwrap();
    let mut reader = Reader::new(&bytes[..]).unwrap();
    while let Some(event) = reader.next_event().unwrap() {
        assert_eq!(event.thread().process_id, None);
    }
}

/// A date has eight bytes, or sixteen. If a payload fits its type as well, or as badly, with both,
/// what is the secret in one way is another field in the other.
#[test]
fn a_secret_behind_a_date_of_unknown_size_is_not_copied() {
    let folder = tempfile::tempdir().unwrap();
    let [path, out] = ["t", "out"].map(|name| folder.path().join(name));
    let parts = [2026_i16, 11, 6, 21, 9, 39, 11, 5];
    let long: Vec<u8> = parts.iter().flat_map(|part| part.to_le_bytes()).collect();
    let short = 134_000_000_000_000_000_u64.to_le_bytes();
    let secret = NUMBER.to_le_bytes();
    let behind = [1; 8];
    let numbers = |name| EventType::new(1, "P", 1, name).field("at", &[16]).field("id", &[12]);
    let numbers = numbers("Numbers").field("next", &[12]);
    let texts = EventType::new(2, "P", 2, "Texts").field("at", &[16]).field("id", &[12]);
    let texts = texts.field("text", &[18]);
    let text = [utf16("kept"), vec![0; 2]].concat();
    let cases: [(u32, &[&[u8]], bool); 7] = [
        (1, &[&short, &secret, &[2; 8]], true),
        (1, &[&long, &secret, &[2; 8]], true),
        // Bytes behind the last field: it fits as badly with dates of eight bytes.
        (1, &[&long, &secret, &[2; 8], &behind], false),
        (1, &[&short, &secret, &[2; 8], &behind, &behind], false),
        // With dates of eight bytes the secret is the begin of the text.
        (2, &[&long, &secret, &text], false),
        (2, &[&short, &secret, &text], true),
        // Too few bytes for one of sixteen.
        (1, &[&short], true),
    ];
    for (number, (metadata, payload, is_kept)) in cases.into_iter().enumerate() {
        let mut stream = Stream::new();
        stream.metadata(&numbers).metadata(&texts).thread(1);
        let row = Row::new(1, 1, 2_000).metadata(metadata).payload(&payload.concat());
        fs::write(&path, stream.events(&[row]).end()).unwrap();
        let (code, said) = redact(&path, &out, &["--fields", "id"]);
        let bytes = fs::read(&out).unwrap();
        assert!(!contains(&bytes, &secret), "{number}: {said}");
        assert_eq!((code == 0, code == 3), (is_kept, !is_kept), "{number}: {said}");
        assert_eq!(verify(&bytes[..]).unwrap().events, u64::from(is_kept), "{number}: {said}");
    }
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// A key of a map, and one of the tags of a metric: in traces of Rust, and in texts as .NET may
/// have them, in which commas are not told from those between tags.
#[test]
fn keys_of_maps_and_tags_of_metrics_are_names() {
    #[derive(TraceEvent)]
    #[trace_event(provider = "Redact-Keys")]
    struct Requested {
        headers: BTreeMap<String, String>,
        tags: String,
    }
    let folder = tempfile::tempdir().unwrap();
    let [path, out] = ["t.nettrace", "out.nettrace"].map(|name| folder.path().join(name));
    let memory = MemorySink::new();
    let builder = Session::builder().sink(memory.clone());
    let session = builder.providers(["Redact-Keys", "System.Diagnostics.Metrics"]).start().unwrap();
    let tags = format!("ou=kept,user=cn={SECRET},ou={SECRET},{SECRET},zone=eu");
    let odd = "a%3Db=of an odd key".to_owned();
    let headers = [("user", SECRET), ("zone", "eu")].map(|(key, value)| (key.into(), value.into()));
    Requested { headers: headers.into(), tags }.emit();
    let odd = Requested { headers: BTreeMap::new(), tags: odd };
    let meter = Meter::builder("Redact-Meter").tag("user", SECRET).build();
    let value = format!("{SECRET},zone={SECRET}");
    let tagged = meter.counter("orders").build().tagged(&[("user", &value), ("zone", "eu")]);
    let reporter = Reporter::every(Duration::from_millis(5));
    let reporting = reporter.meter("Redact-Meter").start(&session);
    let begun = Instant::now();
    while !contains(&memory.bytes(), &utf16(&format!("user={SECRET}%2Czone={SECRET}"))) {
        assert!(begun.elapsed() < Duration::from_secs(240), "the counter is reported");
        tagged.add(1);
        session.flush().unwrap();
    }
    reporting.finish();
    odd.emit();
    session.finish().unwrap();
    fs::write(&path, memory.bytes()).unwrap();
    for more in [&["--fields", "user"][..], &["--fields", "user", "--hash"]] {
        let (code, said) = redact(&path, &out, more);
        assert_eq!(code, 0, "{said}");
        let bytes = fs::read(&out).unwrap();
        assert!(!contains(&bytes, &utf16(SECRET)), "{more:?}");
        let mut texts = Vec::new();
        let mut reader = Reader::new(&bytes[..]).unwrap();
        while let Some(event) = reader.next_event().unwrap() {
            let fields = event.fields().map(Result::unwrap);
            let of_tags = fields.filter(|(name, _)| matches!(*name, "tags" | "meterTags"));
            texts.extend(of_tags.map(|(_, value)| format!("{value:?}")));
        }
        let hash = texts[0].strip_prefix("Text(\"ou=kept,user=").unwrap();
        assert!(hash.ends_with(",zone=eu\")"), "{texts:?}");
        if more.len() == 2 {
            assert!(texts.contains(&"Text(\"user=***,zone=eu\")".to_owned()), "{texts:?}");
            assert!(texts.contains(&"Text(\"user=***\")".to_owned()), "{texts:?}");
        }
    }
    // A key that looks as if it had a `=`, and one that has it.
    for name in ["a%3Db", "a=b"] {
        let (code, said) = redact(&path, &out, &["--fields", name]);
        assert_eq!(code, 0, "{name}: {said}");
        let bytes = fs::read(&out).unwrap();
        assert!(!contains(&bytes, &utf16("of an odd key")), "{name}");
        assert!(contains(&bytes, &utf16("a%3Db=***")), "{name}");
    }
    // Only where it was named.
    let (code, said) = redact(&path, &out, &["--fields", "headers.user"]);
    let bytes = fs::read(&out).unwrap();
    assert!(code == 0 && contains(&bytes, &utf16(&format!("cn={SECRET}"))), "{said}");
    let (code, said) = redact(&path, &out, &["--fields", "headers.usr"]);
    assert!(code == 2 && said.contains("`headers.usr`"), "{said}");
}

/// What goes with a field around it is called what it is called.
#[test]
fn what_is_within_a_field_that_goes_as_a_whole_has_its_name() {
    #[derive(TraceEvent)]
    #[trace_event(provider = "Redact-Whole")]
    struct Asked {
        headers: BTreeMap<String, String>,
        by_host: BTreeMap<String, BTreeMap<String, String>>,
        lists: Vec<BTreeMap<String, String>>,
        tags: String,
        card: Card,
    }
    let folder = tempfile::tempdir().unwrap();
    let [path, out] = ["t.nettrace", "out.nettrace"].map(|name| folder.path().join(name));
    let memory = MemorySink::new();
    let session = Session::builder().sink(memory.clone()).provider("Redact-Whole").start().unwrap();
    let map = |key: &str| BTreeMap::from([(key.to_owned(), SECRET.to_owned())]);
    Asked {
        headers: map("authorization"),
        by_host: [("host".to_owned(), map("cookie"))].into(),
        lists: vec![BTreeMap::new(), map("origin")],
        tags: format!("user={SECRET},zone=eu"),
        card: card(),
    }
    .emit();
    session.finish().unwrap();
    fs::write(&path, memory.bytes()).unwrap();
    for names in [
        "headers,headers.authorization",
        "headers.authorization,headers",
        "Asked:headers,Asked:headers.authorization",
        "headers,authorization",
        // No event has this key. But what would have it goes.
        "headers,headers.host",
        "headers.Value,headers.authorization",
        "by_host,by_host.host",
        "by_host,cookie",
        "by_host.host,cookie",
        "lists,origin",
        "tags,user",
        "tags,tags.zone",
        "card,card.number",
        "card,kind",
    ] {
        for more in [&[][..], &["--hash"]] {
            let (code, said) = redact(&path, &out, &[&["--fields", names], more].concat());
            assert_eq!(code, 0, "{names} {more:?}: {said}");
        }
    }
    for (names, wrong) in [
        ("headers,cookies", "`cookies`"),
        ("headers,header.authorization", "`header.authorization`"),
        ("Asked:headers,Seen:headers.authorization", "`Seen:headers.authorization`"),
        ("tags,zones", "`zones`"),
    ] {
        let (code, said) = redact(&path, &out, &["--fields", names]);
        assert!(code == 2 && said.contains(wrong), "{names}: {said}");
    }
}

/// Of several traces, those key-values that differ have other keys.
#[test]
fn key_values_of_several_traces_keep_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two, merged, out] = ["a", "b", "m", "out"].map(|name| folder.path().join(name));
    #[derive(TraceEvent)]
    #[trace_event(provider = "Redact-Several")]
    struct Called {
        customer: String,
    }
    for (path, value) in [(&one, SECRET), (&two, "Charles-Babbage")] {
        let memory = MemorySink::new();
        let builder = Session::builder().sink(memory.clone()).key_value("customer", value);
        let session = builder.provider("Redact-Several").start().unwrap();
        Called { customer: value.into() }.emit();
        session.finish().unwrap();
        fs::write(path, memory.bytes()).unwrap();
    }
    let text = |path: &'static str| folder.path().join(path).to_str().unwrap().to_owned();
    let [a, b, m, o] = ["a", "b", "m", "out"].map(text);
    let output = nettrace(&["merge", &a, &b, "-o", &m], b"");
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(contains(&fs::read(merged).unwrap(), b"1/customer"));
    for traces in [&[&*a, &*b][..], &[&*m], &[&*m, &*a]] {
        let args = [&["redact"], traces, &["-o", &o, "--force", "--fields", "customer"]].concat();
        let output = nettrace(&args, b"");
        assert!(output.status.success(), "{}", stderr(&output));
        let bytes = fs::read(&out).unwrap();
        assert!(!contains(&bytes, SECRET.as_bytes()) && !contains(&bytes, b"Babbage"), "{args:?}");
    }
}
