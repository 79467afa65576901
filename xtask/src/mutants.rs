//! A safeguard that no test misses is no safeguard: takes each out and expects a test to fail.
//!
//! The writer marks them with `cfg!(nettrace_mutant = "name")`, in the code that the name takes
//! out. Every name found in its sources is tried. What must fail is a loom model, or one of the
//! tests on real threads that have `order` in their path or in the name of their file.

use std::{collections::BTreeSet, fs, path::Path};

use crate::{
    error::{Error, Result},
    lanes,
    step::{Step, Tally},
    workspace::{Workspace, paths_in},
};

/// The package whose safeguards are tried.
const WRITER: &str = "nettrace-writer";

/// Tries every safeguard.
pub(crate) fn run(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    let mut names = BTreeSet::new();
    collect(&workspace.root.join(WRITER).join("src"), &mut names)?;
    if names.is_empty() {
        return Err(Error::Nothing("nettrace-writer marks no safeguard to take out".into()));
    }

    // Arguments of `cargo test`, each of which runs some of the tests on threads.
    let mut on_threads = vec![vec!["order"]];
    for package in workspace.packages.iter().filter(|package| package.name == WRITER) {
        let files = package.tests.iter().filter(|file| file.contains("order"));
        on_threads.extend(files.map(|file| vec!["--test", file]));
    }

    let mut survivors = Vec::new();
    for name in &names {
        let mutant = format!("--cfg nettrace_mutant=\"{name}\"");
        let models = lanes::models(workspace, &format!("--cfg nettrace_loom {mutant}"), "loom");
        // The model with most executions by far, of which no safeguard has need.
        let models = models.args(["--", "--skip", "loom_a_handler"]);
        let mut caught = is_caught(models)?;
        for choice in &on_threads {
            let step = Step::cargo().args(["test", "-p", WRITER, "--release", "--locked"]);
            let step = step.args(choice).env("RUSTFLAGS", &mutant);
            let target = workspace.target.join("mutants");
            caught = caught || is_caught(step.env("CARGO_TARGET_DIR", target))?;
        }
        println!("--- {name}: {}", if caught { "caught" } else { "NOT CAUGHT" });
        if !caught {
            survivors.push(name.as_str());
        }
    }
    println!(
        "{} safeguards taken out; a test failed without {} of them",
        names.len(),
        names.len() - survivors.len()
    );
    if survivors.is_empty() {
        return Ok(());
    }
    Err(Error::Mutants(survivors.join(", ")))
}

/// Whether a test failed. Not to compile, or to be ended by a signal, is an error.
fn is_caught(step: Step) -> Result<bool> {
    let mut tally = Tally::default();
    match step.test(&mut tally) {
        Ok(()) => Ok(false),
        Err(Error::Failed { .. }) if tally.failed > 0 => Ok(true),
        Err(error) => Err(error),
    }
}

/// Adds the names in the Rust files below `folder`.
fn collect(folder: &Path, names: &mut BTreeSet<String>) -> Result<()> {
    for path in paths_in(folder)? {
        if path.is_dir() {
            collect(&path, names)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).map_err(|source| Error::File { path, source })?;
            names.extend(names_in(&text));
        }
    }
    Ok(())
}

fn names_in(text: &str) -> impl Iterator<Item = String> {
    let marks = text.split("nettrace_mutant").skip(1);
    marks.filter_map(|rest| {
        let quoted = rest.trim_start().strip_prefix('=')?.trim_start().strip_prefix('"')?;
        quoted.split_once('"').map(|(name, _)| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_where_they_are_marked() {
        let text = r#"
            if cfg!(nettrace_mutant = "no_wait") {}
            #[cfg(not(any(nettrace_mutant="no_cut", test)))]
            // nettrace_mutant is explained elsewhere
        "#;
        assert_eq!(names_in(text).collect::<Vec<_>>(), ["no_wait", "no_cut"]);
    }

    #[test]
    fn only_a_failed_test_catches() {
        let shell = |line: &str| Step::new("sh").args(["-c", line]);
        let failed = "echo 'test result: FAILED. 0 passed; 1 failed; 0 ignored'; exit 101";
        assert!(is_caught(shell(failed)).unwrap());
        assert!(!is_caught(shell("echo 'test result: ok. 3 passed; 0 failed'")).unwrap());
        assert!(is_caught(shell("exit 101")).is_err(), "a build that fails catches nothing");
    }
}
