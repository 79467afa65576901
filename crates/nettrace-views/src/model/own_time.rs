//! The time in which no child of a span was under way.
//!
//! Children come as they do in a trace, or all at once in the order of their starts. The result is
//! exact in the second case. In the first it is, too, unless a child that becomes known at its end
//! covers more pieces than are remembered.

/// How many pieces of such time are remembered of one span. Earlier ones are only added up.
const MOST_PIECES: usize = 32;

/// The own time of a span, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct OwnTime {
    /// The last pieces in which no child was under way. One more is open if no child is.
    pieces: Vec<(i64, i64)>,
    /// The sum of the pieces before.
    before: i64,
    /// When the open piece began.
    idle_since: i64,
    /// How many children are under way.
    children: u64,
}

impl OwnTime {
    /// A span begins.
    #[must_use]
    pub fn begin(at: i64) -> Self {
        Self { idle_since: at, ..Self::default() }
    }

    /// A child begins.
    pub fn child_begins(&mut self, at: i64) {
        if self.children == 0 {
            self.piece(self.idle_since, at);
        }
        self.children += 1;
    }

    /// A child ends that began here.
    pub fn child_ends(&mut self, at: i64) {
        self.children = self.children.saturating_sub(1);
        if self.children == 0 {
            self.idle_since = at;
        }
    }

    /// A child becomes known when it ends, or all become known in the order of their starts.
    pub fn covered(&mut self, from: i64, to: i64) {
        if self.children == 0 && to > self.idle_since {
            self.piece(self.idle_since, to);
            self.idle_since = to;
        }
        while let Some((begin, end)) = self.pieces.last_mut() {
            if *end <= from {
                break;
            }
            if *begin < from {
                *end = from;
                break;
            }
            self.pieces.pop();
        }
    }

    /// The span ends. Returns its own time.
    pub fn end(&mut self, at: i64) -> i64 {
        if self.children == 0 {
            self.piece(self.idle_since, at);
        }
        let pieces = self.pieces.drain(..);
        pieces.fold(self.before, |sum, (from, to)| sum.saturating_add(to.saturating_sub(from)))
    }

    fn piece(&mut self, from: i64, to: i64) {
        if from >= to {
            return;
        }
        if self.pieces.len() == MOST_PIECES {
            let (from, to) = self.pieces.remove(0);
            self.before = self.before.saturating_add(to.saturating_sub(from));
        }
        self.pieces.push((from, to));
    }
}

#[cfg(test)]
mod tests {
    use super::OwnTime;

    #[test]
    fn children_take_time_away_once() {
        let mut own = OwnTime::begin(0);
        own.child_begins(10);
        own.child_begins(20);
        own.child_ends(30);
        own.child_ends(40);
        own.covered(35, 50);
        // One that was under way all the time, and one that has just ended.
        assert_eq!(own.clone().end(60), 20);
        own.covered(5, 60);
        assert_eq!(own.clone().end(70), 15);
        own.covered(-5, 70);
        assert_eq!(own.end(80), 10);
    }

    #[test]
    fn children_in_the_order_of_their_starts() {
        let mut own = OwnTime::begin(0);
        for (from, to) in [(-5, 5), (10, 50), (20, 30), (30, 30), (60, 70), (120, 100)] {
            own.covered(from, to);
        }
        assert_eq!(own.end(100), 5 + 10 + 30);
        let mut own = OwnTime::begin(0);
        (0..1000).for_each(|at| own.covered(at * 10, at * 10 + 9));
        assert_eq!(own.end(10_000), 1000, "pieces that are not remembered count");
    }

    #[test]
    fn many_pieces_take_no_memory() {
        let mut own = OwnTime::begin(0);
        for at in 0..1000 {
            own.child_begins(at * 10 + 1);
            own.child_ends(at * 10 + 10);
        }
        assert!(own.pieces.len() <= 32);
        assert_eq!(own.end(10_000), 1000);
    }
}
