//! Lanes that check the packages as a registry gets them, and their dependencies.

use crate::{
    error::{Error, Result},
    step::{Step, Tally},
    workspace::Workspace,
};

/// Packs every published package and builds it from its archive, outside the workspace.
pub(crate) fn package(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    let published = workspace.published();
    if published.is_empty() {
        return Err(Error::Nothing("no package is published".into()));
    }
    let step = Step::cargo().args(["package", "--locked"]).args(published);
    // A working copy may have changes that are not committed. In the shared folder cargo finds the
    // dependencies that it has built for the tests.
    step.arg("--allow-dirty").env("CARGO_TARGET_DIR", &workspace.target).run()?;
    for package in workspace.packages.iter().filter(|package| package.published) {
        for file in ["README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            if !package.folder.join(file).exists() {
                return Err(Error::Missing(format!("{} has no {file}", package.name)));
            }
        }
    }
    Ok(())
}

/// Checks licences, bans, sources and advisories of all dependencies against `deny.toml`, and the
/// public interface against the last release.
pub(crate) fn dependencies(_: &Workspace, _: &mut Tally) -> Result<()> {
    if is_installed("deny") {
        let deny = || Step::cargo().args(["deny", "--workspace", "--all-features", "check"]);
        deny().args(["licenses", "bans", "sources"]).run()?;
        if Step::cargo().args(["deny", "fetch", "db"]).read().is_ok() {
            deny().arg("advisories").run()?;
        } else {
            println!("skipped: advisories, because their database cannot be reached");
        }
    } else {
        println!("skipped: cargo-deny is absent (`cargo install cargo-deny --locked`)");
    }
    let releases = Step::new("git").args(["tag", "--list", "v*"]).read()?;
    match releases.lines().last() {
        None => println!("skipped: cargo-semver-checks, because there is no release yet"),
        Some(_) if !is_installed("semver-checks") => {
            println!("skipped: cargo-semver-checks is absent");
        }
        Some(release) => {
            let step = Step::cargo().args(["semver-checks", "--workspace", "--baseline-rev"]);
            step.arg(release).run()?;
        }
    }
    Ok(())
}

fn is_installed(command: &str) -> bool {
    Step::cargo().args([command, "--version"]).read().is_ok()
}
