//! The query engines that judge tables: DuckDB, PyArrow and DataFusion, as Python packages.
//!
//! `.ci/run` installs them. By hand:
//!
//! ```text
//! python3 -m venv ~/.cache/nettrace-engines
//! ~/.cache/nettrace-engines/bin/pip install duckdb pyarrow datafusion pytz
//! ```

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// A Python that has the three engines: the one that the variable `NETTRACE_ENGINES` names, else
/// that of the folder above. If there is none, prints a line and returns `None`.
#[must_use]
pub fn python() -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(PathBuf::from);
    let named = std::env::var_os("NETTRACE_ENGINES").map(PathBuf::from);
    let python = named.or_else(|| Some(home()?.join(".cache/nettrace-engines/bin/python")));
    let python = python.filter(|python| python.exists());
    let imports = "import duckdb, pyarrow, datafusion, pytz";
    let has_all = |python: &PathBuf| {
        Command::new(python).args(["-c", imports]).output().is_ok_and(|it| it.status.success())
    };
    let python = python.filter(has_all);
    if python.is_none() {
        println!("skipped: no Python with duckdb, pyarrow, datafusion and pytz");
    }
    python
}

/// Runs a script with arguments. Returns what it prints.
///
/// # Panics
/// If it fails.
#[must_use]
pub fn run(python: &Path, script: &Path, arguments: &[&str]) -> String {
    let output = Command::new(python).arg(script).args(arguments).output().expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}\n{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stdout).expect("UTF-8")
}
