//! Cycles of a graph, and the layers of one that has none.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

type Edge<'a> = (&'a str, &'a str);

/// The shortest cycle through an edge, which comes first. `None`: it is on none.
pub(super) fn through<'a>(
    edges: &BTreeSet<Edge<'a>>,
    from: &'a str,
    to: &'a str,
) -> Option<Vec<Edge<'a>>> {
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::from([(to, from)]);
    let mut queue = VecDeque::from([to]);
    while let Some(node) = queue.pop_front() {
        if node == from {
            let mut cycle = Vec::new();
            let mut at = from;
            loop {
                let before = came_from[at];
                cycle.push((before, at));
                at = before;
                if at == from {
                    cycle.reverse();
                    return Some(cycle);
                }
            }
        }
        for &(_, next) in edges.range((node, "")..).take_while(|edge| edge.0 == node) {
            if !came_from.contains_key(next) {
                came_from.insert(next, node);
                queue.push_back(next);
            }
        }
    }
    None
}

/// Short cycles that have no edge in common: one at least, if there are any.
pub(super) fn all<'a>(edges: &BTreeSet<Edge<'a>>) -> Vec<Vec<Edge<'a>>> {
    let mut cycles: Vec<_> =
        edges.iter().filter_map(|&(from, to)| through(edges, from, to)).collect();
    cycles.sort_by_key(Vec::len);
    let mut seen = BTreeSet::new();
    cycles.retain(|cycle| {
        let is_new = cycle.iter().all(|edge| !seen.contains(edge));
        if is_new {
            seen.extend(cycle.iter().copied());
        }
        is_new
    });
    cycles
}

/// The nodes of a graph without cycles, the lowest ones first: each only leads to lower layers.
pub(super) fn layers(edges: &BTreeSet<Edge<'_>>) -> Vec<String> {
    let mut left: BTreeSet<&str> = edges.iter().flat_map(|&(from, to)| [from, to]).collect();
    let mut layers = Vec::new();
    while !left.is_empty() {
        let is_lowest =
            |node: &&str| edges.iter().all(|(from, to)| from != node || !left.contains(to));
        let layer: Vec<&str> = left.iter().copied().filter(is_lowest).collect();
        if layer.is_empty() {
            break; // a cycle
        }
        left.retain(|node| !layer.contains(node));
        layers.push(layer.join(" "));
    }
    layers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_is_found_once_and_from_each_of_its_edges() {
        let edges = BTreeSet::from([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]);
        assert_eq!(all(&edges), [[("a", "b"), ("b", "c"), ("c", "a")]]);
        assert_eq!(through(&edges, "b", "c").unwrap(), [("b", "c"), ("c", "a"), ("a", "b")]);
        assert_eq!(through(&edges, "c", "d"), None);
        let two = BTreeSet::from([("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")]);
        assert_eq!(all(&two), [[("a", "b"), ("b", "a")], [("b", "c"), ("c", "b")]]);
    }

    #[test]
    fn layers_begin_with_what_imports_nothing() {
        let edges = BTreeSet::from([("a", "b"), ("b", "d"), ("a", "c"), ("c", "d")]);
        assert!(all(&edges).is_empty());
        assert_eq!(layers(&edges), ["d", "b c", "a"]);
    }
}
