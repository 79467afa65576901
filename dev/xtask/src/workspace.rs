//! The packages of the workspace, as cargo describes them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::step::Step;

/// The workspace: where it is, and its members.
#[derive(Debug)]
pub struct Workspace {
    /// The folder of the root manifest.
    pub root: PathBuf,
    /// The folder in which cargo builds.
    pub target: PathBuf,
    /// Every member.
    pub packages: Vec<Package>,
}

/// One member of the workspace.
#[derive(Debug)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// The folder of its manifest.
    pub folder: PathBuf,
    /// Whether it is published to the registry.
    pub published: bool,
    /// Whether it has features for others. The names of features for our own tests begin with `__`.
    pub has_features: bool,
    /// The programs of its integration tests.
    pub tests: Vec<TestProgram>,
    /// The names of its `bench` targets.
    pub benches: Vec<String>,
}

/// A program of integration tests.
#[derive(Debug)]
pub struct TestProgram {
    /// Its name.
    pub name: String,
    /// Its root file. If that is a `main.rs`, its other files are beside it.
    pub source: PathBuf,
}

impl Workspace {
    /// Asks cargo about the workspace of the current folder.
    pub fn load() -> Result<Self> {
        let step = Step::cargo().args(["metadata", "--format-version=1", "--no-deps"]);
        let value = serde_json::from_str(&step.read()?)?;
        Self::parse(&value).context("`cargo metadata` leaves out a field")
    }

    /// The published packages, as `-p NAME` pairs.
    pub fn published(&self) -> Vec<&str> {
        let published = self.packages.iter().filter(|package| package.published);
        published.flat_map(|package| ["-p", &package.name]).collect()
    }

    /// The manifests of packages outside the workspace that CI checks too, if they exist.
    pub fn outsiders(&self) -> Vec<PathBuf> {
        let manifests = ["benches/peers/Cargo.toml", "dev/fuzz/Cargo.toml"];
        manifests.iter().map(|path| self.root.join(path)).filter(|path| path.exists()).collect()
    }

    fn parse(value: &Value) -> Option<Self> {
        let packages = value["packages"].as_array()?.iter().map(Package::parse);
        Some(Self {
            root: PathBuf::from(value["workspace_root"].as_str()?),
            target: PathBuf::from(value["target_directory"].as_str()?),
            packages: packages.collect::<Option<_>>()?,
        })
    }
}

impl Package {
    fn parse(value: &Value) -> Option<Self> {
        let targets = value["targets"].as_array()?;
        let of_kind = |kind| targets.iter().filter(move |target| target["kind"][0] == kind);
        let name = |target: &Value| target["name"].as_str().map(str::to_owned);
        let program = |target: &Value| {
            let source = target["src_path"].as_str()?.into();
            Some(TestProgram { name: name(target)?, source })
        };
        Some(Self {
            name: value["name"].as_str()?.to_owned(),
            folder: Path::new(value["manifest_path"].as_str()?).parent()?.to_owned(),
            // `null` means any registry, an empty list means none.
            published: value["publish"].as_array().is_none_or(|list| !list.is_empty()),
            has_features: value["features"]
                .as_object()
                .is_some_and(|list| list.keys().any(|name| !name.starts_with("__"))),
            tests: of_kind("test").map(program).collect::<Option<_>>()?,
            benches: of_kind("bench").map(name).collect::<Option<_>>()?,
        })
    }
}

/// Removes a folder and what is in it, if there is one.
pub fn remove_folder(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        outcome => outcome.with_context(|| format!("could not remove {}", folder.display())),
    }
}

/// The paths in `folder`, sorted. Empty if there is no such folder.
pub fn paths_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("could not read {}", folder.display()))?,
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths.collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// The Rust files below a folder.
pub fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths_in(folder)? {
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
    Ok(files)
}

/// The text of a file.
pub fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))
}

/// Writes a file, and makes the folder for it.
pub fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    folder
        .and_then(|()| fs::write(path, text))
        .with_context(|| format!("could not write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str, publish: Value) -> Value {
        json!({ "name": name, "manifest_path": "/w/some/Cargo.toml", "publish": publish,
            "targets": [
                { "kind": ["lib"], "name": "lib" }, { "kind": ["bench"], "name": "emit" },
                { "kind": ["test"], "name": "judge", "src_path": "/w/some/tests/judge.rs" },
        ] })
    }

    #[test]
    fn only_what_goes_to_the_registry_is_published() {
        let packages =
            [package("a", Value::Null), package("b", json!([])), package("c", json!(["else"]))];
        let all = Workspace::parse(&json!({
            "workspace_root": "/w", "target_directory": "/w/target", "packages": packages,
        }));
        let all = all.unwrap();
        assert_eq!(all.published(), ["-p", "a", "-p", "c"]);
        assert_eq!(all.packages[0].benches, ["emit"]);
        let [test] = &all.packages[0].tests[..] else { panic!("one test program") };
        assert_eq!((test.name.as_str(), test.source.ends_with("judge.rs")), ("judge", true));
    }

    #[test]
    fn this_workspace_can_be_read() {
        let this = Workspace::load().unwrap();
        assert!(this.root.join("Cargo.toml").exists());
        assert!(this.packages.iter().any(|package| package.name == "xtask" && !package.published));
    }
}
