//! `nettrace schema`: types of the code beside the same types of a trace. A program of its own,
//! because all types of a program are in its catalogue.

#[path = "../program/mod.rs"]
mod program;

use std::{fs, path::Path, time::Duration};

use nettrace_reader::Reader;
use nettrace_writer::{
    Emit, Secret, Session, TraceEvent, TraceSpan,
    lock::{Catalogue, FIRST_LINE},
    sink::MemorySink,
    traced,
};
use serde_json::Value;
use testkit::{process::one_at_a_time, reference::dotnet_traces};

use crate::program::{nettrace, stderr, stdout};

#[derive(TraceEvent)]
#[trace_event(
    provider = "Schema-Shop",
    provider_guid = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
    version = 3,
    keywords = 0x11,
    level = Warning,
    message = "{url}: {status}",
    key_values = [("team", "web")]
)]
/// A request was answered.
struct Answered<'a> {
    /// The path.
    url: &'a str,
    status: u16,
    #[trace_event(encoding = utf8)]
    agent: &'a str,
    #[trace_event(encoding = utf16_nul)]
    host: &'a str,
    took: Duration,
    customer: Option<Secret<&'a str>>,
    parts: Vec<(u8, i128)>,
    three: [f32; 3],
    #[trace_event(encoding = rel_loc)]
    numbers: Vec<u32>,
    #[trace_event(encoding = utf8_data_loc)]
    body: &'a str,
    from: std::net::IpAddr,
    letter: char,
    #[trace_event(encoding = varint)]
    count: u64,
    flag: bool,
    lists: Vec<Vec<String>>,
    maybe: Option<Vec<Option<u8>>>,
}

#[derive(TraceSpan)]
#[trace_event(provider = "Schema-Shop")]
struct Load {
    page: u64,
}

#[traced(provider = "Schema-Shop", fields = [cart])]
fn check_out(cart: u64) {
    let _ = cart;
}

/// The trace, and what the build says of it.
fn trace_and_build() -> (Vec<u8>, Catalogue) {
    // Another test of this program emits the same events.
    let _alone = one_at_a_time();
    let memory = MemorySink::new();
    let session = Session::builder().sink(memory.clone()).provider("Schema-Shop").start().unwrap();
    Answered {
        url: "/cart",
        status: 200,
        agent: "curl",
        host: "shop",
        took: Duration::from_millis(3),
        customer: Some(Secret::new("Ada")),
        parts: vec![(1, 2)],
        three: [1.0; 3],
        numbers: vec![7],
        body: "{}",
        from: [127, 0, 0, 1].into(),
        letter: 'x',
        count: 9,
        flag: true,
        lists: Vec::new(),
        maybe: None,
    }
    .emit();
    drop(Load { page: 7 }.start());
    check_out(1);
    session.finish().unwrap();
    let mut build = Catalogue::of_packages(&["nettrace-cli"]);
    build.events.retain(|event| event.provider == "Schema-Shop");
    (memory.bytes(), build)
}

fn run(args: &[&str]) -> (i32, String, String) {
    let output = nettrace(args, b"");
    (output.status.code().unwrap(), stdout(&output).to_owned(), stderr(&output).to_owned())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_trace_has_the_types_of_the_build() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, build) = trace_and_build();
    let [trace_path, lock_path, other_path] =
        ["t.nettrace", "nettrace.schema", "other.schema"].map(|name| folder.path().join(name));
    fs::write(&trace_path, &trace).unwrap();
    fs::write(&lock_path, format!("{FIRST_LINE}\n{build}")).unwrap();

    let (code, shown, said) = run(&["schema", text(&trace_path)]);
    assert_eq!((code, said.as_str()), (0, ""));
    assert!(shown.contains("key nettrace.type.took \"Duration\""), "{shown}");
    let of_trace: Catalogue = shown.parse().unwrap();
    assert_eq!(of_trace.stored(), build.stored());
    // Standard input, and the file of a build.
    assert_eq!(stdout(&nettrace(&["schema", "-"], &trace)), shown);
    let (code, of_lock, _) = run(&["schema", text(&lock_path)]);
    assert_eq!((code, of_lock.parse::<Catalogue>().unwrap()), (0, build.clone()));

    for (old, new) in [(&lock_path, &trace_path), (&trace_path, &lock_path)] {
        assert_eq!(
            run(&["schema", "diff", text(old), text(new)]),
            (0, String::new(), String::new())
        );
    }
    // What the trace has no events of is no change; what it has otherwise is one.
    let more = format!("{FIRST_LINE}\n{build}\nprovider Other\nevent Never\n  version 0\n  id 3\n");
    let more = more.replace("status u16", "status u32").replace("level warning", "level error");
    fs::write(&other_path, more).unwrap();
    let (code, shown, said) = run(&["schema", "diff", text(&other_path), text(&trace_path)]);
    let expected = "\
        breaking    Schema-Shop/Answered  field `status` is `u16`, it was `u32`; write \
        `version = 4`\n\
        warning     Schema-Shop/Answered  level warning, it was error\n";
    assert_eq!((code, shown.as_str()), (1, expected));
    assert_eq!(said, "nettrace: 1 change breaks what reads these events\n");
    let (code, shown, _) = run(&["schema", "diff", text(&lock_path), text(&other_path), "--json"]);
    let rows: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((code, rows.as_array().unwrap().len()), (1, 3), "{rows}");
    assert_eq!(rows[0]["event"], "Other/Never");
    assert_eq!(rows[1]["verdict"], "breaking");
}

#[test]
fn json_and_markdown_are_of_the_same_types() {
    let folder = tempfile::tempdir().unwrap();
    let (_, build) = trace_and_build();
    let path = folder.path().join("nettrace.schema");
    fs::write(&path, format!("{FIRST_LINE}\n{build}")).unwrap();
    let rows: Value = serde_json::from_str(&run(&["schema", text(&path), "--json"]).1).unwrap();
    let answered = rows.as_array().unwrap().iter().find(|row| row["name"] == "Answered").unwrap();
    assert_eq!((&answered["version"], &answered["level"]), (&3.into(), &3.into()));
    assert_eq!(answered["meaning"], "A request was answered.");
    assert_eq!(answered["fields"][0]["meaning"], "The path.");
    assert_eq!(
        (&answered["fields"][5]["type"], &answered["fields"][5]["secret"]),
        (&"text?".into(), &true.into())
    );
    let page = run(&["schema", text(&path), "--md"]).1;
    assert!(
        page.contains("## Answered\n\nA request was answered.\n\nId 47788, version 3"),
        "{page}"
    );
    assert!(page.contains("| url | text | The path. |\n| status | u16 |  |"), "{page}");
}

/// What `--rust` makes of the build.
#[allow(dead_code, unreachable_pub, reason = "some of it is not read")]
mod generated {
    include!("generated.rs");
}

#[test]
fn generated_types_read_the_events() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, build) = trace_and_build();
    let path = folder.path().join("nettrace.schema");
    fs::write(&path, format!("{FIRST_LINE}\n{build}")).unwrap();
    let (code, types, said) = run(&["schema", text(&path), "--rust"]);
    assert_eq!((code, said.as_str()), (0, ""));
    assert_eq!(types, include_str!("generated.rs"), "{types}");

    // A trace cannot tell an option from a list, and says so.
    assert!(types.contains("customer: Option<String>") && !types.contains("list of at most one"));
    let path = folder.path().join("t.nettrace");
    fs::write(&path, &trace).unwrap();
    let (_, types, _) = run(&["schema", text(&path), "--rust"]);
    assert!(types.contains("customer: Vec<String>"), "{types}");
    assert!(types.contains("// A trace has an option as a list of at most one value"), "{types}");

    let mut reader = Reader::new(&trace[..]).unwrap();
    let answered = reader.events::<generated::Answered>().next().unwrap().unwrap().value;
    assert_eq!((answered.url.as_str(), answered.status), ("/cart", 200));
    assert_eq!(answered.took, Duration::from_millis(3));
    assert_eq!(answered.customer.as_deref(), Some("***"));
    assert_eq!((answered.parts, answered.numbers), (vec![(1, 2)], vec![7]));
    assert_eq!((answered.letter, answered.from), ('x', [127, 0, 0, 1].into()));
    let mut reader = Reader::new(&trace[..]).unwrap();
    let calls: Vec<_> = reader.events::<generated::CheckOutStart>().collect();
    assert_eq!((calls.len(), calls[0].as_ref().unwrap().value.cart), (1, 1));
}

/// It compiles.
#[allow(dead_code, unreachable_pub, reason = "nobody reads these events")]
mod names {
    include!("names.rs");
}

/// Two versions of an event, and names that Rust does not have.
#[test]
fn generated_types_have_names_of_rust() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nettrace.schema");
    let events = "provider P\n\
        event \"GC/Start 1\"\n  version 0\n  field type u8\n  field \"a b\" {x: [{0: u8}?]}\n\
        event \"GC/Start 1\"\n  version 1\n  field type u8\n  field ClrInstanceID u16\n\
        event Wrapped\n  field maybe [{value: [u16]}]\n  field lists [{items: [u16]}]\n  \
        field code [utf8_unit; 5]\n\
        event String\n  field self rest\n  field Self u8\n  field 9 u8\n  field \"größe\" u8\n  \
        field o {a: u8, a: u16}\n  field \"a;b\" u8\n  field big [[u8; 65535]; 65535]\n  \
        field self_it u8\n";
    fs::write(&path, format!("{FIRST_LINE}\n{events}")).unwrap();
    let (_, types, _) = run(&["schema", text(&path), "--rust"]);
    let expected = include_str!("names.rs");
    assert_eq!(types.split_once("--rust`.\n\n").unwrap().1, expected, "{types}");
}

/// An array of code units is a text, also one of a fixed length, which no session writes.
#[test]
fn a_fixed_array_of_code_units_is_read_as_text() {
    for bytes in [*b"a-b-c", *"gröe".as_bytes().first_chunk().unwrap(), [0xFF, b'x', 0xC3, 0, 1]] {
        let mut stream = testkit::streams::Stream::new();
        let ty = testkit::streams::EventType::new(1, "P", 1, "Wrapped");
        let ty = ty.field("maybe", &[19, 8]).field("lists", &[19, 8]);
        stream.metadata(&ty.field("code", &[22, 23, 5, 0])).thread(1);
        let payload = [&[0; 4][..], &bytes].concat();
        let row = testkit::streams::Row { payload, ..testkit::streams::Row::new(1, 1, 2_000) };
        stream.events(&[row]);
        let trace = stream.end();
        let mut reader = Reader::new(&trace[..]).unwrap();
        let read = reader.events::<names::Wrapped>().next().unwrap().unwrap().value;
        assert_eq!(read.code, String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn a_damaged_trace_shows_what_is_readable_and_a_damaged_file_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, build) = trace_and_build();
    let path = folder.path().join("t");
    fs::write(&path, &trace[..trace.len() - 30]).unwrap();
    let (code, shown, said) = run(&["schema", text(&path)]);
    assert_eq!((code, shown.parse::<Catalogue>().unwrap().stored()), (1, build.stored()), "{said}");
    fs::write(&path, format!("{FIRST_LINE}\nevent X\n")).unwrap();
    let (code, shown, said) = run(&["schema", text(&path)]);
    assert_eq!((code, shown.as_str()), (2, ""));
    assert!(said.ends_with("line 2: an event comes before a provider\n"), "{said}");
    let (code, _, said) = run(&["schema", "diff", text(&path), "no such file"]);
    assert_eq!(code, 2, "{said}");
}

/// Traces of .NET, whose metadata have other types and more events of one name.
#[test]
fn traces_of_dotnet_differ_from_themselves_in_nothing() {
    for path in dotnet_traces() {
        let (_, shown, _) = run(&["schema", text(&path)]);
        let catalogue: Catalogue = shown.parse().unwrap();
        assert!(!catalogue.events.is_empty(), "{}", path.display());
        let (_, differs, _) = run(&["schema", "diff", text(&path), text(&path)]);
        assert_eq!(differs, "", "{}", path.display());
    }
}
