//! The commands that CI and developers run. `cargo xtask help` lists them.
//!
//! Code map: [`ci`] names the lanes and runs them, some of them [`beside`] the others. [`lanes`]
//! has what most lanes do; [`seam`], [`layers`], [`interface`], [`mutants`] and [`lines`] have
//! modules of their own.
//! [mod@bench] turns benchmark results into ratios; [`instructions`] counts instructions, which do
//! not vary; [`request`] counts misses of caches as well; [`weight`] weighs what users build;
//! [mod@bounds] compares such counts. [`load`] compares the service with and without recorders.
//! [`packages`] builds what a registry would get. [`compiler`] finds other compilers.
//! [mod@runtime_events] makes a table of `nettrace-reader`. [`workspace`] knows the packages.
//! [`step`] runs a command and counts the tests that it reports, and [`failures`] keeps what failed
//! ones printed. [`vm`] boots a kernel for the tests that need one of their own.
//!
//! A lane that finds nothing to check fails, so that no lane passes for ever.

mod bench;
mod beside;
mod bounds;
mod ci;
mod compiler;
mod error;
mod failures;
mod instructions;
mod interface;
mod lanes;
mod layers;
mod lines;
mod load;
mod mutants;
mod packages;
mod request;
mod runtime_events;
mod seam;
mod step;
mod vm;
mod weight;
mod workspace;

use std::{env, process::ExitCode};

use error::{Error, Result};
use workspace::Workspace;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            let mut cause = std::error::Error::source(&error);
            while let Some(inner) = cause {
                eprintln!("  because {inner}");
                cause = inner.source();
            }
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Result<()> {
    match arguments {
        ["help" | "--help" | "-h"] => {
            print!("{}", help());
            Ok(())
        }
        ["ci", names @ ..] => ci::run(&Workspace::load()?, names),
        ["bench", filter @ ..] => bench::run(&Workspace::load()?, filter),
        ["load", "--help"] => {
            println!("{}", load::HELP);
            Ok(())
        }
        ["load", arguments @ ..] => load::run(&Workspace::load()?, arguments),
        ["weight"] => weight::run(&Workspace::load()?),
        ["weight", "--check"] => ci::run(&Workspace::load()?, &["weight"]),
        ["vm", "--shell", command @ ..] => vm::shell(&Workspace::load()?, command),
        ["runtime-events"] | ["runtime-events", "--help"] => {
            println!("{}", runtime_events::HELP);
            Ok(())
        }
        ["runtime-events", manifests @ ..] => runtime_events::run(&Workspace::load()?, manifests),
        [name] if ci::lane(name).is_some() => ci::run(&Workspace::load()?, &[name]),
        _ => Err(Error::Usage(help())),
    }
}

fn help() -> String {
    let mut text = String::from(
        "Usage: cargo xtask <command>\n\n  \
         ci [LANE ...]     those named, or every lane; stops at a failure\n  \
         bench [FILTER]    the benchmarks; the last line is a JSON object of ratios by name\n  \
         load [ROUNDS]     the service under load, with and without recorders; --help says more\n  \
         weight [--check]  what users build, beside `tracing`; --check is the lane\n  \
         vm --shell CMD    runs CMD as root in the kernel of lane `vm`\n  \
         runtime-events    makes the table of .NET's events in nettrace-reader; says how\n  \
         LANE              the same as `ci LANE`\n  \
         help              this text\n\nLanes:\n",
    );
    for lane in ci::LANES {
        text.push_str(&format!("  {:<17} {}\n", lane.name, lane.what));
    }
    text
}
