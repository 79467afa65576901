//! The cost of many threads: events on each of them, their start and end, and their idleness.

use std::{
    hint::black_box,
    sync::mpsc::{self, Sender},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use benches::{
    events::{PROVIDER, Two},
    floor::Floor,
    machine,
    options::Options,
    report::{Report, median},
};
use nettrace_writer::{Emit, OnFull, Session, traced};
use tracing::{info, subscriber::set_global_default};

/// Events that a thread emits in one turn. They fill more than one chunk of memory.
const BURST: u64 = 4_000;
/// The stack size of each thread; small, since stacks are not what is measured.
const STACK: usize = 128 << 10;

fn main() {
    let options = Options::from_env();
    let mut report = Report::default();
    if options.wants("threads_cost") {
        cost(&options, &mut report);
    }
    if options.wants("threads_births") {
        births(&options, &mut report);
    }
    if options.wants("threads_idle") {
        idle(&options, &mut report);
    }
    report.finish();
}

/// Does the same from 1, 10, 100 and 1,000 threads, which take turns: events, traced calls, events
/// of `tracing`. Beside them the floor runs on as many threads, since with many threads the caches
/// make even the floor slower.
fn cost(options: &Options, report: &mut Report) {
    set_global_default(tracing_nettrace::subscriber()).expect("the only one");
    let numbers: &[usize] = options.amount(&[1, 10, 100, 1_000], &[1, 10]);
    cost_of("threads", burst_of_events, numbers, options, report);
    let numbers: &[usize] = options.amount(&[1, 64], &[1, 10]);
    cost_of("threads_calls", burst_of_calls, numbers, options, report);
    cost_of("threads_tracing", burst_of_tracing, numbers, options, report);
}

fn cost_of(name: &str, burst: fn(), numbers: &[usize], options: &Options, report: &mut Report) {
    let (rounds, turns) = options.amount((3, 3_000), (1, 20));
    let mut ours = vec![Vec::new(); numbers.len()];
    let mut floors = vec![Vec::new(); numbers.len()];
    for _ in 0..rounds {
        for (place, &threads) in numbers.iter().enumerate() {
            let session = session();
            ours[place].push(taking_turns(threads, turns, burst));
            floors[place].push(taking_turns(threads, turns, burst_of_floor()));
            session.finish().expect("a device takes everything");
        }
    }
    let mut of_floor = Vec::new();
    for ((&threads, ours), floors) in numbers.iter().zip(ours).zip(floors) {
        let (ours, floor) = (median(ours), median(floors));
        report.figure(&format!("{name}_{threads}_ns"), ours);
        report.figure(&format!("{name}_{threads}_floor_ns"), floor);
        of_floor.push((threads, ours, ours / floor));
    }
    let (_, one, _) = of_floor[0];
    for (threads, ours, ratio) in of_floor {
        report.ratio(&format!("{name}_{threads}_of_floor"), ratio);
        if threads > 1 {
            report.ratio(&format!("{name}_{threads}_over_1"), ours / one);
        }
    }
}

fn burst_of_calls() {
    #[traced(provider = "Bench", fields = [number])]
    #[inline(never)]
    fn call(number: u64) {
        black_box(number);
    }
    (0..BURST).for_each(call);
}

fn burst_of_tracing() {
    for number in 0..BURST {
        info!(target: "Bench", a = number, b = number);
    }
}

fn burst_of_events() {
    for number in 0..BURST {
        Two { a: number, b: number }.emit();
    }
}

/// The floor with one ring for each thread.
fn burst_of_floor() -> impl FnMut() + Send + Clone + 'static {
    let mut floor = None;
    move || {
        let floor: &mut Floor = floor.get_or_insert_with(Floor::new);
        for number in 0..BURST {
            floor.record(number, black_box(number));
        }
    }
}

/// Nanoseconds an event on threads of which one runs at a time: the median of all turns without the
/// first of each thread.
fn taking_turns(threads: usize, turns: usize, work: impl FnMut() + Send + Clone + 'static) -> f64 {
    let (done, times) = mpsc::channel();
    let crew: Vec<(Sender<()>, JoinHandle<()>)> =
        (0..threads).map(|_| member(work.clone(), done.clone())).collect();
    let mut all = Vec::new();
    for turn in 0..turns.max(2 * threads) + threads {
        let (go, _) = &crew[turn % threads];
        go.send(()).expect("the thread waits for its turn");
        let time: Duration = times.recv().expect("the thread answers");
        if turn >= threads {
            all.push(time.as_secs_f64() * 1e9 / BURST as f64);
        }
    }
    dismiss(crew);
    median(all)
}

/// Starts a thread that runs `work` each time it is told to, and sends back how long it took.
fn member(
    mut work: impl FnMut() + Send + 'static,
    done: Sender<Duration>,
) -> (Sender<()>, JoinHandle<()>) {
    let (go, turns) = mpsc::channel();
    let run = move || {
        for () in turns {
            let start = Instant::now();
            work();
            let _ = done.send(start.elapsed());
        }
    };
    (go, spawn(run))
}

fn dismiss(crew: Vec<(Sender<()>, JoinHandle<()>)>) {
    for (go, thread) in crew {
        drop(go);
        thread.join().expect("a thread that emits does not panic");
    }
}

/// How much memory stays in use after threads have emitted a few events and ended.
fn births(options: &Options, report: &mut Report) {
    let name = "threads_births";
    let (before, births) = options.amount((10_000, 100_000), (20, 100));
    // The budget is small, and in use entirely before the first look. So buffers add nothing to the
    // growth.
    let builder = Session::builder().file("/dev/null").provider(PROVIDER);
    let session = builder.budget(1 << 20).on_full(OnFull::Block).start();
    let session = session.expect("a device takes a trace");
    let live = |count: u64| {
        for _ in 0..count {
            let thread = spawn(|| (0..5).for_each(|number| Two { a: number, b: 1 }.emit()));
            thread.join().expect("a thread that emits does not panic");
        }
        session.flush().expect("the flusher lives");
        machine::resident()
    };
    let first = live(before);
    let start = Instant::now();
    let last = live(births);
    let seconds = start.elapsed().as_secs_f64();
    let touched = session.stats().memory_touched;
    let stats = session.finish().expect("a device takes everything");
    assert_eq!(stats.attempted, 5 * (before + births), "events are unaccounted for");
    assert_eq!(stats.attempted, stats.written + stats.dropped(), "events are unaccounted for");

    let (Some(first), Some(last)) = (first, last) else {
        return report.skip(name, "the system does not say how much memory is in use");
    };
    let growth = last as f64 - first as f64;
    report.figure("threads_births", births);
    report.figure("threads_births_dropped", stats.dropped());
    report.figure("threads_births_us_each", seconds * 1e6 / births as f64);
    report.figure("threads_births_resident_before_kib", first / 1024);
    report.figure("threads_births_memory_touched_kib", touched / 1024);
    report.ratio("threads_births_growth_kib", growth / 1024.0);
    report.ratio("threads_births_growth_bytes_each", growth / births as f64);
}

/// How much memory idle threads hold after they have emitted. This includes the pages of stacks and
/// buffers that were used for the first time.
fn idle(options: &Options, report: &mut Report) {
    let name = "threads_idle_kib_each";
    let threads = options.amount(1_000, 10);
    let session = session();
    burst_of_events();
    let (before, after) = around(threads, &session);
    let stats = session.finish().expect("a device takes everything");
    assert_eq!(stats.attempted, BURST + threads as u64, "events are unaccounted for");

    let (Some(before), Some(after)) = (before, after) else {
        return report.skip(name, "the system does not say how much memory is in use");
    };
    let each = (after as f64 - before as f64) / threads as f64;
    report.figure("threads_idle", threads as u64);
    report.figure("threads_idle_memory_touched_kib", stats.memory_touched / 1024);
    report.ratio(name, each / 1024.0);
}

/// Memory in use while `threads` threads are alive: before each of them emits one event, and after.
fn around(threads: usize, session: &Session) -> (Option<u64>, Option<u64>) {
    let (done, answers) = mpsc::channel();
    let work = || Two { a: 1, b: 2 }.emit();
    let crew: Vec<_> = (0..threads).map(|_| member(work, done.clone())).collect();
    // A thread is ready once it sleeps. Nothing signals that, so wait.
    thread::sleep(Duration::from_millis(200));
    let before = machine::resident();
    for (go, _) in &crew {
        go.send(()).expect("the thread waits for its turn");
    }
    for _ in &crew {
        let _: Duration = answers.recv().expect("the thread answers");
    }
    session.flush().expect("the flusher lives");
    let after = machine::resident();
    dismiss(crew);
    (before, after)
}

/// A session with default settings, into a device that takes everything.
fn session() -> Session {
    let session = Session::builder().file("/dev/null").provider(PROVIDER).start();
    session.expect("a device takes a trace")
}

fn spawn(run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let thread = thread::Builder::new().stack_size(STACK).spawn(run);
    thread.expect("the system allows a thread")
}
