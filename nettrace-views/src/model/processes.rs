//! How the processes of a trace are called.

use std::borrow::Cow;

use nettrace_reader::{Event, Trace};

/// The keys that name a process: the first one that a trace has.
const NAMES: [&str; 2] = ["service.name", "process.executable.name"];

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
/// recordings differ.
#[derive(Clone, Debug, Default)]
pub struct Processes(Vec<(Option<u64>, String)>);

impl Processes {
    /// Those of a trace.
    #[must_use]
    pub fn of(trace: &Trace) -> Self {
        let mut processes = Vec::new();
        for (key, id) in &trace.key_values {
            let Some(recording) = key.strip_suffix("ProcessId") else { continue };
            let is_number = recording.strip_suffix('/').is_some_and(|it| it.parse::<u64>().is_ok());
            if !recording.is_empty() && !is_number {
                continue;
            }
            let name = NAMES.iter().find_map(|name| {
                let own = trace.value(&format!("{recording}{name}"));
                own.or_else(|| trace.value(name)).filter(|it| !it.is_empty())
            });
            processes.push((id.parse().ok(), name.unwrap_or_default().to_owned()));
        }
        Self(processes)
    }

    /// The processes that have a name, and their names. Two may be called the same.
    pub fn named(&self) -> impl Iterator<Item = (Option<u64>, &str)> {
        let all = self.0.iter().map(|(process, name)| (*process, &**name));
        all.filter(|(_, name)| !name.is_empty())
    }

    /// What tells a process from the others: how it is [spelled](Self::spelled) if there are
    /// several, and nothing if there is one.
    #[must_use]
    pub fn told_apart(&self, process: Option<u64>) -> Option<Cow<'_, str>> {
        process.filter(|_| self.0.len() > 1).map(|id| self.spelled(id))
    }

    /// The name of a process, with its id if another one has the same name, or its id alone.
    #[must_use]
    pub fn spelled(&self, id: u64) -> Cow<'_, str> {
        let name = self.named().find(|(known, _)| *known == Some(id)).map(|(_, name)| name);
        let count = self.named().filter(|(_, other)| Some(*other) == name).count();
        match name {
            Some(name) if count > 1 => format!("{name} {id}").into(),
            Some(name) => name.into(),
            None => id.to_string().into(),
        }
    }
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
        // One process need not be told from others.
        assert_eq!(told_apart(&[("ProcessId", "7"), ("service.name", "a")]), [None, None, None]);
    }
}
