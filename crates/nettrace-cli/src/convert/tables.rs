//! Conversion to tables: the module `tables` of `nettrace-views`.

use std::path::Path;

use nettrace_views::{
    Target,
    tables::{self, Options, Tables},
};

use crate::{
    convert::{
        To,
        extra_target::{Begin, ExtraTarget, Start},
    },
    failure::Failure,
};

/// The key-value of a trace that names its host, as OpenTelemetry calls it.
const HOST: &str = "host.name";

pub(crate) const PARQUET: ExtraTarget = ExtraTarget {
    name: "parquet",
    title: "Parquet",
    about: "a folder of Parquet tables, for DuckDB, DataFusion, Spark, Trino and pandas",
    endings: &["parquet"],
    begin: Begin::Folder {
        begin: |start, out| begin(Tables::Parquet, start, out),
        size: |start, out| size(start, out),
    },
};

pub(crate) const ARROW: ExtraTarget = ExtraTarget {
    name: "arrow",
    title: "Arrow",
    about: "a folder of Arrow files (Feather), for programs that map tables into memory",
    endings: &["arrow"],
    begin: Begin::Folder {
        begin: |start, out| begin(Tables::Arrow, start, out),
        size: |start, out| size(start, out),
    },
};

/// Whether a format is one of tables.
pub(super) fn are(to: To) -> bool {
    to == To::Extra(&PARQUET) || to == To::Extra(&ARROW)
}

/// The options of tables.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct TableOptions {
    /// Tables: add them to those of other traces in OUT, in folders by day and host
    #[arg(long)]
    partition: bool,
    /// Tables: the host of the trace [default: the key-value host.name of the trace]
    #[arg(long, value_name = "NAME", requires = "partition")]
    host: Option<String>,
}

impl TableOptions {
    /// The option that is given, and is for tables alone.
    pub(crate) fn given(&self) -> Option<&'static str> {
        self.partition.then_some("--partition")
    }
}

fn options(start: &Start<'_>) -> Result<Options, Failure> {
    let options = Options::default().force(start.task.force);
    let options = options.spans_limit(start.limits.definitions());
    let given = start.task.tables;
    if !given.partition {
        return Ok(options);
    }
    let host = given.host.as_deref().or_else(|| start.trace.value(HOST));
    Ok(options.partition(host.ok_or(Failure::NoHost)?))
}

fn begin(tables: Tables, start: &Start<'_>, out: &Path) -> Result<Box<dyn Target>, Failure> {
    tables::target(tables, start.trace, start.version, out, &options(start)?)
        .map_err(|error| Failure::folder(out, error))
}

fn size(start: &Start<'_>, out: &Path) -> Result<u64, Failure> {
    let size = tables::size(start.trace, out, &options(start)?);
    size.map_err(|error| Failure::folder(out, error))
}
