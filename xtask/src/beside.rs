//! Runs some lanes beside the others. They run one after the other, each in a process of its own.
//! Their output is printed when all are done, so that it does not mix with that of the others.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{
    ci::Lane,
    error::{Error, Result},
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

/// Lanes that are running.
#[derive(Debug)]
pub(crate) struct Beside {
    lanes: JoinHandle<Result<Vec<Done>>>,
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
                let Some(done) = run(name, &folder.join(format!("{name}.log")), &stopped)? else {
                    break;
                };
                let failed = done.outcome.is_err();
                all.push(done);
                if failed {
                    break;
                }
            }
            Ok(all)
        });
        Ok(Self { lanes, stop })
    }

    /// Waits for all lanes, or ends them at once. Returns those that ended by themselves.
    pub(crate) fn wait(self, at_once: bool) -> Result<Vec<Done>> {
        if at_once {
            // The thread may have ended by now.
            let _ = self.stop.send(());
        }
        let ended = self.lanes.join();
        ended.unwrap_or_else(|_| Err(Error::Nothing("the lanes beside others panicked".into())))
    }
}

/// Runs one lane. Returns `None` if it was stopped.
fn run(name: &'static str, log: &PathBuf, stopped: &mpsc::Receiver<()>) -> Result<Option<Done>> {
    let unusable = |source| Error::File { path: log.clone(), source };
    let output = fs::File::create(log).map_err(unusable)?;
    let errors = output.try_clone().map_err(unusable)?;
    let shown = format!("cargo xtask {name}");
    let not_started = |source| Error::Start { command: shown.clone(), source };
    let mut command = Command::new(env::current_exe().map_err(not_started)?);
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
    let outcome = match status.success() {
        true => Ok(()),
        false => Err(Error::Failed { command: shown, code: status.code() }),
    };
    Ok(Some(Done { name, outcome, time: start.elapsed(), text, tally }))
}

fn read(path: &Path) -> Result<String> {
    let bytes = fs::read(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
    // A test may print anything, so replace what is not UTF-8.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
