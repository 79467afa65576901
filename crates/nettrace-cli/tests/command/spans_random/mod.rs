//! Random programs of spans against a model.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    spans::{SOLD, START, event, place, single, stop, stream},
    tree::trees,
};

/// Numbers that look random, always the same.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % bound
    }
}

/// A span as a model knows it; times in microseconds.
struct Model {
    parent: u64,
    start: Option<u64>,
    end: Option<u64>,
    state: &'static str,
    events: u64,
}

/// Random programs of spans against a model: nested, moved out of their parents, never ended, begun
/// before the trace.
#[test]
fn random_programs() {
    for seed in 1..=40 {
        let mut random = Random(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed));
        let count = 1 + random.below(30);
        let mut models = BTreeMap::new();
        let mut events = Vec::new();
        // No two events have the same time.
        let mut free: Vec<u64> = (1..2000).collect();
        let mut take =
            |random: &mut Random| free.swap_remove(random.below(free.len() as u64) as usize);
        for span in 1..=count {
            // 1000 and up are spans elsewhere.
            let parent = match random.below(6) {
                0 => 0,
                1 => 1000 + random.below(3),
                _ => random.below(span),
            };
            let at = place(1, span, parent);
            let mut times = [take(&mut random), take(&mut random)];
            times.sort_unstable();
            let [start, end] = times;
            let duration = end - start;
            let inside = random.below(4);
            let (state, known) = match random.below(10) {
                0 => {
                    events.push(event(start, START, at));
                    ("without_end", [Some(start), None])
                }
                1 => {
                    events.push(stop(end, at, duration, "ok"));
                    ("without_start", [Some(start), Some(end)])
                }
                2 | 3 => {
                    events.push(single(end, at, duration, "ok"));
                    ("single", [Some(start), Some(end)])
                }
                4 if inside > 0 => ("unknown", [None, None]),
                _ => {
                    events.push(event(start, START, at));
                    events.push(stop(end, at, duration, "ok"));
                    ("ended", [Some(start), Some(end)])
                }
            };
            (0..inside).for_each(|_| events.push(event(take(&mut random), SOLD, at)));
            let [start, end] = known;
            models.insert(span, Model { parent, start, end, state, events: inside });
        }
        let last = events.iter().map(|event| event.at).max().unwrap();
        let trees = trees(&[], &stream(events).end());
        let mut found = 0;
        for tree in &trees {
            for span in tree["spans"].as_array().unwrap() {
                let id = u64::from_str_radix(span["span"].as_str().unwrap(), 16).unwrap();
                let model = &models[&id];
                found += 1;
                check(id, model, span, &models, last);
            }
        }
        assert_eq!(found, models.len(), "seed {seed}");
        let lengths: Vec<_> = trees.iter().map(|tree| tree["extent_ns"].as_u64()).collect();
        for (tree, length) in trees.iter().zip(&lengths) {
            let spans = tree["spans"].as_array().unwrap();
            let start = |span: &Value| span["since_start_ns"].as_u64();
            let first = spans.iter().filter_map(start).min();
            let end = |span: &Value| Some(start(span)? + span["duration_ns"].as_u64()?);
            let extent = spans.iter().filter_map(end).max().zip(first).map(|(end, it)| end - it);
            let is_whole = spans[0]["duration_ns"].is_u64();
            assert_eq!(*length, extent.filter(|_| is_whole), "seed {seed}: {tree}");
        }
        // Those that are cut are the last ones.
        assert!(lengths.is_sorted_by(|one, other| one >= other), "seed {seed}: {lengths:?}");
    }
}

/// Whether neither a span nor those around it end.
fn is_frame(id: u64, models: &BTreeMap<u64, Model>) -> bool {
    let Some(model) = models.get(&id) else { return false };
    let is_root = !models.contains_key(&model.parent);
    model.end.is_none() && (is_root || is_frame(model.parent, models))
}

fn check(id: u64, model: &Model, span: &Value, models: &BTreeMap<u64, Model>, last: u64) {
    let mut depth = 0;
    let mut parent = model.parent;
    // What has ended below a root that never does is a tree of its own.
    let is_below = |parent: u64| is_frame(id, models) || !is_frame(parent, models);
    while let Some(above) = models.get(&parent).filter(|_| is_below(parent)) {
        (depth, parent) = (depth + 1, above.parent);
    }
    assert_eq!(span["depth"], json!(depth), "{span}");
    let parent = (model.parent != 0).then(|| format!("{:016x}", model.parent));
    assert_eq!((&span["parent"], &span["state"]), (&json!(parent), &json!(model.state)), "{span}");
    assert_eq!(span["events"].as_array().unwrap().len() as u64, model.events, "{span}");
    let nanos = |micros: Option<u64>| json!(micros.map(|micros| micros * 1000));
    assert_eq!(span["since_start_ns"], nanos(model.start), "{span}");
    let times = model.start.zip(model.end);
    assert_eq!(span["duration_ns"], nanos(times.map(|(start, end)| end - start)), "{span}");
    let children: Vec<_> = models
        .values()
        .filter(|child| child.parent == id)
        .filter_map(|child| Some(child.start?..child.end.unwrap_or(last)))
        .collect();
    let own = times.map(|(start, end)| {
        (start..end).filter(|at| !children.iter().any(|child| child.contains(at))).count() as u64
    });
    assert_eq!(span["self_ns"], nanos(own), "{span}");
}
