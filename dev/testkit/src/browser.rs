//! Chromium, driven by scripts that node runs.
//!
//! `.ci/run` installs the packages of npm that the scripts need. By hand:
//!
//! ```text
//! npm install --prefix ~/.cache/nettrace-browser playwright-core speedscope
//! ```

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// The needs of the scripts.
#[derive(Clone, Debug)]
pub struct Browser {
    /// The folder with the folder `node_modules`.
    pub packages: PathBuf,
    /// The program Chromium.
    pub chromium: PathBuf,
}

/// The program Chromium: the one that the variable `CHROMIUM` names, else an installed one.
pub fn chromium() -> Option<PathBuf> {
    if let Some(named) = env::var_os("CHROMIUM") {
        return Some(PathBuf::from(named)).filter(|path| path.exists());
    }
    let paths = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
    paths.iter().map(Path::new).find(|path| path.exists()).map(Path::to_owned)
}

/// Chromium, if node and these packages are there, too. If something is missing, prints a line and
/// returns `None`.
pub fn find(packages: &[&str]) -> Option<Browser> {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
    let cache = cache?.join("nettrace-browser");
    let has_node =
        || Command::new("node").arg("--version").output().is_ok_and(|it| it.status.success());
    let missing = packages.iter().find(|name| !cache.join("node_modules").join(name).exists());
    let chromium = chromium();
    let missing = match &chromium {
        None => "Chromium",
        Some(_) if !has_node() => "node",
        Some(_) => missing.copied().unwrap_or(""),
    };
    if !missing.is_empty() {
        println!("skipped: there is no {missing} (packages of npm are in {})", cache.display());
        return None;
    }
    Some(Browser { packages: cache, chromium: chromium? })
}
