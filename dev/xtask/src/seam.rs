//! Checks that only one module of a crate, its seam, names atomics and threads, and that only one
//! module of all crates reads variables of the environment.
//!
//! `clippy.toml` bans the types and functions. That is enough for a crate without a seam. But
//! clippy follows re-exports, so in a crate with a seam it would fire on every legitimate use of
//! the seam. Such a crate allows the two lints, and this lane looks for the names instead. Tests
//! may name what they like.

use anyhow::{Result, ensure};
use xtask::{step::Tally, workspace::Workspace};

use crate::layers::imports::{self, ModuleImports};

/// The files of published packages that may name atomics, threads or loom, each with its reason.
const SEAMS: &[(&str, &str)] = &[
    ("crates/nettrace-reader/src/read_ahead.rs", "the thread that reads a source ahead"),
    ("nettrace-writer/src/sync.rs", "the writer's seam"),
    ("crates/nettrace-span/src/sync.rs", "the seam of spans and contexts"),
    (
        "crates/tracing-nettrace/src/sync.rs",
        "the seam of the layer and the subscriber for `tracing`",
    ),
    ("eventheader-writer/src/sync.rs", "the tracepoints' seam"),
    ("crates/nettrace-diagnostics/src/sync.rs", "the server's seam"),
    ("crates/nettrace-views/src/console.rs", "the thread that shows what the sink is given"),
    ("crates/nettrace-cli/src/live/watch.rs", "the thread that decodes a live trace"),
    ("crates/nettrace-cli/src/view/serve.rs", "the threads that answer a browser"),
    ("crates/nettrace-event/src/event.rs", "the enabled word of an event type is an atomic"),
    ("crates/nettrace-event/src/field/number.rs", "an atomic number can be a field of an event"),
    ("crates/nettrace-event/src/recorder.rs", "the pointer to what records events"),
    (
        "crates/nettrace-event/src/registry.rs",
        "the list of event types, which every backend shares",
    ),
    ("crates/nettrace-event/src/registry/ids.rs", "the table of types by id, under the same lock"),
    ("crates/nettrace-event/src/registry/lock.rs", "the lock of that list, which a fork replaces"),
];

/// The files of published packages that may read variables of the environment. Others would obey it
/// in a program with the setuid bit.
const READERS: &[(&str, &str)] = &[
    ("nettrace-writer/src/process/environment.rs", "asks whose environment it is"),
    ("crates/nettrace-event/src/lock/check.rs", "in the test that `schema_lock!` makes"),
    ("crates/nettrace-views/src/text/color.rs", "NO_COLOR decides about colors and nothing else"),
    ("nettrace-writer/src/mutant.rs", "in models and mutants alone"),
];

/// The functions that do so. The folder for temporary files and the user's home are variables, too.
const READS: [&str; 6] = ["home_dir", "temp_dir", "var", "var_os", "vars", "vars_os"];

/// Checks every source file of the published packages.
pub(crate) fn run(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    let mut findings = Vec::new();
    let mut seen = 0;
    for package in workspace.packages.iter().filter(|package| package.published) {
        for source in imports::sources(package)?.iter().filter(|source| !source.is_test()) {
            let folder = package.folder.strip_prefix(&workspace.root)?.display();
            let name = format!("{folder}/src/{}", source.name);
            seen += 1;
            findings.extend(check(&name, source, SEAMS, names_threads, "threads"));
            findings.extend(check(&name, source, READERS, reads_variables, "variables"));
        }
    }
    println!("{seen} files, {} of them may name atomics and threads", SEAMS.len());
    ensure!(seen > 0, "nothing was checked: no package has sources");
    ensure!(
        findings.is_empty(),
        "take atomics, threads and loom from the crate's seam (`crate::sync`), and variables of \
         the environment from nettrace-writer/src/process/environment.rs, which knows when they \
         must not be obeyed; or list the file in dev/xtask/src/seam.rs with its reason:\n  {}",
        findings.join("\n  ")
    );
    Ok(())
}

/// The names in a file that it may not have, or that it is listed and names nothing.
fn check(
    name: &str,
    source: &ModuleImports,
    listed: &[(&str, &str)],
    is_banned: fn(&[String]) -> bool,
    what: &str,
) -> Vec<String> {
    let banned: Vec<_> = source.others.iter().filter(|path| is_banned(path)).collect();
    match listed.iter().any(|(file, _)| *file == name) {
        true if banned.is_empty() => {
            vec![format!("{name} is listed, but names no {what}")]
        }
        true => Vec::new(),
        false => banned.iter().map(|path| format!("`{}` in {name}", path.join("::"))).collect(),
    }
}

/// Whether a path or import leads to atomics, threads or loom.
fn names_threads(path: &[String]) -> bool {
    let has = |names: &[&str]| path.iter().any(|word| names.contains(&&**word));
    path[0] == "loom" || ["std", "core"].contains(&&*path[0]) && has(&["atomic", "thread"])
}

/// Whether a path reads variables of the environment, or imports what does.
fn reads_variables(path: &[String]) -> bool {
    path.windows(2).any(|pair| pair[0] == "env" && READS.contains(&&*pair[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of banned paths in a text.
    #[track_caller]
    fn check(is_banned: fn(&[String]) -> bool, text: &str, count: usize) {
        let source = ModuleImports::read(Vec::new(), "a.rs".into(), text.parse().unwrap());
        let found = source.others.iter().filter(|path| is_banned(path)).count();
        assert_eq!(found, count, "{text}");
    }

    #[test]
    fn threads_are_found_in_every_form() {
        let check = |text: &str, count| check(names_threads, text, count);
        check("use std::thread;", 1);
        check("pub(crate) use ::core::sync::atomic::{AtomicU32, Ordering};", 2);
        check("use std::{io, sync::{atomic::Ordering}, thread};", 2);
        check("use loom::sync::Arc;", 1);
        check("fn f() { std::thread::sleep(PAUSE); }", 1);
        check("fn f() -> u8 { return ::std::thread::f() }", 1);
        check("fn f() -> ::std::thread::Thread { for x in std::thread::f() {} }", 2);
        check("static A: ::core::sync::atomic::AtomicBool = x;", 1);
        check("fn f(a: std::io::Error, b: std::thread::Thread) {}", 1);
    }

    #[test]
    fn what_comes_from_the_seam_is_no_finding() {
        let check = |text: &str| check(names_threads, text, 0);
        check("use crate::sync::{AtomicU32, Ordering, thread}; fn f() { thread::spawn(f); }");
        check("use other::std::thread; use std::sync::Arc; use super::thread;");
        check("mod thread; fn f(std: u8) { thread(std) }");
        check("thread_local! { static A: u8 = 0; }");
        check("fn f() { (std::mem::size_of::<u8>(), thread); }");
        check("//! Not std::thread.\n/// Nor `std::sync::atomic`. use std::thread;\nfn f() {}");
        check("fn f() {} #[cfg(test)] mod tests { use std::thread; }");
    }

    #[test]
    fn variables_are_found() {
        let check = |text: &str, count| check(reads_variables, text, count);
        check("use std::{env, fs}; fn f() { env::var_os(NAME) }", 1);
        check("use std::env::{self, args, vars}; fn f() { std::env::temp_dir(); }", 2);
        check("use std::env::var;", 1);
        check("fn f() { env!(\"C\"); env::args(); env::current_exe(); let var = 1; }", 0);
    }
}
