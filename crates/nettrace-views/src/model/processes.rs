//! The names of the processes of a trace.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    iter,
};

use nettrace_reader::{Event, Trace};

/// The keys that name a process: the first one that a trace has.
const NAMES: [&str; 2] = ["service.name", "process.executable.name"];

/// The characters of a name.
const MOST: usize = 100;

/// The process that a trace names.
#[must_use]
pub fn process_of(trace: &Trace) -> Option<u64> {
    trace.value("ProcessId").and_then(|id| id.parse().ok())
}

/// The OS id of the process that an event is about.
#[must_use]
pub fn process_id(event: &Event<'_>) -> Option<u64> {
    event.thread().process_id.or_else(|| process_of(event.trace()))
}

/// The processes that a trace names, and how they are called: by `service.name`, or else by their
/// programs. A trace that was merged has the number of a recording before each key in which
/// recordings differ, and one that was merged of such traces has two numbers.
#[derive(Clone, Debug, Default)]
pub struct Processes {
    all: Vec<(Option<u64>, String)>,
    /// How the processes of `all` are spelled.
    spelled: HashMap<u64, String>,
}

impl Processes {
    /// Those of a trace.
    #[must_use]
    pub fn of(trace: &Trace) -> Self {
        let names = NAMES.map(|name| {
            let all = trace.key_values.iter().map(|(key, value)| (recording_and_key(key), value));
            let own = all.filter(|((_, key), value)| *key == name && !value.trim().is_empty());
            own.map(|((recording, _), name)| (recording, name.trim())).collect::<HashMap<_, _>>()
        });
        let (mut all, mut seen) = (Vec::new(), HashSet::new());
        let ids = || {
            let all = trace.key_values.iter().map(|(key, id)| (recording_and_key(key), id));
            all.filter(|((_, key), _)| *key == "ProcessId").map(|((of, _), id)| (of, id))
        };
        // The last of equal keys counts.
        let last: HashMap<&str, &String> = ids().collect();
        for (recording, _) in ids() {
            let id: Option<u64> = last[recording].parse().ok();
            if !seen.insert(id) {
                continue;
            }
            let name = names.iter().find_map(|own| {
                let mut recordings = iter::successors(Some(recording), |it| without_last(it));
                recordings.find_map(|recording| own.get(recording))
            });
            let name: String = name.map_or("", |name| *name).chars().take(MOST).collect();
            all.push((id, name));
        }
        let mut counts = HashMap::<&str, usize>::new();
        all.iter().for_each(|(_, name)| *counts.entry(name).or_default() += 1);
        let named = all.iter().filter(|(_, name)| !name.is_empty());
        let spelled = named.filter_map(|(id, name)| {
            let (id, is_alone) = ((*id)?, counts[&**name] == 1);
            Some((id, if is_alone { name.clone() } else { format!("{name} {id}") }))
        });
        let spelled = spelled.collect();
        Self { all, spelled }
    }

    /// The processes that have a name, and their names. Two may be called the same.
    pub fn named(&self) -> impl Iterator<Item = (Option<u64>, &str)> {
        let all = self.all.iter().map(|(process, name)| (*process, &**name));
        all.filter(|(_, name)| !name.is_empty())
    }

    /// The name of a process. Another one may have the same.
    #[must_use]
    pub fn name(&self, process: Option<u64>) -> Option<&str> {
        self.named().find(|(id, _)| *id == process).map(|(_, name)| name)
    }

    /// What tells a process from the others: how it is [spelled](Self::spelled) if there are
    /// several, and nothing if there is one.
    #[must_use]
    pub fn told_apart(&self, process: Option<u64>) -> Option<Cow<'_, str>> {
        process.filter(|_| self.all.len() > 1).map(|id| self.spelled(id))
    }

    /// The name of a process, with its id if another one has the same name, or its id alone.
    #[must_use]
    pub fn spelled(&self, id: u64) -> Cow<'_, str> {
        self.spelled.get(&id).map_or_else(|| id.to_string().into(), |name| name.into())
    }
}

/// The recording of a trace that has a key-value, and the key in that recording: of several traces,
/// `1/customer` is that of the first, `1/` and `customer`. If that was merged, too, it is
/// `1/2/customer`. What all recordings have is of `""`.
#[must_use]
pub fn recording_and_key(key: &str) -> (&str, &str) {
    let mut own = key;
    while let Some((number, rest)) = own.split_once('/') {
        if number.is_empty() || !number.bytes().all(|digit| digit.is_ascii_digit()) {
            break;
        }
        own = rest;
    }
    (&key[..key.len() - own.len()], own)
}

/// The recordings that a recording is one of.
fn without_last(recording: &str) -> Option<&str> {
    let all = recording.strip_suffix('/')?;
    Some(&all[..all.rfind('/').map_or(0, |at| at + 1)])
}

#[cfg(test)]
mod tests {
    use nettrace_reader::Reader;

    use super::Processes;

    fn told_apart(pairs: &[(&str, &str)]) -> Vec<Option<String>> {
        let pairs = pairs.iter().map(|(key, value)| (key.to_string(), value.to_string()));
        let mut trace = Reader::new(&nettrace_reader::example()[..]).unwrap().trace().clone();
        trace.key_values = pairs.collect();
        let processes = Processes::of(&trace);
        let told = |id| processes.told_apart(Some(id)).map(Into::into);
        [7, 8, 9].map(told).into()
    }

    #[test]
    fn a_service_a_program_or_an_id() {
        let names = |names: [&str; 3]| names.map(|name| Some(name.to_owned())).to_vec();
        let ids = [("1/ProcessId", "7"), ("2/ProcessId", "8"), ("3/ProcessId", "9")];
        assert_eq!(told_apart(&ids), names(["7", "8", "9"]));
        let one_program = [&ids[..], &[("process.executable.name", "shop")]].concat();
        assert_eq!(told_apart(&one_program), names(["shop 7", "shop 8", "shop 9"]));
        let services =
            [&one_program[..], &[("1/service.name", "front"), ("2/service.name", "back")]].concat();
        assert_eq!(told_apart(&services), names(["front", "back", "shop"]));
        // Merged of a merged trace and another one.
        let nested = [
            ("1/1/ProcessId", "7"),
            ("1/2/ProcessId", "8"),
            ("2/ProcessId", "9"),
            ("1/1/service.name", "front"),
            ("1/service.name", " back "),
            ("x/service.name", "no recording"),
            ("service.name", "other"),
        ];
        assert_eq!(told_apart(&nested), names(["front", "back", "other"]));
        let twice = [("ProcessId", "8"), ("ProcessId", "7")];
        assert_eq!(told_apart(&twice), [None, None, None]);
        // One process need not be told from others.
        assert_eq!(told_apart(&[("ProcessId", "7"), ("service.name", "a")]), [None, None, None]);
    }
}
