//! Requests for a dump, and the key-values of the dump about them: no more than [`MOST_TOLD`],
//! however often and with how much somebody asks.

use nettrace_event::keys;

use crate::shared::channel::Sender;

/// The number of bytes of names, keys and values that a dump has of its triggers.
const MOST_TOLD: usize = 64 << 10;
/// The number of bytes that count of a trigger's name.
const MOST_OF_NAME: usize = 1 << 10;

/// A trigger that a dump is owed to.
pub(super) struct DumpRequest {
    name: String,
    key_values: Vec<(String, String)>,
    /// The number of key-values without room.
    left_out: u64,
    /// Whether the dump does not wait for what comes after.
    is_urgent: bool,
    /// Closed when the dump is there.
    done: Option<Sender<()>>,
}

impl DumpRequest {
    pub(super) fn new(
        name: &str,
        key_values: &[(&str, &str)],
        is_urgent: bool,
        done: Option<Sender<()>>,
    ) -> Self {
        let mut room = MOST_TOLD - MOST_OF_NAME;
        let fits = |&&(key, value): &&(&str, &str)| {
            let left = room.checked_sub(key.len().saturating_add(value.len()));
            room = left.unwrap_or(room);
            left.is_some()
        };
        let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        let kept: Vec<_> = key_values.iter().filter(fits).map(owned).collect();
        let left_out = (key_values.len() - kept.len()) as u64;
        Self { name: short(name).to_owned(), key_values: kept, left_out, is_urgent, done }
    }
}

/// The part of a trigger's name that counts.
pub(super) fn short(name: &str) -> &str {
    let end = (0..=name.len().min(MOST_OF_NAME)).rev().find(|&end| name.is_char_boundary(end));
    &name[..end.unwrap_or(0)]
}

/// The triggers of one dump.
#[derive(Default)]
pub(super) struct OwedDump {
    names: Vec<String>,
    key_values: Vec<(String, String)>,
    bytes: usize,
    /// The number of triggers without room.
    more: u64,
    /// The number of key-values without room.
    left_out: u64,
    pub(super) is_urgent: bool,
    /// Dropped when the dump is there, which wakes those who wait for it.
    waiting: Vec<Sender<()>>,
}

impl OwedDump {
    pub(super) fn add(&mut self, request: DumpRequest) {
        let DumpRequest { name, key_values, left_out, is_urgent, done } = request;
        self.is_urgent |= is_urgent;
        self.waiting.extend(done);
        self.left_out += left_out;
        let pairs = key_values.iter().map(|(key, value)| key.len() + value.len());
        let bytes = self.bytes + name.len() + pairs.sum::<usize>();
        if bytes > MOST_TOLD {
            self.more += 1;
            self.left_out += key_values.len() as u64;
            return;
        }
        self.bytes = bytes;
        self.names.push(name);
        self.key_values.extend(key_values);
    }

    /// The name of the first.
    pub(super) fn name(&self) -> &str {
        self.names.first().map_or("", |name| name)
    }

    /// The dump's key-values about them.
    pub(super) fn told(&self) -> Vec<(String, String)> {
        let names = (keys::TRIGGER.to_owned(), self.names.join(", "));
        let counts = [(keys::TRIGGER_MORE, self.more), (keys::TRIGGER_LEFT_OUT, self.left_out)];
        let counts = counts.into_iter().filter(|(_, count)| *count > 0);
        let counts = counts.map(|(key, count)| (key.to_owned(), count.to_string()));
        [names].into_iter().chain(counts).chain(self.key_values.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_dump_tells_has_a_bound() {
        let huge = "é".repeat(MOST_TOLD);
        let mut owed = OwedDump::default();
        owed.add(DumpRequest::new(
            &huge,
            &[("before", "1"), ("huge", &huge), ("after", "2")],
            false,
            None,
        ));
        assert_eq!(owed.name().len(), MOST_OF_NAME);
        for number in 0..100_000_u64 {
            owed.add(DumpRequest::new("x", &[("number", &number.to_string())], number == 7, None));
        }
        assert!(owed.is_urgent && owed.bytes <= MOST_TOLD);
        let (kept, more) = (owed.names.len() as u64, owed.more);
        assert_eq!(kept + more, 100_001);
        let told = owed.told();
        let value = |key: &str| told.iter().find(|(it, _)| it == key).map(|(_, value)| &**value);
        assert_eq!((value("before"), value("huge"), value("after")), (Some("1"), None, Some("2")));
        assert_eq!(value("nettrace.trigger.more"), Some(&*more.to_string()));
        assert_eq!(value("nettrace.trigger.left_out"), Some(&*(more + 1).to_string()));
    }
}
