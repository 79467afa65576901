//! Checks that only one module of a crate, its seam, names atomics and threads, and that only one
//! module of all crates reads variables of the environment.
//!
//! `clippy.toml` bans the types and functions. That is enough for a crate without a seam. But
//! clippy follows re-exports, so in a crate with a seam it would fire on every legitimate use of
//! the seam. Such a crate allows the two lints, and this lane looks for the names instead.

use std::{fs, path::Path, path::PathBuf};

use crate::{
    error::{Error, Result},
    step::Tally,
    workspace::{Workspace, paths_in},
};

/// The files of published packages that may name atomics, threads or loom, each with its reason.
const SEAMS: &[(&str, &str)] = &[
    ("nettrace-reader/src/read_ahead.rs", "the thread that reads a source ahead"),
    ("nettrace-writer/src/sync.rs", "the writer's seam"),
    ("nettrace-span/src/sync.rs", "the seam of spans and contexts"),
    ("tracing-nettrace/src/sync.rs", "the seam of the layer and the subscriber for `tracing`"),
    ("eventheader-writer/src/sync.rs", "the tracepoints' seam"),
    ("nettrace-diagnostics/src/sync.rs", "the server's seam"),
    ("nettrace-metrics/src/sync.rs", "the seam of instruments and reports"),
    ("nettrace-views/src/console.rs", "the thread that shows what the sink is given"),
    ("nettrace-cli/src/live/watch.rs", "the thread that decodes a live trace"),
    ("nettrace-cli/src/view/serve.rs", "the threads that answer a browser"),
    ("nettrace-tail/src/counts.rs", "the application reads counts while a session writes"),
    ("nettrace-event/src/event.rs", "the enabled word of an event type is an atomic"),
    ("nettrace-event/src/field/number.rs", "an atomic number can be a field of an event"),
    ("nettrace-event/src/recorder.rs", "the pointer to what records events"),
    ("nettrace-event/src/registry.rs", "the list of event types, which every backend shares"),
    ("nettrace-event/src/registry/ids.rs", "the table of types by id, under the same lock"),
    ("nettrace-event/src/registry/lock.rs", "the lock of that list, which a fork replaces"),
];

/// The files of published packages that may read variables of the environment. Others would obey it
/// in a program with the setuid bit.
const READERS: &[(&str, &str)] = &[
    ("nettrace-writer/src/process/environment.rs", "asks whose environment it is"),
    ("nettrace-event/src/lock/check.rs", "in the test that `schema_lock!` makes"),
    ("nettrace-views/src/text/color.rs", "NO_COLOR decides about colors and nothing else"),
    ("nettrace-writer/src/mutant.rs", "in models and mutants alone"),
    ("nettrace-metrics/src/mutant.rs", "in models and mutants alone"),
];

/// The functions that do so. The folder for temporary files and the user's home are variables, too.
const READS: [&str; 6] = ["home_dir", "temp_dir", "var", "var_os", "vars", "vars_os"];

/// Keywords that may precede a path from the root, such as `::std::sync`.
const KEYWORDS: [&str; 6] = ["as", "dyn", "impl", "in", "mut", "return"];

/// Checks every source file of the published packages.
pub(crate) fn run(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    let mut files = Vec::new();
    for package in workspace.packages.iter().filter(|package| package.published) {
        sources(&package.folder.join("src"), &mut files)?;
    }
    let mut findings = Vec::new();
    let mut reading = Vec::new();
    let mut used = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file)
            .map_err(|source| Error::File { path: file.clone(), source })?;
        let name = file.strip_prefix(&workspace.root).unwrap_or(file).to_string_lossy();
        let lines = lines_that_read_variables(&text);
        if READERS.iter().all(|(reader, _)| *reader != name) {
            reading.extend(lines.iter().map(|line| format!("{name}:{line}")));
        } else if lines.is_empty() {
            reading.push(format!("{name} reads none, but is listed in xtask/src/seam.rs"));
        }
        let lines = lines_that_name(&text);
        if let Some((seam, _)) = SEAMS.iter().find(|(seam, _)| *seam == name) {
            used.extend((!lines.is_empty()).then_some(*seam));
            continue;
        }
        findings.extend(lines.iter().map(|line| format!("{name}:{line}")));
    }
    let idle = SEAMS.iter().map(|(seam, _)| *seam).filter(|seam| !used.contains(seam));
    let idle: Vec<_> = idle.collect();

    println!("{} files, {} of them may name atomics and threads", files.len(), SEAMS.len());
    if !findings.is_empty() {
        return Err(Error::Seam(format!(
            "atomics, threads or loom are named outside a seam; take them from the crate's seam \
             (`crate::sync`), or list the file in xtask/src/seam.rs with its reason:\n  {}",
            findings.join("\n  ")
        )));
    }
    if !reading.is_empty() {
        return Err(Error::Seam(format!(
            "variables of the environment are read outside of \
             nettrace-writer/src/process/environment.rs, which knows when they must not be \
             obeyed:\n  {}",
            reading.join("\n  ")
        )));
    }
    if !idle.is_empty() {
        return Err(Error::Seam(format!(
            "listed in xtask/src/seam.rs, but they name no atomics or threads: {}",
            idle.join(", ")
        )));
    }
    Ok(())
}

/// Adds the Rust files below `folder`, except those whose names say that they are tests.
fn sources(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for path in paths_in(folder)? {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        if matches!(&*stem, "tests" | "loom_tests") {
            continue;
        }
        if path.is_dir() {
            sources(&path, files)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// The lines, from 1, in which a path or import leads to atomics, threads or loom.
///
/// Tests stand at the end of each file, so everything after the first `#[cfg(test)]` is ignored.
fn lines_that_name(text: &str) -> Vec<usize> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let words = words(code);
    let mut lines = Vec::new();
    let mut index = 0;
    while index < words.len() {
        let (word, line) = words[index];
        let is_path = words.get(index + 1).is_some_and(|next| next.0 == "::");
        // The two words before the path. A path from the root has one more `::` in front.
        let before: Vec<&str> = words[..index].iter().rev().map(|last| last.0).take(2).collect();
        let (starts_path, imported) = match before[..] {
            ["::", "use", ..] | ["use", ..] => (true, true),
            ["::", last, ..] => (!is_name(last) || KEYWORDS.contains(&last), false),
            _ => (true, false),
        };
        if is_path && starts_path {
            match word {
                "loom" => lines.push(line),
                "std" | "core" => {
                    let rest = &words[index + 1..];
                    let end = rest.iter().position(|next| match imported {
                        true => next.0 == ";",
                        false => next.0 != "::" && !is_name(next.0),
                    });
                    let rest = &rest[..end.unwrap_or(rest.len())];
                    lines.extend(
                        rest.iter()
                            .filter(|(word, _)| matches!(*word, "atomic" | "thread"))
                            .map(|(_, line)| *line),
                    );
                    index += rest.len();
                }
                _ => {}
            }
        }
        index += 1;
    }
    lines.dedup();
    lines
}

/// The lines, from 1, that read variables of the environment, or import what does.
fn lines_that_read_variables(text: &str) -> Vec<usize> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let words = words(code);
    let mut lines = Vec::new();
    for (index, _) in words.iter().enumerate().filter(|(_, (word, _))| *word == "env") {
        let mut rest = words[index + 1..].iter();
        if rest.next().is_none_or(|(word, _)| *word != "::") {
            continue;
        }
        let is_list = words.get(index + 2).is_some_and(|(word, _)| *word == "{");
        let end = if is_list { "}" } else { ";" };
        let named = rest.take_while(|(word, _)| *word != end);
        let named = named.take(if is_list { usize::MAX } else { 1 });
        lines.extend(named.filter(|(word, _)| READS.contains(word)).map(|(_, line)| *line));
    }
    lines.dedup();
    lines
}

/// Splits code into names, `::` and other characters, each with its line. Comments are left out.
fn words(code: &str) -> Vec<(&str, usize)> {
    let mut words = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let mut rest = line.split("//").next().unwrap_or_default();
        while let Some(first) = rest.chars().next() {
            let length = if is_name(rest) {
                rest.find(|sign: char| !sign.is_alphanumeric() && sign != '_').unwrap_or(rest.len())
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            let (word, tail) = rest.split_at(length);
            if !word.trim().is_empty() {
                words.push((word, number + 1));
            }
            rest = tail;
        }
    }
    words
}

fn is_name(word: &str) -> bool {
    word.starts_with(|sign: char| sign.is_alphanumeric() || sign == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, lines: &[usize]) {
        assert_eq!(lines_that_name(text), lines, "{text}");
    }

    #[test]
    fn imports_are_found_in_every_form() {
        check("use std::thread;", &[1]);
        check("use std::sync::atomic::AtomicU32;", &[1]);
        check("pub(crate) use ::core::sync::atomic::{AtomicU32, Ordering};", &[1]);
        let nested =
            "use std::{\n    io,\n    sync::{\n        atomic::Ordering,\n    },\n    thread,\n};";
        check(nested, &[4, 6]);
        check("use loom::sync::Arc;", &[1]);
    }

    #[test]
    fn paths_are_found() {
        check("fn f() {\n    std::thread::sleep(PAUSE);\n}", &[2]);
        check("fn f() -> u8 { return ::std::thread::f() }", &[1]);
        check("static A: ::core::sync::atomic::AtomicBool = x;", &[1]);
        check("fn f(a: std::io::Error, b: std::thread::Thread) {}", &[1]);
    }

    #[test]
    fn what_comes_from_the_seam_is_no_finding() {
        check("use crate::sync::{AtomicU32, Ordering, thread};\nthread::spawn(f);", &[]);
        check("use other::std::thread;\nuse std::sync::Arc;\nuse super::thread;", &[]);
        check("mod thread;\nfn f(std: u8) { thread(std) }", &[]);
        check("thread_local! { static A: u8 = 0; }", &[]);
        check("let a = (std::mem::size_of::<u8>(), thread);", &[]);
    }

    #[test]
    fn variables_are_found() {
        let check = |text: &str, lines: &[usize]| {
            assert_eq!(lines_that_read_variables(text), lines, "{text}");
        };
        check("use std::{env, fs};\nfn f() { env::var_os(NAME) }", &[2]);
        check("use std::env::{self, args,\n    vars};\nstd::env::temp_dir();", &[2, 3]);
        check("use std::env::var;", &[1]);
        check("env!(\"CARGO\"); env::args(); env::current_exe(); // env::var\nlet var = 1;", &[]);
    }

    #[test]
    fn comments_and_tests_do_not_count() {
        check("//! Not std::thread.\n/// Nor `std::sync::atomic`. use std::thread;", &[]);
        check("fn f() {}\n#[cfg(test)]\nmod tests {\n    use std::thread;\n}", &[]);
    }
}
