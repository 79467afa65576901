//! Measures the peers in rounds. In each round every peer has one pass, in an order that rotates.

use std::time::Instant;

use crate::PASS;

/// Rounds whose times are discarded: buffers grow and pages are touched for the first time.
const WARM_UP: usize = 5;

/// Something that records events.
pub(crate) trait Peer {
    /// One word for the JSON line.
    fn name(&self) -> &'static str;

    /// What is measured, in a few words.
    fn what(&self) -> &'static str;

    /// Makes room for `events` events. Not measured.
    fn prepare(&mut self, events: u64);

    /// Records the events `first..first + events`. Measured.
    fn pass(&mut self, first: u64, events: u64);

    /// Empties the buffers that the pass has filled. Returns how many events were in them. Not
    /// measured.
    fn collect(&mut self) -> u64;
}

/// The result of one peer, in nanoseconds an event.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) best: f64,
    pub(crate) median: f64,
}

/// Measures all `peers`. Fails if one of them has not recorded every event.
pub(crate) fn measure(peers: &mut [Box<dyn Peer>], rounds: usize) -> Result<Vec<Row>, String> {
    let mut times = vec![Vec::with_capacity(rounds); peers.len()];
    for round in 0..WARM_UP + rounds {
        for turn in 0..peers.len() {
            let index = (round + turn) % peers.len();
            let peer = &mut peers[index];
            peer.prepare(PASS);
            let start = Instant::now();
            peer.pass(round as u64 * PASS, PASS);
            let time = start.elapsed();
            let recorded = peer.collect();
            if recorded != PASS {
                let name = peer.name();
                return Err(format!("{name} recorded {recorded} events of {PASS}: no comparison"));
            }
            if round >= WARM_UP {
                times[index].push(time.as_nanos() as f64 / PASS as f64);
            }
        }
    }

    let mut rows = Vec::with_capacity(peers.len());
    for (peer, mut times) in peers.iter().zip(times) {
        times.sort_by(f64::total_cmp);
        let (best, median) = (times[0], times[times.len() / 2]);
        rows.push(Row { name: peer.name(), what: peer.what(), best, median });
    }
    Ok(rows)
}

/// The two numbers of event `index`: one that grows, one that stays in a range.
#[inline(always)]
pub(crate) fn numbers(index: u64) -> (u64, u64) {
    (index, 4096 + (index & 0xff))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Forgetful;

    impl Peer for Forgetful {
        fn name(&self) -> &'static str {
            "forgetful"
        }
        fn what(&self) -> &'static str {
            ""
        }
        fn prepare(&mut self, _: u64) {}
        fn pass(&mut self, _: u64, _: u64) {}
        fn collect(&mut self) -> u64 {
            PASS - 1
        }
    }

    #[test]
    fn who_drops_events_is_not_compared() {
        let problem = measure(&mut [Box::new(Forgetful)], 1).unwrap_err();
        assert!(problem.contains("forgetful recorded 9999 events of 10000"), "{problem}");
    }
}
