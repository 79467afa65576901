//! `tail`, of a process and of a trace in a pipe.

#![cfg(unix)]
#![expect(clippy::disallowed_methods, reason = "a test sleeps")]

mod live_support;

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
};

use live_support::{interrupt, nettrace, succeeded, until};
use nettrace_diagnostics::Options;
use nettrace_writer::{Emit as _, Session, TraceEvent, TraceSpan, traced};
use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use serde_json::json;
use tempfile::tempdir;
use testkit::{
    browser::{self, Browser},
    process::{is_rerun, this_program},
};

#[derive(TraceSpan)]
#[trace_event(provider = "Contoso-Tail")]
struct Request {
    route: &'static str,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Contoso-Tail", level = Warning, message = "{what} is gone")]
struct Gone {
    what: &'static str,
    left: u32,
}

/// Makes a process do [`shop`].
const SHOP: u8 = 1;

/// Makes a process begin a request that never ends.
const HANG: u8 = 2;

/// Makes it say something in the span in which it is.
const SAY: u8 = 3;

/// A process that does its work when it is told to and somebody listens. Other tests listen to all
/// that happens in this one.
struct Worker(Child);

impl Worker {
    /// Whether this is the process.
    fn is_here() -> bool {
        let Some(folder) = is_rerun() else { return false };
        let _diagnostics = Options::new().directory(&folder).listen().unwrap();
        // From here on the types are known, and tell whether somebody listens.
        work();
        for task in std::io::stdin().lock().bytes() {
            let task = task.unwrap();
            if task == HANG {
                std::mem::forget(Request { route: "/hang" }.enter());
                continue;
            }
            until("somebody listens", Gone::is_any_enabled);
            match task {
                SHOP => shop(),
                SAY => Gone { what: "milk", left: 1 }.emit(),
                _ => work(),
            }
        }
        true
    }

    fn start(test: &str, folder: &Path) -> Self {
        let mut command = this_program();
        command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
        command.env("NETTRACE_RERUN", folder).stdin(Stdio::piped()).stdout(Stdio::null());
        let worker = Self(command.spawn().unwrap());
        until("it listens", || {
            let listed = succeeded(&nettrace(folder, &["ps"]).output().unwrap());
            listed.contains(&worker.pid())
        });
        worker
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    fn work(&mut self) {
        self.0.stdin.as_mut().unwrap().write_all(&[0]).unwrap();
    }

    fn shop(&mut self) {
        self.0.stdin.as_mut().unwrap().write_all(&[SHOP]).unwrap();
    }

    fn hang(&mut self) {
        self.0.stdin.as_mut().unwrap().write_all(&[HANG]).unwrap();
    }

    fn say(&mut self) {
        self.0.stdin.as_mut().unwrap().write_all(&[SAY]).unwrap();
    }

    fn end(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

/// The next line of a command that watches. Fails if it does not come.
fn next_line(lines: &mut impl Iterator<Item = std::io::Result<String>>) -> String {
    lines.next().expect("a line").unwrap()
}

/// What a line has behind its time of day.
fn behind_time(line: &str) -> &str {
    let (time, rest) = line.split_at(15);
    assert!(time.chars().all(|c| c.is_ascii_digit() || c == ':' || c == '.'), "{line}");
    rest
}

/// A request with an event inside, on this thread, and an event on another.
fn work() {
    let span = Request { route: "/orders" }.enter();
    Gone { what: "tea", left: 3 }.emit();
    drop(span);
    thread::scope(|scope| {
        scope.spawn(|| Gone { what: "\x1b[31mmilk\n", left: 0 }.emit());
    });
}

#[test]
fn tail_shows_each_event_as_it_comes() {
    if Worker::is_here() {
        return;
    }
    let folder = tempdir().unwrap();
    let mut worker = Worker::start("tail_shows_each_event_as_it_comes", folder.path());
    let pid = worker.pid();
    for pretty in [false, true] {
        let mut arguments = vec!["tail", "-p", &pid, "--provider", "contoso-tail"];
        arguments.extend(pretty.then_some("--pretty"));
        let mut child = nettrace(folder.path(), &arguments).spawn().unwrap();
        // Once: nothing that follows pushes it out.
        worker.work();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let count = if pretty { 13 } else { 4 };
        let shown: Vec<_> = (0..count).map(|_| next_line(&mut lines)).collect();
        interrupt(&child);
        let rest: Vec<_> = lines.map(Result::unwrap).collect();
        assert!(rest.iter().all(String::is_empty), "{rest:?}");
        let output = child.wait_with_output().unwrap();
        succeeded(&output);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("# events=4 shown=4 lost=0 "), "{said}");
        check_lines(&shown, pretty);
    }
    worker.end();
}

/// Checks what is shown of [`work`].
fn check_lines(shown: &[String], pretty: bool) {
    println!("{}", shown.join("\n"));
    let events: Vec<_> =
        shown.iter().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).collect();
    let [start, inside, stop, other] = events[..] else { panic!("{shown:#?}") };
    let indent = if pretty { "" } else { "  " };
    let head = "  INFO > Contoso-Tail/Request [";
    let start = behind_time(start);
    assert!(start.starts_with(head) && start.ends_with("] route=\"/orders\""), "{start}");
    let id = &start[head.len()..head.len() + 16];
    let expected = format!("  WARN {indent}Contoso-Tail/Gone [{id}]: tea is gone left=3");
    assert_eq!(behind_time(inside), expected);
    let expected = "  WARN Contoso-Tail/Gone: \\u{1b}[31mmilk\\n is gone left=0";
    assert_eq!(behind_time(other), expected);
    let stop = behind_time(stop);
    let head = format!("  INFO < Contoso-Tail/Request [{id}] ");
    assert!(stop.starts_with(&head) && stop.ends_with("s ok"), "{stop}");
    if pretty {
        let around = "    in Contoso-Tail/Request route=\"/orders\"";
        assert_eq!(shown.iter().filter(|line| *line == around).count(), 1, "{shown:#?}");
        let place = |line: &&String| line.starts_with("    at ") && line.contains("tail.rs");
        assert_eq!(shown.iter().filter(place).count(), 4, "{shown:#?}");
    }
}

/// `collect -o - | dump -`: what is shown does not wait for what follows.
#[test]
fn a_trace_in_a_pipe_is_shown_as_it_comes() {
    if Worker::is_here() {
        return;
    }
    let folder = tempdir().unwrap();
    let mut worker = Worker::start("a_trace_in_a_pipe_is_shown_as_it_comes", folder.path());
    let pid = worker.pid();
    let arguments = ["collect", "-p", &pid, "--providers", "Contoso-Tail", "-o", "-"];
    let mut collect = nettrace(folder.path(), &arguments).spawn().unwrap();
    let mut dump = nettrace(folder.path(), &["dump", "-"]);
    let mut dump = dump.stdin(collect.stdout.take().unwrap()).spawn().unwrap();
    let mut lines = BufReader::new(dump.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        worker.work();
        let shown: Vec<_> = (0..4).map(|_| next_line(&mut lines)).collect();
        assert!(shown[1].contains("tea is gone"), "{shown:#?}");
    }
    interrupt(&collect);
    assert_eq!(lines.count(), 0);
    succeeded(&collect.wait_with_output().unwrap());
    succeeded(&dump.wait_with_output().unwrap());
    worker.end();
}

#[test]
fn tail_ends_with_its_process_and_colors_when_asked() {
    if Worker::is_here() {
        return;
    }
    let folder = tempdir().unwrap();
    let mut worker =
        Worker::start("tail_ends_with_its_process_and_colors_when_asked", folder.path());
    let pid = worker.pid();
    let arguments = ["tail", "-p", &pid, "--where", "left=3", "--color", "always"];
    let mut tail = nettrace(folder.path(), &arguments).spawn().unwrap();
    worker.work();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    let line = next_line(&mut lines);
    let [grey, yellow] = ["\x1b[38;5;244m", "\x1b[38;5;136m WARN\x1b[0m"];
    assert!(line.starts_with(grey) && line.contains(yellow), "{line:?}");
    worker.end();
    assert_eq!(lines.count(), 0);
    succeeded(&tail.wait_with_output().unwrap());
}

#[traced(provider = "Contoso-Tail", fields = [card], err)]
fn pay(card: &str) -> Result<u32, String> {
    Probe { card, bytes: 4_096 }.emit();
    Declined { card, reason: "the issuer does not answer" }.emit();
    Err("declined: the issuer of the card does not answer".to_owned())
}

#[traced(provider = "Contoso-Tail", fields = [items])]
fn pack(items: &[&str]) {
    Gone { what: "tea, the green one of the second harvest", left: 0 }.emit();
}

#[derive(TraceEvent)]
#[trace_event(provider = "Contoso-Tail", level = Verbose, message = "asked for {card}")]
struct Probe<'a> {
    card: &'a str,
    bytes: u32,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Contoso-Tail", level = Error, message = "{card} is declined: {reason}")]
struct Declined<'a> {
    card: &'a str,
    reason: &'a str,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Contoso-Tail", level = Critical, message = "closed: {why}")]
struct Closed<'a> {
    why: &'a str,
}

/// Everything that has a color, and lines that are long.
fn shop() {
    let span = Request { route: "/orders/{id}" }.enter();
    pack(&["green tea", "a pot of stoneware", "two cups"]);
    drop(pay("4711-0815"));
    drop(span);
    Closed { why: "nothing is left" }.emit();
}

/// Runs a command on a terminal with so many columns, until `enough` of what it has shown. Then
/// interrupts it. Returns all that it has shown.
fn on_terminal(mut command: Command, columns: u16, enough: impl Fn(&str) -> bool) -> String {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let size = Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal, size).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let other_end = File::options().write(true).open(name.to_str().unwrap()).unwrap();
    let child =
        command.env_remove("NO_COLOR").env("TERM", "xterm").stdout(other_end).spawn().unwrap();
    // It has the only other descriptor: when it has ended, reading fails.
    drop(command);
    let (mut shown, mut is_over) = (String::new(), false);
    let mut lines = BufReader::new(File::from(terminal));
    while lines.read_line(&mut shown).is_ok_and(|size| size > 0) {
        if !is_over && enough(&shown) {
            is_over = true;
            interrupt(&child);
        }
    }
    succeeded(&child.wait_with_output().unwrap());
    shown.replace('\r', "")
}

/// A line without its colors.
fn plain(line: &str) -> String {
    let parts = line.split('\x1b').enumerate().map(|(index, part)| match index {
        0 => part,
        _ => part.split_once('m').expect("a color").1,
    });
    parts.collect()
}

#[track_caller]
fn assert_fits(shown: &str, columns: u16) {
    for line in shown.lines() {
        let width = plain(line).chars().count();
        assert!(width <= usize::from(columns), "{width} columns: {line:?}");
    }
}

/// Trees and dumps are broken at blanks, and nothing of them is lost.
#[test]
fn trees_and_dumps_fit_the_terminal() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("shop.nettrace");
    let session = Session::builder().provider("Contoso-Tail").file(&path).start().unwrap();
    shop();
    session.finish().unwrap();
    let path = path.to_str().unwrap();
    for arguments in [&["tree", path][..], &["dump", path]] {
        let whole = nettrace(folder.path(), arguments).output().unwrap();
        let whole = succeeded(&whole);
        let words: Vec<_> = whole.split_whitespace().collect();
        for columns in [46, 80, 200] {
            let shown = on_terminal(nettrace(folder.path(), arguments), columns, |_| false);
            assert_fits(&shown, columns);
            let shown = plain(&shown);
            assert_eq!(shown.split_whitespace().collect::<Vec<_>>(), words, "{columns}");
            let is_broken = shown.lines().count() > whole.lines().count();
            assert!(is_broken || columns == 200, "{shown}");
        }
    }
}

/// On terminals as wide as a desktop's and as a telephone's. If the variable `NETTRACE_SCREENS`
/// names a folder, pictures are left there, light and dark.
#[test]
fn lines_fit_the_terminal() {
    if Worker::is_here() {
        return;
    }
    let folder = tempdir().unwrap();
    let mut worker = Worker::start("lines_fit_the_terminal", folder.path());
    let pid = worker.pid();
    let mut screens = Vec::new();
    for (columns, pixels) in [(160, 1280), (46, 390)] {
        for look in ["compact", "pretty"] {
            let mut arguments = vec!["tail", "-p", &pid, "--provider", "contoso-tail"];
            arguments.extend((look == "pretty").then_some("--pretty"));
            worker.shop();
            let enough = |shown: &str| shown.contains("nothing is left");
            let shown = on_terminal(nettrace(folder.path(), &arguments), columns, enough);
            assert_fits(&shown, columns);
            let file = folder.path().join(format!("tail-{look}.{pixels}"));
            fs::write(&file, shown).unwrap();
            screens.push(file);
        }
    }
    worker.end();
    let Some(Browser { packages, chromium }) = browser::find(&["playwright-core"]) else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tail_screens.mjs");
    let mut node = Command::new("node");
    let output = node.args([&script, &packages, &chromium]).args(&screens).output().unwrap();
    let widths = succeeded(&output);
    let widths: Vec<serde_json::Value> =
        widths.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(widths, [1280, 1280, 390, 390].map(|pixels| json!([pixels, pixels])));
}

/// What is known of a span at its end is asked for: its events come then, and all of them.
#[test]
fn tail_shows_whole_spans_when_they_end() {
    if Worker::is_here() {
        return;
    }
    let folder = tempdir().unwrap();
    let mut worker = Worker::start("tail_shows_whole_spans_when_they_end", folder.path());
    let pid = worker.pid();
    let of_span = ["--where", "duration>0ns", "--where", "route=/orders"];
    let arguments = [&["tail", "-p", &pid, "--head", "3"], &of_span[..]].concat();
    let child = nettrace(folder.path(), &arguments).spawn().unwrap();
    worker.work();
    let shown = succeeded(&child.wait_with_output().unwrap());
    let lines: Vec<_> = shown.lines().collect();
    assert!(lines[0].contains("> Contoso-Tail/Request ["), "{lines:?}");
    assert!(lines[1].contains("tea is gone"), "{lines:?}");
    assert!(lines[2].contains("< Contoso-Tail/Request [") && lines.len() == 3, "{lines:?}");
    worker.end();
    // In another process: in this one the first session may still listen.
    let mut worker = Worker::start("tail_shows_whole_spans_when_they_end", folder.path());
    let pid = worker.pid();
    let arguments = ["tail", "-p", &pid, "--where", "duration>1h", "--duration", "4s"];
    let child = nettrace(folder.path(), &arguments).spawn().unwrap();
    worker.work();
    let output = child.wait_with_output().unwrap();
    assert_eq!(succeeded(&output), "");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("none has duration>1h"), "{said}");
    worker.end();
}

/// What is under way now: spans that began since, with their fields, and those that began before,
/// as far as they say something.
#[test]
fn tree_shows_what_is_open_in_a_process() {
    if Worker::is_here() {
        return;
    }
    let folder = tempdir().unwrap();
    let mut worker = Worker::start("tree_shows_what_is_open_in_a_process", folder.path());
    let pid = worker.pid();
    let trace = folder.path().join("whole.nettrace");
    let arguments = ["collect", "-p", &pid, "-o", trace.to_str().unwrap()];
    let collect = nettrace(folder.path(), &arguments).spawn().unwrap();
    worker.work();
    worker.hang();
    until("the span is recorded", || {
        let tree = nettrace(folder.path(), &["tree", trace.to_str().unwrap(), "--open"]).output();
        String::from_utf8_lossy(&tree.unwrap().stdout).contains("/hang")
    });
    let arguments = ["tree", "-p", &pid, "--open", "--json", "--interval", "200ms"];
    let mut tree = nettrace(folder.path(), &arguments).spawn().unwrap();
    let mut lines = BufReader::new(tree.stdout.take().unwrap()).lines();
    let mut shown = |worker: &mut Worker, is_such: &dyn Fn(&serde_json::Value) -> bool| loop {
        worker.say();
        let line: serde_json::Value = serde_json::from_str(&next_line(&mut lines)).unwrap();
        if is_such(&line) {
            return line;
        }
    };
    let before = shown(&mut worker, &|line| line["spans"].as_array().unwrap().len() == 1);
    let [span] = &before["spans"].as_array().unwrap()[..] else { panic!("{before}") };
    assert_eq!((&span["began_before"], &span["name"]), (&json!(true), &json!(null)), "{before}");
    assert_eq!(span["last_event"], "Contoso-Tail/Gone", "{before}");
    worker.hang();
    let both = shown(&mut worker, &|line| line["spans"].as_array().unwrap().len() == 2);
    let inner = &both["spans"][1];
    assert_eq!((&inner["depth"], &inner["parent"]), (&json!(1), &span["span"]), "{both}");
    assert_eq!((&inner["began_before"], &inner["name"]), (&json!(false), &json!("Request")));
    assert!(inner["age_ns"].as_i64() > Some(0) && both["began_before"] == 1, "{both}");
    interrupt(&tree);
    let output = tree.wait_with_output().unwrap();
    succeeded(&output);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("of the spans that began before this attached, only those"), "{said}");
    interrupt(&collect);
    succeeded(&collect.wait_with_output().unwrap());
    // As text, once.
    let arguments = ["tree", "-p", &pid, "--open", "--once", "--interval", "2s"];
    let once = nettrace(folder.path(), &arguments).spawn().unwrap();
    worker.work();
    worker.hang();
    let text = succeeded(&once.wait_with_output().unwrap());
    assert_eq!(text.matches(" attached ").count(), 1, "{text}");
    assert!(
        text.contains("  Contoso-Tail/Request [") && text.contains("route=\"/hang\""),
        "{text}"
    );
    let wrong = nettrace(folder.path(), &["tree", "-p", &pid]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("--open"));
    worker.end();
}

/// Of a span that began when nothing listened, the process itself knows nothing.
#[test]
fn a_span_that_began_unheard_is_not_known() {
    if Worker::is_here() {
        return;
    }
    let folder = tempdir().unwrap();
    let mut worker = Worker::start("a_span_that_began_unheard_is_not_known", folder.path());
    let pid = worker.pid();
    worker.hang();
    let arguments = ["tree", "-p", &pid, "--open", "--once", "--interval", "2s"];
    let once = nettrace(folder.path(), &arguments).spawn().unwrap();
    worker.work();
    let text = succeeded(&once.wait_with_output().unwrap());
    assert!(text.contains(": 0 spans are open, attached "), "{text}");
    worker.end();
}

#[test]
fn top_counts_what_passes() {
    if Worker::is_here() {
        return;
    }
    let folder = tempdir().unwrap();
    let mut worker = Worker::start("top_counts_what_passes", folder.path());
    let pid = worker.pid();
    let arguments = ["top", "-p", &pid, "--json", "--interval", "200ms", "--where", "what~tea"];
    let mut top = nettrace(folder.path(), &arguments).spawn().unwrap();
    let mut lines = BufReader::new(top.stdout.take().unwrap()).lines();
    loop {
        worker.work();
        let line: serde_json::Value = serde_json::from_str(&next_line(&mut lines)).unwrap();
        let types = line["types"].as_array().unwrap();
        assert!(types.iter().all(|ty| ty["name"] == "Gone"), "{line}");
        if !types.is_empty() {
            break;
        }
    }
    interrupt(&top);
    succeeded(&top.wait_with_output().unwrap());
    worker.end();
}
