//! The tools to build and boot the kernel and to record its events.

use std::path::Path;

use crate::{
    error::{Error, Result},
    step::Step,
};

/// Required programs, each with its Debian package.
const PROGRAMS: [(&str, &str); 13] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("cpio", "cpio"),
    ("gzip", "gzip"),
    ("perf", "linux-perf"),
    ("setpriv", "util-linux"),
    ("gcc", "gcc"),
    ("make", "make"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
];

/// Required files, each with its Debian package.
const FILES: [(&str, &str); 3] = [
    ("/usr/include/stdio.h", "libc6-dev"),
    ("/usr/include/libelf.h", "libelf-dev"),
    ("/usr/include/gelf.h", "libelf-dev"),
];

/// Makes sure that every tool is there. Installs those that are missing, if apt-get is there and
/// the user is root.
///
/// Fails with [`Error::Missing`] if a tool is missing and cannot be installed.
pub(crate) fn ready() -> Result<()> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err(Error::Missing("no virtual machine: the recipe is for x86-64 Linux".into()));
    }
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    install(&missing)?;
    match self::missing() {
        left if left.is_empty() => Ok(()),
        left => Err(Error::Missing(format!(
            "no virtual machine: {} did not bring what they should",
            left.join(", ")
        ))),
    }
}

/// Installs `packages`, or says why it cannot.
pub(super) fn install(packages: &[&str]) -> Result<()> {
    let why = if !is_there("apt-get") {
        "there is no apt-get to install them"
    } else if Step::new("id").arg("-u").read()?.trim() != "0" {
        "only root can install them"
    } else {
        return update_and_install(packages);
    };
    Err(Error::Missing(format!(
        "no virtual machine: it needs the packages {}, and {why}",
        packages.join(", ")
    )))
}

fn update_and_install(packages: &[&str]) -> Result<()> {
    let install = || {
        let step = Step::new("apt-get").args(["-o", "DPkg::Lock::Timeout=300", "install", "-y"]);
        let step = step.args(["-qq", "--no-install-recommends"]).args(packages);
        step.env("DEBIAN_FRONTEND", "noninteractive").run()
    };
    let update = || Step::new("apt-get").args(["update", "-qq"]).run();
    // Old lists may name packages that the mirror no longer has.
    install().or_else(|_| update().and_then(|()| install())).map_err(|error| {
        Error::Missing(format!("no virtual machine: its packages cannot be installed: {error}"))
    })
}

fn missing() -> Vec<&'static str> {
    let programs = PROGRAMS.iter().filter(|(program, _)| !is_there(program));
    let files = FILES.iter().filter(|(file, _)| !Path::new(file).exists());
    let mut packages: Vec<_> = programs.chain(files).map(|(_, package)| *package).collect();
    packages.dedup();
    packages
}

/// Whether the shell finds `program`.
pub(super) fn is_there(program: &str) -> bool {
    let step = Step::new("sh").args(["-c", r#"command -v "$0""#, program]);
    step.quiet().read().is_ok()
}

#[cfg(test)]
mod tests {
    use super::is_there;

    #[test]
    fn programs_are_looked_up_as_a_shell_does() {
        assert!(is_there("sh"));
        assert!(!is_there("no-such-program-here"));
    }
}
