//! A disk that is soon full: a small tmpfs, which only root may mount.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use tempfile::TempDir;

/// A small tmpfs. It is unmounted on drop.
#[derive(Debug)]
pub struct SmallDisk {
    path: PathBuf,
    _directory: TempDir,
}

impl SmallDisk {
    /// Mounts a tmpfs of `kib` KiB. If this user may not, prints a line and returns `None`.
    ///
    /// # Panics
    /// If there is no room for a temporary directory.
    pub fn mount(kib: u32) -> Option<Self> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("small");
        std::fs::create_dir(&path).expect("a folder to mount at");
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"]).arg(&path);
        if !command.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
            println!("skipped: this user may not mount a small tmpfs");
            return None;
        }
        Some(Self { path, _directory: directory })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it `kib` KiB large.
    ///
    /// # Panics
    /// If the system refuses.
    pub fn resize(&self, kib: u32) {
        let options = format!("remount,size={kib}k");
        let mounted = Command::new("mount").args(["-o", &options]).arg(&self.path).status();
        assert!(mounted.expect("mount runs").success(), "{options}");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily, because a child that another test has just forked may still hold a descriptor in
        // it.
        let unmounted = Command::new("umount").arg("-l").arg(&self.path).status();
        let is_unmounted = unmounted.is_ok_and(|status| status.success());
        assert!(is_unmounted || thread::panicking(), "{} stays mounted", self.path.display());
    }
}
