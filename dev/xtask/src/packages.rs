//! Lanes that check the packages as a registry gets them, and their dependencies.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Result, ensure};
use xtask::{
    step::{Step, Tally},
    workspace::{Workspace, paths_in, remove_folder},
};

/// Packs every published package and builds it from its archive, outside the workspace.
pub(crate) fn package(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    let published = workspace.published();
    ensure!(!published.is_empty(), "nothing was checked: no package is published");
    let folder = workspace.target.join("archives");
    remove_folder(&folder)?;
    forget_unpacked(&cargo_home(), &published)?;
    let step = Step::cargo().args(["package", "--locked"]).args(published);
    // A working copy may have changes that are not committed.
    step.arg("--allow-dirty").env("CARGO_TARGET_DIR", &folder).run()?;
    for package in workspace.packages.iter().filter(|package| package.published) {
        for file in ["README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            ensure!(package.folder.join(file).exists(), "{} has no {file}", package.name);
        }
    }
    Ok(())
}

/// Removes what cargo unpacked from our archives in an earlier run.
///
/// Cargo builds each archive against those of the other packages, which it offers in a registry in
/// the target folder. It takes an archive from a registry at the same path, with the same name and
/// version, for one that it knows. So it would neither unpack it nor build it again.
fn forget_unpacked(cargo_home: &Path, packages: &[&str]) -> Result<()> {
    for registry in paths_in(&cargo_home.join("registry/src"))? {
        // A registry in a folder has no host, so its name is a dash and a hash.
        if !file_name(&registry).starts_with('-') {
            continue;
        }
        for path in paths_in(&registry)? {
            let name = file_name(&path);
            if name.rsplit_once('-').is_some_and(|(name, _)| packages.contains(&name)) {
                remove_folder(&path)?;
            }
        }
    }
    Ok(())
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn cargo_home() -> PathBuf {
    let home = || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cargo");
    env::var_os("CARGO_HOME").map_or_else(home, PathBuf::from)
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_our_archives_in_folders_are_forgotten() {
        let home = env::temp_dir().join(format!("xtask-packages-{}", std::process::id()));
        let sources = home.join("registry/src");
        let stays =
            ["-0a1b/serde-1.0.0", "-0a1b/ours-too-0.1.0", "index.crates.io-0a1b/ours-0.1.0"];
        for name in stays.iter().chain(&["-0a1b/ours-0.1.0", "-ff/ours-0.2.0"]) {
            fs::create_dir_all(sources.join(name).join("src")).unwrap();
        }
        let forgotten = forget_unpacked(&home, &["-p", "ours"]);
        let left = paths_in(&sources).unwrap().iter().map(|path| paths_in(path).unwrap()).collect();
        fs::remove_dir_all(&home).unwrap();
        forgotten.unwrap();
        let left: Vec<Vec<PathBuf>> = left;
        let mut expected: Vec<_> = stays.iter().map(|name| sources.join(name)).collect();
        expected.sort();
        assert_eq!(left.concat(), expected);
        forget_unpacked(&home.join("absent"), &["ours"]).unwrap();
    }
}
