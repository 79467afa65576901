//! Conversion to tables: the crate `nettrace-parquet`.

use std::path::Path;

use nettrace_parquet::{Options, Tables};
use nettrace_views::Target;

use crate::{
    convert::view::{Begin, Other, Start},
    failure::Failure,
};

pub(crate) const PARQUET: Other = Other {
    name: "parquet",
    title: "Parquet",
    about: "a folder of Parquet tables, for DuckDB, DataFusion, Spark, Trino and pandas",
    endings: &["parquet"],
    begin: Begin::Folder(|start, out| begin(Tables::Parquet, start, out)),
};

pub(crate) const ARROW: Other = Other {
    name: "arrow",
    title: "Arrow",
    about: "a folder of Arrow files (Feather), for programs that map tables into memory",
    endings: &["arrow"],
    begin: Begin::Folder(|start, out| begin(Tables::Arrow, start, out)),
};

fn begin(tables: Tables, start: &Start<'_>, out: &Path) -> Result<Box<dyn Target>, Failure> {
    let options =
        Options::default().force(start.task.force).spans_limit(start.limits.definitions());
    nettrace_parquet::target(tables, start.trace, start.version, out, &options)
        .map_err(|error| Failure::Destination(out.display().to_string(), error))
}
