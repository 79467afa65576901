//! `collect`: traces of a .NET process as two tools get them, of programs that it starts, and of
//! datagrams; and what other processes can make it print.

#![cfg(unix)]
#![expect(clippy::disallowed_methods, reason = "a test sleeps")]

mod escapes;
mod live_support;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::UdpSocket,
    os::unix::net::UnixListener,
    path::Path,
    process::{self, Child, ChildStderr, Stdio},
    thread,
};

use escapes::assert_printable;
use live_support::{Dotnet, collect_until, has_event, interrupt, nettrace, succeeded, until};
use nettrace_format::heph;
use nettrace_reader::{Reader, Value, heph as heph_reader};
use nettrace_writer::{Emit as _, TraceEvent};
use tempfile::tempdir;
use testkit::{
    process::{is_rerun, this_program},
    reference::{Trace, ask, interruptible, judge, tool},
    streams::hostile,
};

#[derive(TraceEvent)]
#[trace_event(provider = "Contoso-Top", level = Informational)]
struct Tick {
    number: u64,
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
    let mut theirs = interruptible(&tool);
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
    let has =
        |path: &Path, provider| has_event(path, |event| event.metadata().provider == provider);
    let has_both = |path: &Path| has(path, "System.Runtime") && has(path, "Bench-Demo");
    until("both have counters and numbers", || paths.iter().all(|path| has_both(path)));
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

/// In a session of all providers, a runtime leaves out the sources that the program makes later.
#[test]
fn who_has_no_events_of_a_program_of_dotnet_is_told_how_to_get_them() {
    let Some(program) = tool("eventpipe-bench") else { return };
    let folder = tempdir().unwrap();
    let path = folder.path().join("t.nettrace");
    let collected = |providers: &[&str]| {
        let arguments = ["collect", "--force", "-o", "t.nettrace"];
        let mut command = nettrace(folder.path(), &[&arguments[..], providers, &["--"]].concat());
        let command = command.arg(&program).args(["disabled", "1", "2", "64", "unused"]);
        let output = command.output().unwrap();
        succeeded(&output);
        let has_own = has_event(&path, |event| event.metadata().provider == "Bench-Demo");
        (has_own, String::from_utf8_lossy(&output.stderr).contains("name them by --providers"))
    };
    let (has_own, is_told) = collected(&[]);
    assert_ne!(has_own, is_told);
    assert_eq!(collected(&["--providers", "*,Bench-Demo"]), (true, false));
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
    heph::option(
        nettrace_event::keys::HEPH_LOST,
        b"\0\0\0\x07\0\0\0\xC8\0\0\0\0\0\0\0\0",
        &mut mark,
    )
    .unwrap();
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
