//! Sums are exact: on many threads, and when threads have ended.

use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use nettrace_writer::metrics::{Counter, Gauge, Meter, UpDownCounter};
use proptest::prelude::*;

static METER: Meter = Meter::new("Sums");

/// What a thread does.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Adds to a counter of so many.
    Count(usize, u64),
    /// Adds to an up-down counter of so many.
    Change(usize, i64),
    /// Ends the instruments of a number and begins others, which are at 0.
    Replace(usize),
}

const NUMBERS: usize = 3;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..NUMBERS, any::<u32>()).prop_map(|(n, by)| Step::Count(n, by.into())),
        1 => (0..NUMBERS, any::<u64>()).prop_map(|(n, by)| Step::Count(n, by)),
        8 => (0..NUMBERS, any::<i64>()).prop_map(|(n, by)| Step::Change(n, by)),
        1 => (0..NUMBERS).prop_map(Step::Replace),
    ]
}

/// Instruments of one number, which begin at 0 although their cells were used before.
struct Pair(Counter, UpDownCounter);

impl Pair {
    fn new(tags: &[(&str, &str)]) -> Self {
        let counter = METER.counter("a").build().tagged(tags);
        Self(counter, METER.up_down_counter("b").build().tagged(tags))
    }

    fn values(&self) -> (u64, i64) {
        (self.0.value(), self.1.value())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Rounds of threads: each round's threads have ended when the next begins, so they take over
    /// each other's cells.
    #[test]
    fn sums_are_those_of_a_model(
        rounds in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(step(), 0..20), 1..4), 1..4)
    ) {
        let mut pairs: Vec<_> = (0..NUMBERS).map(|_| Pair::new(&[("k", "v")])).collect();
        let mut model = [(0_u64, 0_i64); NUMBERS];
        for threads in rounds {
            thread::scope(|scope| {
                for steps in &threads {
                    let pairs = &pairs;
                    scope.spawn(move || {
                        for step in steps {
                            match *step {
                                Step::Count(n, by) => pairs[n].0.add(by),
                                Step::Change(n, by) => pairs[n].1.add(by),
                                Step::Replace(_) => {}
                            }
                        }
                    });
                }
            });
            for step in threads.iter().flatten() {
                match *step {
                    Step::Count(n, by) => model[n].0 = model[n].0.wrapping_add(by),
                    Step::Change(n, by) => model[n].1 = model[n].1.wrapping_add(by),
                    Step::Replace(_) => {}
                }
            }
            let found: Vec<_> = pairs.iter().map(Pair::values).collect();
            prop_assert_eq!(&found[..], &model[..]);
            for step in threads.iter().flatten() {
                if let Step::Replace(n) = *step {
                    pairs[n] = Pair::new(&[]);
                    model[n] = (0, 0);
                }
            }
        }
    }
}

#[test]
fn who_reads_meanwhile_sees_no_sum_go_back_and_no_increment_twice() {
    const EACH: u64 = 100_000;
    let counter = METER.counter("read").build();
    let is_over = Arc::new(AtomicBool::new(false));
    let reader = {
        let (counter, is_over) = (counter.clone(), Arc::clone(&is_over));
        thread::spawn(move || {
            let mut last = 0;
            while !is_over.load(Ordering::Relaxed) {
                let now = counter.value();
                assert!(now >= last && now <= 8 * EACH, "{last}, then {now}");
                last = now;
            }
        })
    };
    for _ in 0..2 {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..EACH).for_each(|_| counter.add(1)));
            }
        });
    }
    is_over.store(true, Ordering::Relaxed);
    reader.join().unwrap();
    assert_eq!(counter.value(), 8 * EACH);
}

#[test]
fn a_thread_that_is_ending_still_counts() {
    struct Late(Cell<Option<Counter>>);

    impl Drop for Late {
        fn drop(&mut self) {
            if let Some(counter) = self.0.take() {
                counter.add(100);
            }
        }
    }

    thread_local! {
        static LATE: Late = const { Late(Cell::new(None)) };
    }

    let counter = METER.counter("late").build();
    for uses_before in [false, true] {
        let counter = counter.clone();
        let thread = thread::spawn(move || {
            // Destructors run in the reverse order, or in that order: both are here.
            if uses_before {
                counter.add(1);
            }
            LATE.with(|late| late.0.set(Some(counter.clone())));
            counter.add(1);
        });
        thread.join().unwrap();
    }
    assert_eq!(counter.value(), 203);
}

#[test]
fn statics_are_one_instrument_for_all_threads() {
    static COUNTER: Counter = Counter::new(&METER, "static").unit("{thread}");
    static GAUGE: Gauge = Gauge::new(&METER, "static.gauge");
    assert_eq!(GAUGE.value(), None);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                COUNTER.add(1);
                GAUGE.add(0.5);
            });
        }
    });
    assert_eq!((COUNTER.value(), GAUGE.value()), (8, Some(4.0)));
    GAUGE.set(f64::NAN);
    assert_eq!(GAUGE.value(), None);
}

#[test]
fn tags_have_no_order_and_a_bound() {
    let counter = METER.counter("tags").build();
    counter.tagged(&[("a", "1"), ("b", "2")]).add(1);
    counter.tagged(&[("b", "2"), ("a", "1")]).add(1);
    assert_eq!(counter.tagged(&[("a", "1"), ("b", "2")]).value(), 2);
    // The series without tags, the one above, and 1,998 others.
    for number in 0..3_000 {
        counter.tagged(&[("n", &number.to_string())]).add(1);
    }
    assert_eq!(counter.tagged(&[("n", "1997")]).value(), 1);
    assert_eq!(counter.tagged(&[("overflow", "true")]).value(), 1_002);
    assert_eq!(counter.tagged(&[("n", "2999")]).value(), 1_002);
    assert_eq!(counter.value(), 0);
}
