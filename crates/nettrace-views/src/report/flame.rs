//! Flame graphs: how much time, or how many samples, each path of calls took.

use foldhash::HashMap;

/// The place of a node. The root is 0.
pub(crate) type Place = u32;

/// Paths that are deeper count for the node at this depth.
const MOST_DEPTH: u32 = 250;

/// With more nodes than this, a graph has an index of them.
const FEW: usize = 32;

/// A node: a name below its parent.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The number of the name, or an address.
    pub(crate) name: u64,
    pub(crate) parent: Place,
    depth: u32,
    /// What the path itself took, without those below.
    pub(crate) own: u64,
    /// How often it was.
    pub(crate) count: u64,
}

/// A flame graph.
#[derive(Debug)]
pub(crate) struct Flame {
    /// Parents come before their children.
    pub(crate) nodes: Vec<Node>,
    index: HashMap<(Place, u64), Place>,
    most: usize,
    /// How often a path was cut, because there were too many or it was too deep.
    pub(crate) cut: u64,
}

impl Flame {
    /// A graph of at most so many nodes.
    pub(crate) fn new(most: usize) -> Self {
        let root = Node { name: u64::MAX, parent: 0, depth: 0, own: 0, count: 0 };
        Self { nodes: vec![root], index: HashMap::default(), most, cut: 0 }
    }

    /// The node with this name below another. If there are too many, it is the other one.
    pub(crate) fn child(&mut self, parent: Place, name: u64) -> Place {
        let is_indexed = !self.index.is_empty();
        let found = if is_indexed {
            self.index.get(&(parent, name)).copied()
        } else {
            let mut nodes = self.nodes.iter().skip(1);
            let place = nodes.position(|node| node.parent == parent && node.name == name);
            place.map(|place| place as Place + 1)
        };
        if let Some(place) = found {
            return place;
        }
        let depth = self.nodes[parent as usize].depth + 1;
        if self.nodes.len() >= self.most || depth > MOST_DEPTH {
            self.cut += 1;
            return parent;
        }
        let place = self.nodes.len() as Place;
        self.nodes.push(Node { name, parent, depth, own: 0, count: 0 });
        if is_indexed {
            self.index.insert((parent, name), place);
        } else if self.nodes.len() > FEW {
            let nodes = (0..).zip(&self.nodes).skip(1);
            self.index = nodes.map(|(place, node)| ((node.parent, node.name), place)).collect();
        }
        place
    }

    /// Adds to a node.
    pub(crate) fn add(&mut self, place: Place, own: u64, count: u64) {
        let node = &mut self.nodes[place as usize];
        node.own = node.own.saturating_add(own);
        node.count += count;
    }

    /// Adds another graph below a node. `name` translates its names.
    pub(crate) fn merge(&mut self, below: Place, other: &Self, mut name: impl FnMut(u64) -> u64) {
        let mut places: Vec<Place> = Vec::with_capacity(other.nodes.len());
        places.push(below);
        for node in &other.nodes[1..] {
            let place = self.child(places[node.parent as usize], name(node.name));
            self.add(place, node.own, node.count);
            places.push(place);
        }
        self.add(below, other.nodes[0].own, 0);
        self.cut += other.cut;
    }

    /// What each node took with all below it.
    pub(crate) fn totals(&self) -> Vec<u64> {
        let mut totals: Vec<u64> = self.nodes.iter().map(|node| node.own).collect();
        for place in (1..self.nodes.len()).rev() {
            let parent = self.nodes[place].parent as usize;
            totals[parent] = totals[parent].saturating_add(totals[place]);
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::Flame;

    fn sample() -> Flame {
        let mut flame = Flame::new(1000);
        let a = flame.child(0, 1);
        let b = flame.child(a, 2);
        flame.add(a, 10, 1);
        flame.add(b, 5, 2);
        flame
    }

    #[test]
    fn equal_paths_are_one_node() {
        let mut flame = sample();
        flame.merge(0, &sample(), |name| name);
        assert_eq!(flame.nodes.len(), 3);
        assert_eq!(flame.totals(), [30, 30, 10]);
        let below = flame.child(0, 7);
        flame.merge(below, &sample(), |_| 9);
        // Under the new node: 9, and 9 in 9.
        assert_eq!(flame.nodes.len(), 6);
        assert_eq!(flame.totals()[below as usize], 15);
        // More nodes than are found without an index.
        for name in 100..300 {
            let first = flame.child(below, name);
            assert_eq!(flame.child(below, name), first);
        }
        assert_eq!(flame.nodes.len(), 206);
        assert_eq!(flame.child(0, 1), 1);
        assert_eq!(flame.cut, 0);
    }

    #[test]
    fn graphs_are_bounded() {
        let mut flame = Flame::new(50);
        for name in 0..100 {
            let place = flame.child(0, name);
            flame.add(place, 1, 1);
        }
        assert_eq!((flame.nodes.len(), flame.cut, flame.totals()[0]), (50, 51, 100));
        let mut flame = Flame::new(1000);
        let mut place = 0;
        for _ in 0..400 {
            place = flame.child(place, 1);
            flame.add(place, 1, 1);
        }
        assert_eq!((flame.nodes.len(), flame.cut, flame.totals()[0]), (251, 150, 400));
    }
}
