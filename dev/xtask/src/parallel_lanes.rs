//! Runs a row of lanes beside the others, in a process of its own. What it prints is shown when it
//! has ended, so that it does not mix with what the others print.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use xtask::{step::Tally, workspace::Workspace};

use crate::ci::Lane;

/// Lanes that are running.
#[derive(Debug)]
pub(crate) struct ParallelLanes {
    names: Vec<&'static str>,
    child: Child,
    log: PathBuf,
    start: Instant,
}

/// Lanes that have ended.
#[derive(Debug)]
pub(crate) struct FinishedLanes {
    pub(crate) names: String,
    pub(crate) has_passed: bool,
    pub(crate) time: Duration,
    /// Their output.
    pub(crate) text: String,
    /// The tests that they ran for the first time.
    pub(crate) tally: Tally,
}

impl ParallelLanes {
    /// Starts the lanes of a row.
    pub(crate) fn start(workspace: &Workspace, lanes: &[&Lane]) -> Result<Self> {
        let names: Vec<_> = lanes.iter().map(|lane| lane.name).collect();
        println!("\n=== beside the lanes that follow: {}", names.join(", "));
        let folder = workspace.target.join("ci");
        fs::create_dir_all(&folder)?;
        let log = folder.join(format!("{}.log", names[0]));
        let output = fs::File::create(&log)?;
        let mut command = Command::new(this_program()?);
        command.arg("ci").args(&names).stdin(Stdio::null());
        command.stdout(output.try_clone()?).stderr(output);
        // It leads a process group, so that cargo's children end with it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command.spawn().with_context(|| format!("could not start {names:?}"))?;
        Ok(Self { names, child, log, start: Instant::now() })
    }

    /// Waits for the lanes.
    pub(crate) fn wait(mut self) -> Result<FinishedLanes> {
        let status = self.child.wait()?;
        // A test may print anything, so replace what is not UTF-8.
        let text = String::from_utf8_lossy(&fs::read(&self.log)?).into_owned();
        Ok(FinishedLanes {
            names: self.names.join(", "),
            has_passed: status.success(),
            time: self.start.elapsed(),
            tally: text.lines().rev().find_map(Tally::parse).unwrap_or_default(),
            text,
        })
    }

    /// Ends the lanes at once.
    pub(crate) fn stop(mut self) {
        println!("=== stopped: {}; see {}", self.names.join(", "), self.log.display());
        // `kill` is a command of every shell, but not every machine has a program of that name.
        let kill = format!("kill -KILL -{}", self.child.id());
        let _ = Command::new("sh").args(["-c", &kill]).status();
        // It is no error if it has just ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A path of this program that can be started, also after a lane has built the program again.
fn this_program() -> io::Result<PathBuf> {
    // Then the file that `current_exe` names is gone. What the system started is still there.
    let running = Path::new("/proc/self/exe");
    if running.exists() { Ok(running.to_owned()) } else { env::current_exe() }
}
