//! Traces of several processes: how each command names them.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};
use testkit::streams::Stream;

use crate::{
    program::{nettrace, stdout, strict_json},
    spans::{PAY_START, PAY_STOP, SOLD, START, event, onto, place, stop},
};

/// Writes the traces of two processes of one program, of which each has the same id in its
/// container. A span of the second is within one of the first.
fn write(folder: &Path, names: [&str; 2]) {
    let keys = |name| {
        let keys = [("ProcessId", "77"), ("process.executable.name", "shop")];
        let service = Some(("service.name", name)).filter(|_| !str::is_empty(name));
        keys.into_iter().chain(service).collect::<Vec<_>>()
    };
    let [first, second] = names.map(|name| Stream::with_keys(&keys(name)));
    let first = onto(
        first,
        vec![
            event(100, START, place(0xAB, 1, 0)),
            event(110, PAY_START, place(0xAB, 2, 1)),
            event(160, PAY_STOP, place(0xAB, 2, 1)),
            stop(200, place(0xAB, 1, 0), 100, "ok"),
        ],
    );
    let second = onto(
        second,
        vec![
            event(120, PAY_START, place(0xAB, 3, 2)),
            event(130, SOLD, place(0xAB, 3, 2)),
            event(150, PAY_STOP, place(0xAB, 3, 2)),
        ],
    );
    for (number, stream) in [first, second].iter().enumerate() {
        fs::write(folder.join(format!("{number}.nettrace")), stream.end()).unwrap();
    }
}

/// What a command prints of several traces.
fn run(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_nettrace")).args(args).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{args:?}");
    stdout(&output).to_owned()
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(strict_json).collect()
}

#[test]
fn several_processes_have_names() {
    for (services, [front, back]) in [
        (["front", "back"], ["front", "back"]),
        (["front", ""], ["front", "shop"]),
        (["", ""], ["shop 77", "shop 10000077"]),
        (["web", "web"], ["web 77", "web 10000077"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), services);
        let folder = folder.path().to_str().unwrap();

        let tree = run(&["tree", folder]);
        let ends =
            |line: &str, end: &str| tree.lines().any(|it| it.contains(line) && it.contains(end));
        assert!(ends("checkout [0000000000000001]", &format!("] (process {front}) ")), "{tree}");
        assert!(ends("pay [0000000000000003]", &format!("] (process {back}) ")), "{tree}");
        // A span of the process of its parent does not say it again.
        assert!(ends("pay [0000000000000002]", "] cents=7"), "{tree}");
        let trees = lines(&run(&["tree", "--json", folder]));
        let of = |at: usize, key: &str| trees[0]["spans"][at][key].clone();
        let found = [0, 1, 2].map(|at| [of(at, "process"), of(at, "process_name")]);
        let [first, second] = [[json!(77), json!(front)], [json!(10_000_077), json!(back)]];
        assert_eq!(found, [first.clone(), first, second]);

        let dump = run(&["dump", folder]);
        assert_eq!(dump.matches(&format!(" {front} [worker 5 1005] ")).count(), 4, "{dump}");
        assert_eq!(dump.matches(&format!(" {back} [worker 5 1005] ")).count(), 3, "{dump}");
        let dumped = lines(&run(&["dump", "--json", folder, "--event", "Sold"]));
        assert_eq!(dumped[0]["process_name"], back);

        let report = run(&["report", "--text", folder]);
        assert!(report.contains(&format!("Shop/checkout (process {front}) ")), "{report}");
        let page = run(&["report", folder, "-o", "-"]);
        let (_, data) = page.split_once("id=\"data\">").unwrap();
        let data = strict_json(data.split_once("</script>").unwrap().0);
        let spans = &data["slowest"][0]["spans"];
        let found = [0, 1, 2].map(|at| spans[at]["process"].clone());
        assert_eq!(found, [json!(front), Value::Null, json!(back)]);
        let mut threads: Vec<_> = data["threads"].as_array().unwrap().iter().collect();
        threads.sort_by_key(|thread| thread["process"].as_u64());
        let found: Vec<_> = threads.iter().map(|thread| &thread["process_name"]).collect();
        assert_eq!(found, [front, back]);
    }
}

/// Two merged traces, and one of the first and a third one: each process keeps its name.
#[test]
fn merged_traces_can_be_merged() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for (name, services) in [("a", ["front", "back"]), ("b", ["mail", ""])] {
        let parts = folder.path().join(format!("{name}-parts"));
        fs::create_dir(&parts).unwrap();
        write(&parts, services);
        run(&["merge", parts.to_str().unwrap(), "-o", &path(&format!("{name}.nettrace"))]);
    }
    let third = path("b-parts/0.nettrace");
    for (other, expected) in [
        (path("b.nettrace"), &["back", "front", "mail", "shop"][..]),
        (third, &["back", "front", "mail"]),
    ] {
        let dumped = lines(&run(&["dump", "--json", &path("a.nettrace"), &other]));
        let mut found = std::collections::BTreeMap::<&str, Vec<&Value>>::new();
        for event in &dumped {
            found.entry(event["process_name"].as_str().unwrap()).or_default().push(event);
        }
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), expected);
        // The first process of each pair has a checkout, the second a sale.
        let has = |name: &str, event: &str| found[name].iter().any(|it| it["name"] == event);
        assert!(has("front", "checkoutStart") && has("back", "Sold"), "{found:#?}");
        assert!(has("mail", "checkoutStart") && !has("mail", "Sold"), "{found:#?}");
    }
}

/// Perfetto and others, which show the ids of processes, get the name alone.
#[test]
fn viewers_have_the_names() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), ["front", ""]);
    let chrome = run(&["convert", folder.path().to_str().unwrap(), "-", "--to", "chrome"]);
    let json: Value = serde_json::from_str(&chrome).unwrap();
    let all = json["traceEvents"].as_array().unwrap().iter();
    let names = all.filter(|it| it["name"] == "process_name").map(|it| &it["args"]["name"]);
    let names: Vec<_> = names.filter_map(Value::as_str).collect();
    for name in ["front (77)", "shop (10000077)"] {
        assert!(names.contains(&name), "{names:?}");
    }
}

#[test]
fn one_process_needs_no_name() {
    let keys = [("ProcessId", "77"), ("service.name", "front")];
    let trace = onto(Stream::with_keys(&keys), vec![event(100, START, place(0xAB, 1, 0))]).end();
    for command in [&["tree", "-"][..], &["dump", "-"], &["report", "-", "--text"]] {
        assert!(!stdout(&nettrace(command, &trace)).contains("front"), "{command:?}");
    }
}
