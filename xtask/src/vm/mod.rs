//! A kernel with user_events, and the tests that need one.
//!
//! The lane `vm` builds the programs of tests whose name starts with `live`, boots the kernel under
//! QEMU's emulation, runs them inside as root and passes on what they print. `cargo xtask vm
//! --shell COMMAND` does so with any command, in the current folder.
//!
//! Code map: [`packages`] sees to the tools, [`mod@kernel`] builds the kernel once and keeps it,
//! [`machine`] boots it for one job. The recipe (configuration, first program) is in `vm/` at the
//! root of the workspace.
//!
//! Where the tools are absent and cannot be installed, the lane says so and passes, unless
//! `NETTRACE_VM=required` is in the environment, as it is in CI.

mod kernel;
mod machine;
mod packages;

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::Value;

use crate::{
    error::{Error, Result},
    step::{Step, Tally},
    workspace::{Workspace, paths_in},
};

/// The variable that turns a skip into an error, with the value `required`.
const REQUIRED: &str = "NETTRACE_VM";

/// How long a job may take, in seconds, unless `NETTRACE_VM_SECONDS` says otherwise.
const SECONDS: u64 = 600;

/// What folders are called that are there for one run only, with the id of its process behind.
const TEMPORARY: &str = "running-";

/// What test programs are called that run here.
const PREFIX: &str = "live";

/// The lane: every live test of every member.
pub(crate) fn run(workspace: &Workspace, tally: &mut Tally) -> Result<()> {
    let Some(kernel) = kernel(workspace)? else { return Ok(()) };
    let programs = live_programs(workspace)?;
    if programs.is_empty() {
        return Err(Error::Nothing(format!("no test program's name starts with `{PREFIX}`")));
    }

    let mut script = String::from("status=0\n");
    for Program { folder, path } in &programs {
        // One after the other: they mount, unmount, and count what the whole machine holds.
        script.push_str(&format!(
            "cd {}\n{} --nocapture --test-threads=1 || status=1\n",
            quoted(folder),
            quoted(path),
        ));
    }
    script.push_str("exit $status\n");

    let mut seen = Tally::default();
    let outcome = machine::run(workspace, &kernel, &script, limit(), |line| seen.read(line));
    *tally += seen;
    outcome?;
    if seen.ran() == 0 || seen.skipped > 0 {
        return Err(Error::Nothing(format!(
            "live tests ran: {}, and {} found nothing to run against, with a kernel that has \
             everything",
            seen.ran(),
            seen.skipped
        )));
    }
    Ok(())
}

/// Runs `command` in the machine's shell, as root, in the current folder.
pub(crate) fn shell(workspace: &Workspace, command: &[&str]) -> Result<()> {
    if command.is_empty() {
        return Err(Error::Missing("say what to run: `cargo xtask vm --shell COMMAND`".into()));
    }
    let Some(kernel) = kernel(workspace)? else { return Ok(()) };
    let place = env::current_dir().unwrap_or_else(|_| workspace.root.clone());
    let script = format!("cd {}\n{}\n", quoted(&place), command.join(" "));
    machine::run(workspace, &kernel, &script, limit(), |_| ())
}

/// A program of tests, and the folder that it expects to run in.
#[derive(Debug, PartialEq)]
struct Program {
    folder: PathBuf,
    path: PathBuf,
}

/// The kernel; none where it cannot be had and need not be.
fn kernel(workspace: &Workspace) -> Result<Option<PathBuf>> {
    let found = packages::ready().and_then(|()| kernel::built(workspace));
    match found {
        Ok(kernel) => Ok(Some(kernel)),
        Err(Error::Missing(why)) if env::var(REQUIRED).is_ok_and(|value| value == "required") => {
            Err(Error::Missing(format!("{why}; and {REQUIRED}=required wants it")))
        }
        Err(Error::Missing(why)) => {
            println!("skipped: {why}");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Builds the live tests of every member that has some.
fn live_programs(workspace: &Workspace) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for package in &workspace.packages {
        let tests = package.tests.iter().filter(|name| name.starts_with(PREFIX));
        let chosen: Vec<&str> = tests.flat_map(|name| ["--test", name]).collect();
        if chosen.is_empty() {
            continue;
        }
        let build = || {
            let step = Step::cargo().args(["test", "--no-run", "--locked", "-p", &package.name]);
            step.arg("--all-features").args(&chosen)
        };
        // Twice: what the compiler has to say is for people, where its programs are is for us.
        build().run()?;
        let messages = build().args(["--message-format=json"]).quiet().read()?;
        let paths = messages.lines().filter_map(executable);
        programs.extend(paths.map(|path| Program { folder: package.folder.clone(), path }));
    }
    Ok(programs)
}

/// The program in one of cargo's messages, if it is of a live test.
fn executable(message: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    let is_live = message["target"]["name"].as_str()?.starts_with(PREFIX);
    let is_test = message["target"]["kind"][0] == "test";
    let path = message["executable"].as_str()?;
    (is_live && is_test).then(|| PathBuf::from(path))
}

fn limit() -> Duration {
    let seconds = env::var("NETTRACE_VM_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(SECONDS))
}

/// `path` as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

fn file_error(path: &Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
    |source| Error::File { path: path.to_owned(), source }
}

/// Whether another process has this id; ours may have been a killed one's before.
fn is_running(process: &str) -> bool {
    process != std::process::id().to_string() && Path::new("/proc").join(process).exists()
}

/// A folder that goes away with this value.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    /// A new and empty one in `parent`, named after this process. Those of processes that were
    /// killed go first: each may hold the source of a kernel.
    fn new(parent: &Path) -> Result<Self> {
        for path in paths_in(parent)? {
            let owner = path.file_name().and_then(|name| name.to_str()?.strip_prefix(TEMPORARY));
            if owner.is_some_and(|owner| !is_running(owner)) {
                fs::remove_dir_all(&path).map_err(file_error(&path))?;
            }
        }
        let path = parent.join(format!("{TEMPORARY}{}", std::process::id()));
        fs::create_dir_all(&path).map_err(file_error(&path))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It is below the target folder or the cache: `cargo clean` and people can do it too.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_of_a_live_test_is_found_among_the_messages() {
        let message = |kind: &str, name: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","target":{{"kind":["{kind}"],"name":"{name}"}},
                "executable":"/t/debug/deps/{name}-1"}}"#
            )
        };
        let found = executable(&message("test", "live_events"));
        assert_eq!(found, Some(PathBuf::from("/t/debug/deps/live_events-1")));
        assert_eq!(executable(&message("bin", "live_events")), None);
        assert_eq!(executable(&message("test", "encoding")), None);
        assert_eq!(executable(r#"{"reason":"build-finished","success":true}"#), None);
        assert_eq!(executable("no message"), None);
    }

    #[test]
    fn any_path_is_one_word() {
        let said = Step::new("sh")
            .args(["-c", &format!("printf %s {}", quoted(Path::new("/a b/it's")))])
            .read();
        assert_eq!(said.unwrap(), "/a b/it's");
    }

    #[test]
    fn a_folder_starts_empty_and_goes_away() {
        let parent = env::temp_dir().join(format!("xtask-vm-{}", std::process::id()));
        // Ids of processes do not go that far.
        let (killed, other) = (parent.join("running-99999999"), parent.join("6.12"));
        for path in [&killed, &other, &parent.join(format!("running-{}/x", std::process::id()))] {
            fs::create_dir_all(path).unwrap();
        }
        let folder = Folder::new(&parent).unwrap();
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
        assert!(!killed.exists() && other.exists());
        let path = folder.0.clone();
        drop(folder);
        assert!(!path.exists());
        fs::remove_dir_all(parent).unwrap();
    }
}
