//! Samples of what processors execute, as a flame graph.

use foldhash::HashMap;
use nettrace_reader::{Event, Stack};

use crate::{
    model::FrameNames,
    report::flame::{Flame, Place},
};

/// How many paths are distinguished.
const MOST_PATHS: usize = 1 << 19;

/// How many frames are distinguished.
const MOST_FRAMES: usize = 1 << 20;

/// How many bytes of stacks are remembered with their places.
const MOST_STACKS: usize = 32 << 20;

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
    /// The place of each stack, by its bytes, its process and whether it ends in other code.
    places: HashMap<Box<[u8]>, Place>,
    /// How many bytes the keys of `places` have.
    bytes: usize,
    /// The key of a stack that is looked up.
    key: Vec<u8>,
    pub(crate) names: FrameNames,
    /// Samples without a stack.
    pub(crate) bare: u64,
}

impl Samples {
    pub(crate) fn new() -> Self {
        Self {
            flame: Flame::new(MOST_PATHS),
            frames: Vec::new(),
            numbers: HashMap::default(),
            places: HashMap::default(),
            bytes: 0,
            key: Vec::new(),
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
        let is_external = FrameNames::is_external(event);
        self.key.clear();
        self.key.extend_from_slice(stack.bytes());
        self.key.extend_from_slice(&process.unwrap_or(0).to_le_bytes());
        self.key.push(u8::from(process.is_some()) << 1 | u8::from(is_external));
        let place = match self.places.get(&*self.key) {
            Some(place) => *place,
            None => self.place(stack, process, is_external),
        };
        self.flame.add(place, 1, 1);
    }

    /// The place of a stack that is not remembered.
    #[cold]
    fn place(&mut self, stack: Stack<'_>, process: Option<u64>, is_external: bool) -> Place {
        let addresses: Vec<u64> = stack.addresses().collect();
        let mut place = 0;
        let cut = self.flame.cut;
        for address in addresses.iter().rev() {
            let number = self.number(process, *address);
            place = self.flame.child(place, number);
        }
        if is_external {
            place = self.flame.child(place, EXTERNAL);
        }
        // One that was cut is counted each time.
        if self.flame.cut == cut {
            if self.bytes + self.key.len() > MOST_STACKS {
                self.places.clear();
                self.bytes = 0;
            }
            self.bytes += self.key.len();
            self.places.insert(self.key.as_slice().into(), place);
        }
        place
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
        let (mut names, mut numbers) = (Vec::new(), HashMap::default());
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
