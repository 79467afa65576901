//! The commands that CI and developers run. `cargo xtask help` lists them.
//!
//! Code map: [`ci`] names the lanes and runs them, some of them beside the others by
//! [`parallel_lanes`]. [`lanes`] has what most lanes do; [`seam`], [`layers`], [`interface`] and
//! [`mutants`] have modules of their own. [mod@bench] turns benchmark results into ratios;
//! [`instructions`] counts instructions, which do not vary; [`request`] counts misses of caches as
//! well; [`weight`] weighs what users build; [mod@bounds] compares such counts. [`packages`] builds
//! what a registry would get. [`workspace`] knows the packages. [`step`] runs a command and counts
//! the tests that it reports.
//!
//! A lane that finds nothing to check fails, so that no lane passes for ever.

mod bench;
mod bounds;
mod ci;
mod instructions;
mod interface;
mod lanes;
mod layers;
mod mutants;
mod packages;
mod parallel_lanes;
mod request;
mod seam;
mod step;
mod weight;
mod workspace;

use std::{env, process::ExitCode};

use anyhow::{Result, bail};
use workspace::Workspace;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["help" | "--help" | "-h"] => print!("{}", help()),
        ["ci", names @ ..] => ci::run(&Workspace::load()?, names)?,
        ["bench", filter @ ..] => bench::run(&Workspace::load()?, filter)?,
        ["weight"] => weight::run(&Workspace::load()?)?,
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
