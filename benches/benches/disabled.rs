//! The cost of an emit, a traced call and a scope of labels while no session listens: in
//! instructions, and in time beside an empty loop.

use std::{hint::black_box, process::ExitCode, time::Instant};

use benches::{
    disassembly::{self, Path},
    events::PROVIDER,
    options::Options,
    report::{Report, median},
};
use eventheader_writer as tracepoints;
use nettrace_writer::{Emit, Label, Origin, Session, TraceEvent, emit_lazy, enter_labels, traced};

/// An event type of this crate, as in most applications. A type of another crate can cost one more
/// load: the program may reach it through a table of imported addresses.
#[derive(TraceEvent)]
#[trace_event(provider = "Bench-Disabled", id = 2)]
struct Disabled {
    a: u64,
    b: u64,
}

/// The same as a tracepoint that nobody listens to.
#[derive(TraceEvent)]
#[trace_event(provider = "Bench_Unheard")]
struct Unheard {
    a: u64,
    b: u64,
}

fn main() -> ExitCode {
    let options = Options::from_env();
    let mut report = Report::default();
    let mut good = true;
    // The first event registers the type, and the type learns that no session wants it.
    let session = Session::builder().file("/dev/null").provider(PROVIDER).start();
    let session = session.expect("a device takes a trace");
    emit(1, 2);
    emit_made_late(1, 2);
    emit_tracepoint(1, 2);
    emit_tracepoint_made_late(1, 2);
    if options.wants("disabled_extra_ns") {
        time(&options, &mut report);
    }
    if options.wants("disabled_instructions") {
        good = instructions(&mut report);
    }
    report.finish();
    let stats = session.finish().expect("a device takes everything");
    assert_eq!(stats.attempted, 0, "the disabled event was recorded");
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The function whose instructions are counted. The emit is inlined into it.
#[inline(never)]
fn emit(a: u64, b: u64) {
    Disabled { a, b }.emit();
}

/// The same with an event that is made only if somebody listens.
#[inline(never)]
fn emit_made_late(a: u64, b: u64) {
    emit_lazy(|| Disabled { a, b });
}

/// The same in a program that uses tracepoints alone.
#[inline(never)]
fn emit_tracepoint(a: u64, b: u64) {
    tracepoints::Emit::emit(Unheard { a, b });
}

/// The same with a tracepoint event that is made only if somebody listens.
#[inline(never)]
fn emit_tracepoint_made_late(a: u64, b: u64) {
    tracepoints::emit_lazy(|| Unheard { a, b });
}

/// The same with a stack.
#[inline(never)]
fn emit_with(a: u64, b: u64) {
    Disabled { a, b }.emit_with(&Origin::new().stack(&[a, b]));
}

/// A function whose calls are events.
#[inline(never)]
#[traced(provider = "Bench-Disabled")]
fn called(a: u64, b: u64) {
    let _ = (a, b);
}

/// A scope of labels.
#[inline(never)]
fn labelled(a: u64, b: u64) {
    let _scope = enter_labels(&[Label::SpanId(a), Label::Keywords(b)]);
}

/// Times the loops. They take turns, so that a change of the machine's speed affects all of them
/// alike.
fn time(options: &Options, report: &mut Report) {
    let (rounds, turns) = options.amount((201, 200_000), (3, 1_000));
    let (mut empty, mut disabled, mut lazy) = (Vec::new(), Vec::new(), Vec::new());
    let mut unheard = Vec::new();
    for _ in 0..rounds {
        empty.push(nanoseconds(turns, |_| ()));
        disabled.push(nanoseconds(turns, |number| Disabled { a: number, b: number }.emit()));
        lazy.push(nanoseconds(turns, |number| emit_lazy(|| Disabled { a: number, b: number })));
        unheard.push(nanoseconds(turns, |number| {
            tracepoints::Emit::emit(Unheard { a: number, b: number });
        }));
    }
    let (empty, disabled, lazy) = (median(empty), median(disabled), median(lazy));
    let unheard = median(unheard);
    report.figure("empty_loop_ns", empty);
    report.figure("disabled_loop_ns", disabled);
    report.figure("disabled_lazy_loop_ns", lazy);
    report.figure("tracepoint_disabled_loop_ns", unheard);
    report.ratio("disabled_extra_ns", disabled - empty);
    report.ratio("disabled_lazy_extra_ns", lazy - empty);
    report.ratio("tracepoint_disabled_extra_ns", unheard - empty);
}

/// The time that one turn of a loop takes, in nanoseconds.
#[inline(always)]
fn nanoseconds(turns: u64, work: impl Fn(u64)) -> f64 {
    let start = Instant::now();
    for number in 0..turns {
        work(black_box(number));
    }
    start.elapsed().as_secs_f64() * 1e9 / turns as f64
}

/// Counts the instructions of this program's own functions. Returns `false` if a path has more
/// loads or branches than the documentation says.
fn instructions(report: &mut Report) -> bool {
    let name = "disabled_instructions";
    if cfg!(debug_assertions) || !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        report.skip(name, "this is no optimised program for x86-64 Linux");
        return true;
    }
    black_box([emit as fn(u64, u64), emit_made_late, emit_tracepoint, emit_tracepoint_made_late]);
    black_box([emit_with as fn(u64, u64), called, labelled]);
    let text = match disassembly::of_this_program() {
        Ok(text) => text,
        Err(reason) => {
            report.skip(name, &reason);
            return true;
        }
    };
    let mut good = true;
    for (function, name) in [
        ("disabled::emit>", "disabled"),
        ("disabled::emit_made_late>", "disabled_lazy"),
        ("disabled::emit_tracepoint>", "tracepoint_disabled"),
        ("disabled::emit_tracepoint_made_late>", "tracepoint_disabled_lazy"),
        ("disabled::emit_with>", "disabled_with"),
        ("disabled::called>", "disabled_traced"),
        ("disabled::labelled>", "disabled_labels"),
    ] {
        let Some(path) = Path::shortest(&text, function) else {
            println!("the disassembly shows no path through `{function}` without a call");
            return false;
        };
        print!("{name}:\n{path}");
        report.ratio(&format!("{name}_instructions"), path.instructions() as f64);
        report.ratio(&format!("{name}_loads"), path.loads() as f64);
        report.ratio(&format!("{name}_branches"), path.branches() as f64);
        report.ratio(&format!("{name}_stores"), path.stores() as f64);
        // The word that labels depend on is in another crate: its address may take a load, too.
        let loads = if name == "disabled_labels" { 1..=2 } else { 1..=1 };
        // A call ends with a look at its own stack frame: is there a span to end?
        let branches = if name == "disabled_traced" { 1..=2 } else { 1..=1 };
        if !loads.contains(&path.loads()) || !branches.contains(&path.branches()) {
            println!("{name}: this path has more loads or branches than it may have");
            good = false;
        }
    }
    good
}
