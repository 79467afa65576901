//! Tests that need a kernel: listeners that come and go, other processes and users, forks, a
//! tracefs that is mounted late, and the largest event.
//!
//! Run by `cargo xtask vm`. Elsewhere each test reports that it is skipped.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]
#![allow(unsafe_code, reason = "fork")]

mod decoder;
mod machine;

use std::{
    env, fs, io,
    process::Command,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use eventheader_writer::{
    Availability, Context, Counters, DynamicProvider, Emit, EventBuilder, FieldFormat, Level,
    MAX_EVENT_BYTES, OnTooLarge, TraceEvent, counters, encoded, on_too_large, retry, status,
};
use serde_json::{Value, json};

use decoder::{Decoded, decode_filled};
use machine::{
    Recording, Sample, finish_role, inside, listen, listeners, registered, role, start_role,
    wait_until,
};

/// User `nobody`.
const NOBODY: u32 = 65_534;

#[derive(TraceEvent)]
#[trace_event(provider = "Live_Threads", keywords = 0x1)]
struct Step {
    thread: u32,
    number: u64,
}

#[test]
fn threads_write_while_listeners_come_and_go() {
    const THREADS: u32 = 4;
    if !inside() {
        return;
    }
    let name = registered::<Step>();
    let before = counters();

    // Only tracefs listens, at times: an event is written, or comes too late, or is not encoded.
    let (stop, emitted) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (stop, emitted) = (&stop, &emitted);
            scope.spawn(move || {
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    Step { thread, number }.emit();
                    number += 1;
                }
                emitted.fetch_add(number, Ordering::Relaxed);
            });
        }
        for _ in 0..100 {
            listen(&name, true);
            thread::sleep(Duration::from_millis(3));
            listen(&name, false);
            thread::sleep(Duration::from_millis(1));
        }
        stop.store(true, Ordering::Relaxed);
    });
    wait_until("the word is cleared", || !is_enabled(&name));
    let after = since(&before);
    let emitted = emitted.into_inner();
    println!("{emitted} emitted while listeners came and went: {after:?}");
    assert_eq!((after.failed_in_all(), after.too_large, after.cut), (0, 0, 0));
    assert!(after.written > 0 && after.written + after.disabled <= emitted);

    // perf listens all the time, tracefs at times: every event is written, and arrives once.
    let before = counters();
    let recording = Recording::start(&[&name]);
    wait_until("the word is set", || is_enabled(&name));
    let numbers = 0..500;
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let numbers = numbers.clone();
            scope.spawn(move || numbers.for_each(|number| Step { thread, number }.emit()));
        }
        for turn in 0..20 {
            listen(&name, turn % 2 == 0);
            thread::sleep(Duration::from_millis(2));
        }
    });
    let samples = recording.finish();
    let all = numbers.end * u64::from(THREADS);
    assert_eq!(since(&before), counts(all));
    let mut arrived: Vec<(u64, u64)> = samples.iter().map(step).collect();
    arrived.sort_unstable();
    let expected = (0..u64::from(THREADS)).flat_map(|thread| (0..500).map(move |n| (thread, n)));
    assert!(arrived.into_iter().eq(expected), "{} samples", samples.len());

    // Nobody listens: nothing is encoded or counted.
    wait_until("the word is cleared", || !is_enabled(&name));
    let before = counters();
    Step { thread: 0, number: 0 }.emit();
    assert_eq!(since(&before), counts(0));
}

fn step(sample: &Sample) -> (u64, u64) {
    let fields = decode(sample).fields;
    (fields["thread"].as_u64().expect("a number"), fields["number"].as_u64().expect("a number"))
}

#[test]
fn an_event_of_the_largest_size_arrives_and_a_larger_one_is_counted() {
    #[derive(TraceEvent)]
    #[trace_event(provider = "Live_Sizes")]
    struct Large {
        text: String,
    }
    if !inside() {
        return;
    }
    let name = registered::<Large>();
    let large = |len| Large { text: "x".repeat(len) };
    let overhead = encoded(&large(0), &Context::new()).expect("it is small").len();
    let most = MAX_EVENT_BYTES - overhead;
    let before = counters();
    let recording = Recording::start(&[&name]);
    wait_until("the word is set", || is_enabled(&name));
    for len in [most - 1, most, most + 1, 2 * most] {
        large(len).emit();
    }
    on_too_large(OnTooLarge::Cut);
    large(most + 1).emit();
    on_too_large(OnTooLarge::Refuse);
    let samples = recording.finish();

    let text = |sample: &Sample| {
        let fields = decode(sample).fields;
        fields["text"].as_str().expect("text").to_owned()
    };
    let texts: Vec<String> = samples.iter().map(text).collect();
    assert_eq!(texts[..2], ["x".repeat(most - 1), "x".repeat(most)]);
    assert!(texts[2].ends_with("x…") && texts[2].len() <= 2_048 + '…'.len_utf8());
    assert_eq!(texts.len(), 3);
    let mut expected = counts(3);
    (expected.cut, expected.too_large) = (1, 2);
    assert_eq!(since(&before), expected);
}

#[test]
fn a_tracepoint_goes_with_its_guard_and_with_its_process() {
    if !inside() {
        return;
    }
    let provider = DynamicProvider::new("Live_Guard").expect("a good name");
    let (one, two) = (provider.tracepoint(Level::Error, 2), provider.tracepoint(Level::Error, 2));
    let name = one.name().to_owned();
    assert_eq!(listeners(&name), Some(Vec::new()));
    drop(one);
    listen(&name, true);
    wait_until("the other guard's word is set", || two.is_enabled());
    listen(&name, false);
    drop(two);
    assert!(status().tracepoints.iter().all(|point| point.name != name));
    // Tracepoints that reuse the dropped ones' words do not get their listeners.
    let others = [4, 8].map(|keywords| provider.tracepoint(Level::Error, keywords));
    listen(&name, true);
    thread::sleep(Duration::from_millis(500));
    assert!(others.iter().all(|other| !other.is_enabled()));
    listen(&name, false);
    for other in &others {
        listen(other.name(), true);
        wait_until("the word is set", || other.is_enabled());
        listen(other.name(), false);
    }
    let again = provider.tracepoint(Level::Error, 2);
    assert_eq!(listeners(&name), Some(Vec::new()), "registered once more");
    drop(again);

    let output = finish_role(start_role("in_a_role", "ends", None));
    assert!(output.contains("registered Live_Ends_L4K0"), "{output}");
    wait_until("the process's tracepoint is gone", || listeners("Live_Ends_L4K0").is_none());
}

#[derive(TraceEvent)]
#[trace_event(provider = "Live_Shared", level = Warning)]
struct Said {
    words: String,
}

#[test]
fn two_processes_share_a_tracepoint() {
    if !inside() {
        return;
    }
    let name = registered::<Said>();
    let recording = Recording::start(&[&name]);
    let child = start_role("in_a_role", "says", None);
    let id = child.id();
    finish_role(child);
    wait_until("the word is set", || is_enabled(&name));
    let before = counters();
    Said { words: "parent".into() }.emit();
    assert_eq!(since(&before), counts(1));
    let samples = recording.finish();
    assert_eq!(said(&samples), [(id, "child".into()), (std::process::id(), "parent".into())]);
}

fn said(samples: &[Sample]) -> Vec<(u32, String)> {
    let words = |sample: &Sample| {
        let decoded = decode(sample);
        assert_eq!((decoded.provider.as_str(), decoded.name.as_str()), ("Live_Shared", "Said"));
        decoded.fields["words"].as_str().expect("text").to_owned()
    };
    samples.iter().map(|sample| (sample.pid, words(sample))).collect()
}

#[test]
fn a_user_without_rights_goes_on_and_can_ask_why() {
    if !inside() {
        return;
    }
    let output = finish_role(start_role("in_a_role", "nobody", Some(NOBODY)));
    assert!(output.contains("user_events_data cannot be opened by this user"), "{output}");
}

#[test]
fn a_forked_child_writes_and_leaves_its_parent_alone() {
    if !inside() {
        return;
    }
    let name = registered::<Said>();
    // One child is forked before anybody listens, and one after.
    let is_recording = env::temp_dir().join("live-recording");
    let first = Forked::new(|| {
        wait_until("the word is set in the child", || is_enabled("Live_Shared_L3K0"));
        // perf starts to listen on one processor after the other.
        wait_until("all of perf listens", || is_recording.exists());
        Said { words: "first".into() }.emit();
    });
    let recording = Recording::start(&[&name]);
    fs::write(&is_recording, "").expect("there is room for nothing");
    let ids = [first.id(), {
        first.wait();
        fs::remove_file(&is_recording).expect("it is ours");
        let second = Forked::new(|| {
            Said { words: "second".into() }.emit();
            // A type that the child is the first to register.
            assert_eq!(registered::<Born>(), "Live_Born_L4K0");
        });
        let id = second.id();
        second.wait();
        id
    }];
    // At its exit the child unregistered its words, not those of the parent.
    assert!(is_enabled(&name));
    Said { words: "parent".into() }.emit();
    let samples = recording.finish();
    let expected = [(ids[0], "first"), (ids[1], "second"), (std::process::id(), "parent")];
    assert_eq!(said(&samples), expected.map(|(id, words)| (id, words.to_owned())));
    wait_until("the word is cleared", || !is_enabled(&name));
}

#[derive(TraceEvent)]
#[trace_event(provider = "Live_Born")]
struct Born;

#[test]
fn a_registration_outlives_the_thread_that_made_it() {
    #[derive(TraceEvent)]
    #[trace_event(provider = "Live_Brief")]
    struct Brief;
    if !inside() {
        return;
    }
    let provider = DynamicProvider::new("Live_Passed_On").expect("a good name");
    let made = thread::spawn(move || {
        // The first event of its type.
        Brief.emit();
        provider.tracepoint(Level::Informational, 1)
    });
    let guard = made.join().expect("it ends well");
    // The kernel cleans up after a thread with a delay.
    thread::sleep(Duration::from_millis(500));
    for name in ["Live_Brief_L4K0", guard.name()] {
        listen(name, true);
        wait_until("the word is set", || is_enabled(name));
    }
    let before = counters();
    thread::spawn(|| Brief.emit()).join().expect("it ends well");
    Brief.emit();
    assert_eq!(since(&before), counts(2));
    for name in ["Live_Brief_L4K0", guard.name()] {
        listen(name, false);
        wait_until("the word is cleared", || !is_enabled(name));
    }
    let name = guard.name().to_owned();
    thread::spawn(|| drop(guard)).join().expect("it ends well");
    assert!(status().tracepoints.iter().all(|point| point.name != name));
    let again = DynamicProvider::new("Live_Passed_On").expect("a good name");
    let again = again.tracepoint(Level::Informational, 1);
    listen(&name, true);
    wait_until("the word is set again", || again.is_enabled());
    listen(&name, false);
}

#[test]
fn a_process_of_one_thread_needs_no_second() {
    if !inside() {
        return;
    }
    let output = finish_role(start_role("in_a_role", "alone", None));
    assert!(output.contains("registered Live_Alone_L4K0"), "{output}");
}

/// How many threads this process has.
fn threads() -> usize {
    fs::read_dir("/proc/self/task").expect("proc is mounted").count()
}

/// A forked child.
struct Forked(libc::pid_t);

impl Forked {
    /// Does `work` in a child, which then ends like a program.
    fn new(work: impl FnOnce()) -> Self {
        // SAFETY: tests run one after the other here, so no other thread holds a lock that the
        // child would wait for; the child does its work and ends.
        match unsafe { libc::fork() } {
            0 => {
                let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
                std::process::exit(i32::from(done.is_err()))
            }
            id => {
                assert!(id > 0, "{}", io::Error::last_os_error());
                Self(id)
            }
        }
    }

    fn id(&self) -> u32 {
        self.0.unsigned_abs()
    }

    #[track_caller]
    fn wait(self) {
        let mut status = 0;
        // SAFETY: writes a number into `status`.
        let ended = unsafe { libc::waitpid(self.0, &mut status, 0) };
        assert_eq!((ended, status), (self.0, 0));
    }
}

#[test]
fn tracefs_may_come_late() {
    if !inside() {
        return;
    }
    // In a process that has not opened the file yet. This process has, and keeps it open.
    run("umount", &["-l", "/sys/kernel/tracing"]);
    let child = start_role("in_a_role", "waits", None);
    let output = child.wait_with_output().expect("it ends");
    let _ = Command::new("mount").args(["-t", "tracefs", "trace", "/sys/kernel/tracing"]).status();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("registered Live_Late_L4K0"), "{text}");
}

#[test]
fn a_program_that_is_started_does_not_inherit_the_descriptor() {
    if !inside() {
        return;
    }
    registered::<Said>();
    let mut found = 0;
    for entry in fs::read_dir("/proc/self/fd").expect("proc is mounted").flatten() {
        let target = fs::read_link(entry.path()).unwrap_or_default();
        if !target.ends_with("user_events_data") {
            continue;
        }
        found += 1;
        let number = entry.file_name().into_string().expect("a number");
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).expect("it is open");
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).expect("flags");
        let flags = i32::from_str_radix(flags.trim(), 8).expect("an octal number");
        assert_ne!(flags & libc::O_CLOEXEC, 0, "{info}");
    }
    assert_eq!(found, 1, "one descriptor for everything");
}

#[test]
fn events_made_at_run_time_arrive() {
    if !inside() {
        return;
    }
    let provider = DynamicProvider::new("Live-Plugins").expect("a good name");
    let provider = provider.group("ops").expect("a good group");
    let point = provider.tracepoint(Level::Verbose, 0x2A);
    assert_eq!(point.name(), "Live_Plugins_L5K2aGops");
    let recording = Recording::start(&[point.name()]);
    wait_until("the word is set", || point.is_enabled());
    EventBuilder::new("Loaded")
        .id(7, 1)
        .add("plugin", "spellcheck")
        .add_as("flags", &0x21_u32, FieldFormat::Hex)
        .add_struct("limits", |limits| {
            limits.add("sizes", &[1_u64, 2, 3][..]).add_utf32("mark", &['ß']);
        })
        .write(&point)
        .expect("it fits");
    let samples = recording.finish();
    let [sample] = &samples[..] else { panic!("{samples:?}") };
    let decoded = decode(sample);
    assert_eq!((decoded.provider.as_str(), decoded.keyword), ("Live_Plugins", 0x2A));
    assert_eq!((decoded.name.as_str(), decoded.id, decoded.level), ("Loaded", 7, 5));
    let limits = json!({"sizes": [1, 2, 3], "mark": "ß"});
    let expected = json!({"plugin": "spellcheck", "flags": "0x21", "limits": limits});
    assert_eq!(Value::from(decoded.fields), expected);
}

#[test]
fn the_doctor_sees_the_kernel_as_it_is() {
    if !inside() {
        return;
    }
    let name = registered::<Said>();
    listen(&name, true);
    let output = Command::new(env!("CARGO_BIN_EXE_eventheader")).arg("doctor").output();
    listen(&name, false);
    let output = output.expect("it is built");
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    assert!(output.status.success(), "{text}");
    assert!(text.contains(&format!("{name}  (ftrace")), "{text}");
    assert!(text.contains("perf record -a ") && text.contains(&format!(" -e user_events:{name}")));
}

/// The work of the programs that the tests above start. Run as a test, it does nothing.
#[test]
fn in_a_role() {
    match role().as_deref() {
        Some("ends") => {
            let point = DynamicProvider::new("Live_Ends").expect("a good name");
            let point = point.tracepoint(Level::Informational, 0);
            assert!(listeners(point.name()).is_some());
            println!("registered {}", point.name());
            // Act like a program without guards.
            std::mem::forget(point);
        }
        Some("says") => {
            registered::<Said>();
            wait_until("the word is set", || is_enabled("Live_Shared_L3K0"));
            Said { words: "child".into() }.emit();
        }
        Some("alone") => Forked::new(|| {
            #[derive(TraceEvent)]
            #[trace_event(provider = "Live_Alone")]
            struct Alone;

            assert_eq!(threads(), 1);
            assert_eq!(registered::<Alone>(), "Live_Alone_L4K0");
            assert_eq!(threads(), 1, "no thread was needed");
            // All other threads descend from this one.
            thread::spawn(registered::<Said>).join().expect("it ends well");
            thread::sleep(Duration::from_millis(500));
            for name in ["Live_Alone_L4K0", "Live_Shared_L3K0"] {
                listen(name, true);
                wait_until("the word is set", || is_enabled(name));
                listen(name, false);
            }
            println!("registered Live_Alone_L4K0");
        })
        .wait(),
        Some("nobody") => {
            let before = counters();
            Said { words: "in vain".into() }.emit();
            assert_eq!(since(&before), counts(0));
            let status = status();
            assert!(matches!(status.availability, Availability::NotPermitted { .. }), "{status:?}");
            println!("{}", status.availability.explanation());
        }
        Some("waits") => {
            #[derive(TraceEvent)]
            #[trace_event(provider = "Live_Late")]
            struct Late;

            Late.emit();
            assert_eq!(status().availability, Availability::NoTracefs);
            run("mount", &["-t", "tracefs", "trace", "/sys/kernel/tracing"]);
            let status = retry();
            assert!(matches!(status.availability, Availability::Ready { .. }), "{status:?}");
            assert!(listeners("Live_Late_L4K0").is_some());
            listen("Live_Late_L4K0", true);
            wait_until("the word is set", || is_enabled("Live_Late_L4K0"));
            let before = counters();
            Late.emit();
            assert_eq!(since(&before), counts(1));
            listen("Live_Late_L4K0", false);
            println!("registered Live_Late_L4K0");
            // Leave it free for the next mount.
            run("umount", &["-l", "/sys/kernel/tracing"]);
        }
        Some(other) => panic!("no such role: {other}"),
        None => {}
    }
}

/// Decodes the event, which `perf` recorded with less than 8 bytes of filling.
#[track_caller]
fn decode(sample: &Sample) -> Decoded {
    decode_filled(&sample.tracepoint, &sample.bytes, 7)
}

/// Whether this process knows that somebody listens.
fn is_enabled(name: &str) -> bool {
    status().tracepoints.iter().any(|point| point.name == name && point.enabled)
}

fn counts(written: u64) -> Counters {
    let mut counts = Counters::default();
    counts.written = written;
    counts
}

/// The counts since `before`.
fn since(before: &Counters) -> Counters {
    let now = counters();
    let mut counts = counts(now.written - before.written);
    counts.cut = now.cut - before.cut;
    counts.disabled = now.disabled - before.disabled;
    counts.too_large = now.too_large - before.too_large;
    assert_eq!(before.failed, [], "no event has failed");
    counts.failed = now.failed;
    counts
}

#[track_caller]
fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().expect("it is installed");
    assert!(status.success(), "{program} {arguments:?}: {status}");
}
