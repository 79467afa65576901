//! The commands that CI and developers run. `cargo xtask help` lists them.
//!
//! Code map: [`ci`] names the lanes and runs them, some of them beside the others by
//! [`parallel_lanes`]. [`lanes`] has what most lanes do; [`seam`], [`layers`], [`interface`] and
//! [`mutants`] have modules of their own. [`packages`] builds what a registry would get. The
//! library of this package knows the packages ([`xtask::workspace`]), runs commands, and counts the
//! tests that they report ([`xtask::step`]). Package `measure`, in `benches`, measures.
//!
//! A lane that finds nothing to check fails, so that no lane passes for ever.

mod ci;
mod interface;
mod lanes;
mod layers;
mod mutants;
mod packages;
mod parallel_lanes;
mod seam;

use std::{env, process::ExitCode};

use anyhow::{Result, bail};
use xtask::workspace::Workspace;

fn main() -> ExitCode {
    xtask::exit_code(run())
}

fn run() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["help" | "--help" | "-h"] => print!("{}", help()),
        ["ci", names @ ..] => ci::run(&Workspace::load()?, names)?,
        ["bench", filter @ ..] => lanes::measure("bench").args(filter).run()?,
        ["weight"] => lanes::measure("weight").run()?,
        ["weight", "--check"] => ci::run(&Workspace::load()?, &["weight"])?,
        [name] if ci::lane(name).is_some() => ci::run(&Workspace::load()?, &[name])?,
        _ => bail!("no such command.\n\n{}", help()),
    }
    Ok(())
}

fn help() -> String {
    let mut text = String::from(
        "Usage: cargo xtask <command>\n\n  \
         ci [LANE ...]     those named, or every lane; stops at a failure\n  \
         bench [FILTER]    the benchmarks; the last line is a JSON object of ratios by name\n  \
         weight [--check]  what users build, beside `tracing`; --check is the lane\n  \
         LANE              the same as `ci LANE`\n  \
         help              this text\n\nLanes:\n",
    );
    for lane in ci::LANES {
        text.push_str(&format!("  {:<17} {}\n", lane.name, lane.what));
    }
    text
}
