//! Tools of other makers, which stand beside the workspace where they are present at all.

use std::{env, path::PathBuf};

/// The tool with this name, in the folder of the reference reader.
///
/// # Errors
/// Where it should be, in words, if it is not there.
pub fn tool(name: &str) -> Result<PathBuf, String> {
    let judge = match env::var_os("NETTRACE_JUDGE") {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/judge/judge")),
    };
    let path = judge.with_file_name(name);
    if path.exists() { Ok(path) } else { Err(format!("no {name} at {}", path.display())) }
}
