//! A kernel with user_events, and the tests that need one.
//!
//! The lane `vm` builds the test programs whose names start with `live`. It boots the kernel in
//! QEMU's emulation, runs the programs there as root, and passes on what they print. `cargo xtask
//! vm --shell COMMAND` does the same with any command, in the current folder.
//!
//! Code map: [`packages`] installs the tools. [`mod@kernel`] builds the kernel once and keeps it.
//! [`machine`] boots it for one job. The recipe, which is the kernel's configuration and first
//! program, is in `vm/` at the root of the workspace.
//!
//! If the tools are absent and cannot be installed, the lane says so and passes. With
//! `NETTRACE_VM=required` in the environment, as in CI, it fails instead.

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

/// The variable that turns a skip into an error if its value is `required`.
const REQUIRED: &str = "NETTRACE_VM";

/// The time limit of a job in seconds, unless `NETTRACE_VM_SECONDS` says otherwise.
const SECONDS: u64 = 600;

/// How the names of temporary folders begin. The id of the process follows.
const TEMPORARY: &str = "running-";

/// How the names of the tests that run here begin.
const PREFIX: &str = "live";

/// The lane: runs every live test of every member.
pub(crate) fn run(workspace: &Workspace, tally: &mut Tally) -> Result<()> {
    let Some(kernel) = kernel(workspace)? else { return Ok(()) };
    let programs = live_programs(workspace)?;
    if programs.is_empty() {
        return Err(Error::Nothing(format!("no test program's name starts with `{PREFIX}`")));
    }

    let mut script = String::from("status=0\n");
    for Program { folder, path } in &programs {
        // One after the other, because they mount, unmount, and count what the whole system has.
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

/// A test program, and the folder that it expects to run in.
#[derive(Debug, PartialEq)]
struct Program {
    folder: PathBuf,
    path: PathBuf,
}

/// The kernel. `None` if it is neither available nor required.
fn kernel(workspace: &Workspace) -> Result<Option<PathBuf>> {
    let found = packages::ready().and_then(|()| kernel::built(workspace));
    match found {
        Ok(kernel) => Ok(Some(kernel)),
        Err(Error::Missing(why)) if env::var(REQUIRED).is_ok_and(|value| value == "required") => {
            Err(Error::Missing(format!("{why}; {REQUIRED}=required turns this into an error")))
        }
        Err(Error::Missing(why)) => {
            println!("skipped: {why}");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Builds the live tests of all members.
fn live_programs(workspace: &Workspace) -> Result<Vec<Program>> {
    let tests = workspace.packages.iter().flat_map(|package| &package.tests);
    let chosen: Vec<&str> =
        tests.filter(|name| name.starts_with(PREFIX)).flat_map(|name| ["--test", name]).collect();
    if chosen.is_empty() {
        return Ok(Vec::new());
    }
    let build = || {
        // With the features of lane `test`, what that has built serves here too.
        let step = Step::cargo().args(["test", "--no-run", "--locked"]);
        step.args(["--workspace", "--all-features"]).args(&chosen)
    };
    // Builds twice: first to show the compiler's messages, then to learn where the programs are.
    build().run()?;
    let messages = build().args(["--message-format=json"]).quiet().read()?;
    Ok(messages.lines().filter_map(executable).collect())
}

/// The program that a message of cargo names, if it is a live test.
fn executable(message: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(message).ok()?;
    let is_live = message["target"]["name"].as_str()?.starts_with(PREFIX);
    let is_test = message["target"]["kind"][0] == "test";
    let path = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    (is_live && is_test).then_some(Program { folder, path })
}

fn limit() -> Duration {
    let seconds = env::var("NETTRACE_VM_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(SECONDS))
}

/// `path` as one word for a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

fn file_error(path: &Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
    |source| Error::File { path: path.to_owned(), source }
}

/// Whether a process other than this one has the id. A killed process may have had our id before.
fn is_running(process: &str) -> bool {
    process != std::process::id().to_string() && Path::new("/proc").join(process).exists()
}

/// A folder that is removed on drop.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    /// Makes a new, empty folder in `parent`, named after this process. First removes folders of
    /// processes that were killed, because each may hold the source of a kernel.
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
        // A failure is harmless. The folder is below the target folder or the cache, where `cargo
        // clean` or the user can remove it.
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
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/some/Cargo.toml",
                "target":{{"kind":["{kind}"],"name":"{name}"}},
                "executable":"/t/debug/deps/{name}-1"}}"#
            )
        };
        let found = executable(&message("test", "live_events"));
        let (folder, path) = ("/w/some".into(), "/t/debug/deps/live_events-1".into());
        assert_eq!(found, Some(Program { folder, path }));
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
        // Process ids do not go that high.
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
