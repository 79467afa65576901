//! Runs `nettrace report --serve` while the files of a trace come, grow and go.
#![cfg(unix)]
#![expect(clippy::disallowed_methods, reason = "a test sleeps")]

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use crate::{
    program::{nettrace, stderr, strict_json},
    spans::{START, event, onto, place, stop},
    view::Running,
};
use testkit::streams::Stream;

/// How long a newer page may take on a machine with other work.
const PATIENCE: Duration = Duration::from_secs(60);

/// A trace of so many spans, by a service.
fn trace(service: &str, spans: u64) -> Vec<u8> {
    let id = service.len() as u8;
    let each = (0..spans).flat_map(|number| {
        let (at, span) = (100 + 20 * number, place(id, number + 1, 0));
        [event(at, START, span), stop(at + 10, span, 10, "ok")]
    });
    let keys = [("ProcessId", "77"), ("service.name", service)];
    onto(Stream::with_keys(&keys), each.collect()).end()
}

/// Writes a file that is there when it is complete, as a session does.
fn put(path: &Path, bytes: impl AsRef<[u8]>) {
    let hidden = path.with_file_name(".hidden");
    fs::write(&hidden, bytes).unwrap();
    fs::rename(&hidden, path).unwrap();
}

fn serve(path: &Path) -> Running {
    Running::spawn(&["report", "--serve", "--every", "0.2", path.to_str().unwrap()])
}

/// The number of the page that is served, as the page asks for it.
fn number(running: &Running) -> u64 {
    let (head, body) = running.ask("HEAD PAGE HTTP/1.1\r\nHost: HERE\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && body.is_empty(), "{head}");
    let (_, rest) = head.split_once("\r\nETag: \"").unwrap();
    rest.split_once('"').unwrap().0.parse().unwrap()
}

/// The page, and its data.
fn page(running: &Running) -> (String, serde_json::Value) {
    let (_, body) = running.ask("GET PAGE HTTP/1.1\r\nHost: HERE\r\n\r\n");
    let page = String::from_utf8(body).unwrap();
    let (_, data) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    let data = strict_json(data.split_once("</script>").unwrap().0);
    (page, data)
}

/// Waits for a newer page.
fn newer(running: &Running, than: u64) -> serde_json::Value {
    let begin = Instant::now();
    while number(running) <= than {
        assert!(begin.elapsed() < PATIENCE, "no page after {than}");
        thread::sleep(Duration::from_millis(50));
    }
    page(running).1
}

#[test]
fn the_page_follows_its_files() {
    let folder = tempfile::tempdir().unwrap();
    // What a folder is called is the title.
    let traces = folder.path().join("<b>&\u{202e}");
    fs::create_dir(&traces).unwrap();
    let [first, second] = ["a", "b"].map(|name| traces.join(format!("{name}.nettrace")));
    put(&first, trace("shop", 3));
    let running = serve(&traces);
    let (html, data) = page(&running);
    assert_eq!((&data["spans"], &data["followed"]["number"]), (&3.into(), &1.into()));
    assert!(data["followed"]["made_unix_ms"].as_u64() > Some(1_700_000_000_000), "{data}");
    assert_eq!(data["followed"]["every_ms"], 200);
    assert!(!html.contains("<b>&") && !html.contains('\u{202e}'));
    // It may ask its own server, and nobody else.
    assert!(html.contains("; connect-src 'self'; base-uri 'none'"));

    // A file grows.
    put(&first, trace("shop", 5));
    let data = newer(&running, 1);
    assert_eq!(data["spans"], 5);
    // Another one comes.
    let before = number(&running);
    put(&second, trace("stock", 2));
    let data = newer(&running, before);
    assert_eq!(data["spans"], 7);
    assert_eq!(data["latencies"][0]["service"], "shop, stock");
    // One goes, then all: the page keeps what it had, and says why there is nothing newer.
    let before = number(&running);
    fs::remove_file(&second).unwrap();
    assert_eq!(newer(&running, before)["spans"], 5);
    let before = number(&running);
    fs::remove_file(&first).unwrap();
    let data = newer(&running, before);
    assert_eq!(data["spans"], 5);
    let notes = data["notes"].to_string();
    assert!(notes.contains("could not be read again"), "{notes}");
    // A file that has not got its end.
    let before = number(&running);
    let whole = trace("shop", 4);
    put(&first, &whole[..whole.len() - 1]);
    let data = newer(&running, before);
    assert_eq!(data["spans"], 4);
    assert!(data["damage"].is_string(), "{data}");
    // A service that starts again.
    let before = number(&running);
    put(&first, trace("shop", 1));
    let data = newer(&running, before);
    assert_eq!((&data["spans"], data["notes"].as_array().map(Vec::len)), (&1.into(), Some(0)));
}

/// However often a trace cannot be read, its page says why it cannot now, and nothing else.
#[test]
fn only_the_latest_failure_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.nettrace");
    put(&file, trace("shop", 3));
    let running = serve(&file);
    for length in [1_usize, 20, 300] {
        let before = number(&running);
        put(&file, trace("shop", 3)[..8 + length.min(10)].repeat(length));
        let notes = newer(&running, before)["notes"].clone();
        assert_eq!(notes.as_array().map(Vec::len), Some(1), "{length}: {notes}");
    }
    let before = number(&running);
    put(&file, trace("shop", 4));
    let data = newer(&running, before);
    assert_eq!((&data["spans"], data["notes"].as_array().map(Vec::len)), (&4.into(), Some(0)));
}

#[test]
fn nothing_is_read_that_nobody_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.nettrace");
    put(&file, trace("shop", 3));
    let running = serve(&file);
    assert_eq!(number(&running), 1);
    // What was asked for has been looked at by now.
    thread::sleep(Duration::from_secs(1));
    put(&file, trace("shop", 4));
    thread::sleep(Duration::from_secs(1));
    assert_eq!(number(&running), 1);
    assert_eq!(newer(&running, 1)["spans"], 4);
    // And if nothing changes, nothing is made.
    let before = number(&running);
    thread::sleep(Duration::from_secs(1));
    assert_eq!(number(&running), before);
}

#[test]
fn what_cannot_be_followed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.nettrace");
    put(&file, trace("shop", 3));
    let file = file.to_str().unwrap();
    for (args, says) in [
        (vec!["report", "--serve", "-"], "- is no file"),
        (vec!["report", "--serve", "/dev/stdin"], "/dev/stdin is no file"),
        (vec!["report", "--serve", "missing.nettrace"], "missing.nettrace"),
        (vec!["report", "--serve", "--text", file], "cannot be used with"),
        (vec!["report", "--serve", "--every", "0", file], "from 0.1 to 86400"),
        (vec!["report", "--every", "1", file], "--serve"),
    ] {
        let output = nettrace(&args, &trace("shop", 1));
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{args:?}: {}", stderr(&output));
    }
}
