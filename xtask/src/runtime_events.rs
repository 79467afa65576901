//! `cargo xtask runtime-events`: the table of the events of the .NET runtime that `nettrace-reader`
//! carries, made from instrumentation manifests.
//!
//! The table has a line for each event and version, sorted by its bytes, so that a reader can
//! search it as it is:
//!
//! ```text
//! Microsoft-Windows-DotNETRuntime 00002 001 GC/Stop Count:u32 Depth:u32 ClrInstanceID:u16
//! ```
//!
//! A field is `name:type`, `name[count]:type`, `name[count]{fields}` or
//! `name[count]:aligned{fields}`, whose structures have the padding of C. A count is a number, or
//! the name of an earlier field of the same structure.

mod manifest;
mod table;

use std::{collections::BTreeMap, fs, path::Path};

use crate::{
    error::{Error, Result},
    workspace::Workspace,
};

/// What the program prints if it is called without a manifest.
pub(crate) const HELP: &str = "\
cargo xtask runtime-events MANIFEST ...

Writes nettrace-reader/src/runtime/events.txt: the names and fields of the events that the .NET
runtime does not describe in its traces. A MANIFEST is an instrumentation manifest of Windows (XML).
If two describe the same version of an event, the first one counts, and a line tells if they differ.

Names are those of xtask/runtime-events/names.tsv, else the event's symbol without its version.

The table that is checked in was made from these manifests, in this order:
  xtask/runtime-events/ClrEtwAll-excerpt.man    a part of the runtime's own manifest
  xtask/runtime-events/sample-profiler.man      the sampler, which has no manifest
  NativeRuntimeEventSource.man, TplEventSource.man
                                                what EventSource.GenerateManifest of .NET 10.0.12
                                                returns (MIT)

`python3 xtask/runtime-events/reference.py manifests FOLDER` writes the last two, and
`… names` prints names.tsv: the names that TraceEvent 4.0.0 (MIT) shows. For a newer runtime, add
src/coreclr/vm/ClrEtwAll.man of https://github.com/dotnet/runtime after the first two.";

/// The table, from the root of the workspace.
const TABLE: &str = "nettrace-reader/src/runtime/events.txt";

/// The names of events, from the root of the workspace.
const NAMES: &str = "xtask/runtime-events/names.tsv";

/// Writes the table from manifests.
pub(crate) fn run(workspace: &Workspace, manifests: &[&str]) -> Result<()> {
    let texts = manifests
        .iter()
        .map(|path| Ok((*path, read(Path::new(path))?)))
        .collect::<Result<Vec<_>>>()?;
    let names = read(&workspace.root.join(NAMES))?;
    let made = make(&texts, &names).map_err(Error::Manifest)?;
    for note in &made.notes {
        println!("{note}");
    }
    let path = workspace.root.join(TABLE);
    fs::write(&path, &made.table).map_err(|source| Error::File { path, source })?;
    println!("{TABLE}: {} events, {} bytes", made.events, made.table.len());
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|source| Error::File { path: path.to_owned(), source })
}

/// A table, and what its maker should know.
#[derive(Debug)]
struct Made {
    table: String,
    events: usize,
    notes: Vec<String>,
}

/// Makes the table from the names and texts of manifests. The error is a sentence.
fn make(manifests: &[(&str, String)], names: &str) -> std::result::Result<Made, String> {
    let names = table::names(names)?;
    let mut events = BTreeMap::new();
    let mut notes = Vec::new();
    for (path, text) in manifests {
        for event in manifest::events(text).map_err(|what| format!("{path}: {what}"))? {
            let key = (event.provider.clone(), event.id, event.version);
            let known = events.entry(key).or_insert_with(|| event.clone());
            if known.fields != event.fields {
                let manifest::Event { provider, id, version, .. } = &event;
                let note = format!("{provider} {id} {version}: the one of {path} is not taken");
                notes.push(note);
            }
        }
    }
    let events = table::without_prefixes(events.into_values().collect());
    Ok(Made { table: table::text(&events, &names)?, events: events.len(), notes })
}

#[cfg(test)]
mod tests;
