//! The measurements that no tool makes as they are needed here. `cargo xtask` calls them:
//! `cargo xtask bench`, `instructions` and `weight`.
//!
//! Code map: [mod@bench] turns benchmark results into ratios; [`instructions`] counts instructions,
//! which do not vary; [`request`] counts misses of caches as well; [`weight`] weighs what users
//! build; [mod@bounds] compares such counts with those that the files beside this package keep.

mod bench;
mod bounds;
mod instructions;
mod request;
mod weight;

use std::{env, process::ExitCode};

use anyhow::{Result, bail};
use xtask::workspace::Workspace;

fn main() -> ExitCode {
    xtask::exit_code(run())
}

fn run() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let workspace = Workspace::load()?;
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["bench", filter @ ..] => bench::run(&workspace, filter),
        ["instructions"] => instructions::run(&workspace),
        ["weight"] => weight::run(&workspace),
        ["weight", "--check"] => weight::check(&workspace),
        _ => bail!("usage: measure bench [FILTER] | instructions | weight [--check]"),
    }
}
