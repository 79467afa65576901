//! Runs `nettrace tree` with what can be asked of it: rankings, filters, folding, and what is open.

use serde_json::{Value, json};
use testkit::streams::{EventType, Row, Stream};

use crate::{
    program::{nettrace, stderr, stdout, strict_json},
    spans::{
        self, Event, PAY_START, PAY_STOP, Place, RESUME, SOLD, START, SUSPEND, event, place, stop,
        stream,
    },
    tree::trees,
};

/// What `tree` prints.
fn text(args: &[&str], trace: &[u8]) -> String {
    let output = nettrace(&[&["tree", "-"], args].concat(), trace);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
    stdout(&output).to_owned()
}

/// The ids of the first spans of all trees.
fn roots(args: &[&str], trace: &[u8]) -> Vec<u64> {
    let id =
        |tree: &Value| u64::from_str_radix(tree["spans"][0]["span"].as_str().unwrap(), 16).unwrap();
    trees(args, trace).iter().map(id).collect()
}

/// A `pay` from one time to another.
fn pay(from: u64, to: u64, at: Place) -> [Event; 2] {
    [event(from, PAY_START, at), event(to, PAY_STOP, at)]
}

/// A request that only hands work on, one that does its work itself, and one that never ends.
fn handed_on() -> Vec<u8> {
    let mut events = vec![
        event(100, START, place(1, 1, 0)),
        stop(102, place(1, 1, 0), 2, "ok"),
        event(200, START, place(2, 3, 0)),
        stop(260, place(2, 3, 0), 60, "err"),
        event(300, START, place(3, 10, 0)),
        event(310, SOLD, place(3, 10, 0)),
    ];
    events.extend(pay(101, 900, place(1, 2, 1)));
    events.extend((0..6).flat_map(|at| pay(320 + at * 10, 325 + at * 10, place(3, 11 + at, 10))));
    events.extend(pay(400, 600, place(3, 20, 10)));
    // Inside of one that has ended.
    events.extend(pay(410, 590, place(3, 21, 20)));
    // Never ends, either.
    events.push(event(620, START, place(3, 30, 10)));
    events.extend(pay(630, 631, place(3, 31, 30)));
    events.push(Event { place: None, ..event(1000, SOLD, place(0, 0, 0)) });
    stream(events).end()
}

#[test]
fn a_trace_is_ranked_from_its_first_start_to_its_last_stop() {
    let trace = handed_on();
    let found = trees(&["--slow", "2"], &trace);
    let firsts: Vec<_> = found.iter().map(|tree| &tree["spans"][0]["span"]).collect();
    let id = |id: u64| json!(format!("{id:016x}"));
    // Behind the two slowest is the one that is cut.
    assert_eq!(json!(firsts), json!([id(1), id(20), id(10)]));
    assert_eq!((&found[0]["extent_ns"], &found[0]["longest"]), (&json!(800_000), &id(2)));
    assert_eq!(found[0].get("within"), None);
    let shown = text(&["--slow", "2"], &trace);
    let said = format!(", 800.000µs in all, 799.000µs of it in Shop/pay [{:016x}]\n", 2);
    assert!(shown.contains(&said), "{shown}");
}

/// What has ended below a root that never ends is a tree of its own, once.
#[test]
fn a_root_that_never_ends_is_a_frame() {
    let trace = handed_on();
    assert_eq!(roots(&[], &trace), [1, 20, 3, 11, 12, 13, 14, 15, 16, 31, 10]);
    let found = trees(&[], &trace);
    let id = |id: u64| json!(format!("{id:016x}"));
    let within = |place: usize| found[place]["within"].clone();
    assert_eq!((within(1), within(9)), (json!([id(10)]), json!([id(10), id(30)])));
    let counts: Vec<_> = found.iter().map(|it| it["spans"].as_array().unwrap().len()).collect();
    assert_eq!(counts, [2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 2]);
    assert_eq!(found[1]["remote_parent"], Value::Null);
    let shown = text(&[], &trace);
    let around = format!(
        "  >700.000µs            -  no end    Shop/checkout [{:016x}] cart=7\n   200.000µs     \
         20.000µs  -           Shop/pay [{:016x}] cents=7\n",
        10, 20
    );
    assert!(shown.contains(&around), "{shown}");
    let (_, cut) = shown.split_once("1 tree is cut").unwrap();
    let folded = "  … 7 × Shop/pay, 32.857µs each, longest 200.000µs [0000000000000014], one after \
        another\n";
    assert!(cut.contains(folded) && cut.contains("Shop/Sold count=7"), "{cut}");
    // The page has the same trees, and the report as text.
    let page = nettrace(&["report", "-", "--text"], &trace);
    let page = stdout(&page);
    let slowest = page.lines().find(|line| line.contains(" 800.000µs ")).unwrap();
    assert!(slowest.starts_with("Shop/checkout "), "{page}");
    assert!(slowest.ends_with(", 799.000µs of it in pay"), "{page}");
    assert!(page.contains("Shop/pay (within checkout) "), "{page}");
}

#[test]
fn spans_are_ranked_by_themselves() {
    let trace = handed_on();
    assert_eq!(roots(&["--span", "pay", "--slow", "3"], &trace), [2, 20, 21]);
    assert_eq!(roots(&["--span", "Shop/pa*", "--own", "--slow", "3"], &trace), [2, 21, 20]);
    assert_eq!(roots(&["--own", "--slow", "3"], &trace), [2, 21, 3]);
    let shown = text(&["--own", "--slow", "2"], &trace);
    let marked: Vec<_> = shown.lines().filter(|line| line.starts_with('*')).collect();
    assert!(marked.len() == 2 && marked[1].contains("Shop/pay [0000000000000015]"), "{shown}");
    // Those without an end come last.
    assert_eq!(roots(&["--span", "checkout"], &trace), [3, 1, 10, 30]);
    let shown = text(&["--span", "pay", "--slow", "1"], &trace);
    let lines: Vec<_> =
        shown.lines().map(|line| line.split_once("  Shop/").map(|it| it.1)).collect();
    let expected = [1, 2].map(|id: u64| format!("[{id:016x}]"));
    assert!(lines[1].unwrap().starts_with(&format!("checkout {}", expected[0])), "{shown}");
    assert!(lines[2].unwrap().starts_with(&format!("pay {}", expected[1])), "{shown}");
    let nothing = nettrace(&["tree", "-", "--busy"], &trace);
    let said = "spans, none is what was asked for";
    assert!(stdout(&nothing).is_empty() && stderr(&nothing).contains(said), "{}", stderr(&nothing));
}

#[test]
fn time_on_a_processor_ranks_spans() {
    let ty = |id: u64, name: &str, opcode| {
        EventType::new(id, "Shop", id, name).optional(&[8, 4, 1, opcode])
    };
    let end = ty(2, "askStop", 2).field("busy", &[12]);
    let mut stream = Stream::new();
    stream.thread(5).metadata(&ty(1, "askStart", 1)).metadata(&end);
    let labels: Vec<_> = (1..=3).map(|id| spans::labels(place(0xAB, id, 0))).collect();
    stream.label_lists(1, &labels.iter().map(|list| &**list).collect::<Vec<_>>());
    let mut rows = Vec::new();
    let payloads = [5_u64, 900, 70].map(u64::to_le_bytes);
    for (number, payload) in (1..).zip(&payloads) {
        let row =
            |place: u32| Row::new(5, 2 * number + place, 1000 + u64::from(20 * number + place));
        rows.push(row(0).metadata(1).labels(number));
        rows.push(row(1).metadata(2).labels(number).payload(payload));
    }
    let trace = stream.events(&rows).end();
    assert_eq!(roots(&["--busy"], &trace), [2, 3, 1]);
}

#[test]
fn filters_mark_what_they_find() {
    let trace = spans::samples();
    let shown = text(&["--grep", "count=7", "--trace", &"ab".repeat(16)], &trace);
    let marked: Vec<_> = shown.lines().filter(|line| line.starts_with('*')).collect();
    assert_eq!(marked.len(), 2, "{shown}");
    let shown = text(&["--where", "outcome=err"], &trace);
    assert!(shown.lines().nth(1).unwrap().starts_with("*  100.000µs"), "{shown}");
    assert_eq!(shown.lines().count(), 9, "all of its tree: {shown}");
    // The tree around is shown, and the rest is folded.
    let shown = text(&["--where", "outcome=ok", "--where", "duration=20us"], &trace);
    let expected = "\
2026-03-04T05:06:07.089100000Z   0.000100000 s, trace abababababababababababababababab
   100.000µs     50.000µs  err       Shop/checkout [0000000000000001] cart=7
    50.000µs     30.000µs  -           Shop/pay [0000000000000002] cents=7 {region=\"north\"}
*   20.000µs     20.000µs  ok            Shop/pack [0000000000000003] (single)
                                         · and 1 more event
                                       · and 3 more events
";
    assert!(shown.starts_with(expected), "{shown}");
    for (filter, expected) in [
        (&["--where", "cents=7"][..], vec![1, 11]),
        (&["--where", "region=north"], vec![1]),
        (&["--where", "span=pack"], vec![1]),
        (&["--where", "duration>45us", "--where", "span=pay"], vec![1]),
        (&["--where", "duration>=100us"], vec![1, 21]),
        (&["--where", "event=Sold"], vec![1, 23]),
        (&["--where", "process=77", "--where", "provider=Shop", "--slow", "1"], vec![1, 21]),
        (&["--where", "outcome!=ok"], vec![1, 22]),
        (&["--event", "checkoutResume"], vec![1]),
        (&["--provider", "shop", "--grep", "cancelled"], vec![22]),
        (&["--from", "0.0003", "--to", "0.000399"], vec![11]),
        (&["--span", "pay", "--where", "region=north"], vec![2]),
    ] {
        assert_eq!(roots(filter, &trace), expected, "{filter:?}");
    }
    let found = trees(&["--where", "span=pack"], &trace);
    let spans = found[0]["spans"].as_array().unwrap();
    let matches: Vec<_> = spans.iter().map(|span| span["matches"].as_bool().unwrap()).collect();
    assert_eq!(matches, [false, false, true]);
    // If nothing passes, the reason and the nearest name are told, as by dump.
    for (filter, says) in [
        (["--provider", "Shap"], "none is of provider Shap (is `Shop` meant?)"),
        (["--where", "cent=7"], "named cent (is `cents` meant?)"),
        (["--where", "duration>5s"], "none has duration>5s"),
        (
            ["--where", "outcome=failed"],
            "none has outcome=failed; the outcomes are cancelled, err, ok",
        ),
        (["--span", "pays"], "none is called pays (is `pay` meant?); there are "),
        (["--grep", "tea"], "none contains the text \"tea\""),
    ] {
        let output = nettrace(&[&["tree", "-"], &filter[..]].concat(), &trace);
        assert_eq!((output.status.code(), stdout(&output)), (Some(0), ""), "{filter:?}");
        assert!(stderr(&output).contains(says), "{filter:?}: {}", stderr(&output));
    }
    // The same expressions in dump.
    for (filter, count) in [
        (["--grep", "region"], 3),
        (["--where", "event=Sold"], 4),
        (["--where", "provider=Shop"], 17),
        (["--where", "process=77"], 17),
        (["--where", "process!=77"], 0),
    ] {
        let output = nettrace(&[&["dump", "-"], &filter[..]].concat(), &trace);
        assert_eq!(stdout(&output).lines().count(), count, "{filter:?}: {}", stderr(&output));
    }
}

/// The other names of an option do the same. A duration has a unit.
#[test]
fn what_a_newcomer_writes() {
    let trace = handed_on();
    for name in ["--top", "--head", "--limit"] {
        assert_eq!(roots(&[name, "1"], &trace), roots(&["--slow", "1"], &trace), "{name}");
    }
    let errors = nettrace(&["errors", "-", "--top", "1"], &trace);
    assert_eq!(errors.status.code(), Some(0), "{}", stderr(&errors));
    let bare = nettrace(&["tree", "-", "--where", "duration>140"], &trace);
    let said = "character 10: 140 has no unit: 140ms, 140us, …?";
    assert!(bare.status.code() == Some(2) && stderr(&bare).contains(said), "{}", stderr(&bare));
}

/// A request with sixty equal queries, one of which fails.
fn many_queries() -> Vec<u8> {
    let root = place(1, 1, 0);
    let mut events = vec![event(0, START, root), stop(10_000, root, 10_000, "ok")];
    for at in 0..60 {
        let own = place(1, 100 + at, 1);
        events.extend([
            event(100 + at * 100, START, own),
            stop(150 + at * 100 + at, own, 50 + at, if at == 30 { "err" } else { "ok" }),
        ]);
    }
    let side = |at: u64| pay(7_000 + at, 7_100 + at, place(1, 300 + at, 1));
    events.extend((0..5).flat_map(side));
    stream(events).end()
}

#[test]
fn equal_siblings_are_one_line() {
    let trace = many_queries();
    let shown = text(&[], &trace);
    let lines: Vec<_> = shown.lines().collect();
    let folded = "     4.654ms            -  ok          59 × Shop/checkout, 79.491µs each, \
        longest 109.000µs [000000000000009f], up to 2 at once";
    assert_eq!(lines[2], folded, "{shown}");
    assert!(lines[3].contains("err         Shop/checkout"), "{shown}");
    assert!(
        lines[4].ends_with(
            "5 × Shop/pay, 100.000µs each, longest 100.000µs \
        [000000000000012c], up to 5 at once"
        ),
        "{shown}"
    );
    assert_eq!(lines.len(), 6, "{shown}");
    let shown = text(&["--no-fold"], &trace);
    assert_eq!(shown.lines().count(), 68, "{shown}");
    let shown = text(&["--axis"], &trace);
    assert!(shown.contains(" ━━━━━━━━━━━━━━━━━━━━━━━━ Shop/checkout"), "{shown}");
    assert!(shown.contains(" ················██······   5 × Shop/pay"), "{shown}");
    // Each that a filter finds has a line.
    let between = ["--where", "duration>100us", "--where", "duration<10ms"];
    let shown = text(&between, &trace);
    assert_eq!(shown.matches("\n*").count(), 9, "{shown}");
    assert!(shown.contains("  … 51 × Shop/checkout, "), "{shown}");
}

#[test]
fn no_output_is_unbounded() {
    let trace = many_queries();
    let shown = text(&["--no-fold", "--lines", "20"], &trace);
    assert_eq!(shown.lines().count(), 24, "{shown}");
    assert!(shown.contains(" … and 46 more lines of this tree\n"), "{shown}");
    let last = "Not shown: 46 more lines of the trees above. --lines all shows everything, --trace \
        ID one trace";
    assert_eq!(shown.lines().last(), Some(last));
    let many = (1..=2_000).flat_map(|at| pay(at * 10, at * 10 + 5, place(1, at, 0)));
    let many = stream(many.collect()).end();
    let shown = text(&[], &many);
    assert!(shown.lines().count() <= 1_003, "{}", shown.lines().count());
    assert!(shown.lines().last().unwrap().starts_with("Not shown: 1666 more trees."), "{shown}");
    assert_eq!(text(&["--lines", "all"], &many).lines().count(), 6_000);
    let wrong = nettrace(&["tree", "-", "--lines", "few"], &many);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("write a number of lines, or all"), "{}", stderr(&wrong));
}

/// After a kill, what was under way: how long, how busy, and how far it had come.
#[test]
fn what_is_open() {
    let (root, child) = (place(1, 1, 0), place(1, 2, 1));
    let mut events = vec![
        event(100, START, root),
        event(200, PAY_START, child),
        event(210, RESUME, child),
        event(250, SUSPEND, child),
        event(300, RESUME, child),
        event(310, SOLD, child),
        event(330, SUSPEND, child),
        event(500, START, place(2, 50, 0)),
        stop(600, place(2, 50, 0), 100, "ok"),
        Event { place: None, ..event(1000, SOLD, root) },
    ];
    events.extend((0..7).flat_map(|at| pay(110 + at, 111 + at, place(1, 10 + at, 1))));
    events.extend((0..8).map(|at| event(700 + at, START, place(2, 60 + at, 50))));
    let trace = stream(events).end();
    let shown = text(&["--open"], &trace);
    let expected = "\
2 trees have spans without an end, the oldest first:

           9 × Shop/checkout, under way for 293.000µs to 900.000µs
           1 × Shop/pay, under way for 800.000µs

2026-03-04T05:06:07.089100000Z   0.000100000 s, trace 01010101010101010101010101010101
* >900.000µs            -  no end    Shop/checkout [0000000000000001] cart=7
     7.000µs            -  -           … 7 × Shop/pay, 1.000µs each, longest 1.000µs \
[000000000000000a], one after another
* >800.000µs            -  no end      Shop/pay [0000000000000002] cents=7 (busy 70.000µs)
  +230.000µs                             · I Shop/checkoutSuspend
                                         · and 4 more events
";
    assert!(shown.starts_with(expected), "{shown}");
    assert!(!shown.contains("cents=7\n"), "{shown}");
    let found = trees(&["--open"], &trace);
    let open = found.iter().flat_map(|tree| tree["spans"].as_array().unwrap());
    assert_eq!(open.filter(|span| span["matches"] == true).count(), 10);
    assert_eq!(roots(&["--open", "--where", "span=pay"], &trace), [1]);
    let none = nettrace(&["tree", "-", "--open"], &many_queries());
    assert!(stdout(&none).is_empty(), "{}", stdout(&none));
    let said = "no span was shown: all 66 spans have ended";
    assert!(stderr(&none).contains(said), "{}", stderr(&none));
}

/// Of many equal trees a few are shown, and those with another open span.
#[test]
fn examples_of_what_is_open() {
    let root = |at: u8| event(u64::from(at) * 10, START, place(at, at.into(), 0));
    let mut events: Vec<_> = (1..=40).map(root).collect();
    events.push(event(500, PAY_START, place(30, 900, 30)));
    events.push(Event { place: None, ..event(1000, SOLD, place(1, 1, 0)) });
    let trace = stream(events).end();
    let shown = |options: &[&str]| text(&[&["--open"], options].concat(), &trace);
    let few = shown(&[]);
    assert!(few.starts_with("40 trees have spans without an end, the oldest first:\n"), "{few}");
    assert_eq!(few.matches(", trace ").count(), 4, "{few}");
    assert!(few.contains(" Shop/pay [") && few.contains("[0000000000000003]"), "{few}");
    assert!(few.contains("\nNot shown: 36 more trees. --lines all shows everything"), "{few}");
    assert_eq!(shown(&["--lines", "all"]).matches(", trace ").count(), 40);
    let ten = shown(&["--slow", "10"]);
    assert!(ten.starts_with("40 trees have spans without an end, the oldest first:\n"), "{ten}");
    assert_eq!(ten.matches(", trace ").count(), 10, "{ten}");
    assert_eq!(trees(&["--open"], &trace).len(), 40);
    assert_eq!(trees(&["--open", "--slow", "2"], &trace).len(), 2);
    let report = nettrace(&["report", "-", "--text"], &trace);
    let report = stdout(&report);
    assert!(report.contains(" spans, 990.000µs from first to last\n"), "{report}");
    assert!(report.contains("\n41 spans have no end: nettrace tree --open FILE\n"), "{report}");
}

/// A router lasts as long as the program. What has ended below it makes room, and the slowest stay.
#[test]
fn memory_is_bounded_below_a_root_that_never_ends() {
    let mut events = vec![event(0, START, place(1, 1, 0))];
    for at in 1..=20_000 {
        let length = if at == 7_000 { 90 } else { 5 };
        events.extend(pay(at * 10, at * 10 + length, place(1, 1 + at, 1)));
    }
    let trace = stream(events).end();
    let output = nettrace(&["tree", "-", "--slow", "2", "--tree-limit", "1"], &trace);
    let (shown, said) = (stdout(&output), stderr(&output));
    assert!(said.contains("left_out_spans=0 left_out_events=0 left_out_fields=0"), "{said}");
    assert!(said.contains(" spans=20001 ") && said.contains(" trees=20001 "), "{said}");
    assert!(shown.lines().nth(2).unwrap().starts_with("    90.000µs"), "{shown}");
    assert!(shown.contains(" spans below made room)\n"), "{shown}");
    assert!(shown.lines().count() < 15, "{shown}");
}

/// Names and texts of a trace stay on their line, whatever they are.
#[test]
fn hostile_names_stay_harmless() {
    let name = "pay\u{1b}[31m\n\u{202e}";
    let ty = |id: u64, suffix: &str, opcode| {
        EventType::new(id, "Sh\u{7}op", id, &format!("{name}{suffix}")).optional(&[8, 4, 1, opcode])
    };
    let mut stream = Stream::new();
    stream.thread(5).metadata(&ty(1, "Start", 1)).metadata(&ty(2, "Stop", 2));
    let labels: Vec<_> = (1..=9).map(|id| spans::labels(place(1, id, u64::from(id > 1)))).collect();
    stream.label_lists(1, &labels.iter().map(|list| &**list).collect::<Vec<_>>());
    let (mut rows, mut number) = (Vec::new(), 0);
    let mut row = |metadata: u32, label: u32| {
        number += 1;
        rows.push(Row::new(5, number, 1000 + u64::from(number)).metadata(metadata).labels(label));
    };
    (1..=9).for_each(|label| row(1, label));
    (2..=9).for_each(|label| row(2, label));
    row(2, 1);
    let trace = stream.events(&rows).end();
    for args in [&[][..], &["--no-fold"], &["--span", "*"], &["--where", "span~pay"], &["--axis"]] {
        let shown = text(args, &trace);
        let is_hostile = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!shown.contains(is_hostile), "{args:?} {shown:?}");
        assert!(shown.contains(r"Sh\u{7}op/pay\u{1b}[31m\n\u{202e}"), "{args:?} {shown}");
    }
    assert_eq!(strict_json(&trees(&[], &trace)[0].to_string())["spans"][0]["depth"], 0);
}
