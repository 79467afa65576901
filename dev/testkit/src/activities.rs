//! The tree of activities that PerfView computes of a trace, by the tool `activities` next to the
//! reference reader.

use std::{
    collections::BTreeSet,
    path::Path,
    process::{Command, Output},
};
#[cfg(unix)]
use std::{env, fs::File};

use parking_lot::Mutex;
#[cfg(unix)]
use rustix::fs::FlockOperation;
use serde_json::Value;

use crate::reference::tool;

/// An activity that stopped.
#[derive(Clone, Debug, PartialEq)]
pub struct Activity {
    /// The task, the path and fields of the Start: `ServerRequest(/#4242/1/2/,method=GET)`.
    pub name: String,
    /// The name of the Start event without `Start`.
    pub task: String,
    /// The activity id, as .NET prints it.
    pub id: String,
    /// The path in the activity id: `/#4242/1/2/`.
    pub path: String,
    /// The name of the activity that this one began in.
    pub parent: Option<String>,
    /// Milliseconds from the start of the trace.
    pub start_ms: f64,
    /// Milliseconds.
    pub duration_ms: f64,
}

impl Activity {
    fn parse(line: &str) -> Self {
        let value: Value = serde_json::from_str(line).expect(line);
        let text = |key: &str| value[key].as_str().map(str::to_owned);
        let number = |key: &str| value[key].as_f64().expect(line);
        Self {
            name: text("name").expect(line),
            task: text("task").expect(line),
            id: text("id").expect(line),
            path: text("path").expect(line),
            parent: text("parent"),
            start_ms: number("start_ms"),
            duration_ms: number("duration_ms"),
        }
    }

    /// The path of the activity that this one began in.
    pub fn parent_path(&self) -> Option<&str> {
        let (_, path) = self.parent.as_deref()?.split_once('(')?;
        path.split([',', ')']).next()
    }
}

/// The activities that [`of`] finds in a trace.
#[derive(Clone, Debug)]
pub struct Activities {
    /// The activities, in the order in which they stopped.
    pub stopped: Vec<Activity>,
    /// The number of activities that started.
    pub starts: u64,
    /// The number of activities that stopped.
    pub stops: u64,
    /// Lost events.
    pub lost: u64,
}

impl Activities {
    fn parse(text: &str) -> Self {
        let mut lines: Vec<_> = text.lines().collect();
        let totals = lines.pop().unwrap_or_default();
        let total = |name: &str| {
            let mut pairs = totals.split(' ').filter_map(|pair| pair.split_once('='));
            let value = pairs.find(|(of, _)| *of == name).map(|(_, value)| value.parse());
            value.expect(totals).expect(totals)
        };
        Self {
            stopped: lines.into_iter().map(Activity::parse).collect(),
            starts: total("starts"),
            stops: total("stops"),
            lost: total("lost"),
        }
    }

    /// The path of each activity, with that of its parent.
    ///
    /// # Panics
    /// If an activity did not stop, or if events were lost.
    #[track_caller]
    pub fn complete_tree(&self) -> BTreeSet<(String, Option<String>)> {
        assert_eq!((self.starts, self.lost), (self.stops, 0), "of {} stops", self.stops);
        let edges = self.stopped.iter();
        edges.map(|it| (it.path.clone(), it.parent_path().map(str::to_owned))).collect()
    }
}

/// Computes the activities of a trace. If the tool is absent, or cannot be installed, prints a line
/// and returns `None`.
///
/// # Panics
/// If the tool does not accept the trace.
pub fn of(trace: &Path) -> Option<Activities> {
    let tool = tool("activities")?;
    let Output { status, stdout, stderr } = run(Command::new(tool).arg(trace));
    let errors = String::from_utf8_lossy(&stderr);
    // A traceback names the tool, unless the tool has not come to run.
    let lacks_library = ["ModuleNotFoundError", "ImportError"].iter().any(|it| errors.contains(it));
    if !status.success() && (lacks_library || !errors.contains("activities.py")) {
        println!("skipped: `activities` cannot be installed: {errors}");
        return None;
    }
    assert!(status.success(), "`activities`: {errors}");
    Some(Activities::parse(&String::from_utf8(stdout).expect("UTF-8")))
}

/// Runs a command that installs what it needs when it first runs. A process runs its first one
/// while no other process does. Otherwise two would install in the same place.
fn run(command: &mut Command) -> Output {
    static IS_INSTALLED: Mutex<bool> = Mutex::new(false);
    let mut is_installed = IS_INSTALLED.lock();
    if *is_installed {
        drop(is_installed);
        return command.output().expect("`activities` starts");
    }
    #[cfg(unix)]
    let _alone = {
        let path = env::temp_dir().join("nettrace-activities.lock");
        let file = File::create(path).expect("a file to lock");
        rustix::fs::flock(&file, FlockOperation::LockExclusive).expect("a lock");
        file
    };
    *is_installed = true;
    command.output().expect("`activities` starts")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_is_an_activity() {
        let line = json!({
            "name": "a(/#7/1/2/,method=GET)",
            "task": "a",
            "id": "x",
            "path": "/#7/1/2/",
            "parent": "b(/#7/3/4/)",
            "start_ms": 1.5,
            "duration_ms": 2.0,
        });
        let found = Activities::parse(&format!("{line}\n# events=2 lost=0 starts=1 stops=1"));
        let edge = ("/#7/1/2/".to_owned(), Some("/#7/3/4/".to_owned()));
        assert_eq!(found.complete_tree(), BTreeSet::from([edge]));
        assert_eq!((found.stopped[0].start_ms, &*found.stopped[0].task), (1.5, "a"));
    }
}
