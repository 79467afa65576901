//! `nettrace schema`: the event types of a trace or of a file of `schema_lock!`, and what differs
//! between two of them.

mod of_trace;
mod rust;
mod shown;

use std::{
    fs::File,
    io::{Read, Write},
    path::{Path, PathBuf},
    slice,
};

use clap::ValueHint;
use nettrace_event::lock::{Catalogue, FIRST_LINE, Verdict, changes};
use serde::Serialize;

use crate::{
    failure::Failure, files::Files, info::write_json, merge, merge::Notes,
    read_options::ReadOptions, source::Meanwhile, spelling::OneLine,
};

/// What `schema` shows.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct SchemaOptions {
    #[command(subcommand)]
    what: Option<SchemaCommand>,
    /// A trace, or - for standard input, or a file nettrace.schema. Several traces, and folders
    /// with traces, are read as one
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::AnyPath)]
    files: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Print a page of Markdown
    #[arg(long, conflicts_with = "json")]
    md: bool,
    /// Print types of Rust that read the events with nettrace-reader
    #[arg(long, conflicts_with_all = ["json", "md"])]
    rust: bool,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum SchemaCommand {
    /// Show what differs between the types of two traces or files, and what that does to readers
    ///
    /// A trace has only the types of which it has events, and does not say which fields are secret
    /// or what they mean. The exit code is 1 if a change is breaking.
    Diff {
        /// A trace, or a file nettrace.schema
        #[arg(value_hint = ValueHint::AnyPath)]
        old: PathBuf,
        /// The same
        #[arg(value_hint = ValueHint::AnyPath)]
        new: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(
    options: &SchemaOptions,
    limits: ReadOptions,
    out: &mut impl Write,
) -> Result<(), Failure> {
    if let Some(SchemaCommand::Diff { old, new, json }) = &options.what {
        return differ(old, new, *json, limits, out);
    }
    let Schemas { catalogue, failure, is_trace } = Schemas::open(&options.files, limits)?;
    if options.json {
        write_json(&shown::json(&catalogue), out)?;
    } else if options.md {
        shown::markdown(&catalogue, out)?;
    } else if options.rust {
        rust::write(&catalogue, is_trace, out)?;
    } else {
        writeln!(out, "{FIRST_LINE}: event types of a trace or build.")?;
        write!(out, "{catalogue}")?;
    }
    failure.map_or(Ok(()), Err)
}

/// The types of a file.
struct Schemas {
    catalogue: Catalogue,
    is_trace: bool,
    /// Why a trace could not be read to its end.
    failure: Option<Failure>,
}

impl Schemas {
    fn open(paths: &[PathBuf], mut limits: ReadOptions) -> Result<Self, Failure> {
        let text = match paths {
            [path] => text(path)?.map(|text| (path, text)),
            _ => None,
        };
        if let Some((path, text)) = text {
            let catalogue = text.parse().map_err(|error| {
                Failure::Schema(format!("{}: {error}", OneLine(path.display())))
            })?;
            return Ok(Self { catalogue, is_trace: false, failure: None });
        }
        let files = Files::find(paths)?;
        let (trace, ending) =
            merge::open(files, &mut limits, Meanwhile::Nothing, false, Notes::Told)?;
        let (source, original) = trace.into_nettrace(limits)?;
        let mut reader = limits.options().open(source)?;
        let read = reader.read_to_end().map_err(Failure::from);
        let failure = ending.after(read.and_then(|()| original.end_whole())).err();
        let catalogue = of_trace::catalogue(reader.metadata());
        Ok(Self { catalogue, is_trace: true, failure })
    }
}

/// The most bytes of a file of schemas.
const MOST: u64 = 64 << 20;

/// The text of a file that is no trace, but has schemas.
fn text(path: &Path) -> Result<Option<String>, Failure> {
    if path.as_os_str() == "-" || path.is_dir() {
        return Ok(None);
    }
    let fail = |error| Failure::Open(path.display().to_string(), error);
    let mut file = File::open(path).map_err(fail)?;
    let mut start = vec![0; FIRST_LINE.len()];
    // What is shorter is neither.
    if file.read_exact(&mut start).is_err() || start != FIRST_LINE.as_bytes() {
        return Ok(None);
    }
    let mut rest = String::from(FIRST_LINE);
    file.take(MOST).read_to_string(&mut rest).map_err(fail)?;
    Ok(Some(rest))
}

/// A change as JSON.
#[derive(Serialize)]
struct ChangeRow {
    verdict: String,
    event: String,
    what: String,
}

fn differ(
    old: &PathBuf,
    new: &PathBuf,
    json: bool,
    limits: ReadOptions,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let (mut old, mut new) = (
        Schemas::open(slice::from_ref(old), limits)?,
        Schemas::open(slice::from_ref(new), limits)?,
    );
    if let Some(failure) = old.failure.take().or(new.failure.take()) {
        return Err(failure);
    }
    if old.is_trace || new.is_trace {
        (old.catalogue, new.catalogue) = (old.catalogue.stored(), new.catalogue.stored());
    }
    if new.is_trace {
        // That a trace has no event of a type says nothing.
        let names = new.catalogue.names();
        old.catalogue.events.retain(|event| names.contains(&event.full_name()));
    }
    let changes = changes(&old.catalogue, &new.catalogue);
    let rows: Vec<_> = changes
        .iter()
        .map(|change| ChangeRow {
            verdict: change.verdict.to_string(),
            event: change.event.clone(),
            what: change.what.clone(),
        })
        .collect();
    if json {
        write_json(&rows, out)?;
    } else {
        for row in rows {
            writeln!(out, "{:10}  {}  {}", row.verdict, OneLine(&row.event), OneLine(&row.what))?;
        }
    }
    match changes.iter().filter(|change| change.verdict == Verdict::Breaking).count() {
        0 => Ok(()),
        count => Err(Failure::Differs(count)),
    }
}
