//! Runs `nettrace diff` on two traces.

use std::fs;

use serde_json::json;

use crate::{
    program::{nettrace, stderr, stdout, strict_json},
    spans::{Event, PAY_START, PAY_STOP, RESUME, SOLD, START, event, place, stop, stream},
};

/// Requests that take so many microseconds, with a payment each.
fn requests(length: u64, more: Vec<Event>) -> Vec<u8> {
    let mut events = more;
    for at in 1..=10 {
        let (root, child) = (place(1, at, 0), place(1, 100 + at, at));
        let from = at * 10_000;
        events.extend([
            event(from, START, root),
            event(from + 1, PAY_START, child),
            event(from + 1 + length, PAY_STOP, child),
            stop(from + 100 + length, root, 100 + length, "ok"),
        ]);
    }
    stream(events).end()
}

#[test]
fn what_got_slower_and_what_is_new() {
    let folder = tempfile::tempdir().unwrap();
    let outside = |ty| Event { place: None, ..event(5, ty, place(0, 0, 0)) };
    let failed = place(1, 500, 0);
    let failure = vec![
        event(10, START, failed),
        stop(20, failed, 10, "err"),
        outside(SOLD),
        Event { at: 6, ..outside(SOLD) },
    ];
    let paths = [("a", requests(100, vec![outside(RESUME)])), ("b", requests(300, failure))].map(
        |(name, trace)| {
            let path = folder.path().join(name);
            fs::write(&path, trace).unwrap();
            path.to_str().unwrap().to_owned()
        },
    );
    let output = nettrace(&["diff", &paths[0], &paths[1]], b"");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let lines: Vec<_> = stdout(&output).lines().collect();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let expected = "Shop/pay 10 100.000µs 100.000µs 50.0 % → 10 300.000µs 300.000µs 74.8 % ×3.00";
    assert_eq!(words(lines[2]), words(expected), "{lines:?}");
    assert!(lines[3].starts_with("Shop/checkout "), "{lines:?}");
    let rest: Vec<_> = lines[5..].iter().map(|line| words(line).join(" ")).collect();
    let expected = [
        "In one trace alone count",
        "Shop/checkout: err in checkout error new 1",
        "Shop/Sold event new 2",
        "Shop/checkoutResume event gone 1",
    ];
    assert_eq!(rest, expected, "{lines:?}");
    let output = nettrace(&["diff", &paths[0], &paths[1], "--json"], b"");
    let found = strict_json(stdout(&output).trim());
    let pay = &found["spans"][0];
    assert_eq!([&pay["before"]["p50_ns"], &pay["after"]["p50_ns"]], [100_000, 300_000]);
    assert_eq!(
        found["others"][1],
        json!({
            "kind": "event", "what": "Shop/Sold", "is_new": true, "count": 2,
        })
    );
    // The same twice differs in nothing.
    let output = nettrace(&["diff", &paths[0], &paths[0]], b"");
    assert_eq!(stdout(&output).lines().count(), 4, "{}", stdout(&output));
    assert!(stdout(&output).contains("×1.00"), "{}", stdout(&output));
    // A damaged one is used as far as it can be read.
    let whole = requests(100, vec![]);
    fs::write(folder.path().join("c"), &whole[..whole.len() / 2]).unwrap();
    let cut = folder.path().join("c");
    let output = nettrace(&["diff", &paths[0], cut.to_str().unwrap()], b"");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
}
