//! Takes out each safeguard of the package that has models, and expects a test to fail.
//!
//! A safeguard asks `mutant::takes_out("name")` whether it is out. An environment variable says at
//! run time which one is, so models and tests are built once. [`CATCHERS`] says for each safeguard
//! which test must fail without it: the fastest one that does. The lane fails if that test passes,
//! or if the table and the sources name different safeguards.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use xtask::{
    step::{Step, Tally},
    workspace::{Workspace, read, rust_files},
};

use crate::lanes::{self, MODELLED};

/// Makes the safeguards of tests on threads read the variable. Models read it always.
const MUTANTS: &str = "--cfg nettrace_mutants";

/// The variable that names the safeguard that is out.
const VARIABLE: &str = "NETTRACE_MUTANT";

/// Seconds in which a test must fail. Another one may hang without a safeguard.
const LIMIT: u32 = 60;

/// A test that fails without a safeguard.
#[derive(Clone, Copy, Debug)]
enum Catcher {
    /// A model, by its name in the module `loom_tests`.
    Model(&'static str),
    /// A unit test on real threads.
    Unit(&'static str),
    /// All tests of a file, of which at least one fails. They are on real threads.
    File(&'static str),
}

use Catcher::{File, Model, Unit};

/// Each safeguard, and the test that fails without it. The models do not contain the flusher's
/// code, because they have their own. So they catch nothing there.
const CATCHERS: &[(&str, Catcher)] = &[
    ("cells_no_acquire", Model("cells::loom_a_thread_that_ends_leaves_its_sums_to_the_next")),
    ("cells_no_release", Model("cells::loom_a_thread_that_ends_leaves_its_sums_to_the_next")),
    ("cells_no_swap", Model("cells::loom_one_thread_gets_a_free_node")),
    ("cells_shared_by_store", Model("cells::loom_threads_that_are_ending_share_cells")),
    ("no_barrier", Model("loom_a_round_has_every_row_that_is_older")),
    ("no_cut", Unit("order_tests::order_holds_at_full_speed")),
    ("no_epoch_end", File("clock_order")),
    ("no_floor", Model("loom_a_clock_that_goes_back_breaks_no_sequence_point")),
    ("no_floor_in_new_chunk", Model("loom_a_round_that_asks_nobody_keeps_its_promise")),
    ("no_proof", Model("loom_an_owner_begins_to_execute_fences")),
    ("no_row_before", Model("loom_a_clock_that_jumps_again_keeps_the_order_of_a_busy_thread")),
    ("no_second_pass", Model("loom_a_round_has_every_row_that_is_older")),
    ("no_wait", Model("loom_a_round_has_every_row_that_is_older")),
    ("no_wake_fence", Model("loom_taking_a_chunk_ends_a_rest")),
    ("note_by_store", Model("loom_a_request_survives_a_note")),
    ("once_no_acquire", Model("cells::loom_a_reader_sees_each_increment_once")),
    ("once_no_exchange", Model("cells::loom_a_thread_that_ends_leaves_its_sums_to_the_next")),
    ("once_no_release", Model("cells::loom_a_reader_sees_each_increment_once")),
];

/// Tries every safeguard.
pub(crate) fn run(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    let mut names = BTreeSet::new();
    for file in rust_files(&workspace.root.join(MODELLED).join("src"))? {
        names.extend(names_in(&read(&file)?));
    }
    agree(&names, CATCHERS)?;

    // Build first, so that only the tests count for the limit.
    lanes::models(workspace, "--no-run").run()?;
    let files = CATCHERS.iter().filter_map(|(_, catcher)| match catcher {
        File(file) => Some(["--test", file]),
        Model(_) | Unit(_) => None,
    });
    on_threads(workspace).args(["--lib", "--no-run"]).args(files.flatten()).run()?;
    let mut survivors = Vec::new();
    for &(name, catcher) in CATCHERS {
        let step = match catcher {
            Model(test) => {
                let step = lanes::models(workspace, &format!("loom_tests::{test}"));
                // Enough for each of them, and found sooner than with more.
                step.args(["--", "--exact"]).env("LOOM_MAX_PREEMPTIONS", "2")
            }
            Unit(test) => on_threads(workspace).args(["--lib", test, "--", "--exact"]),
            File(file) => on_threads(workspace).args(["--test", file]),
        };
        let caught = step.env(VARIABLE, name).fails(LIMIT)?;
        println!("--- {name}: {}", if caught { "caught" } else { "NOT CAUGHT" });
        if !caught {
            survivors.push(name);
        }
    }
    println!(
        "{} safeguards taken out; a test failed without {} of them",
        CATCHERS.len(),
        CATCHERS.len() - survivors.len()
    );
    ensure!(
        survivors.is_empty(),
        "no test failed without {}; write a test that does, or remove the safeguard",
        survivors.join(", ")
    );
    Ok(())
}

/// A step that tests the writer on real threads. They need speed, so it is optimised.
fn on_threads(workspace: &Workspace) -> Step {
    let step = Step::cargo().args(["test", "-p", MODELLED, "--profile", "models", "--locked"]);
    let step = step.env("RUSTFLAGS", MUTANTS).env("NETTRACE_TESTS", "all");
    step.env("CARGO_TARGET_DIR", workspace.target.join("mutants"))
}

/// Fails unless the sources and the table name the same safeguards.
fn agree(names: &BTreeSet<String>, catchers: &[(&str, Catcher)]) -> Result<()> {
    let listed: BTreeSet<_> = catchers.iter().map(|(name, _)| (*name).to_owned()).collect();
    let differing: Vec<_> = names.symmetric_difference(&listed).map(String::as_str).collect();
    ensure!(
        differing.is_empty() && !names.is_empty(),
        "the sources and the table in mutants.rs of xtask must name the same safeguards; only one \
         of them names: {}",
        differing.join(", ")
    );
    Ok(())
}

fn names_in(text: &str) -> impl Iterator<Item = String> {
    let marks = text.split("takes_out(\"").skip(1);
    marks.filter_map(|rest| rest.split_once('"').map(|(name, _)| name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_where_they_are_marked() {
        let text = r#"
            if mutant::takes_out("no_wait") {}
            let cut = point && !mutant::takes_out("no_cut");
            pub(crate) const fn takes_out(_: &str) -> bool {
        "#;
        assert_eq!(names_in(text).collect::<Vec<_>>(), ["no_wait", "no_cut"]);
    }

    #[test]
    fn each_safeguard_has_a_test_and_each_test_a_safeguard() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let table = [("no_wait", Model("a")), ("no_cut", Unit("b"))];
        assert!(agree(&names(&["no_cut", "no_wait"]), &table).is_ok());
        for wrong in [&["no_cut"][..], &["no_cut", "no_floor", "no_wait"], &[]] {
            assert!(agree(&names(wrong), &table).is_err());
        }
        assert!(agree(&BTreeSet::new(), &[]).is_err());
    }
}
