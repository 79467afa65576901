//! Checks that the top-level modules of each published package import one another in one direction
//! only, so that the folders of its sources are layers.
//!
//! A folder, or a file beside `lib.rs`, is a node, and so is `lib.rs` (or `main.rs`) itself. Each
//! path that begins with `crate`, `super` or `self` and leads to another node is an import of it,
//! in a `use` or anywhere else, also in macros and in code that this machine does not compile. A
//! path through a re-export of the root leads to the node that has the item. Two kinds of code
//! count against their place:
//!
//! - an inherent `impl` of another node's type: that node's code can call it without a path;
//! - what the root defines itself: it stands above all others.
//!
//! Tests import what they like. [`imports`] finds the paths.

mod cycles;
pub(crate) mod imports;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use xtask::{
    step::Tally,
    workspace::{Package, Workspace},
};

/// Imports in the wrong direction that are known: package, from, to. The list only gets shorter: an
/// entry that is not needed any more is an error.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("nettrace-macros", "attr", "value"),
    ("nettrace-reader", "options", "reader"),
    ("nettrace-reader", "reader", "sorted"),
    ("tracing-nettrace", "options", "layer"),
    ("tracing-nettrace", "options", "log"),
    ("tracing-nettrace", "options", "recorder"),
    ("tracing-nettrace", "options", "subscriber"),
    ("tracing-nettrace", "recorder", "log"),
    ("tracing-nettrace", "schema", "callsite"),
    ("tracing-nettrace", "values", "valuable"),
];

/// An import that is an example of those from one node to another: the file and the path.
type Imports = BTreeMap<(String, String), String>;

/// Checks every published package.
pub(crate) fn run(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    let mut findings = Vec::new();
    let mut seen = 0;
    for package in workspace.packages.iter().filter(|package| package.published) {
        let imports = imports::between(&imports::sources(package)?);
        seen += imports.len();
        findings.extend(check(package, &imports));
    }
    println!("{seen} imports between top-level modules");
    ensure!(seen > 0, "nothing was checked: no module imports another");
    ensure!(
        findings.is_empty(),
        "top-level modules import each other; move what is imported down, or its user up:\n  {}",
        findings.join("\n  ")
    );
    Ok(())
}

/// The findings in a package. Prints its layers.
fn check(package: &Package, imports: &Imports) -> Vec<String> {
    let exceptions: BTreeSet<_> = EXCEPTIONS
        .iter()
        .filter(|(name, ..)| *name == package.name)
        .map(|(_, from, to)| (*from, *to))
        .collect();
    let edges: BTreeSet<_> =
        imports.keys().map(|(from, to)| (from.as_str(), to.as_str())).collect();
    let kept: BTreeSet<_> = edges.difference(&exceptions).copied().collect();
    let mut findings = Vec::new();
    for (from, to) in exceptions {
        let with: BTreeSet<_> = kept.iter().copied().chain([(from, to)]).collect();
        if !edges.contains(&(from, to)) || cycles::through(&with, from, to).is_none() {
            findings.push(format!(
                "{}: layers.rs excepts {from} -> {to}, which is not needed any more",
                package.name
            ));
        }
    }
    let cycles = cycles::all(&kept);
    for cycle in &cycles {
        let steps = cycle.iter().map(|&(from, to)| {
            let import = &imports[&(from.to_owned(), to.to_owned())];
            format!("{from} -> {to}, by {import}")
        });
        findings.push(format!(
            "{}:\n    {}",
            package.name,
            steps.collect::<Vec<_>>().join("\n    ")
        ));
    }
    if cycles.is_empty() {
        println!("{}: {}", package.name, cycles::layers(&kept).join(" | "));
    }
    findings
}
