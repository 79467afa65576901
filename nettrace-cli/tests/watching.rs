//! `top`, `counters`, `collect --udp`, and traces of a .NET process as two tools get them.

#![cfg(unix)]
#![expect(clippy::disallowed_methods, reason = "a test sleeps")]

mod escapes;
mod live_support;

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::UdpSocket,
    os::unix::net::UnixListener,
    path::Path,
    process::{self, Child, ChildStderr, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use escapes::assert_printable;
use live_support::{
    Dotnet, collect_until, has_event, interrupt, nettrace, succeeded, until, until_enough,
};
use nettrace_diagnostics::Options;
use nettrace_format::heph;
use nettrace_metrics::{Counter, Gauge, Histogram, Meter, UpDownCounter};
use nettrace_reader::{Event, Reader, Value, heph as heph_reader};
use nettrace_writer::{Emit as _, TraceEvent, TraceSpan};
use serde_json::Value as Json;
use tempfile::tempdir;
use testkit::{
    process::{is_rerun, this_program},
    reference::{Trace, ask, judge, tool},
    streams::hostile,
};

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

/// The numbers that a trace of the process has, and what else it has by provider.
#[derive(Debug)]
struct Content {
    numbers: BTreeSet<i64>,
    others: BTreeMap<String, u64>,
    lost: u64,
}

fn content(path: &Path) -> Content {
    let mut reader = Reader::new(BufReader::new(File::open(path).unwrap())).unwrap();
    let mut found = Content { numbers: BTreeSet::new(), others: BTreeMap::new(), lost: 0 };
    while let Some(event) = reader.next_event().unwrap() {
        let metadata = event.metadata();
        if (&*metadata.provider, &*metadata.name) != ("Bench-Demo", "Two") {
            *found.others.entry(metadata.provider.to_string()).or_default() += 1;
            continue;
        }
        let values: Vec<_> = event.fields().map(|field| field.unwrap().1).collect();
        let [Value::I64(number), Value::I64(again)] = values[..] else { panic!("{values:?}") };
        assert_eq!(number, again);
        assert!(found.numbers.insert(number), "{number} came twice");
    }
    found.lost = reader.totals().lost;
    found
}

#[test]
fn collect_gets_what_dotnet_trace_gets_in_the_same_seconds() {
    let Some(tool) = tool("dotnet-trace") else { return };
    let Some(dotnet) = Dotnet::start() else { return };
    let folder = dotnet.folder.path();
    let providers = "Bench-Demo,System.Runtime:0:1:EventCounterIntervalSec=0.2";
    let mut theirs = Command::new(tool);
    theirs.args(["collect", "-p", &dotnet.target.pid.to_string(), "--rundown", "false"]);
    theirs.args(["--providers", providers, "-o", "theirs.nettrace"]);
    theirs.env("TMPDIR", folder).env("HOME", folder).current_dir(folder);
    let mut theirs = theirs.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    // It takes a while to begin.
    let its_file = folder.join("theirs.nettrace");
    until("it records", || fs::metadata(&its_file).is_ok_and(|file| file.len() > 10_000));
    let paths = ["ours", "theirs"].map(|name| folder.join(name).with_extension("nettrace"));
    let mut ours = dotnet.nettrace(&["collect", "--providers", providers, "-o", "ours.nettrace"]);
    let ours = ours.spawn().unwrap();
    let is_counter = |event: &Event<'_>| event.metadata().provider == "System.Runtime";
    until("it has counters", || has_event(&paths[0], is_counter));
    interrupt(&ours);
    succeeded(&ours.wait_with_output().unwrap());
    interrupt(&theirs);
    assert!(theirs.wait().unwrap().success());
    let [ours, theirs] = [&paths[0], &paths[1]].map(|path| content(path));
    ask(&["summary"], Trace::File(&paths[0])).unwrap().assert_accepted();
    // One thread counts upwards. Both were attached between these numbers.
    let first = ours.numbers.first().max(theirs.numbers.first()).copied().unwrap();
    let last = ours.numbers.last().min(theirs.numbers.last()).copied().unwrap();
    assert!(last > first, "{first} to {last}");
    let both = |one: &Content| one.numbers.range(first..=last).copied().collect::<BTreeSet<_>>();
    let missing = |one: &Content| (last - first + 1) as u64 - both(one).len() as u64;
    println!(
        "{first} to {last}: {} and {} missing, {} and {} lost",
        missing(&ours),
        missing(&theirs),
        ours.lost,
        theirs.lost
    );
    // What is missing was lost in the process, and each trace says so.
    assert!(missing(&ours) <= ours.lost && missing(&theirs) <= theirs.lost);
    if (ours.lost, theirs.lost) == (0, 0) {
        assert!(both(&ours) == both(&theirs));
    }
    let names = |one: &Content| one.others.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&ours), names(&theirs));
    assert!(ours.others["System.Runtime"] > 0, "{:?}", ours.others);
}

#[test]
fn collect_starts_a_program_and_misses_nothing() {
    const NAME: &str = "collect_starts_a_program_and_misses_nothing";
    if let Some(how) = is_rerun() {
        if how == "listen" {
            nettrace_diagnostics::listen().unwrap();
        }
        println!("the program's own output");
        for number in 0..500 {
            Tick { number }.emit();
        }
        process::exit(7);
    }
    let folder = tempdir().unwrap();
    let program = this_program();
    let collect = |how: &str, arguments: &[&str]| {
        let mut command = nettrace(folder.path(), &[&["collect"], arguments, &["--"]].concat());
        command.arg(program.get_program()).args(program.get_args());
        command.args(["--exact", NAME, "--nocapture", "--test-threads=1"]);
        let output = command.env("NETTRACE_RERUN", how).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output, said)
    };
    let count = |trace: &[u8]| {
        let report = nettrace_reader::verify(trace).unwrap();
        assert!(report.is_sound() && report.lost == 0, "{report:?}");
        report.events
    };
    // The exit code is the program's, and so is the output.
    let (output, said) = collect("listen", &["-o", "own.nettrace"]);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(said.contains("own.nettrace: 500 events, 0 lost"), "{said}");
    assert!(said.contains("has ended: exit status: 7"), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("the program's own output"));
    assert_eq!(count(&fs::read(folder.path().join("own.nettrace")).unwrap()), 500);
    // A program that is not recorded does not stay: this waits for its output to be closed.
    let (output, said) = collect("listen", &["-o", "own.nettrace"]);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--force replaces it"), "{said}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("the program's own output"));
    // The trace alone is on standard output.
    let (output, said) = collect("listen", &["-o", "-", "--providers", "Contoso-Top"]);
    assert_eq!(count(&output.stdout), 500);
    assert!(said.contains("the program's own output"), "{said}");
    // A program that does not listen.
    let (output, said) = collect("does not listen", &[]);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("has ended (exit status: 7) and never listened"), "{said}");
    let output = nettrace(folder.path(), &["collect", "--", "no-such-program"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("cannot start no-such-program"), "{said}");
}

#[test]
fn collect_starts_a_program_of_dotnet() {
    let Some(judge) = judge() else { return };
    let folder = tempdir().unwrap();
    let path = folder.path().join("started.nettrace");
    let arguments = ["collect", "--profile", "gc-collect", "-o", "started.nettrace", "--"];
    let mut command = nettrace(folder.path(), &arguments);
    command.arg(judge).args(["summary", "-"]);
    command.stdin(Stdio::piped());
    let mut program = command.spawn().unwrap();
    // The program ends when its work is done. If that is before the runtime has sent anything, the
    // runtime does not send the trace either.
    until("the trace has begun", || {
        if program.try_wait().unwrap().is_some() {
            // The program that it started has the same standard error, and waits for its input.
            drop(program.stdin.take());
            let mut said = String::new();
            program.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            panic!("collect has ended: {said}");
        }
        fs::metadata(&path).is_ok_and(|file| file.len() > 0)
    });
    program.stdin.take().unwrap().write_all(&nettrace_reader::example()).unwrap();
    let output = program.wait_with_output().unwrap();
    assert!(succeeded(&output).contains("# events=2 "), "the program's output");
    ask(&["summary"], Trace::File(&path)).unwrap().assert_accepted();
}

#[test]
fn a_profile_records_the_runtime_of_dotnet() {
    let Some(dotnet) = Dotnet::start() else { return };
    let command = dotnet.nettrace(&["collect", "--profile", "dotnet-sampled-thread-time"]);
    let path = dotnet.folder.path().join("samples.nettrace");
    collect_until(command, &path, |event| event.stack().is_some());
    let verdict = ask(&["stacks"], Trace::File(&path)).unwrap();
    verdict.assert_accepted();
    assert!(verdict.number("stacks") > 0, "{}", verdict.totals);
}

/// A process that answers with hostile texts. It refuses to be recorded, or sends a trace.
fn answer_hostile(listener: &UnixListener, refuses: bool) {
    let text = |text: &str| {
        let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
        let bytes = units.iter().flat_map(|unit| unit.to_le_bytes());
        (units.len() as u32).to_le_bytes().into_iter().chain(bytes).collect::<Vec<u8>>()
    };
    let message = |id: u8, payload: &[u8]| {
        let size = (20 + payload.len() as u16).to_le_bytes();
        [&b"DOTNET_IPC_V1\0"[..], &size, &[0xff, id, 0, 0], payload].concat()
    };
    let name = "x\u{1b}[31m\r\n\u{9b}2J\u{202e}\u{2028}\t\u{85}\u{200b}";
    let refusal = message(0xff, &[&0x8000_4005_u32.to_le_bytes()[..], &text(name)].concat());
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let mut head = [0; 20];
        if stream.read_exact(&mut head).is_err() {
            continue;
        }
        let size = u16::from_le_bytes([head[14], head[15]]);
        let mut payload = vec![0; usize::from(size) - 20];
        stream.read_exact(&mut payload).unwrap();
        let pid = u64::from(process::id()).to_le_bytes();
        let answer = match (head[16], head[17]) {
            // Version 3 of what a process says of itself.
            (4, 8) => {
                let texts = [name; 6].map(text).concat();
                message(0, &[&1_u32.to_le_bytes()[..], &pid, &[7; 16], &texts].concat())
            }
            (2, 1) => message(0, &payload),
            (2, _) if !refuses => [message(0, &[9; 8]), hostile::trace()].concat(),
            _ => refusal.clone(),
        };
        // The other side may have gone.
        let _ = stream.write_all(&answer);
    }
}

#[test]
fn other_processes_cannot_steer_a_terminal() {
    if cfg!(not(target_os = "linux")) {
        println!("skipped: the name of a socket needs /proc");
        return;
    }
    let pid = process::id().to_string();
    let mut printed = 0;
    for refuses in [false, true] {
        let folder = tempdir().unwrap();
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        let began = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().nth(19).unwrap();
        let socket = format!("dotnet-diagnostic-{pid}-{began}-socket");
        let listener = UnixListener::bind(folder.path().join(socket)).unwrap();
        thread::spawn(move || answer_hostile(&listener, refuses));
        for arguments in [
            &["ps"][..],
            &["collect", "-p", &pid, "-o", "out.nettrace"],
            &["collect", "-n", "nobody"],
            &["top", "-p", &pid],
            &["top", "-p", &pid, "--json"],
            &["counters", "-p", &pid],
            &["counters", "-p", &pid, "--json"],
            &["counters", "-p", &pid, "--csv"],
        ] {
            let output = nettrace(folder.path(), arguments).output().unwrap();
            assert_printable(&output, "", &format!("{arguments:?}"));
            assert!(!String::from_utf8_lossy(&output.stdout).contains(",=cmd"), "{arguments:?}");
            printed += output.stdout.len();
            let shows = arguments[0] == "ps" || (!refuses && !arguments.contains(&"nobody"));
            let [shown, said] =
                [&output.stdout, &output.stderr].map(|one| String::from_utf8_lossy(one));
            assert_eq!(output.status.success(), shows, "{arguments:?} {shown} {said}");
            let of_process = arguments == ["ps"] || (refuses && arguments[1] == "-p");
            assert!(
                !of_process || (shown.into_owned() + &said).contains("\\u{1b}[31m"),
                "{arguments:?}"
            );
        }
    }
    assert!(printed > 10_000, "{printed}");
}

/// A Heph trace over UDP, through a network that loses, repeats and exchanges packets.
#[test]
fn datagrams_are_received() {
    let folder = tempdir().unwrap();
    let receive = |arguments: &[&str]| {
        let arguments = [&["collect", "--udp", "127.0.0.1:0"][..], arguments].concat();
        let mut child = nettrace(folder.path(), &arguments).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let address = line.strip_prefix("receiving at ").unwrap().split(';').next().unwrap();
        (child, said, address.to_owned())
    };
    let end = |child: Child, mut said: BufReader<ChildStderr>| {
        interrupt(&child);
        let mut text = String::new();
        said.read_to_string(&mut text).unwrap();
        (child.wait_with_output().unwrap(), text)
    };
    let mut packets = vec![Vec::new()];
    heph::epoch(1_700_000_000_000_000_000, &mut packets[0]);
    for counter in 1..=200 {
        let header = heph::EventHeader { stream: 7, counter, substream: 1, start: 5, end: 9 };
        let mut packet = Vec::new();
        heph::EventPacket::begin(&header, "sent", &mut packet).unwrap().finish().unwrap();
        packets.push(packet);
    }
    // Numbers 50 and 200 are lost; 100 and 101 change places; 120 comes twice.
    let mut arrivals = packets.clone();
    arrivals.swap(100, 101);
    arrivals.insert(125, packets[120].clone());
    arrivals.pop();
    arrivals.remove(50);
    let mut mark = Vec::new();
    heph::option(heph::LOST, b"\0\0\0\x07\0\0\0\xC8\0\0\0\0\0\0\0\0", &mut mark).unwrap();
    arrivals.push(mark);

    let (child, said, address) = receive(&["-o", "t.heph"]);
    let [sender, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    sender.send_to(b"no packet", &address).unwrap();
    let path = folder.path().join("t.heph");
    assert!(!path.exists(), "nothing is made before a trace comes");
    for packet in &arrivals {
        sender.send_to(packet, &address).unwrap();
    }
    other.send_to(&packets[1], &address).unwrap();
    let whole = |bytes: &[u8]| heph_reader::verify(bytes, heph_reader::Options::default(), 5);
    until("all packets are in the file", || {
        fs::read(&path).is_ok_and(|bytes| whole(&bytes).is_ok_and(|it| it.events >= 198))
    });
    let (output, text) = end(child, said);
    assert!(output.status.success(), "{text}");
    let report = whole(&fs::read(&path).unwrap()).unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!((report.events, report.lost), (198, 2), "{text}");
    let expected = "t.heph: 198 events, 2 lost\n\
        left out: 1 datagrams came too late or twice\n\
        left out: 1 datagrams were no packets of a trace\n\
        left out: 1 datagrams came from other senders than the first\n";
    assert_eq!(text, expected);

    // Nothing comes: no file, and a file that exists is not replaced.
    let (child, said, _) = receive(&[]);
    let (output, text) = end(child, said);
    assert!(output.status.success() && text.starts_with("no packet of a trace came"), "{text}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let output = nettrace(folder.path(), &["collect", "--udp", "127.0.0.1:0", "-o", "t.heph"]);
    let output = { output }.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("it exists; --force replaces it"));
}

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
        for _ in std::io::stdin().lock().bytes() {
            until("somebody listens", Gone::is_any_enabled);
            work();
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
        self.0.stdin.as_mut().unwrap().write_all(&[1]).unwrap();
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
        let place = |line: &&String| line.starts_with("    at ") && line.contains("watching.rs");
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
    assert!(line.starts_with("\x1b[2m") && line.contains("\x1b[33m WARN\x1b[0m"), "{line:?}");
    worker.end();
    assert_eq!(lines.count(), 0);
    succeeded(&tail.wait_with_output().unwrap());
}
