//! The named pipe of Windows, as a client sees it. No lane runs this: the lane `windows` compiles,
//! and these tests are run in Wine by hand, with
//! `CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=wine cargo test --target x86_64-pc-windows-gnu`.
//! Before version 9, Wine has no `bcryptprimitives.dll`, which Rust's standard library needs.

#![cfg(windows)]
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "threads of clients")]

use std::{
    fs::{File, OpenOptions},
    io::{Read as _, Write as _},
    path::Path,
    process,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use nettrace_diagnostics::{Diagnostics, Error, Options};
use nettrace_reader::verify;
use nettrace_writer::{Emit as _, TraceEvent};

#[derive(TraceEvent)]
#[trace_event(provider = "Contoso-Attach", id = 7, level = Informational, keywords = 1)]
struct Tick {
    number: u64,
}

/// A process has one pipe.
fn server(patience: Duration) -> (MutexGuard<'static, ()>, Diagnostics) {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    (alone, Options::new().patience(patience).listen().unwrap())
}

const LONG: Duration = Duration::from_secs(60);

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// Connects. All instances may be taken for a moment.
fn connect(path: &Path) -> File {
    /// All instances of the pipe are busy.
    const BUSY: i32 = 231;
    let deadline = Instant::now() + LONG;
    loop {
        match open(path) {
            Err(error) if error.raw_os_error() == Some(BUSY) && Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(1));
            }
            opened => return opened.unwrap(),
        }
    }
}

fn message(set: u8, id: u8, payload: &[u8]) -> Vec<u8> {
    let size = u16::try_from(20 + payload.len()).unwrap().to_le_bytes();
    [&b"DOTNET_IPC_V1\0"[..], &size, &[set, id, 0, 0], payload].concat()
}

/// The bytes after the set and the id of an answer, and these two.
fn answer(pipe: &mut File) -> ([u8; 2], Vec<u8>) {
    let mut header = [0; 20];
    pipe.read_exact(&mut header).unwrap();
    assert_eq!(header[..14], *b"DOTNET_IPC_V1\0");
    let mut payload = vec![0; usize::from(u16::from_le_bytes([header[14], header[15]])) - 20];
    pipe.read_exact(&mut payload).unwrap();
    ([header[16], header[17]], payload)
}

const OK: [u8; 2] = [0xff, 0];
const REFUSED: [u8; 2] = [0xff, 0xff];

fn ask(path: &Path, set: u8, id: u8, payload: &[u8]) -> ([u8; 2], Vec<u8>) {
    let mut pipe = connect(path);
    pipe.write_all(&message(set, id, payload)).unwrap();
    answer(&mut pipe)
}

/// Starts a trace. Returns its id, and its bytes to come.
fn collect(path: &Path) -> (Vec<u8>, File) {
    let text = |text: &str| {
        let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
        let count = u32::try_from(units.len()).unwrap().to_le_bytes();
        [count.to_vec(), units.iter().flat_map(|unit| unit.to_le_bytes()).collect()].concat()
    };
    let head = [[4, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]].concat();
    let rest = [&[0xff; 8][..], &[5, 0, 0, 0], &text("Contoso-Attach"), &text("")].concat();
    let mut pipe = connect(path);
    pipe.write_all(&message(2, 2, &[head, rest].concat())).unwrap();
    let (kind, id) = answer(&mut pipe);
    assert_eq!(kind, OK, "{id:x?}");
    (id, pipe)
}

/// The rest of a trace. The end of a pipe is an error in Windows, which the library knows.
fn rest(mut pipe: File) -> Vec<u8> {
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes).unwrap();
    bytes
}

#[track_caller]
fn counts(trace: &[u8]) -> (u64, u64) {
    let report = verify(trace).unwrap();
    assert!(report.is_sound(), "{report:?}");
    (report.events, report.lost)
}

#[test]
fn a_client_asks_and_gets_a_complete_trace() {
    let (_alone, server) = server(LONG);
    let path = server.path();
    assert_eq!(path.to_str().unwrap(), format!(r"\\.\pipe\dotnet-diagnostic-{}", process::id()));
    let second = Options::new().listen().unwrap_err();
    assert!(matches!(second, Error::InUse { .. }), "{second}");

    let (kind, info) = ask(path, 4, 8, &[]);
    assert_eq!(kind, OK);
    assert_eq!(info[4..12], u64::from(process::id()).to_le_bytes());
    let info = String::from_utf8_lossy(&info).replace('\0', "");
    assert!(info.contains("Windows") && info.contains("win-x64"), "{info}");
    assert_eq!(ask(path, 9, 9, &[]).0, REFUSED);
    assert_eq!(ask(path, 2, 1, &[7; 8]).0, REFUSED, "no such session");

    // Two at once, of which one goes without a word. More than a pipe holds.
    let (id, pipe) = collect(path);
    let (other, gone) = collect(path);
    assert_ne!(id, other);
    let reader = thread::spawn(|| rest(pipe));
    for number in 0..100_000 {
        Tick { number }.emit();
        if number == 50_000 {
            let mut some = [0; 1_000];
            (&gone).read_exact(&mut some).unwrap();
        }
    }
    drop(gone);
    assert_eq!(ask(path, 2, 1, &id), (OK, id.clone()));
    assert_eq!(counts(&reader.join().unwrap()), (100_000, 0));
    assert_eq!(ask(path, 2, 1, &id).0, REFUSED, "it has ended");

    // At the end of the server, a trace is complete, and the pipe is gone.
    let (_, pipe) = collect(path);
    let reader = thread::spawn(|| rest(pipe));
    Tick { number: 1 }.emit();
    assert!(server.is_listening());
    server.stop();
    assert!(!server.is_listening());
    assert_eq!(counts(&reader.join().unwrap()), (1, 0));
    assert!(open(path).is_err());
}

#[test]
fn silent_clients_are_sent_away_and_others_get_their_turn() {
    let (_alone, server) = server(Duration::from_secs(2));
    let path = server.path();
    let silent: Vec<File> = (0..70).map(|_| connect(path)).collect();
    assert_eq!(ask(path, 4, 0, &[]).0, OK);
    for mut pipe in silent {
        let (kind, words) = answer(&mut pipe);
        assert_eq!(kind, REFUSED);
        let words = String::from_utf8_lossy(&words).replace('\0', "");
        assert!(words.contains("has not arrived within 2s"), "{words}");
    }
    // One byte a second is too slow as well.
    let mut slow = connect(path);
    let mut sent = 0;
    for byte in message(4, 0, &[]) {
        if slow.write_all(&[byte]).is_err() {
            break;
        }
        sent += 1;
        thread::sleep(Duration::from_secs(1));
    }
    assert!(sent < 20);
    server.stop();
}

#[test]
fn a_client_that_reads_nothing_loses_its_session() {
    let (_alone, server) = server(Duration::from_millis(500));
    let path = server.path();
    let (id, pipe) = collect(path);
    let is_over = Arc::new(AtomicBool::new(false));
    let load = {
        let is_over = Arc::clone(&is_over);
        thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                (0..1_000).for_each(|number| Tick { number }.emit());
                thread::sleep(Duration::from_millis(1));
            }
        })
    };
    thread::sleep(Duration::from_secs(10));
    assert_eq!(ask(path, 2, 1, &id).0, REFUSED);
    is_over.store(true, Ordering::Relaxed);
    load.join().unwrap();
    drop(pipe);
    assert_eq!(ask(path, 4, 0, &[]).0, OK);
    server.stop();
}
