//! Runs `nettrace errors`, and compares it with the report.

use serde_json::json;
use testkit::streams::{EventType, Row, Stream};

use crate::{
    escapes::assert_printable,
    program::{nettrace, stderr, stdout, strict_json},
    report::data,
    spans::{self, place},
};

/// A text as a payload has it.
pub(crate) fn text(text: &str) -> Vec<u8> {
    let size = u16::try_from(text.len()).unwrap().to_le_bytes();
    [&size[..], &text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>()].concat()
}

/// Two requests with warnings and errors, one of which fails, and an error outside of both.
fn trace() -> Vec<u8> {
    let ty = |id: u64, name: &str, level: u8, opcode| {
        EventType::new(id, "Shop", id, name).optional(&[8, level, 1, opcode])
    };
    let string = [19, 4];
    let route = &["nettrace.dimension", "route"];
    let mut stream = Stream::new();
    stream
        .thread(5)
        .metadata(&ty(1, "getStart", 4, 1).field("route", &string).optional_text(6, route))
        .metadata(&ty(2, "getStop", 4, 2).field("outcome", &string).field("err", &string))
        .metadata(&ty(3, "Refused", 2, 0).field("card", &[8]).optional_text(4, &["card {card}"]))
        .metadata(&ty(4, "log", 3, 0).field("message", &string))
        .metadata(&ty(5, "Fine", 4, 0));
    let labels: Vec<_> = (1..=2).map(|id| spans::labels(place(id, id.into(), 0))).collect();
    stream.label_lists(1, &labels.iter().map(|list| &**list).collect::<Vec<_>>());
    let payloads: Vec<(u32, u32, Vec<u8>)> = vec![
        (1, 1, text("/cart")),
        (1, 2, text("/pay/\u{1b}[2J")),
        (3, 1, 77_u32.to_le_bytes().to_vec()),
        (3, 1, 78_u32.to_le_bytes().to_vec()),
        (4, 1, text("no answer from 10.0.0.7 after 35ms")),
        (4, 1, text("no answer from 10.0.0.9 after 36ms")),
        (4, 2, text("no answer from 10.0.0.9 after 37ms\n")),
        (5, 1, vec![]),
        (3, 0, 79_u32.to_le_bytes().to_vec()),
        (2, 1, [text("ok"), text("")].concat()),
        (2, 2, [text("err"), text("no card 7 left")].concat()),
    ];
    spans::end_with(&mut stream, &payloads)
}

#[test]
fn errors_are_grouped_by_event_message_and_route() {
    let trace = trace();
    let output = nettrace(&["errors", "-", "--json"], &trace);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let found: Vec<_> = stdout(&output).lines().map(strict_json).collect();
    let keys = ["name", "what", "shape", "place", "count", "first_ns", "last_ns", "trace"];
    let groups: Vec<_> = found.iter().map(|it| json!(keys.map(|key| &it[key]))).collect();
    let [first, second] = ["01", "02"].map(|digits| digits.repeat(16));
    let logged = "no answer from #.#.#.# after #ms";
    let cut = format!("{logged}\n");
    assert_eq!(
        json!(groups),
        json!([
            ["Refused", "Error", "card {card}", "get /cart", 2, 3_000, 4_000, first],
            ["Refused", "Error", "card {card}", null, 1, 9_000, 9_000, null],
            [
                "get",
                "failed",
                "err: no card # left",
                "get /pay/\u{1b}[2J",
                1,
                11_000,
                11_000,
                second
            ],
            ["log", "Warning", logged, "get /cart", 2, 5_000, 6_000, first],
            ["log", "Warning", cut, "get /pay/\u{1b}[2J", 1, 7_000, 7_000, second],
        ])
    );
    assert_eq!(found[3]["example"], "no answer from 10.0.0.7 after 35ms");
    let counts = found[0]["counts"].as_array().unwrap();
    assert_eq!(counts.iter().map(|count| count.as_u64().unwrap()).sum::<u64>(), 2);
    // The page has the same groups.
    let page = data(stdout(&nettrace(&["report", "-", "-o", "-"], &trace)));
    let page: Vec<_> = page["errors"].as_array().unwrap().iter().map(|it| &it["count"]).collect();
    assert_eq!(json!(page), json!([2, 1, 1, 2, 1]));
}

#[test]
fn errors_as_text() {
    let trace = trace();
    let output = nettrace(&["errors", "-"], &trace);
    let shown = stdout(&output);
    let lines: Vec<_> = shown.lines().collect();
    assert_eq!(lines.len(), 7, "{shown}");
    assert!(lines[1].starts_with("Error or warning   "), "{shown}");
    assert!(lines[2].starts_with("Shop/Refused: card {card} "), "{shown}");
    assert!(lines[2].contains(" ██ "), "{shown}");
    assert!(lines[2].ends_with(&format!("  get /cart {}", "01".repeat(16))), "{shown}");
    assert!(lines[6].contains(r"after #ms\n "), "{shown}");
    assert!(!shown.contains('\u{1b}') && shown.contains(r"get /pay/\u{1b}[2J"), "{shown}");
    // The report has the same section.
    let report = nettrace(&["report", "-", "--text"], &trace);
    assert!(stdout(&report).contains(shown), "{}", stdout(&report));
    let errors = nettrace(&["errors", "-", "--level", "error", "--most", "1"], &trace);
    let shown = stdout(&errors);
    assert!(shown.ends_with("\nand 2 more groups of errors and warnings\n"), "{shown}");
    let none = nettrace(&["errors", "-", "--level", "critical"], &trace);
    assert_eq!((none.status.code(), stdout(&none)), (Some(0), ""));
    assert!(stderr(&none).contains("of 11 events, none has level Critical"), "{}", stderr(&none));
    // What can be read of a damaged trace is shown.
    let cut = nettrace(&["errors", "-"], &trace[..trace.len() - 4]);
    assert_eq!((cut.status.code(), stdout(&cut).lines().count()), (Some(1), 7));
}

/// What another program writes into its errors is shown on its line, and takes bounded memory.
#[test]
fn hostile_errors_are_harmless() {
    const SHAPES: u32 = 100_000;

    let string = [19, 4];
    let ty = |id: u64, name: &str, level: u8, opcode| {
        EventType::new(id, "Sh\u{7}op", id, name).optional(&[8, level, 1, opcode])
    };
    let many = "{message".repeat(1_000);
    let mut stream = Stream::new();
    stream
        .thread(5)
        .metadata(&ty(1, "lo\u{1b}[31m\ng", 2, 0).field("message", &string))
        .metadata(
            &ty(2, "}{{", 1, 0).field("message", &string).optional_text(4, &["lost {{message} }"]),
        )
        .metadata(&ty(3, "many", 3, 0).field("message", &string).optional_text(4, &[&many]))
        .metadata(
            &ty(4, "getStart", 4, 1)
                .field("route", &string)
                .optional_text(6, &["nettrace.dimension", "route"]),
        )
        .metadata(&ty(5, "getStop", 4, 2).field("outcome", &string).field("err", &string));
    let labels = spans::labels(place(1, 1, 0));
    stream.label_lists(1, &[&labels]);
    let hostile = "a\u{1b}[2J\r\n{x}\u{202e}\0\t</script>";
    let huge = "é\n".repeat(10_000);
    let mut rows: Vec<(u32, u32, u64, Vec<u8>)> = vec![
        (4, 1, 3000, text(&format!("/{hostile}{huge}"))),
        (1, 1, 3001, text(hostile)),
        (1, 0, 3002, text(&huge)),
        (2, 0, 3003, text(&huge)),
        (3, 0, 3004, text(&huge)),
        // Text that is none, and too short a payload.
        (1, 0, 3005, vec![2, 0, 0x00, 0xD8, 0x00, 0xD8]),
        (1, 0, 3006, vec![9, 0, 1]),
        // Before the trace begins, and at its end.
        (1, 0, 1, text("early")),
        (1, 0, u64::from(u32::MAX), text("late")),
        (5, 1, 3007, [text("err"), text(hostile)].concat()),
    ];
    let others = rows.len() as u64;
    for at in 0..SHAPES {
        // No digits, which are no part of a shape. The times go back.
        let word: String = format!("{at}").bytes().map(|it| char::from(it - b'0' + b'a')).collect();
        rows.push((1, 0, 500_000 - u64::from(at), text(&word)));
    }
    for (chunk, rows) in rows.chunks(2000).enumerate() {
        let rows: Vec<_> = (1..)
            .zip(rows)
            .map(|(number, (metadata, labels, at, payload))| {
                let number = chunk as u32 * 2000 + number;
                Row::new(5, number, *at).metadata(*metadata).labels(*labels).payload(payload)
            })
            .collect();
        stream.events(&rows);
    }
    let trace = stream.end();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hostile.nettrace");
    std::fs::write(&path, &trace).unwrap();
    let path = path.to_str().unwrap();
    let total = others + u64::from(SHAPES) - 1; // but for the start of the span
    let groups = nettrace(&["errors", path, "--json"], b"");
    assert_eq!(groups.status.code(), Some(0), "{}", stderr(&groups));
    let found: Vec<_> = stdout(&groups).lines().map(strict_json).collect();
    assert_eq!(found.len(), 500);
    let counted: u64 = found.iter().map(|group| group["count"].as_u64().unwrap()).sum();
    let said = format!(" groups=500 of_no_group={}", total - counted);
    assert!(stderr(&groups).contains(&said), "{counted} {}", stderr(&groups));
    let longest = found.iter().flat_map(|group| [&group["shape"], &group["example"]]);
    let longest = longest.map(|text| text.as_str().unwrap().chars().count()).max();
    assert!(longest.unwrap() < 300, "{longest:?}");
    for args in [
        &["errors", path][..],
        &["report", path, "--text"],
        &["diff", path, path],
        &["errors", path, "--grep", "early"],
        &["report", path, "--text", "--where", "message~late"],
    ] {
        let output = nettrace(args, b"");
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
        assert_printable(&output, "", &args.join(" "));
        assert!(stdout(&output).len() < 60_000, "{args:?}: {}", stdout(&output).len());
    }
    let shown = nettrace(&["errors", path], b"");
    let rest = format!("and {} more errors and warnings of other kinds\n", total - counted);
    assert!(stdout(&shown).ends_with(&rest), "{}", stdout(&shown));
    assert!(stdout(&shown).contains("and 470 more groups"), "{}", stdout(&shown));
    let compared = nettrace(&["diff", path, path, "--json"], b"");
    let compared = strict_json(stdout(&compared).trim_end());
    assert_eq!(compared["others"], json!([]));
    assert_eq!(compared["other_errors"], json!([total - counted, total - counted]));
}
