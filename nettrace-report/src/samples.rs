//! Samples of what processors execute, as a flame graph.

use std::collections::HashMap;

use nettrace_reader::Event;
use nettrace_views::__shared::FrameNames;

use crate::flame::Flame;

/// How many paths are distinguished.
const MOST_PATHS: usize = 1 << 19;

/// How many frames are distinguished.
const MOST_FRAMES: usize = 1 << 20;

/// Instead of the number of a frame: one beyond the limit, and code that is not managed.
const OTHER: u64 = u64::MAX - 1;
const EXTERNAL: u64 = u64::MAX - 2;

/// The samples so far. The names of .NET's methods come at the end of a trace.
#[derive(Debug)]
pub(crate) struct Samples {
    /// Frames by their numbers.
    flame: Flame,
    frames: Vec<(Option<u64>, u64)>,
    numbers: HashMap<(Option<u64>, u64), u64>,
    pub(crate) names: FrameNames,
    /// Samples without a stack.
    pub(crate) bare: u64,
}

impl Samples {
    pub(crate) fn new() -> Self {
        Self {
            flame: Flame::new(MOST_PATHS),
            frames: Vec::new(),
            numbers: HashMap::new(),
            names: FrameNames::default(),
            bare: 0,
        }
    }

    /// Counts a sample.
    pub(crate) fn take(&mut self, event: &Event<'_>, process: Option<u64>) {
        let Some(stack) = event.stack() else {
            self.bare += 1;
            return;
        };
        let addresses: Vec<u64> = stack.addresses().collect();
        let mut place = 0;
        for address in addresses.iter().rev() {
            let number = self.number(process, *address);
            place = self.flame.child(place, number);
        }
        if FrameNames::is_external(event) {
            place = self.flame.child(place, EXTERNAL);
        }
        self.flame.add(place, 1, 1);
    }

    fn number(&mut self, process: Option<u64>, address: u64) -> u64 {
        if let Some(number) = self.numbers.get(&(process, address)) {
            return *number;
        }
        if self.frames.len() >= MOST_FRAMES {
            return OTHER;
        }
        let number = self.frames.len() as u64;
        self.frames.push((process, address));
        self.numbers.insert((process, address), number);
        number
    }

    /// How many stacks were cut.
    pub(crate) fn cut(&self) -> u64 {
        self.flame.cut
    }

    /// The flame graph of names, and the names by their numbers.
    pub(crate) fn named(&self) -> (Flame, Vec<String>) {
        let (mut names, mut numbers) = (Vec::new(), HashMap::new());
        let mut number = |name: String| {
            *numbers.entry(name).or_insert_with_key(|name| {
                names.push(name.clone());
                names.len() as u64 - 1
            })
        };
        let known = self.frames.iter();
        let known: Vec<u64> =
            known.map(|(process, address)| number(self.names.name(*process, *address))).collect();
        let (other, external) =
            (number("(other code)".into()), number(FrameNames::EXTERNAL.into()));
        let mut flame = Flame::new(MOST_PATHS);
        flame.merge(0, &self.flame, |frame| match frame {
            OTHER => other,
            EXTERNAL => external,
            frame => known[frame as usize],
        });
        (flame, names)
    }
}
