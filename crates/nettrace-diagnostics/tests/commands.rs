//! Every command, and what is no command.

#![cfg(unix)]
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "threads of clients")]

mod support;

use std::{
    env, fs,
    io::{Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    process, thread,
    time::{Duration, Instant},
};

use nettrace_diagnostics::{
    Error, Options,
    client::{ClientError, Target, Wanted},
};
use nettrace_reader::Reader;
use nettrace_writer::{Emit as _, TraceEvent as _};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tempfile::tempdir;

use crate::support::{
    Detail, Load, Other, PATIENCE, Server, Tick, all_of, connect, counts, stop, text, until,
};

const MAGIC: &[u8] = b"DOTNET_IPC_V1\0";

/// A message with a header as the protocol has it.
fn message(set: u8, id: u8, payload: &[u8]) -> Vec<u8> {
    let size = u16::try_from(20 + payload.len()).unwrap().to_le_bytes();
    [MAGIC, &size, &[set, id, 0, 0], payload].concat()
}

/// What the server answers to bytes: the code of the error, and its words.
fn refusal(server: &Server, bytes: &[u8]) -> (u32, String) {
    let mut stream = server.connect();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(answer[..14], *MAGIC);
    assert_eq!(usize::from(u16::from_le_bytes([answer[14], answer[15]])), answer.len());
    assert_eq!(answer[16..20], [0xff, 0xff, 0, 0], "{answer:x?}");
    let units: Vec<u16> =
        answer[28..].chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
    let words = String::from_utf16(units.strip_suffix(&[0]).unwrap()).unwrap();
    (u32::from_le_bytes(answer[20..24].try_into().unwrap()), words)
}

#[test]
fn a_process_says_what_it_is() {
    let server = Server::start();
    let info = server.target().info().unwrap();
    assert_eq!(info.pid, u64::from(process::id()));
    assert_ne!(info.cookie, [0; 16]);
    assert!(info.command_line.starts_with(&env::args().next().unwrap()), "{info:?}");
    assert!(info.program.starts_with("commands-"), "{info:?}");
    assert!(info.version.starts_with("10.0.0-rust.nettrace-diagnostics."), "{info:?}");
    if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        assert_eq!((&*info.os, &*info.architecture), ("Linux", "x64"));
        assert!(info.platform == "linux-x64" || info.platform == "linux-musl-x64", "{info:?}");
    }
    // Each version has what the one before has.
    let payload = |id| server.target().ask(4, id, &[]).unwrap().0;
    let (one, two, three) = (payload(0), payload(4), payload(8));
    assert!(two.starts_with(&one) && two.len() > one.len());
    assert_eq!(three[..4], [1, 0, 0, 0]);
    assert!(three[4..].starts_with(&two) && three.len() > two.len() + 4);
    // The file as the tools look for it, for its user alone.
    let found = Target::all_in(server.folder.path()).unwrap();
    assert_eq!(found, [server.target()]);
    let modes = fs::metadata(server.diagnostics.path()).unwrap().permissions().mode();
    assert_eq!(modes & 0o777, 0o600);
}

#[test]
fn an_environment_of_any_size_is_sent() {
    let server = Server::start();
    let variables = server.target().environment().unwrap();
    let expected: Vec<_> = env::vars().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(variables, expected);
}

#[test]
fn what_cannot_be_done_is_refused_in_words() {
    let server = Server::start();
    let zero = [0_u8; 4];
    let collect = |payload: &[&[u8]]| message(2, 2, &payload.concat());
    let (one, mb) = (1_u32.to_le_bytes(), 64_u32.to_le_bytes());
    let provider = [&[0; 12], &*text("P"), &*text("")].concat();
    let long = [&mb[..], &one, &u32::MAX.to_le_bytes()].concat();
    let rows: [(Vec<u8>, u32, &str); 17] = [
        (message(4, 3, &[]), 0x8013_1385, "environment of this process cannot change"),
        (message(4, 7, &[]), 0x8013_1385, "does not know the command 0x04 0x07"),
        (message(1, 1, &[]), 0x8013_1385, "does not know the command 0x01 0x01"),
        (message(3, 1, &[]), 0x8013_1385, "does not know the command 0x03 0x01"),
        (message(2, 0, &[]), 0x8013_1385, "does not know the command 0x02 0x00"),
        (message(2, 8, &[]), 0x8013_1385, "does not know the command 0x02 0x08"),
        (message(2, 1, &77_u64.to_le_bytes()), 0x8007_0057, "no session 77"),
        (message(2, 1, &[1, 2, 3]), 0x8013_1384, "ends within a value"),
        (collect(&[]), 0x8013_1384, "ends within a value"),
        (collect(&[&long]), 0x8013_1384, "a list of 4294967295 elements"),
        (collect(&[&mb, &[9, 0, 0, 0], &zero]), 0x8013_1384, "the format is 9"),
        (collect(&[&mb, &zero, &one, &provider]), 0x8007_0057, "NetPerf"),
        (collect(&[&zero, &one, &one, &provider]), 0x8007_0057, "0 MB is none"),
        (message(2, 6, &one), 0x8013_1515, "no tracepoints"),
        (message(2, 6, &[2, 0, 0, 0]), 0x8013_1384, "the type of the session is 2"),
        ([MAGIC, &[19, 0, 4, 0, 0, 0]].concat(), 0x8013_1384, "shorter than its header"),
        (b"DOTNET_IPC_V2\0".to_vec(), 0x8013_1386, "begins with `DOTNET_IPC_V1`"),
    ];
    for (bytes, code, words) in rows {
        let (given, told) = refusal(&server, &bytes);
        assert_eq!(given, code, "{told}");
        assert!(told.contains(words), "{told}");
    }
    // Texts.
    let with_name = |name: &[u8]| collect(&[&mb, &one, &one, &[0; 12], name, &text("")]);
    for (name, words) in [
        (text(""), "a provider has no name"),
        (zero.to_vec(), "a provider has no name"),
        ([&one[..], b"P\0"].concat(), "does not end in a zero"),
        ([&[2, 0, 0, 0][..], &[0, 0xd8, 0, 0]].concat(), "not valid UTF-16"),
        ([&[255; 4][..]].concat(), "ends within a value"),
    ] {
        let (code, told) = refusal(&server, &with_name(&name));
        assert_eq!(code, 0x8013_1384);
        assert!(told.contains(words), "{told}");
    }
    // Resuming what is not suspended is no error.
    assert_eq!(server.target().ask(4, 1, &[]).unwrap().0, [0; 4]);
    // Nothing above has hurt.
    server.target().info().unwrap();
}

/// The command CollectTracing, written by hand, for all events of `Contoso-Attach`.
fn collect(version: u8) -> Vec<u8> {
    let number = |number: u32| number.to_le_bytes().to_vec();
    let mut out = Vec::new();
    if version >= 5 {
        out.extend(number(0));
    }
    out.extend([number(4), number(1)].concat());
    match version {
        1 => {}
        2 => out.push(1),
        3 => out.extend([0, 1]),
        _ => out.extend([&0x8002_0139_u64.to_le_bytes()[..], &[0]].concat()),
    }
    out.extend(number(1));
    out.extend([&u64::MAX.to_le_bytes()[..], &number(4)].concat());
    out.extend([text("contoso-attach"), text("key=value;other=1")].concat());
    if version >= 5 {
        // All but id 8 of the provider.
        out.extend([&[0][..], &number(1), &number(8)].concat());
    }
    if version >= 6 {
        out.extend(number(1)); // threads wait
    }
    out
}

#[test]
fn every_version_of_collect_tracing_gets_a_trace() {
    let server = Server::start();
    for version in 1..=6 {
        let (payload, stream) = server.target().ask(2, version + 1, &collect(version)).unwrap();
        let id = u64::from_le_bytes(payload.try_into().unwrap());
        assert_eq!(id, u64::from(version));
        // Verbose, so not of the level 4, and in the later versions not of the ids either.
        Detail { text: "unwanted" }.emit();
        Other.emit();
        Tick { number: 1 }.emit();
        Tick { number: 2 }.emit();
        let trace = stop(&server.target(), nettrace_diagnostics::client::Live { id, stream });
        assert!(trace.starts_with(b"Nettrace"), "the trace comes right after the answer");
        let (events, lost) = counts(&trace);
        assert_eq!(lost, 0);
        let mut reader = Reader::new(&trace[..]).unwrap();
        let mut ours = 0;
        while let Some(event) = reader.next_event().unwrap() {
            // Other tests of this program may emit meanwhile.
            assert_eq!(event.metadata().name, "Tick");
            ours += 1;
        }
        assert!(ours >= 2 && ours == events, "{ours} of {events}");
    }
}

#[test]
fn a_filter_selects_by_keyword_level_and_id() {
    let server = Server::start();
    let target = server.target();
    let wanted = |keywords, level| Wanted { keywords, level, ..all_of("Contoso-Attach") };
    // How many of a Tick (level 4, keyword 1) and a Detail (level 5, keyword 2) arrive.
    let count = |wanted: &[Wanted]| {
        let live = target.collect(wanted, 4).unwrap();
        let name = "Contoso-Attach";
        let events =
            || (0..100).for_each(|_| (Tick { number: 0 }.emit(), Detail { text: name }.emit()).0);
        events();
        let trace = stop(&target, live);
        assert_eq!(counts(&trace).1, 0);
        let mut reader = Reader::new(&trace[..]).unwrap();
        let mut counts = (0, 0);
        while let Some(event) = reader.next_event().unwrap() {
            match &*event.metadata().name {
                "Tick" => counts.0 += 1,
                _ => counts.1 += 1,
            }
        }
        (counts.0 >= 100, counts.1 >= 100)
    };
    assert_eq!(count(&[wanted(u64::MAX, 5)]), (true, true));
    assert_eq!(count(&[wanted(u64::MAX, 4)]), (true, false));
    assert_eq!(count(&[wanted(2, 255)]), (false, true));
    assert_eq!(count(&[wanted(2, 4)]), (false, false));
    assert_eq!(count(&[wanted(0, 4)]), (true, false));
    assert_eq!(count(&[wanted(2, 5), wanted(1, 4)]), (true, true));
    assert_eq!(count(&[all_of("Contoso-*")]), (true, true));
    assert_eq!(count(&[all_of("Contoso-Other")]), (false, false));
    assert_eq!(count(&[]), (false, false));
}

#[test]
fn a_message_may_come_in_pieces_but_not_too_slowly() {
    let server = Server::with(Options::new().patience(PATIENCE));
    let bytes = message(4, 0, &[]);
    let mut stream = server.connect();
    for byte in &bytes {
        stream.write_all(&[*byte]).unwrap();
        thread::sleep(Duration::from_millis(2));
    }
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(answer[16..18], [0xff, 0], "{answer:x?}");

    // One byte each 100 ms, of a message that would take twenty seconds.
    let server = Server::with(Options::new().patience(Duration::from_millis(600)));
    let mut slow = server.connect();
    let begun = Instant::now();
    for byte in &message(4, 0, &[0; 180]) {
        thread::sleep(Duration::from_millis(100));
        if slow.write_all(&[*byte]).is_err() {
            break; // The server has given up.
        }
    }
    let mut answer = Vec::new();
    // The system may report the bytes that the server has not read.
    let _ = slow.read_to_end(&mut answer);
    assert_eq!(answer[16..18], [0xff, 0xff], "{answer:x?}");
    assert!(begun.elapsed() >= Duration::from_millis(600));
    // A connection that sends nothing is closed as well.
    let mut silent = server.connect();
    let mut answer = Vec::new();
    silent.read_to_end(&mut answer).unwrap();
    assert_eq!(answer[16..18], [0xff, 0xff]);
}

#[test]
fn the_31st_session_is_refused_in_words_and_another_starts_when_one_has_ended() {
    // A session more would make another test of this program fail.
    if !testkit::process::alone(
        "the_31st_session_is_refused_in_words_and_another_starts_when_one_has_ended",
    ) {
        return;
    }
    let server = Server::start();
    let target = server.target();
    let collect = || target.collect(&[all_of("Contoso-Attach")], 1);
    let mut sessions: Vec<_> = (0..30).map(|_| collect().unwrap()).collect();
    let Err(ClientError::Refused { code: 0x8000_4005, text }) = collect() else {
        panic!("a 31st session")
    };
    assert!(text.contains("already has 30 sessions"), "{text}");
    Tick { number: 1 }.emit();
    assert_eq!(counts(&stop(&target, sessions.pop().unwrap())), (1, 0));
    sessions.push(collect().unwrap());
    Tick { number: 2 }.emit();
    let traces: Vec<_> = sessions.drain(..).map(|live| stop(&target, live)).collect();
    let found: Vec<_> = traces.iter().map(|trace| counts(trace)).collect();
    assert_eq!(found[..29], [(2, 0); 29]);
    assert_eq!(found[29], (1, 0));
}

#[test]
fn a_client_that_goes_away_ends_its_session() {
    // Other tests of this program would find no room for a session.
    if !testkit::process::alone("a_client_that_goes_away_ends_its_session") {
        return;
    }
    let server = Server::start();
    let load = Load::start(2);
    // Twice as many as there can be.
    for round in 0..64 {
        let live = server.target().collect(&[all_of("Contoso-Attach")], 1);
        // Sessions end a moment after their clients have gone.
        let mut live = live.unwrap_or_else(|_| {
            let mut live = None;
            until("a session has ended", || {
                live = server.target().collect(&[all_of("Contoso-Attach")], 1).ok();
                live.is_some()
            });
            live.unwrap()
        });
        live.stream.read_exact(&mut vec![0; round * 10]).unwrap();
    }
    drop(load);
}

#[test]
fn a_client_that_does_not_read_is_disconnected() {
    // Sessions of other tests would hear these threads, and lose events on a busy machine.
    if !testkit::process::alone("a_client_that_does_not_read_is_disconnected") {
        return;
    }
    let patience = Duration::from_millis(500);
    let server = Server::with(Options::new().patience(patience));
    let load = Load::start(2);
    let target = server.target();
    let live = target.collect(&[all_of("Contoso-Attach")], 1).unwrap();
    let id = live.id;
    // Without reading, a client sees only that the other end is closed.
    let mut stream = live.stream;
    until("the client is disconnected", || {
        let mut end = [PollFd::new(&stream, PollFlags::HUP)];
        poll(&mut end, Some(&Timespec::default())).unwrap() == 1
    });
    until("the session is over", || {
        matches!(target.stop(id), Err(ClientError::Refused { code: 0x8007_0057, .. }))
    });
    drop(load);
    let mut rest = Vec::new();
    // What was sent is a trace that breaks off.
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.starts_with(b"Nettrace"));
    let report = nettrace_reader::verify(&rest[..]);
    assert!(!report.as_ref().is_ok_and(|report| report.is_sound()), "{report:?}");
}

#[test]
fn a_client_that_does_not_read_holds_threads_up_no_longer_than_its_patience() {
    // Threads wait for this client: it has asked for that.
    const NAME: &str = "a_client_that_does_not_read_holds_threads_up_no_longer_than_its_patience";
    if !testkit::process::alone(NAME) {
        return;
    }
    let mut patience = Duration::from_secs(1);
    loop {
        let longest = longest_emit(patience);
        assert!(longest < PATIENCE / 4, "{longest:?}");
        if longest > patience / 4 {
            break;
        }
        // A busy machine takes long to fill the memory. Then little is left of the patience.
        assert!(patience < PATIENCE / 8, "no thread waits: {longest:?} of {patience:?}");
        patience *= 4;
    }
}

/// How long the longest emit takes while a client does not read, and after that.
fn longest_emit(patience: Duration) -> Duration {
    let server = Server::with(Options::new().patience(patience));
    let (_, stream) = server.target().ask(2, 7, &collect(6)).unwrap();
    let begun = Instant::now();
    let (mut longest, mut number) = (Duration::ZERO, 0);
    let mut emit = || {
        let before = Instant::now();
        Tick { number }.emit();
        longest = longest.max(before.elapsed());
        number += 1;
        assert!(begun.elapsed() < PATIENCE, "{longest:?} in {number} events");
    };
    // The session's 4 MB and the connection are full, and then it ends.
    while Tick::is_any_enabled() {
        emit();
    }
    (0..100_000).for_each(|_| emit());
    drop(stream);
    server.target().info().unwrap();
    longest
}

#[test]
fn sixty_four_clients_are_answered_while_others_are_slow() {
    let server = Server::with(Options::new().patience(Duration::from_secs(2)));
    // As many as are served at once, and all of them say nothing.
    let silent: Vec<_> = (0..64).map(|_| server.connect()).collect();
    thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| {
                assert_eq!(server.target().info().unwrap().pid, u64::from(process::id()));
            });
        }
    });
    drop(silent);
    // And then more often.
    let server = Server::start();
    thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| {
                for _ in 0..20 {
                    server.target().info().unwrap();
                }
            });
        }
    });
}

#[test]
fn the_socket_is_removed_and_never_anothers() {
    let folder = tempdir().unwrap();
    let first = Options::new().directory(folder.path()).listen().unwrap();
    let path = first.path().to_owned();
    let error = Options::new().directory(folder.path()).listen().unwrap_err();
    assert!(matches!(error, Error::InUse { .. }), "{error}");
    connect(&path);
    first.stop();
    assert!(!path.exists());
    first.stop();

    // One that nobody listens at is replaced.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let second = Options::new().directory(folder.path()).listen().unwrap();
    connect(&path);
    // Another file has taken the path.
    fs::remove_file(&path).unwrap();
    fs::write(&path, "not ours").unwrap();
    second.stop();
    assert_eq!(fs::read_to_string(&path).unwrap(), "not ours");
    // A file that is no socket is not ours either.
    let error = Options::new().directory(folder.path()).listen().unwrap_err();
    assert!(matches!(error, Error::InUse { .. } | Error::Bind { .. }), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "not ours");
}

#[test]
fn a_path_that_is_too_long_says_what_to_do() {
    let folder = tempdir().unwrap();
    let deep = folder.path().join("d".repeat(100));
    fs::create_dir(&deep).unwrap();
    let error = Options::new().directory(&deep).listen().unwrap_err();
    assert!(matches!(error, Error::PathTooLong { .. }), "{error}");
    assert!(error.to_string().contains("set TMPDIR to a shorter folder"), "{error}");
}
