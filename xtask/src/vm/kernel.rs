//! Builds the kernel once, from Debian's source and `vm/kernel.config`.
//!
//! The kernel is kept in `$NETTRACE_VM_CACHE`, or else in the folder `nettrace-vm` of the user's
//! cache. Its folder there is named after the version of the source and a hash of the
//! configuration. The folder appears only when it is complete, so an interrupted build leaves
//! nothing that looks like a kernel.

use std::{
    env, fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    thread,
    time::Instant,
};

use super::{Folder, file_error, packages};
use crate::{
    error::{Error, Result},
    step::Step,
    workspace::{Workspace, paths_in},
};

/// The source packages have this name and a version. Each puts an archive of the same name into
/// [`SOURCES`].
const PACKAGE: &str = "linux-source-";

/// The folder of the archives.
const SOURCES: &str = "/usr/src";

/// The first long-term kernel with user_events, which came with 6.4. The tests need nothing that
/// came later, such as events with several formats under one name.
const OLDEST: (u32, u32) = (6, 6);

/// The kernel, from the cache if possible.
pub(super) fn built(workspace: &Workspace) -> Result<PathBuf> {
    let recipe = workspace.root.join("vm/kernel.config");
    let wanted = fs::read_to_string(&recipe).map_err(file_error(&recipe))?;
    let package = newest_source()?;
    let version = version(&package)?;
    let cache = cache()?;
    let home = cache.join(format!("{version}-{:016x}", hash(&wanted)));
    let image = home.join("bzImage");
    if image.exists() {
        println!("kernel {version}, from the cache");
        return Ok(image);
    }

    println!("kernel {version}: building it, once");
    let start = Instant::now();
    let archive = Path::new(SOURCES).join(format!("{package}.tar.xz"));
    if !archive.exists() {
        packages::install(&[&package])?;
    }
    let work = Folder::new(&cache)?;
    let result = work.0.join("result");
    fs::create_dir_all(&result).map_err(file_error(&result))?;
    make(&work.0, &archive, &recipe, &wanted)?;
    for (made, name) in [("arch/x86/boot/bzImage", "bzImage"), (".config", "config")] {
        let from = work.0.join("source").join(made);
        fs::copy(&from, result.join(name)).map_err(file_error(&from))?;
    }
    match fs::rename(&result, &home) {
        // Another process was quicker. Its kernel is as good.
        Err(_) if image.exists() => {}
        outcome => outcome.map_err(file_error(&home))?,
    }
    println!("kernel {version}: built in {} s", start.elapsed().as_secs());
    Ok(image)
}

/// Unpacks, configures and compiles the source in `work/source`.
fn make(work: &Path, archive: &Path, recipe: &Path, wanted: &str) -> Result<()> {
    let source = work.join("source");
    fs::create_dir_all(&source).map_err(file_error(&source))?;
    let step = Step::new("tar").arg("-xf").arg(archive).arg("-C").arg(&source);
    step.arg("--strip-components=1").run()?;
    let make = |arguments: &[&str]| {
        let step = Step::new("make").arg("-s").args(arguments).within(&source);
        // Settings that cargo and CI make for other compilers do not apply here.
        step.without(&["CFLAGS", "LDFLAGS", "MAKEFLAGS", "ARCH", "CROSS_COMPILE"])
    };
    make(&["tinyconfig"]).run()?;
    let merge = Step::new("scripts/kconfig/merge_config.sh").args(["-m", "-Q", ".config"]);
    merge.arg(recipe).within(&source).run()?;
    make(&["olddefconfig"]).run()?;

    let made = source.join(".config");
    let made = fs::read_to_string(&made).map_err(file_error(&made))?;
    let lost = lost(wanted, &made);
    if !lost.is_empty() {
        return Err(Error::Nothing(format!(
            "this kernel source does not accept {}; correct vm/kernel.config",
            lost.join(", ")
        )));
    }
    let jobs = thread::available_parallelism().map_or(2, usize::from);
    make(&[&format!("-j{jobs}"), "bzImage"]).run()
}

/// The settings that `wanted` turns on and `made` lacks.
fn lost<'a>(wanted: &'a str, made: &str) -> Vec<&'a str> {
    let on = wanted.lines().filter(|line| line.starts_with("CONFIG_"));
    on.filter(|wanted| !made.lines().any(|line| line == *wanted)).collect()
}

/// The newest source package that is installed, or else that apt knows.
fn newest_source() -> Result<String> {
    let mut names = Vec::new();
    for path in paths_in(Path::new(SOURCES))? {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        names.extend(name.and_then(|name| Some(name.strip_suffix(".tar.xz")?.to_owned())));
    }
    if let Some(name) = newest(names.iter().map(String::as_str)) {
        return Ok(name.to_owned());
    }
    let search = || {
        let step = Step::new("apt-cache").args(["search", "--names-only", "^linux-source-[0-9]"]);
        step.quiet().read().unwrap_or_default()
    };
    let found = |listed: &str| {
        newest(listed.lines().filter_map(|line| line.split(' ').next())).map(str::to_owned)
    };
    if let Some(name) = found(&search()) {
        return Ok(name);
    }
    if packages::is_there("apt-get") {
        // A container image comes without package lists.
        let _ = Step::new("apt-get").args(["update", "-qq"]).run();
    }
    found(&search()).ok_or_else(|| {
        let (major, minor) = OLDEST;
        Error::Missing(format!(
            "no virtual machine: no source of a kernel from {major}.{minor} on in {SOURCES}, and \
             no package `{PACKAGE}…` to install"
        ))
    })
}

/// The newest of these packages that is new enough.
fn newest<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let number = |name: &str| {
        let (major, minor) = name.strip_prefix(PACKAGE)?.split_once('.')?;
        Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    };
    let versions = names.filter_map(|name| Some((number(name)?, name)));
    versions.filter(|(version, _)| *version >= OLDEST).max().map(|(_, name)| name)
}

/// The full version of `package`: the installed one, or else the one that would be installed.
fn version(package: &str) -> Result<String> {
    let query = Step::new("dpkg-query").args(["-W", "-f=${Version}", package]);
    let installed = query.quiet().read().unwrap_or_default();
    if !installed.trim().is_empty() {
        return Ok(installed.trim().to_owned());
    }
    let policy = Step::new("apt-cache").args(["policy", package]).read()?;
    let line = policy.lines().find_map(|line| line.trim().strip_prefix("Candidate: "));
    line.map(str::to_owned).ok_or_else(|| {
        Error::Missing(format!("no virtual machine: apt does not know a version of {package}"))
    })
}

fn cache() -> Result<PathBuf> {
    let folder = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let place = folder("NETTRACE_VM_CACHE").map(PathBuf::from);
    let place =
        place.or_else(|| Some(PathBuf::from(folder("XDG_CACHE_HOME")?).join("nettrace-vm")));
    let place =
        place.or_else(|| Some(PathBuf::from(folder("HOME")?).join(".cache").join("nettrace-vm")));
    let place = place.ok_or_else(|| {
        Error::Missing("no virtual machine: set NETTRACE_VM_CACHE to a folder for kernels".into())
    })?;
    fs::create_dir_all(&place).map_err(file_error(&place))?;
    Ok(place)
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_source_is_taken_by_number() {
        let names = ["linux-source", "linux-source-6.9", "linux-source-6.12", "linux-source-6.1"];
        assert_eq!(newest(names.into_iter()), Some("linux-source-6.12"));
        assert_eq!(newest(["linux-source-6.1", "linux-image-7.0"].into_iter()), None);
    }

    #[test]
    fn a_setting_that_the_source_dropped_is_named() {
        let wanted = "# a comment\nCONFIG_A=y\nCONFIG_B=y\n# CONFIG_C is not set\n";
        assert_eq!(lost(wanted, "CONFIG_A=y\nCONFIG_BB=y\n"), ["CONFIG_B=y"]);
        assert!(lost(wanted, "CONFIG_B=y\nCONFIG_A=y\nCONFIG_C=y\n").is_empty());
    }
}
