//! Events of `tracing` and `log`, as the bridge records them: their levels and lines.

use serde_json::json;
use testkit::streams::{EventType, Stream};

use crate::{
    errors::text,
    program::{nettrace, stderr, stdout, strict_json},
    report::data,
    spans::{self, place},
};

/// A callsite in a dependency.
const DEEP: &str = "hickory_resolver::name_server::name_server_pool::connection_cache";

/// A span of level error, in which a program logs at all levels, and one that fails.
fn trace() -> Vec<u8> {
    let string = [19, 4];
    let log = |id: u64, target: &str, level: (u8, &str), line: &str| {
        EventType::new(id, "hickory_resolver", id, target)
            .optional(&[8, level.0, 1, 0])
            .optional_text(4, &["{message}"])
            .optional_text(6, &["level", level.1])
            .optional_text(6, &["target", target])
            .optional_text(6, &["module", target])
            .optional_text(6, &["file", "hickory-resolver-0.24.4/src/cache.rs"])
            .optional_text(6, &["line", line])
            .field("message", &string)
            .field("id", &[8])
    };
    let span = |id: u64, name: &str, level: u8, opcode| {
        EventType::new(id, "shop", id, name).optional(&[8, level, 1, opcode])
    };
    let mut stream = Stream::new();
    stream
        .thread(5)
        .metadata(&log(1, DEEP, (2, "ERROR"), "10"))
        .metadata(&log(2, DEEP, (3, "WARN"), "20"))
        .metadata(&log(3, "shop::cart", (4, "INFO"), "30"))
        .metadata(&log(4, DEEP, (5, "DEBUG"), "40"))
        .metadata(&log(5, DEEP, (5, "TRACE"), "50"))
        .metadata(&span(6, "workStart", 2, 1))
        .metadata(&span(7, "workStop", 2, 2).field("outcome", &string))
        .metadata(&span(8, "failStart", 4, 1))
        .metadata(&span(9, "failStop", 4, 2).field("outcome", &string));
    let labels = [spans::labels(place(1, 1, 0)), spans::labels(place(1, 2, 1))];
    stream.label_lists(1, &[&labels[0], &labels[1]]);
    let said = |message: &str, id: u32| [text(message), id.to_le_bytes().to_vec()].concat();
    let payloads: Vec<(u32, u32, Vec<u8>)> = vec![
        (6, 1, vec![]),
        (1, 1, said("cannot reach 10.0.0.7", 1)),
        (2, 1, said("no answer after 30ms", 2)),
        (3, 1, said("2 in the cart", 3)),
        (3, 1, said("3 in the cart", 4)),
        (4, 1, said("searching \u{1b}[31m", 5)),
        (5, 1, said("12 octets of room", 6)),
        (8, 2, vec![]),
        (9, 2, text("err")),
        (7, 1, text("ok")),
        (3, 0, said("good bye", 7)),
    ];
    spans::end_with(&mut stream, &payloads)
}

/// What `dump` shows after the time.
fn dump(arguments: &[&str]) -> Vec<String> {
    let output = nettrace(&[&["dump", "-"], arguments].concat(), &trace());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output).lines().map(|line| line[47..].to_owned()).collect()
}

#[test]
fn a_line_begins_with_the_message_and_ends_with_the_short_target() {
    let lines = dump(&[]);
    let expected = [
        "ERROR [worker 5 1005] shop/workStart [0000000000000001]",
        "ERROR [worker 5 1005] cannot reach 10.0.0.7 id=1 (hickory_resolver::…::connection_cache) \
         [0000000000000001]",
        "WARN  [worker 5 1005] no answer after 30ms id=2 (hickory_resolver::…::connection_cache) \
         [0000000000000001]",
        "INFO  [worker 5 1005] 2 in the cart id=3 (shop::cart) [0000000000000001]",
        "INFO  [worker 5 1005] 3 in the cart id=4 (shop::cart) [0000000000000001]",
        "DEBUG [worker 5 1005] searching \\u{1b}[31m id=5 (hickory_resolver::…::connection_cache) \
         [0000000000000001]",
        "TRACE [worker 5 1005] 12 octets of room id=6 (hickory_resolver::…::connection_cache) \
         [0000000000000001]",
    ];
    assert_eq!(lines[..7], expected);
    assert_eq!(lines[10], "INFO  [worker 5 1005] good bye id=7 (shop::cart)");
    let places = dump(&["--places", "--level", "info", "--grep", "cart"]);
    let place = "(shop::cart, hickory-resolver-0.24.4/src/cache.rs:30)";
    assert_eq!(
        places[0],
        format!("INFO  [worker 5 1005] 2 in the cart id=3 {place} [0000000000000001]")
    );
    // Programs get the same as before.
    let json = nettrace(&["dump", "-", "--json"], &trace());
    let json = strict_json(stdout(&json).lines().nth(1).unwrap());
    assert_eq!((&json["name"], &json["provider"]), (&DEEP.into(), &"hickory_resolver".into()));
    assert_eq!(
        (&json["message"], &json["level"]),
        (&"cannot reach 10.0.0.7".into(), &"Error".into())
    );
}

#[test]
fn levels_are_told_apart_by_filters() {
    let first = |level: &str| -> Vec<String> {
        let lines = dump(&["--level", level]);
        lines.iter().map(|line| line[..5].trim_end().to_owned()).collect()
    };
    let all = ["ERROR", "ERROR", "WARN", "INFO", "INFO", "DEBUG", "TRACE"];
    let ends = ["INFO", "INFO", "ERROR", "INFO"];
    assert_eq!(first("trace"), [&all[..], &ends].concat());
    assert_eq!(first("verbose"), first("trace"));
    assert_eq!(first("debug"), [&all[..6], &ends].concat());
    assert_eq!(first("info"), [&all[..5], &ends].concat());
    // A span of level error is none; one that failed is.
    assert_eq!(first("warning"), ["ERROR", "WARN", "INFO"]);
    let errors = dump(&["--level", "error"]);
    assert!(
        errors[1].starts_with("INFO  [worker 5 1005] shop/failStop") && errors.len() == 2,
        "{errors:?}"
    );
    let none = nettrace(&["dump", "-", "--level", "critical"], &trace());
    assert!(
        stderr(&none).contains("none has level Critical or a more severe"),
        "{}",
        stderr(&none)
    );
}

#[test]
fn a_tree_has_the_letters_of_levels_and_colors_on_request() {
    let tree = |arguments: &[&str]| -> String {
        let output = nettrace(&[&["tree", "-"], arguments].concat(), &trace());
        stdout(&output).to_owned()
    };
    let plain = tree(&[]);
    for line in [
        "· E cannot reach 10.0.0.7 id=1 (hickory_resolver::…::connection_cache)\n",
        "· W no answer after 30ms id=2 (",
        "· I 2 in the cart id=3 (shop::cart)\n",
        "· D searching \\u{1b}[31m id=5 (",
        "· T 12 octets of room id=6 (",
    ] {
        assert!(plain.contains(line), "{line}: {plain}");
    }
    assert!(!plain.contains('\u{1b}'), "{plain}");
    let errors = tree(&["--level", "error"]);
    let found: Vec<_> = errors.lines().filter(|line| line.starts_with('*')).collect();
    assert!(found.len() == 2 && found[0].contains("E cannot") && found[1].contains("shop/fail"));
    let colored = tree(&["--color", "always"]);
    for part in ["\u{1b}[38;5;196mE\u{1b}[0m cannot", "\u{1b}[38;5;244m(shop::cart)\u{1b}[0m\n"] {
        assert!(colored.contains(part), "{colored:?}");
    }
    // Without its colors it is the same.
    let mut rest = &*colored;
    let mut bare = String::new();
    while let Some((before, escape)) = rest.split_once("\u{1b}[") {
        bare.push_str(before);
        rest = escape.split_once('m').unwrap().1;
    }
    assert_eq!(bare + rest, plain);
    let places = tree(&["--places"]);
    assert!(places.contains(&format!("id=2 ({DEEP}, hickory-resolver-0.24.4/src/cache.rs:20)\n")));
}

#[test]
fn a_report_has_messages_by_their_shapes() {
    let output = nettrace(&["report", "-", "-o", "-"], &trace());
    let page = data(stdout(&output));
    let shown = |key: &str| -> serde_json::Value {
        let keys = ["shape", "what", "count", "target", "place"];
        let groups = page[key].as_array().unwrap().iter();
        groups.map(|it| json!(keys.map(|key| &it[key]))).collect()
    };
    let deep = "hickory_resolver::…::connection_cache";
    assert_eq!(
        shown("messages"),
        json!([
            ["# in the cart", "INFO", 2, "shop::cart", "work"],
            ["searching \\u{1b}[#m", "DEBUG", 1, deep, "work"],
            ["# octets of room", "TRACE", 1, deep, "work"],
            ["good bye", "INFO", 1, "shop::cart", null],
        ])
    );
    assert_eq!(
        shown("errors"),
        json!([
            ["cannot reach #.#.#.#", "Error", 1, deep, "work"],
            ["err", "failed", 1, null, "work"],
            ["no answer after #ms", "Warning", 1, deep, "work"],
        ])
    );
    let text = nettrace(&["report", "-", "--text"], &trace());
    for line in ["\nMessage  ", "\n# in the cart (shop::cart)  ", "\ngood bye (shop::cart)  "] {
        assert!(stdout(&text).contains(line), "{line}: {}", stdout(&text));
    }
    let errors = nettrace(&["errors", "-"], &trace());
    let line = format!("\nno answer after #ms ({deep})  ");
    assert!(stdout(&errors).contains(&line), "{}", stdout(&errors));
}
