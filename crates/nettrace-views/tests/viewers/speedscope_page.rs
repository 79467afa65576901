//! Opens our files in speedscope's page, in headless Chromium, and compares what it exports.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use nettrace_reader::Reader;
use nettrace_views::viewers::{Options, View, write};
use serde_json::Value;
use testkit::browser::{self, Browser};

use crate::sources::{UNIVERSAL, universal};

/// How long each stack lasts by itself, in units of an exported profile.
fn stacks(exported: &Value) -> BTreeMap<Vec<String>, f64> {
    let profiles = exported["profiles"].as_array().unwrap();
    assert_eq!(profiles.len(), 1, "{exported}");
    let mut stacks = BTreeMap::<_, f64>::new();
    let (mut stack, mut before) = (Vec::new(), 0.0);
    for event in profiles[0]["events"].as_array().unwrap() {
        let at = event["at"].as_f64().unwrap();
        *stacks.entry(stack.clone()).or_default() += at - before;
        before = at;
        if event["type"] == "O" {
            let frame = event["frame"].as_u64().unwrap() as usize;
            let name = exported["shared"]["frames"][frame]["name"].as_str().unwrap();
            stack.push(name.to_owned());
        } else {
            stack.pop().unwrap();
        }
    }
    assert!(stack.is_empty(), "{exported}");
    stacks.retain(|_, lasts| *lasts > 0.0);
    stacks
}

#[test]
fn the_page_opens_samples() {
    let Some(Browser { packages, chromium }) = browser::find(&["playwright-core", "speedscope"])
    else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let views = [(View::Speedscope, "a.speedscope.json"), (View::Chrome, "a.chromium.json")];
    let files = views.map(|(view, name)| {
        let source = universal();
        let mut events = Reader::new(&source[..]).unwrap().sorted();
        let mut out = Vec::new();
        write(view, &mut events, &mut out, &Options::default()).unwrap();
        let file = folder.path().join(name);
        fs::write(&file, out).unwrap();
        file
    });
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/viewers/speedscope_page.mjs");
    let output = Command::new("node")
        .args([&script, &packages, &chromium])
        .args(&files)
        .output()
        .expect("node runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results = String::from_utf8(output.stdout).unwrap();
    let results: Vec<Value> =
        results.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(results.len(), files.len());
    if results.iter().any(|result| result["says"] == "no WebGL") {
        println!("skipped: this Chromium has no WebGL, without which the page shows nothing");
        return;
    }
    for ((view, _), result) in views.iter().zip(&results) {
        assert!(result["says"].is_null(), "{view:?}: {result}");
        let shown = stacks(&result["exported"]);
        let sum: f64 = shown.values().sum();
        // In a profile of V8, a sample lasts until the next one, so the last one does not count.
        let last = &["shop.so+0x600"][..];
        let expected: Vec<_> =
            UNIVERSAL.iter().filter(|(stack, _)| *view != View::Chrome || *stack != last).collect();
        let samples: usize = expected.iter().map(|(_, count)| count).sum();
        assert_eq!(shown.len(), expected.len(), "{view:?}: {shown:?}");
        for (stack, count) in expected {
            let stack: Vec<_> = stack.iter().map(|&name| name.to_owned()).collect();
            let share = shown.get(&stack).map(|lasts| lasts / sum * samples as f64);
            let is_near = share.is_some_and(|share| (share - *count as f64).abs() < 0.01);
            assert!(is_near, "{view:?}: {stack:?} {shown:?}");
        }
    }
}
