//! `top` and `counters`, of a process of ours and of one of .NET.

#![cfg(unix)]
#![expect(clippy::disallowed_methods, reason = "a test sleeps")]

mod live_support;

use std::{
    cell::Cell,
    collections::BTreeSet,
    fs::{self, File},
    io::Read as _,
    process::{self, Stdio},
    thread,
    time::{Duration, Instant},
};

use live_support::{Dotnet, nettrace, until, until_enough};
use nettrace_diagnostics::Options;
use nettrace_writer::{
    Emit as _, TraceEvent,
    metrics::{Counter, Gauge, Histogram, Meter, UpDownCounter},
};
use serde_json::Value as Json;
use tempfile::tempdir;
use testkit::process::{is_rerun, this_program};

#[derive(TraceEvent)]
#[trace_event(provider = "Contoso-Top", level = Informational)]
struct Tick {
    number: u64,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Contoso-Top", level = Informational)]
struct Rare {
    a: u32,
}

fn objects(text: &str) -> Vec<Json> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn top_shows_the_rates_of_each_type() {
    let folder = tempdir().unwrap();
    let diagnostics = Options::new().directory(folder.path()).listen().unwrap();
    let pid = process::id().to_string();
    let common = ["top", "-p", &pid, "--interval", "200ms"];
    let row = |shown: &Json, name: &str| -> Option<Json> {
        let types = shown["types"].as_array().unwrap();
        types.iter().find(|one| one["name"] == name && one["provider"] == "Contoso-Top").cloned()
    };
    let number = |row: &Json, key: &str| row[key].as_f64().unwrap();
    // Ten ticks for each rare event.
    let mut emitted = 0;
    let emit = || {
        for _ in 0..10 {
            Tick { number: emitted }.emit();
            emitted += 1;
        }
        Rare { a: 1 }.emit();
    };
    let enough = |lines: &[String]| {
        let last = lines.last().and_then(|line| row(&objects(line)[0], "Rare"));
        lines.len() >= 4 && last.is_some_and(|rare| number(&rare, "events") > 20.0)
    };
    let command = nettrace(folder.path(), &[&common[..], &["--json"]].concat());
    let text = until_enough(command, emit, enough);
    let shown = objects(&text);
    let last = shown.last().unwrap();
    let [ticks, rare] = ["Tick", "Rare"].map(|name| row(last, name).unwrap());
    let (count, few) = (number(&ticks, "events"), number(&rare, "events"));
    assert!(count > 100.0 && count <= emitted as f64, "{count} of {emitted}");
    assert!((count / few - 10.0).abs() < 1.0, "{count} {few}");
    // The rates of all intervals give the number of events again.
    let mut before = 0.0;
    let mut sum = 0.0;
    for one in &shown {
        let seconds = one["seconds"].as_f64().unwrap();
        if let Some(ticks) = row(one, "Tick") {
            let rate = number(&ticks, "events_per_second");
            sum += rate * (seconds - before);
            // A payload has 8 bytes.
            assert!((number(&ticks, "bytes_per_second") - rate * 8.0).abs() < 1.0, "{ticks}");
        }
        before = seconds;
        assert_eq!(one["lost"], 0);
    }
    // Times are rounded to a tenth of a second.
    assert!((sum / count - 1.0).abs() < 0.5, "{sum} {count}");

    // The same for people, with a filter and one row.
    let more = ["--rows", "1", "--providers", "Contoso-*"];
    let text = until_enough(
        nettrace(folder.path(), &[&common[..], &more].concat()),
        || Tick { number: 0 }.emit(),
        |lines| lines.iter().any(|line| line.ends_with("Contoso-Top/Tick")),
    );
    let lines: Vec<_> = text.lines().collect();
    let is_head = |line: &&str| line.contains(&format!("{pid}: ")) && line.ends_with(" 0 lost");
    // The last of them has all that came.
    let head = lines.iter().rposition(is_head).unwrap();
    let [columns, first] = lines[head + 1..] else { panic!("{text}") };
    assert!(columns.ends_with("event") && first.ends_with("Contoso-Top/Tick"), "{text}");
    diagnostics.stop();
}

static SHOP: Meter = Meter::new("Contoso-Shop");
static ORDERS: Counter = Counter::new(&SHOP, "orders").unit("{order}");
static CARTS: UpDownCounter = UpDownCounter::new(&SHOP, "carts");
static STOCK: Gauge = Gauge::new(&SHOP, "stock");
static LATENCY: Histogram = Histogram::new(&SHOP, "latency").unit("ms");

#[test]
fn counters_of_a_process_of_ours_are_what_it_counts() {
    let folder = tempdir().unwrap();
    let diagnostics = Options::new().directory(folder.path()).listen().unwrap();
    ORDERS.add(40);
    CARTS.add(-3);
    STOCK.set(41.5);
    let pid = process::id().to_string();
    let mut command = nettrace(folder.path(), &["counters", "-p", &pid, "Contoso-Shop"]);
    command.args(["--interval", "300ms", "--json"]);
    let mut orders = 40;
    let count = || {
        ORDERS.add(2);
        orders += 2;
        LATENCY.record(7.0);
    };
    // Three values of the counter, the last with a rate, and one of each other instrument.
    let text = until_enough(command, count, |lines| {
        let values = objects(&lines.join("\n"));
        let of = |name: &str| values.iter().filter(|one| one["name"] == name).collect::<Vec<_>>();
        let has_rate = of("orders").last().is_some_and(|one| one["rate"].as_f64() > Some(0.0));
        of("orders").len() >= 3
            && has_rate
            && ["carts", "stock", "latency"].iter().all(|name| !of(name).is_empty())
    });
    let values = objects(&text);
    let of = |name: &str| {
        let named = values.iter().filter(|one| one["name"] == name);
        let named = named.inspect(|one| assert_eq!(one["provider"], "Contoso-Shop"));
        named.cloned().collect::<Vec<_>>()
    };
    let counts = of("orders");
    assert_eq!((&counts[0]["kind"], &counts[0]["unit"]), (&"counter".into(), &"{order}".into()));
    let mut before = 40.0;
    for count in &counts {
        let value = count["value"].as_f64().unwrap();
        assert!(value >= before && value <= f64::from(orders), "{counts:?}");
        before = value;
    }
    let mut rates = counts.iter().filter_map(|one| one["rate"].as_f64());
    assert!(rates.any(|rate| rate > 0.0), "{counts:?}");
    assert_eq!((&of("carts")[0]["value"], &of("stock")[0]["value"]), (&(-3).into(), &41.5.into()));
    let latency = of("latency");
    let last = latency.last().unwrap();
    assert_eq!((&last["unit"], &last["kind"]), (&"ms".into(), &"histogram".into()));
    for pair in last["quantiles"].as_array().unwrap() {
        let value = pair[1].as_f64().unwrap();
        assert!((value / 7.0 - 1.0).abs() < 0.02, "{last}");
    }
    // Without a name, all meters. What has not changed is there, too.
    let command = nettrace(folder.path(), &["counters", "-p", &pid]);
    let expected = " Contoso-Shop/stock 41.5";
    let enough = |lines: &[String]| lines.iter().any(|line| line.ends_with(expected));
    assert!(until_enough(command, || (), enough).contains(expected));
    diagnostics.stop();
}

#[test]
#[cfg(target_os = "linux")]
fn counters_go_on_beside_clients_that_are_killed_or_hang() {
    const NAME: &str = "counters_go_on_beside_clients_that_are_killed_or_hang";
    if is_rerun().is_some() {
        nettrace_diagnostics::listen().unwrap();
        thread::spawn(|| {
            loop {
                ORDERS.add(1);
                thread::sleep(Duration::from_millis(1));
            }
        });
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        process::exit(0);
    }
    let folder = tempdir().unwrap();
    let mut program = this_program();
    program.args(["--exact", NAME, "--nocapture", "--test-threads=1"]).stdin(Stdio::piped());
    program.env("NETTRACE_RERUN", "count").env("TMPDIR", folder.path()).stdout(Stdio::null());
    let mut program = program.spawn().unwrap();
    let pid = program.id().to_string();
    let arguments = ["counters", "-p", &pid, "Contoso-Shop", "--interval", "100ms", "--json"];
    let once = || nettrace(folder.path(), &[&arguments[..], &["--duration", "0.2"]].concat());
    until("it counts", || !once().output().unwrap().stdout.is_empty());
    let count = |what: &str| fs::read_dir(format!("/proc/{pid}/{what}")).unwrap().count();
    let size = || (count("task"), count("fd"));
    // The last session ends as soon as its thread gets a processor.
    let mut before = size();
    until("nobody is attached", || {
        thread::sleep(Duration::from_millis(100));
        std::mem::replace(&mut before, size()) == before
    });

    // Each client lives a while longer than the one before it, so they are killed at every moment
    // of their lives. Every fifth hangs instead.
    let (mut clients, mut hanging) = (Vec::<(Instant, process::Child)>::new(), Vec::new());
    let mut lives = Duration::ZERO;
    let mut killed = 0;
    let (all_killed, after) = (Cell::new(false), Cell::new(None));
    let hurt = || {
        if clients.len() < 4 && killed < 80 {
            let mut command = nettrace(folder.path(), &arguments);
            // Nobody reads what it prints, so the one that hangs at last has a full pipe.
            clients.push((Instant::now() + lives, command.stderr(Stdio::null()).spawn().unwrap()));
            lives = (lives + Duration::from_millis(4)).min(Duration::from_millis(300));
        }
        let now = Instant::now();
        if let Some(index) = clients.iter().position(|(end, _)| *end <= now) {
            let (_, mut client) = clients.swap_remove(index);
            killed += 1;
            if killed % 5 == 0 {
                let id = rustix::process::Pid::from_child(&client);
                rustix::process::kill_process(id, rustix::process::Signal::STOP).unwrap();
                hanging.push(client);
            } else {
                client.kill().unwrap();
                client.wait().unwrap();
            }
        }
        all_killed.set(killed >= 80);
    };
    // The one in the middle gets a value in each interval, up to the end.
    let text = until_enough(nettrace(folder.path(), &arguments), hurt, |lines| {
        if all_killed.get() && after.get().is_none() {
            after.set(Some(lines.len()));
        }
        after.get().is_some_and(|after| lines.len() >= after + 5)
    });
    let values: Vec<_> = objects(&text).iter().map(|one| one["value"].as_f64().unwrap()).collect();
    println!("{} values beside {killed} clients, {} of them hanging", values.len(), hanging.len());
    assert!(values.is_sorted() && values.first() < values.last(), "{values:?}");
    for mut client in hanging {
        client.kill().unwrap();
        client.wait().unwrap();
    }
    until("nothing is left of them", || size() <= before);
    drop(program.stdin.take());
    assert!(program.wait().unwrap().success());
}

#[test]
fn counters_say_which_names_nothing_comes_of() {
    let folder = tempdir().unwrap();
    let diagnostics = Options::new().directory(folder.path()).listen().unwrap();
    let given = Meter::new("Contoso-Given").counter("given").build();
    given.add(1);
    let pid = process::id().to_string();
    let names = ["Contoso-Given", "Contoso-Gievn", "--interval", "200ms"];
    let mut command = nettrace(folder.path(), &[&["counters", "-p", &pid], &names[..]].concat());
    let errors = folder.path().join("errors");
    command.stderr(File::create(&errors).unwrap());
    let said = || fs::read_to_string(&errors).unwrap();
    until_enough(
        command,
        || (),
        |lines| {
            let is_given = |line: &String| line.contains(" Contoso-Given/given 1");
            lines.iter().any(is_given) && said().ends_with('\n')
        },
    );
    let said = said();
    let [said] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
    let start = "nettrace: nothing has come of Contoso-Gievn so far; the meters of the process: ";
    let meters = said.strip_prefix(start).unwrap_or_else(|| panic!("{said}"));
    assert!(meters.split(", ").any(|meter| meter == "Contoso-Given"), "{said}");
    diagnostics.stop();
}

#[test]
fn counters_of_dotnet_are_shown() {
    let Some(dotnet) = Dotnet::start() else { return };
    let command = dotnet.nettrace(&["counters", "System.Runtime", "--json"]);
    let text = until_enough(
        command,
        || (),
        |lines| {
            let values = |name: &str| lines.iter().filter(|line| line.contains(name)).count();
            // Two values, of which the second has a rate.
            values("dotnet.process.memory.working_set") >= 2
                && values("dotnet.process.cpu.time") >= 4
        },
    );
    let values = objects(&text);
    let of = |name: &str| -> Vec<&Json> {
        let named = values.iter().filter(|one| one["name"] == name);
        named.inspect(|one| assert_eq!(one["provider"], "System.Runtime")).collect()
    };
    let memory = of("dotnet.process.memory.working_set");
    assert!(memory.len() >= 2, "{text}");
    assert_eq!((&memory[0]["unit"], &memory[0]["kind"]), (&"By".into(), &"updowncounter".into()));
    // It is what the system says.
    let status = fs::read_to_string(format!("/proc/{}/status", dotnet.target.pid)).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let resident = line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() * 1024.0;
    let shown = memory.last().unwrap()["value"].as_f64().unwrap();
    assert!((shown / resident - 1.0).abs() < 0.5, "{shown} of {resident}");
    let cpu = of("dotnet.process.cpu.time");
    let tags: BTreeSet<_> = cpu.iter().map(|one| one["tags"].as_str().unwrap()).collect();
    assert_eq!(tags, BTreeSet::from(["cpu.mode=system", "cpu.mode=user"]));
    assert!(cpu.last().unwrap()["rate"].is_number(), "{text}");
    // Its EventCounters have the same name, and are left out.
    assert!(of("cpu-usage").is_empty());

    // All meters, as lines; then two instruments as CSV.
    let has = |lines: &[String], part: &str| lines.iter().any(|line| line.contains(part));
    let timers = " System.Runtime/dotnet.timer.count ({timer}) ";
    until_enough(dotnet.nettrace(&["counters"]), || (), |lines| has(lines, timers));
    let some = "System.Runtime[dotnet.timer.count,dotnet.process.cpu.count]";
    let text = until_enough(
        dotnet.nettrace(&["counters", some, "--csv"]),
        || (),
        |lines| has(lines, ",dotnet.timer.count,") && has(lines, ",dotnet.process.cpu.count,"),
    );
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("time,provider,name,tags,unit,kind,value,rate"));
    let names: BTreeSet<_> = lines.map(|line| line.split(',').nth(2).unwrap()).collect();
    assert_eq!(names, BTreeSet::from(["dotnet.process.cpu.count", "dotnet.timer.count"]));
}
