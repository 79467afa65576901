//! Events as the reference reader shows them: names with opcodes, ids in the widths that it has.

use std::collections::HashMap;

use nettrace_reader::{Event, Metadata, Trace, WallTime};

/// Turns events into what is shown of them. Remembers the processor of each event type's last
/// event, which stands in where an event has none, as the reference reader has it.
#[derive(Debug)]
pub(crate) struct Shower {
    major_version: u32,
    processors: HashMap<u32, u8>,
}

/// The columns of one event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    pub(crate) event_id: u16,
    pub(crate) opcode: u8,
    /// As 32 bits; of the trace if the thread has none, 0 if that has none either.
    pub(crate) process: i32,
    /// The operating system's id, as 32 bits; -1 where it has none.
    pub(crate) thread: i32,
    pub(crate) processor: u8,
    pub(crate) milliseconds: f64,
}

impl Shower {
    /// For events of a trace of this version of the format.
    pub(crate) fn new(major_version: u32) -> Self {
        Self { major_version, processors: HashMap::new() }
    }

    pub(crate) fn show(&mut self, event: &Event<'_>) -> Shown {
        let header = event.header;
        // Before version 6, where an event is about another thread than the one that recorded it,
        // the reference has no processor for it.
        let stated = match self.major_version {
            ..6 if header.thread != header.capture_thread => u32::MAX,
            _ => header.processor,
        };
        let processor = match (stated, self.processors.get(&header.metadata_id)) {
            (u32::MAX, last) => last.copied().unwrap_or(0),
            (processor, Some(last)) if *last == processor as u8 => *last,
            (processor, _) => {
                self.processors.insert(header.metadata_id, processor as u8);
                processor as u8
            }
        };
        let thread = event.thread();
        Shown {
            event_id: event.metadata().event_id as u16,
            opcode: opcode(event),
            process: match thread.process_id {
                Some(id) => id as i32,
                None => process_id(event.trace()),
            },
            thread: thread.os_thread_id.map_or(-1, |id| id as i32),
            processor,
            milliseconds: event.trace().milliseconds(header.timestamp),
        }
    }
}

/// The process that the trace is of; 0 if it does not say.
pub(crate) fn process_id(trace: &Trace) -> i32 {
    trace.value("ProcessId").and_then(|id| id.parse().ok()).unwrap_or(0)
}

/// What an event marks, with what its name implies where neither labels nor metadata say it.
pub(crate) fn opcode(event: &Event<'_>) -> u8 {
    match event.opcode() {
        0 if event.metadata().opcode.is_none() => {
            let labelled = event.labels().iter().any(is_opcode);
            if labelled { 0 } else { implied_opcode(&event.metadata().name) }
        }
        opcode => opcode,
    }
}

fn is_opcode(label: &nettrace_reader::Label) -> bool {
    matches!(label, nettrace_reader::Label::OpCode(_))
}

/// What the events of a type mark, where their labels do not say otherwise.
pub(crate) fn type_opcode(metadata: &Metadata) -> u8 {
    metadata.opcode.unwrap_or_else(|| implied_opcode(&metadata.name))
}

/// The display name: without the suffix that the opcode says already, and with the opcode behind
/// it.
pub(crate) fn name(metadata: &Metadata, opcode: u8) -> String {
    let name = &metadata.name;
    if name.is_empty() {
        // The reference takes an event without id or name for one of a text alone.
        if metadata.event_id as u16 == 0 {
            return "EventWriteString".to_owned();
        }
        return format!("EventID({})", metadata.event_id as u16);
    }
    let own = type_opcode(metadata);
    let base = match own {
        1 => strip_suffix(name, "start").unwrap_or(name),
        2 => strip_suffix(name, "stop").unwrap_or(name),
        _ => name,
    };
    // The reference has two lists of words: one for the opcode of the type, one for that of a
    // label.
    let words = if opcode == own { TYPE_OPCODES } else { LABEL_OPCODES };
    match (opcode, words.get(usize::from(opcode))) {
        (0, _) => base.to_owned(),
        (_, Some(word)) => format!("{base}/{word}"),
        (_, None) if opcode == own => format!("{base}/{opcode}"),
        (_, None) => format!("{base}/Opcode({opcode})"),
    }
}

const TYPE_OPCODES: [&str; 10] = [
    "Info",
    "Start",
    "Stop",
    "DataCollectionStart",
    "DataCollectionStop",
    "Extension",
    "Reply",
    "Resume",
    "Suspend",
    "Transfer",
];

const LABEL_OPCODES: [&str; 10] = [
    "Info",
    "Start",
    "Stop",
    "DCStart",
    "DCStop",
    "Extension",
    "Reply",
    "Resume",
    "Suspend",
    "Send",
];

fn implied_opcode(name: &str) -> u8 {
    if strip_suffix(name, "start").is_some() {
        1
    } else if strip_suffix(name, "stop").is_some() {
        2
    } else {
        0
    }
}

fn strip_suffix<'a>(name: &'a str, suffix: &str) -> Option<&'a str> {
    let at = name.len().checked_sub(suffix.len())?;
    let (base, end) = name.split_at_checked(at)?;
    end.eq_ignore_ascii_case(suffix).then_some(base)
}

/// A time of 100 ns units since 1601, in ISO 8601 with seven decimals.
pub(crate) fn file_time(units: u64) -> String {
    match WallTime::from_file_time(units) {
        Some(time) => format!("{}{:04}Z", &time.to_string()[..23], units % 10_000),
        None => format!("<<< {units} units of 100 ns since 1601 >>>"),
    }
}

/// A GUID in its usual text form; the first three groups are little-endian.
pub(crate) fn guid(bytes: &[u8; 16]) -> String {
    let hex =
        |order: &[usize]| order.iter().map(|i| format!("{:02x}", bytes[*i])).collect::<String>();
    format!(
        "{}-{}-{}-{}-{}",
        hex(&[3, 2, 1, 0]),
        hex(&[5, 4]),
        hex(&[7, 6]),
        hex(&[8, 9]),
        hex(&[10, 11, 12, 13, 14, 15])
    )
}

#[cfg(test)]
mod tests {
    use nettrace_reader::Metadata;

    #[test]
    fn names() {
        let check = |name: &str, own, opcode, shown: &str| {
            let metadata =
                Metadata { name: name.into(), opcode: own, event_id: 9, ..Metadata::default() };
            assert_eq!(super::name(&metadata, opcode), shown);
        };
        check("Work", None, 0, "Work");
        check("WorkStart", None, 1, "Work/Start");
        check("WORKSTOP", None, 2, "WORK/Stop");
        check("WorkStart", Some(0), 0, "WorkStart");
        check("WorkStart", Some(2), 2, "WorkStart/Stop");
        check("Start", None, 1, "/Start");
        check("Work", Some(24), 24, "Work/24");
        check("Work", Some(9), 9, "Work/Transfer");
        check("Work", Some(3), 9, "Work/Send");
        check("Work", None, 24, "Work/Opcode(24)");
        check("WorkStart", None, 3, "Work/DCStart");
        check("", Some(1), 1, "EventID(9)");
        let text = Metadata { opcode: Some(3), ..Metadata::default() };
        assert_eq!(super::name(&text, 3), "EventWriteString");
        check("éstart", None, 1, "é/Start");
        check("é", None, 0, "é");
    }

    #[test]
    fn guids() {
        let bytes = std::array::from_fn(|i| i as u8 + 1);
        assert_eq!(super::guid(&bytes), "04030201-0605-0807-090a-0b0c0d0e0f10");
    }
}
