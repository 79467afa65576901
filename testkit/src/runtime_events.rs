//! Events of the .NET runtime as TraceEvent decodes them, by the script beside the program that
//! makes the reader's table.

use std::{env, path::Path, process::Command};

use serde_json::Value;

use crate::{activities, reference::tool};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../xtask/runtime-events/reference.py");

/// The events of a trace, in the order of time: `provider`, `id` and `version`, and for those of
/// the runtime `name`, `fields` and `values` (arrays, and what the fields show wrongly). If the
/// reference reader or its Python library is absent, prints a line and returns `None`.
///
/// # Panics
/// If the script fails.
pub fn of(trace: &Path) -> Option<Vec<Value>> {
    let judge = tool("judge")?;
    let cache = env::var_os("XDG_CACHE_HOME")
        .map(Into::into)
        .or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".cache")))?;
    let python = cache.join("nettrace-judge-python/bin/python");
    if !python.exists() {
        // It installs the library where this script wants it.
        activities::of(trace)?;
    }
    let output = Command::new(python)
        .args([Path::new(SCRIPT), Path::new("events"), trace])
        .env("NETTRACE_JUDGE", judge)
        .output()
        .expect("Python starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "reference.py: {errors}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    Some(text.lines().map(|line| serde_json::from_str(line).expect(line)).collect())
}
