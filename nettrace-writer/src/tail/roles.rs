//! The roles of event types in a decision.

use std::time::Duration;

use foldhash::HashMap;
use nettrace_event::{
    Outcome, keys,
    role::{Role, span_name},
};
use nettrace_format::{Metadata, Type, spelling::time_unit, v6};

use crate::tail::blocks::Malformed;

/// What a type of spans is kept for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// For a failure.
    Failed,
    /// For a failure, and if it takes so long.
    Slow(Duration),
}

impl Keep {
    /// From the value of the [key](keys::TAIL).
    fn parse(text: &str) -> Option<Self> {
        if text == "failed" {
            return Some(Self::Failed);
        }
        let (number, unit) = time_unit(text)?;
        let is_digits = number.bytes().all(|byte| byte.is_ascii_digit());
        let number = number.parse().ok().filter(|_| is_digits)?;
        Some(Self::Slow(match unit {
            1_000 => Duration::from_micros(number),
            1_000_000 => Duration::from_millis(number),
            1_000_000_000 => Duration::from_secs(number),
            _ => return None,
        }))
    }

    /// The least duration in ticks that is slow.
    fn ticks(self, per_second: u64) -> u64 {
        match self {
            Self::Failed => u64::MAX,
            Self::Slow(duration) => in_ticks(duration.as_nanos(), per_second),
        }
    }
}

fn in_ticks(nanos: u128, per_second: u64) -> u64 {
    let ticks = nanos.saturating_mul(per_second.into()) / 1_000_000_000;
    ticks.try_into().unwrap_or(u64::MAX)
}

/// A type of spans that asks, by its names.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) provider: String,
    pub(super) span: String,
    pub(super) keep: Keep,
}

/// What a type of events means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meaning {
    /// Start, Stop or Single. An event inside a span means something if its level is Error or
    /// above.
    pub(super) role: Role,
    /// The least ticks that are slow, if the type asks.
    pub(super) asks: Option<u64>,
    /// Where the duration of a single event is in the payload.
    duration: Option<usize>,
    outcome: Option<(usize, Text)>,
    per_second: u64,
}

/// How a text is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    Utf8,
    Utf16,
    CountedUtf8,
    CountedUtf16,
}

impl Meaning {
    /// The duration that the payload of a single event says, in ticks: 0 if it says none.
    pub(super) fn duration(&self, payload: &[u8]) -> u64 {
        let nanos = self.duration.and_then(|at| payload.get(at..)?.first_chunk());
        let nanos = nanos.copied().map_or(0, u64::from_le_bytes);
        in_ticks(nanos.into(), self.per_second)
    }

    /// How a span ended. `None` if the event does not say.
    pub(super) fn outcome(&self, payload: &[u8]) -> Option<Outcome> {
        let (at, text) = self.outcome?;
        text.decode(payload.get(at..)?)
    }
}

impl Text {
    /// The outcome that the text at the start of these bytes says. Texts of outcomes are ASCII.
    fn decode(self, bytes: &[u8]) -> Option<Outcome> {
        let unit_size = if matches!(self, Self::Utf8 | Self::CountedUtf8) { 1 } else { 2 };
        let is_counted = matches!(self, Self::CountedUtf8 | Self::CountedUtf16);
        let bytes = if is_counted {
            let (count, units) = bytes.split_first_chunk()?;
            units.get(..usize::from(u16::from_le_bytes(*count)) * unit_size)?
        } else {
            bytes
        };
        let units = bytes.chunks_exact(unit_size).map(|unit| match *unit {
            [low, high] => u16::from_le_bytes([low, high]),
            _ => unit[0].into(),
        });
        let text = units.take_while(|unit| is_counted || *unit != 0);
        Outcome::parse(text.map(|unit| char::from_u32(unit.into()).unwrap_or('\u{fffd}')))
    }
}

/// What the types of a stream mean, by their ids. Types that mean nothing are not there.
#[derive(Debug)]
pub(super) struct Roles {
    types: HashMap<u32, Meaning>,
    per_second: u64,
}

impl Roles {
    pub(super) fn new(per_second: u64) -> Self {
        Self { types: HashMap::default(), per_second }
    }

    pub(super) fn get(&self, id: u32) -> Option<&Meaning> {
        self.types.get(&id)
    }

    /// Takes over the types of a block with this body.
    pub(super) fn define(&mut self, body: &[u8], asked: &[Asked]) -> Result<(), Malformed> {
        v6::read_metadata_rows(body, 0, |row| {
            let of = row.metadata.filter(|of| !of.is_damaged).ok_or(Malformed)?;
            match meaning(&of, asked, self.per_second) {
                Some(meaning) => drop(self.types.insert(of.id, meaning)),
                None => drop(self.types.remove(&of.id)),
            }
            Ok(())
        })
    }
}

fn meaning(of: &Metadata, asked: &[Asked], per_second: u64) -> Option<Meaning> {
    let value = |key| of.value(key);
    let has = |(key, text): (&'static str, &str)| value(key) == Some(text);
    let role = Role::stated(of.opcode, || has(keys::SINGLE));
    let span = match role {
        Some(Role::Single) => &*of.name,
        // A session that began within the span is told late: it does not know the duration.
        Some(Role::Start) if has(keys::LATE) => return None,
        Some(Role::Start | Role::Stop) => span_name(&of.name),
        None if of.level <= 2 => &of.name,
        _ => return None,
    };
    let role = role.unwrap_or(Role::Inside);
    let by_name = asked.iter().find(|asked| asked.provider == of.provider && asked.span == span);
    let keep = by_name.map(|asked| asked.keep).or_else(|| Keep::parse(value(keys::TAIL)?));
    let asks = keep.filter(|_| role.is_edge()).map(|keep| keep.ticks(per_second));
    Some(Meaning { role, asks, duration: duration(of), outcome: outcome(of), per_second })
}

fn duration(of: &Metadata) -> Option<usize> {
    of.find("duration").filter(|(_, ty)| **ty == Type::UInt64).map(|(at, _)| at)
}

fn outcome(of: &Metadata) -> Option<(usize, Text)> {
    let (at, ty) = of.find("outcome")?;
    let text = match ty {
        Type::Utf8String => Text::Utf8,
        Type::Utf16String => Text::Utf16,
        Type::Array(element) if **element == Type::Utf8CodeUnit => Text::CountedUtf8,
        Type::Array(element) if **element == Type::Utf16CodeUnit => Text::CountedUtf16,
        _ => return None,
    };
    Some((at, text))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Keep, Outcome, Text};

    #[test]
    fn outcomes() {
        let of = |text: Text, bytes: &[u8]| text.decode(bytes);
        assert_eq!(of(Text::Utf8, b"ok\0err\0"), Some(Outcome::Ok));
        assert_eq!(of(Text::Utf16, b"e\0r\0r\0\0\0"), Some(Outcome::Err));
        assert_eq!(of(Text::CountedUtf8, b"\x09\0cancelledok"), Some(Outcome::Cancelled));
        assert_eq!(of(Text::CountedUtf16, b"\x02\0o\0k\0!"), Some(Outcome::Ok));
        // Another text of the same first letter, a unit beyond ASCII, a text that is cut.
        assert_eq!(of(Text::Utf8, b"okay\0"), None);
        assert_eq!(of(Text::Utf16, b"o\x01k\0\0\0"), None);
        assert_eq!(of(Text::CountedUtf16, b"\x03\0o\0k\0"), None);
        assert_eq!(of(Text::CountedUtf8, b"\x02"), None);
    }

    #[test]
    fn values_of_the_key() {
        let slow = |duration| Some(Keep::Slow(duration));
        assert_eq!(Keep::parse("failed"), Some(Keep::Failed));
        assert_eq!(Keep::parse("250ms"), slow(Duration::from_millis(250)));
        assert_eq!(Keep::parse("9us"), slow(Duration::from_micros(9)));
        assert_eq!(Keep::parse("2s"), slow(Duration::from_secs(2)));
        for other in ["", "ms", "250", "2.5s", "-1s", "1h", "99999999999999999999s", "Failed"] {
            assert_eq!(Keep::parse(other), None, "{other}");
        }
        assert_eq!(Keep::Slow(Duration::from_millis(3)).ticks(2_000_000_000), 6_000_000);
        assert_eq!(Keep::Slow(Duration::MAX).ticks(2_000_000_000), u64::MAX);
        assert_eq!(Keep::Failed.ticks(1), u64::MAX);
    }
}
