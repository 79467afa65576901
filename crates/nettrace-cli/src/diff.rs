//! `nettrace diff`: two traces beside each other, by the module `report` of `nettrace-views`.

use std::{io::Write, path::PathBuf};

use nettrace_views::report::{NamesOnly, Options, Report};

use crate::{
    excerpt, failure::Failure, filter::EventFilter, read_options::ReadOptions, spelling::OneLine,
    standard_error::say,
};

/// Options of `diff`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DiffOptions {
    /// Print one JSON object instead
    #[arg(long)]
    json: bool,
    /// Tell spans apart by the values of this field, as report --by does
    #[arg(long, value_name = "FIELD")]
    by: Option<String>,
    #[command(flatten)]
    filter: EventFilter,
}

/// Writes what differs between two traces, each of which may be a folder.
pub(crate) fn run(
    [before, after]: [&PathBuf; 2],
    limits: ReadOptions,
    options: &DiffOptions,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut damaged = 0;
    let mut read = |path: &PathBuf| {
        let mut read = None;
        excerpt::read_other(path, limits, Some(&options.filter), &mut |source, limits| {
            let mut wanted = Options::new(path.display().to_string()).slowest(0);
            if let Some(field) = &options.by {
                wanted = wanted.by(field);
            }
            let mut events = limits.options().open(source)?.sorted();
            read = Some(Report::read(&mut events, &mut NamesOnly, &wanted));
            Ok(())
        })?;
        if let Some(error) = read.as_ref().and_then(Report::damage) {
            say(Some(format_args!("{}: {error}", OneLine(path.display()))))?;
            damaged += 1;
        }
        Ok::<_, Failure>(read)
    };
    let (before, after) = (read(before)?, read(after)?);
    let (Some(before), Some(after)) = (before, after) else { return Ok(()) };
    match options.json {
        true => after.write_diff_json(&before, &mut *out)?,
        false => after.write_diff(&before, &mut *out)?,
    }
    if damaged == 0 { Ok(()) } else { Err(Failure::Cut(damaged)) }
}
