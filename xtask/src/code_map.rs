//! Checks that the code map of ARCHITECTURE.md names every module of the published packages, and
//! nothing that is no module.
//!
//! Each package has a table, whose first column has names of modules. A name is the end of a
//! module's path, as in `flusher/round` or `round`. A name `sink/*` stands for all in a folder.
//! Modules of tests need no name.

use std::{collections::BTreeSet, fs, path::Path};

use crate::{
    error::{Error, Result},
    workspace::{Workspace, paths_in},
};

/// The file with the map.
const FILE: &str = "ARCHITECTURE.md";

/// Checks the table of each published package.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let path = workspace.root.join(FILE);
    let text = fs::read_to_string(&path).map_err(|source| Error::File { path, source })?;
    let mut findings = Vec::new();
    let mut modules_in_all = 0;
    for package in workspace.packages.iter().filter(|package| package.published) {
        let mut modules = BTreeSet::new();
        collect(&package.folder.join("src"), "", &mut modules)?;
        modules_in_all += modules.len();
        let names = names(&text, &package.name);
        let wrong = disagreements(&names, &modules);
        findings.extend(wrong.map(|wrong| format!("{}: {wrong}", package.name)));
    }
    if modules_in_all == 0 {
        return Err(Error::Nothing("no published package has a module".into()));
    }
    if findings.is_empty() {
        return Ok(());
    }
    Err(Error::CodeMap(format!(
        "the code map of {FILE} must name each module, and nothing else:\n  {}",
        findings.join("\n  ")
    )))
}

/// The names in the first column of a package's table.
fn names(text: &str, package: &str) -> Vec<String> {
    let heading = format!("**`{package}`**");
    let lines = text.lines().skip_while(|line| !line.starts_with(&heading)).skip(1);
    let rows =
        lines.take_while(|line| !line.starts_with("**")).filter(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

/// Adds the paths of the modules in a folder.
fn collect(folder: &Path, prefix: &str, modules: &mut BTreeSet<String>) -> Result<()> {
    for path in paths_in(folder)? {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let name = format!("{prefix}{stem}");
        if path.is_dir() {
            collect(&path, &format!("{name}/"), modules)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            match &*stem {
                "lib" => {}
                "main" | "mod" => _ = modules.insert(prefix.trim_end_matches('/').to_owned()),
                _ => _ = modules.insert(name),
            }
        }
    }
    modules.remove("");
    Ok(())
}

/// What is in one of the two and not in the other.
fn disagreements<'a>(
    names: &'a [String],
    modules: &'a BTreeSet<String>,
) -> impl Iterator<Item = String> + 'a {
    let ends_with = |module: &str, name: &str| {
        module.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('/'))
    };
    let is_in_folder = |module: &str, name: &str| {
        name.strip_suffix('*').is_some_and(|folder| module.starts_with(folder))
    };
    let is_test = |module: &str| module.split('/').any(|part| part.ends_with("tests"));
    let unnamed = modules.iter().filter(move |module| !is_test(module)).filter(move |module| {
        let own = module.rsplit('/').next().unwrap_or_default();
        !names.iter().any(|name| {
            ends_with(name, own)
                || is_in_folder(module, name)
                || name.starts_with(&format!("{own}/"))
        })
    });
    let unknown = names.iter().filter(move |name| {
        let is_file = name.contains('.') || *name == "lib";
        !is_file && !modules.iter().any(|one| ends_with(one, name) || is_in_folder(one, name))
    });
    let unnamed = unnamed.map(|module| format!("`{module}` is missing"));
    unnamed.chain(unknown.map(|name| format!("there is no `{name}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
**`one`** has modules.\n\n| module | what |\n|---|---|\n| `a`, `b/c` | `x` |\n| `d/*` | `y` |\n
**`two`** too.\n\n| module | what |\n|---|---|\n| `other` | |\n";

    #[track_caller]
    fn check(modules: &[&str], expected: &[&str]) {
        let modules = modules.iter().map(|&module| module.to_owned()).collect();
        let names = names(TEXT, "one");
        assert_eq!(disagreements(&names, &modules).collect::<Vec<_>>(), expected, "{names:?}");
    }

    #[test]
    fn each_module_has_a_name_and_each_name_a_module() {
        check(&["a", "a_tests", "b", "b/c", "d/e", "d/f/g", "loom_tests/h"], &[]);
        check(&["a", "z/b/c", "d/e"], &[]);
        check(&["a", "b/c", "d/e", "other"], &["`other` is missing"]);
        check(&["a", "bb/c", "d/e", "b/cc"], &["`b/cc` is missing", "there is no `b/c`"]);
        check(&["a", "b/c"], &["there is no `d/*`"]);
    }
}
