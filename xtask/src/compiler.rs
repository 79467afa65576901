//! Finds the oldest compiler that the packages promise to build with, and standard libraries for
//! other targets.
//!
//! If rustup has a toolchain of that version, it is used. Otherwise, on Debian, the packages
//! `rustc-web` and `cargo-web` are unpacked below the target folder. They cannot be installed
//! beside rustup, and need not be. Only the libraries that they load are installed.

use std::{fs, path::Path, path::PathBuf};

use crate::{
    error::{Error, Result},
    step::Step,
    workspace::{Workspace, paths_in, remove_folder},
};

/// Debian's packages of the compiler, cargo and the standard library.
const TOOLS: [&str; 3] = ["rustc-web", "cargo-web", "libstd-rust-web-dev"];

/// Debian's packages of the libraries that the tools load.
const LIBRARIES: [&str; 4] = ["libllvm19", "libhttp-parser2.9", "libpcre3", "libssh2-1"];

/// The target of the lane `aarch64`.
pub(crate) const AARCH64: &str = "aarch64-unknown-linux-gnu";

/// A compiler with its cargo.
#[derive(Debug)]
pub(crate) enum Compiler {
    /// The name of a toolchain that rustup has.
    Rustup(String),
    /// The folder of the unpacked packages, with `bin` and `lib`.
    Unpacked(PathBuf),
}

/// What starts rustdoc, below the folder of an unpacked compiler.
const RUSTDOC: &str = "bin/rustdoc-merging";

/// A linker of programs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Linker {
    /// The variable by which cargo knows it.
    pub(crate) variable: &'static str,
    /// The C compiler that starts it.
    compiler: &'static str,
}

/// Links programs for the usual machine of CI.
pub(crate) const X86_64_LINKER: Linker =
    Linker { variable: "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER", compiler: "cc" };

/// Links programs for the lane `aarch64`.
pub(crate) const AARCH64_LINKER: Linker = Linker {
    variable: "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
    compiler: "aarch64-linux-gnu-gcc",
};

impl Linker {
    /// The program to link with.
    ///
    /// The toolchain in use brings LLD, and the oldest compiler does not. So a script in the target
    /// folder starts the C compiler with it. To build all tests takes 238 s of processor time then,
    /// instead of 278 with GNU's linker. Without LLD, the linker is the C compiler's own.
    pub(crate) fn program(self, workspace: &Workspace) -> Result<PathBuf> {
        let sysroot = Step::new("rustc").args(["--print", "sysroot"]).read()?;
        let host = "lib/rustlib/x86_64-unknown-linux-gnu/bin/gcc-ld";
        let folder = Path::new(sysroot.trim()).join(host);
        if !folder.join("ld.lld").exists() {
            return Ok(self.compiler.into());
        }
        let path = workspace.target.join("linkers").join(self.compiler);
        let (compiler, folder) = (self.compiler, folder.display());
        write_script(&path, &format!("exec {compiler} -fuse-ld=lld '-B{folder}' \"$@\""))?;
        Ok(path)
    }
}

impl Compiler {
    /// A step that runs this compiler's cargo.
    pub(crate) fn cargo(&self) -> Step {
        match self {
            Self::Rustup(name) => Step::new("rustup").args(["run", name, "cargo"]),
            Self::Unpacked(usr) => Step::new(usr.join("bin/cargo"))
                .env("RUSTC", usr.join("bin/rustc"))
                .env("RUSTDOC", usr.join(RUSTDOC))
                .env("LD_LIBRARY_PATH", usr.join("lib/x86_64-linux-gnu")),
        }
    }
}

/// The oldest compiler that the packages promise.
pub(crate) fn oldest(workspace: &Workspace) -> Result<Compiler> {
    let version = workspace.rust_version()?;
    installed(version)
        .map_or_else(|| unpacked(workspace, version), |name| Ok(Compiler::Rustup(name)))
}

/// The oldest compiler with the source of its standard library.
///
/// It always comes from Debian's packages, whose source has exactly the compiler's version.
pub(crate) fn oldest_with_source(workspace: &Workspace) -> Result<Compiler> {
    let version = workspace.rust_version()?;
    let compiler = unpacked(workspace, version)?;
    let folder = folder(workspace, version);
    if !folder.join("usr/lib/rustlib/src/rust/library/Cargo.lock").exists() {
        let full = package_version("rust-web-src", version)?;
        unpack(&folder, None, &[format!("rust-web-src={full}")])?;
    }
    Ok(compiler)
}

/// The oldest compiler with its own standard library and that of AArch64 Linux.
pub(crate) fn oldest_for_aarch64(workspace: &Workspace) -> Result<Compiler> {
    let version = workspace.rust_version()?;
    if let Some(name) = installed(version) {
        if has_library(Step::new("rustup").args(["run", &name, "rustc"]), AARCH64)? {
            return Ok(Compiler::Rustup(name));
        }
    }
    let compiler = unpacked(workspace, version)?;
    let folder = folder(workspace, version);
    if !folder.join("usr/lib/rustlib").join(AARCH64).exists() {
        let full = package_version(TOOLS[0], version)?;
        unpack(&folder, Some("arm64"), &[format!("libstd-rust-web-dev={full}")])?;
    }
    Ok(compiler)
}

/// Whether the toolchain in use has a standard library for `target`.
pub(crate) fn has_target(target: &str) -> Result<bool> {
    has_library(Step::new("rustc"), target)
}

fn has_library(rustc: Step, target: &str) -> Result<bool> {
    let step = rustc.args(["--print", "target-libdir", "--target", target]);
    Ok(Path::new(step.read()?.trim()).exists())
}

/// The name of rustup's toolchain of that version, if it has one.
fn installed(version: &str) -> Option<String> {
    let listed = Step::new("rustup").args(["toolchain", "list"]).read().unwrap_or_default();
    rustup_toolchain(&listed, version).map(str::to_owned)
}

fn folder(workspace: &Workspace, version: &str) -> PathBuf {
    workspace.target.join("compilers").join(version)
}

fn unpacked(workspace: &Workspace, version: &str) -> Result<Compiler> {
    let folder = folder(workspace, version);
    let compiler = Compiler::Unpacked(folder.join("usr"));
    if !folder.join("usr/bin/rustc").exists() {
        let full = package_version(TOOLS[0], version)?;
        let runtime = format!("libstd-rust-web-{version}");
        let names = TOOLS.iter().copied().chain([runtime.as_str()]);
        let packages: Vec<_> = names.map(|name| format!("{name}={full}")).collect();
        unpack(&folder, None, &packages)?;
    }
    install(&LIBRARIES)?;

    write_rustdoc(&folder.join("usr"))?;

    let found = compiler.cargo().arg("--version").read()?;
    println!("{}", found.trim());
    if !found.starts_with(&format!("cargo {version}.")) {
        return Err(Error::Missing(format!(
            "{} holds another version than {version}; remove that folder and run this again",
            folder.display()
        )));
    }
    Ok(compiler)
}

/// Writes the script that starts rustdoc.
///
/// Rustdoc 1.85 puts all examples of a crate into one program with a feature gate, which its own
/// compiler refuses. It then builds a program for each example, which takes minutes. The variable
/// lets the program of all examples have its gate. Packages are compiled without the variable.
fn write_rustdoc(usr: &Path) -> Result<()> {
    write_script(&usr.join(RUSTDOC), "RUSTC_BOOTSTRAP=1 exec \"${0%-merging}\" \"$@\"")
}

/// Writes a script of one line for the shell.
fn write_script(path: &Path, line: &str) -> Result<()> {
    let unusable = |source| Error::File { path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(unusable)?;
    }
    fs::write(path, format!("#!/bin/sh\n{line}\n")).map_err(unusable)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(unusable)?;
    }
    Ok(())
}

/// The full version of `package` that starts with `version`, from apt's lists.
fn package_version(package: &str, version: &str) -> Result<String> {
    let madison = || Step::new("apt-cache").args(["madison", package]).read();
    let missing = || {
        Error::Missing(format!(
            "no Rust {version} here: `rustup toolchain install {version}`, or use a Debian that \
             has {package} {version}"
        ))
    };
    if let Some(full) = listed_version(&madison().map_err(|_| missing())?, version) {
        return Ok(full.to_owned());
    }
    Step::new("apt-get").args(["update", "-qq"]).run()?;
    listed_version(&madison()?, version).map(str::to_owned).ok_or_else(missing)
}

/// Downloads packages and unpacks them into `folder`. `architecture` names a foreign one.
fn unpack(folder: &Path, architecture: Option<&str>, packages: &[String]) -> Result<()> {
    let download = folder.join("download");
    let unusable = |source| Error::File { path: download.clone(), source };
    remove_folder(&download)?;
    let (archives, lists) = (download.join("archives"), download.join("lists"));
    fs::create_dir_all(&archives).map_err(unusable)?;
    fs::create_dir_all(lists.join("partial")).map_err(unusable)?;
    let apt = || match architecture {
        None => Step::new("apt-get"),
        // Uses separate lists for the foreign architecture, so that the system's stay as they are.
        Some(name) => Step::new("apt-get")
            .args(["-o", &format!("APT::Architecture={name}")])
            .args(["-o", &format!("APT::Architectures={name}")])
            .args(["-o", &format!("Dir::State::Lists={}", lists.display())])
            .args(["-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="]),
    };
    if architecture.is_some() {
        apt().args(["update", "-qq"]).run()?;
    }
    apt().args(["download", "-qq"]).args(packages).within(&archives).run()?;
    for archive in paths_in(&archives)? {
        Step::new("dpkg-deb").arg("-x").arg(archive).arg(folder).run()?;
    }
    remove_folder(&download)
}

/// Installs those of `packages` that are missing.
fn install(packages: &[&str]) -> Result<()> {
    let state = |name: &&&str| {
        let query = Step::new("dpkg-query").args(["-W", "-f=${db:Status-Abbrev}", name]);
        query.quiet().read().is_ok_and(|text| text.starts_with("ii"))
    };
    let missing: Vec<_> = packages.iter().filter(|name| !state(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Step::new("apt-get")
        .args(["install", "-y", "-qq", "--no-install-recommends"])
        .args(missing)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .run()
}

/// The full version, from the lines `package | version | source` of `apt-cache madison`.
fn listed_version<'a>(listed: &'a str, version: &str) -> Option<&'a str> {
    let versions = listed.lines().filter_map(|line| line.split('|').nth(1)).map(str::trim);
    versions.into_iter().find(|full| is_release_of(full, version))
}

/// The name of a toolchain, from the lines `name (active, default)` of `rustup toolchain list`.
fn rustup_toolchain<'a>(listed: &'a str, version: &str) -> Option<&'a str> {
    let names = listed.lines().filter_map(|line| line.split_whitespace().next());
    names.into_iter().find(|name| is_release_of(name, version))
}

/// Whether `full` is `version`, or a patch release or build of it.
fn is_release_of(full: &str, version: &str) -> bool {
    full.strip_prefix(version).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_in_debians_list() {
        let listed = " rustc-web | 1.96.0+dfsg1-1 | http://mirror bookworm-security/main\n \
                      rustc-web | 1.85.0+dfsg3-1 | http://mirror bookworm/main amd64 Packages\n";
        assert_eq!(listed_version(listed, "1.85"), Some("1.85.0+dfsg3-1"));
        assert_eq!(listed_version(listed, "1.8"), None);
        assert_eq!(listed_version("", "1.85"), None);
    }

    #[test]
    fn the_toolchain_is_found_in_rustups_list() {
        let listed = "stable-x86_64-unknown-linux-gnu (active, default)\n\
                      1.85.1-x86_64-unknown-linux-gnu\n1.86-x86_64-unknown-linux-gnu\n";
        let found = rustup_toolchain(listed, "1.85");
        assert_eq!(found, Some("1.85.1-x86_64-unknown-linux-gnu"));
        assert_eq!(rustup_toolchain(listed, "1.86"), Some("1.86-x86_64-unknown-linux-gnu"));
        assert_eq!(rustup_toolchain(listed, "1.8"), None);
        assert_eq!(rustup_toolchain("no installed toolchains", "1.85"), None);
    }
}
