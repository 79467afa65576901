//! A safeguard that no test misses is no safeguard: takes each out and expects a test to fail.
//!
//! The writer marks them with `cfg!(nettrace_mutant = "name")`, in the code that the name takes
//! out. Every name found in its sources is tried. What must fail is a loom model, or one of the
//! tests on real threads that have `order` in their path or in the name of their file. The first
//! failure ends a try: models that have no need of a safeguard take a minute.

use std::{collections::BTreeMap, fs, path::Path};

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
    let mut names = BTreeMap::new();
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
    let threads_miss = |name: &str| -> Result<bool> {
        for choice in &on_threads {
            let step = Step::cargo().args(["test", "-p", WRITER, "--release", "--locked"]);
            let step = step.args(choice).env("RUSTFLAGS", flag(name));
            if step.env("CARGO_TARGET_DIR", workspace.target.join("mutants")).fails()? {
                return Ok(true);
            }
        }
        Ok(false)
    };
    let models_miss = |name: &str| {
        let flags = format!("--cfg nettrace_loom {}", flag(name));
        // The model with most executions by far, of which no safeguard has need.
        lanes::models(workspace, &flags, "loom").args(["--", "--skip", "loom_a_handler"]).fails()
    };

    let mut survivors = Vec::new();
    for (name, is_modelled) in &names {
        let caught = if *is_modelled {
            models_miss(name)? || threads_miss(name)?
        } else {
            threads_miss(name)?
        };
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

fn flag(name: &str) -> String {
    format!("--cfg nettrace_mutant=\"{name}\"")
}

/// Adds the names in the Rust files below `folder`, each with whether its code is in the models: they have
/// a flusher of their own.
fn collect(folder: &Path, names: &mut BTreeMap<String, bool>) -> Result<()> {
    for path in paths_in(folder)? {
        if path.is_dir() {
            collect(&path, names)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            let is_modelled = !path.iter().any(|part| part == "flusher");
            let text = fs::read_to_string(&path).map_err(|source| Error::File { path, source })?;
            for name in names_in(&text) {
                *names.entry(name).or_insert(true) &= is_modelled;
            }
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
    use std::time::Instant;

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
        let begun = Instant::now();
        assert!(
            shell("echo 'test a ... FAILED'; sleep 100; echo 'test b ... ok'").fails().unwrap()
        );
        assert!(begun.elapsed().as_secs() < 60, "the first failure is the end");
        assert!(!shell("echo 'test a ... ok'").fails().unwrap());
        assert!(shell("exit 101").fails().is_err(), "a build that fails catches nothing");
    }
}
