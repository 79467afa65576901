//! The packages of the workspace, as cargo describes them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    error::{Error, Result},
    step::Step,
};

/// The workspace: where it is, and its members.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The folder of the root manifest.
    pub(crate) root: PathBuf,
    /// The folder in which cargo builds.
    pub(crate) target: PathBuf,
    /// Every member.
    pub(crate) packages: Vec<Package>,
}

/// One member of the workspace.
#[derive(Debug)]
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// The folder of its manifest.
    pub(crate) folder: PathBuf,
    /// Whether it is published to the registry.
    pub(crate) published: bool,
    /// The oldest compiler that it promises to build with, as `major.minor`.
    pub(crate) rust_version: Option<String>,
    /// Whether it has features for others. The names of features for our own tests begin with `__`.
    pub(crate) has_features: bool,
    /// The names of its integration tests.
    pub(crate) tests: Vec<String>,
    /// The names of its `bench` targets.
    pub(crate) benches: Vec<String>,
}

impl Workspace {
    /// Asks cargo about the workspace of the current folder.
    pub(crate) fn load() -> Result<Self> {
        let step = Step::cargo().args(["metadata", "--format-version=1", "--no-deps"]);
        let text = step.read()?;
        let unreadable = |source: Box<dyn std::error::Error + Send + Sync>| Error::Output {
            command: "cargo metadata".into(),
            source,
        };
        let value: Value = serde_json::from_str(&text).map_err(|error| unreadable(error.into()))?;
        Self::parse(&value).ok_or_else(|| unreadable("a field is missing".into()))
    }

    /// The published packages, as `-p NAME` pairs.
    pub(crate) fn published(&self) -> Vec<&str> {
        let published = self.packages.iter().filter(|package| package.published);
        published.flat_map(|package| ["-p", &package.name]).collect()
    }

    /// The oldest compiler that the published packages promise to build with, as `major.minor`.
    pub(crate) fn rust_version(&self) -> Result<&str> {
        let mut versions = self
            .packages
            .iter()
            .filter(|package| package.published)
            .filter_map(|package| package.rust_version.as_deref());
        let Some(first) = versions.next() else {
            return Err(Error::Missing("no published package states a rust-version".into()));
        };
        if let Some(other) = versions.find(|version| *version != first) {
            return Err(Error::Missing(format!(
                "published packages state rust-version {first} and {other}; let them agree"
            )));
        }
        Ok(first)
    }

    /// The manifests of packages outside the workspace that CI checks too, if they exist.
    pub(crate) fn outsiders(&self) -> Vec<PathBuf> {
        let manifests = ["benches/peers/Cargo.toml", "fuzz/Cargo.toml"];
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
        let of_kind = |kind: &str| -> Option<Vec<String>> {
            let chosen = targets.iter().filter(|target| target["kind"][0] == kind);
            chosen.map(|target| target["name"].as_str().map(str::to_owned)).collect()
        };
        Some(Self {
            name: value["name"].as_str()?.to_owned(),
            folder: Path::new(value["manifest_path"].as_str()?).parent()?.to_owned(),
            // `null` means any registry, an empty list means none.
            published: value["publish"].as_array().is_none_or(|list| !list.is_empty()),
            rust_version: value["rust_version"].as_str().map(str::to_owned),
            has_features: value["features"]
                .as_object()
                .is_some_and(|list| list.keys().any(|name| !name.starts_with("__"))),
            tests: of_kind("test")?,
            benches: of_kind("bench")?,
        })
    }
}

/// Removes a folder and what is in it, if there is one.
pub(crate) fn remove_folder(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::File { path: folder.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// The paths in `folder`, sorted. Empty if there is no such folder.
pub(crate) fn paths_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let unusable = |source| Error::File { path: folder.to_owned(), source };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unusable(error)),
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths.collect::<std::io::Result<Vec<_>>>().map_err(unusable)?;
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str, publish: Value, version: &str) -> Value {
        json!({ "name": name, "manifest_path": "/w/some/Cargo.toml", "publish": publish,
            "rust_version": version, "targets": [
                { "kind": ["lib"], "name": "lib" }, { "kind": ["bench"], "name": "emit" },
                { "kind": ["test"], "name": "judge" },
        ] })
    }

    fn workspace(packages: &[Value]) -> Workspace {
        Workspace::parse(&json!({
            "workspace_root": "/w", "target_directory": "/w/target", "packages": packages,
        }))
        .unwrap()
    }

    #[test]
    fn only_what_goes_to_the_registry_is_published() {
        let all = workspace(&[
            package("a", Value::Null, "1.85"),
            package("b", json!([]), "1.85"),
            package("c", json!(["elsewhere"]), "1.85"),
        ]);
        assert_eq!(all.published(), ["-p", "a", "-p", "c"]);
        assert_eq!(all.packages[0].benches, ["emit"]);
        assert_eq!(all.packages[0].tests, ["judge"]);
    }

    #[test]
    fn one_compiler_is_promised() {
        let one = workspace(&[package("a", Value::Null, "1.85"), package("b", json!([]), "1.90")]);
        assert_eq!(one.rust_version().unwrap(), "1.85");
        let two = workspace(&[package("a", Value::Null, "1.85"), package("b", Value::Null, "1.9")]);
        assert!(two.rust_version().is_err());
    }

    #[test]
    fn this_workspace_can_be_read() {
        let this = Workspace::load().unwrap();
        assert!(this.root.join("Cargo.toml").exists());
        assert!(this.packages.iter().any(|package| package.name == "xtask" && !package.published));
    }
}
