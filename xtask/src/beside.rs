//! Runs some lanes beside the others. They run one after the other, each in a process of its own.
//! Their output is printed when all are done, so that it does not mix with that of the others.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{
    ci::Lane,
    error::{Error, Result},
    failures::Failures,
    step::{Tally, end_group},
    workspace::Workspace,
};

/// How often to look whether a lane has ended.
const PACE: Duration = Duration::from_millis(200);

/// A lane that has ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) name: &'static str,
    pub(crate) outcome: Result<()>,
    pub(crate) time: Duration,
    /// What it printed.
    pub(crate) text: String,
    /// The tests that it ran for the first time.
    pub(crate) tally: Tally,
}

impl Done {
    /// A lane that could not be run.
    fn unusable(name: &'static str, begun: Instant, error: Error) -> Self {
        let (outcome, time) = (Err(error), begun.elapsed());
        Self { name, outcome, time, text: String::new(), tally: Tally::default() }
    }
}

/// Lanes that are running.
#[derive(Debug)]
pub(crate) struct Beside {
    lanes: JoinHandle<Vec<Done>>,
    stop: mpsc::Sender<()>,
}

impl Beside {
    /// Starts the first of `lanes`. The others follow it.
    pub(crate) fn start(workspace: &Workspace, lanes: &[&Lane]) -> Result<Self> {
        let names: Vec<_> = lanes.iter().map(|lane| lane.name).collect();
        println!("\n=== beside the lanes that follow: {}", names.join(", "));
        let folder = workspace.target.join("ci");
        let unusable = |source| Error::File { path: folder.clone(), source };
        fs::create_dir_all(&folder).map_err(unusable)?;
        let (stop, stopped) = mpsc::channel();
        let lanes = thread::spawn(move || {
            let mut all = Vec::new();
            for name in names {
                let begun = Instant::now();
                let done = run(name, &folder.join(format!("{name}.log")), &stopped);
                let done = done.unwrap_or_else(|error| Some(Done::unusable(name, begun, error)));
                let Some(done) = done else { break };
                let failed = done.outcome.is_err();
                all.push(done);
                if failed {
                    break;
                }
            }
            all
        });
        Ok(Self { lanes, stop })
    }

    /// Waits for all lanes, or ends them at once. Returns those that ended by themselves.
    ///
    /// # Panics
    /// If the thread that runs them has panicked.
    pub(crate) fn wait(self, at_once: bool) -> Vec<Done> {
        if at_once {
            // The thread may have ended by now.
            let _ = self.stop.send(());
        }
        self.lanes.join().expect("the lanes beside others")
    }
}

/// Runs one lane. Returns `None` if it was stopped.
fn run(name: &'static str, log: &PathBuf, stopped: &mpsc::Receiver<()>) -> Result<Option<Done>> {
    let unusable = |source| Error::File { path: log.clone(), source };
    let output = fs::File::create(log).map_err(unusable)?;
    let errors = output.try_clone().map_err(unusable)?;
    let shown = format!("cargo xtask {name}");
    let not_started = |source| Error::Start { command: shown.clone(), source };
    let mut command = Command::new(this_program().map_err(not_started)?);
    command.args(["ci", name]).stdin(Stdio::null()).stdout(output).stderr(errors);
    // The lane leads a process group, so that cargo's children end with it.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let start = Instant::now();
    let mut child: Child = command.spawn().map_err(not_started)?;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(not_started)? {
            break status;
        }
        match stopped.recv_timeout(PACE) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => {
                end_group(&mut child);
                child.wait().map_err(not_started)?;
                return Ok(None);
            }
        }
    };
    let text = read(log)?;
    let tally = text.lines().rev().find_map(Tally::parse).unwrap_or_default();
    let mut failures = Failures::default();
    failures.read_all(&text);
    let outcome = failures.explain(match status.success() {
        true => Ok(()),
        false => Err(Error::Failed { command: shown, code: status.code() }),
    });
    Ok(Some(Done { name, outcome, time: start.elapsed(), text, tally }))
}

/// A path of this program that can be started, also after a lane has built the program again.
fn this_program() -> io::Result<PathBuf> {
    // Then the file that `current_exe` names is gone. What the system started is still there.
    let running = Path::new("/proc/self/exe");
    if running.exists() { Ok(running.to_owned()) } else { env::current_exe() }
}

fn read(path: &Path) -> Result<String> {
    let bytes = fs::read(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
    // A test may print anything, so replace what is not UTF-8.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says to this test that it is the program whose file is deleted.
    const DELETED: &str = "XTASK_TEST_DELETED";

    #[test]
    fn a_program_that_was_built_again_can_be_started() {
        if env::var_os(DELETED).is_some() {
            fs::remove_file(env::current_exe().unwrap()).unwrap();
            let list = Command::new(this_program().unwrap()).arg("--list").output().unwrap();
            assert!(list.status.success());
            return;
        }
        // Not a copy: a test beside this one may start a process while the copy is open for
        // writing. That process has it open as well until it is another program, and a file that
        // is open for writing cannot be started.
        let program = env::current_exe().unwrap();
        let other = program.with_extension(format!("deleted-{}", std::process::id()));
        fs::hard_link(program, &other).unwrap();
        let name = "beside::tests::a_program_that_was_built_again_can_be_started";
        let output =
            Command::new(&other).args([name, "--exact"]).env(DELETED, "").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("1 passed"), "{text}");
        assert!(!other.exists(), "the file was deleted");
    }
}
