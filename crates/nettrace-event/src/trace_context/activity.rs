//! Activity ids of spans: path GUIDs, as .NET's `EventSource` makes them.

use core::fmt;

use crate::{guid::GuidText, trace_context::id::SpanId};

/// The start of the sum over the first three words of a path GUID.
const SUM_START: u32 = 0x599D_99AD;
/// The bytes before the checksum, which hold the path.
const PATH_LEN: usize = 12;
/// The byte before a number of four bytes.
const FOUR_BYTES: u64 = 0xF0;
/// Process ids that can be told apart from noise in the checksum of an unknown process have so
/// many bits.
const PROCESS_BITS: u32 = 20;

/// An activity id: the GUID by which .NET's tools recognise what belongs together.
///
/// PerfView pairs the Start and the Stop of an activity if its id is a *path GUID*. Such a GUID
/// begins with 12 bytes that hold a list of numbers, and ends in a checksum, which depends on the
/// process. [`from_span_id`](Self::from_span_id) puts the two halves of a [`SpanId`] into such a
/// list, and [`span_id`](Self::span_id) takes them out again. So the formats that have activity ids
/// but no span ids lose nothing.
///
/// ```
/// use nettrace_event::trace_context::{ActivityId, SpanId};
///
/// let span: SpanId = "0000000100000002".parse()?;
/// let id = ActivityId::from_span_id(span, 4242);
/// assert_eq!(id.to_string(), "000001f0-f000-0002-0000-00000f9ba059");
/// assert_eq!(id.path().unwrap().to_string(), "/#4242/1/2/");
/// assert_eq!(id.span_id(), Some(span));
/// # Ok::<(), nettrace_event::trace_context::IdError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActivityId {
    /// The first eight bytes of .NET's order in memory, as a little-endian number.
    low: u64,
    /// The last eight.
    high: u64,
}

impl ActivityId {
    /// The activity id of a span in the process with this id.
    ///
    /// Two spans of a process never share one. Takes a few instructions and has no branch.
    #[inline]
    #[must_use]
    pub const fn from_span_id(span: SpanId, process_id: u32) -> Self {
        let span = span.to_u64();
        let (upper, lower) = (span >> 32, span & 0xFFFF_FFFF);
        // F0, four bytes, F0, four bytes: the second number begins in the middle of this word.
        let low = FOUR_BYTES | upper << 8 | FOUR_BYTES << 40 | lower << 48;
        let rest = lower >> 16;
        let checksum = sum(low, rest) ^ process_id;
        Self { low, high: rest | (checksum as u64) << 32 }
    }

    /// The span whose activity id this is. `None` if the id does not have the form that
    /// [`from_span_id`](Self::from_span_id) gives it.
    ///
    /// The checksum is not looked at, because the process may be unknown.
    ///
    /// ```
    /// use nettrace_event::trace_context::ActivityId;
    ///
    /// let of_dotnet = ActivityId::from_bytes_le(*b"\x11\0\0\0\0\0\0\0\0\0\0\0\x6d\x97\x9d\x59");
    /// assert_eq!(of_dotnet.span_id(), None);
    /// assert_eq!(of_dotnet.path().unwrap().to_string(), "/#3795/1/1/");
    /// ```
    #[inline]
    #[must_use]
    pub const fn span_id(self) -> Option<SpanId> {
        let rest = self.high as u32 as u64;
        let lower = self.low >> 48 | rest << 16;
        let is_of_span = self.low & 0xFF00_0000_00FF == FOUR_BYTES | FOUR_BYTES << 40;
        if is_of_span && rest <= 0xFFFF {
            SpanId::from_u64((self.low >> 8) << 32 | lower)
        } else {
            None
        }
    }

    /// Whether this is a path GUID of the process with this id.
    ///
    /// Old versions of .NET leave the process out of the checksum. Their paths are valid in any
    /// process. If `process_id` is 0, the process is unknown: then the id is a path if its checksum
    /// fits a process id below 2<sup>20</sup>.
    #[must_use]
    pub const fn is_path(self, process_id: u32) -> bool {
        let process = self.process_bits();
        process == 0 || process == process_id || (process_id == 0 && process >> PROCESS_BITS == 0)
    }

    /// The path, as PerfView shows it. `None` if this is not a path GUID, or of a process with an
    /// id of 2<sup>20</sup> or more: [`path_in`](Self::path_in) shows those.
    #[must_use]
    pub const fn path(self) -> Option<ActivityPath> {
        self.path_in(0)
    }

    /// The path, as PerfView shows it, if this is a [path GUID of that process](Self::is_path).
    ///
    /// ```
    /// use nettrace_event::trace_context::{ActivityId, SpanId};
    ///
    /// let id = ActivityId::from_span_id(SpanId::from_u64(7).unwrap(), 2_000_000);
    /// assert!(id.path().is_none());
    /// assert_eq!(id.path_in(2_000_000).unwrap().to_string(), "/#2000000/0/7/");
    /// assert!(id.path_in(1).is_none());
    /// ```
    #[must_use]
    pub const fn path_in(self, process_id: u32) -> Option<ActivityPath> {
        if self.is_path(process_id) && Numbers::of(self).are_known() {
            Some(ActivityPath(self))
        } else {
            None
        }
    }

    /// The id with these bytes, in the order in which its text has them (RFC 9562, big-endian).
    /// A label of the writer takes this order.
    #[inline]
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        let Self { low, high } = Self::from_bytes_le(bytes);
        Self { low: swapped(low), high }
    }

    /// The bytes, in the order in which the text has them (RFC 9562, big-endian).
    ///
    /// ```
    /// use nettrace_event::trace_context::ActivityId;
    ///
    /// let id = ActivityId::from_bytes(*b"0123456789abcdef");
    /// assert_eq!(id.to_bytes(), *b"0123456789abcdef");
    /// assert_eq!(id.to_bytes_le(), *b"3210547689abcdef");
    /// assert_eq!(id.to_string(), "30313233-3435-3637-3839-616263646566");
    /// ```
    #[inline]
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        Self { low: swapped(self.low), high: self.high }.to_bytes_le()
    }

    /// The id with these bytes, in .NET's order: the first three groups are little-endian numbers.
    /// NetTrace files have this order.
    #[inline]
    #[must_use]
    pub const fn from_bytes_le(bytes: [u8; 16]) -> Self {
        let both = u128::from_le_bytes(bytes);
        Self { low: both as u64, high: (both >> 64) as u64 }
    }

    /// The bytes, in .NET's order: the first three groups are little-endian numbers.
    #[inline]
    #[must_use]
    pub const fn to_bytes_le(self) -> [u8; 16] {
        (self.low as u128 | (self.high as u128) << 64).to_le_bytes()
    }

    /// The process's part of the checksum: the id of the process if this is a path GUID.
    const fn process_bits(self) -> u32 {
        sum(self.low, self.high) ^ (self.high >> 32) as u32
    }
}

/// The sum of the first three words.
#[inline]
const fn sum(low: u64, high: u64) -> u32 {
    let words = (low as u32).wrapping_add((low >> 32) as u32).wrapping_add(high as u32);
    words.wrapping_add(SUM_START)
}

/// The first eight bytes of a GUID in its other order: the bytes of the first group reversed, and
/// those of the second and of the third.
#[inline]
const fn swapped(low: u64) -> u64 {
    let first = (low as u32).swap_bytes();
    let rest = (low >> 32) as u32;
    let rest = (rest & 0x00FF_00FF) << 8 | (rest >> 8) & 0x00FF_00FF;
    first as u64 | (rest as u64) << 32
}

impl fmt::Display for ActivityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        GuidText(&self.to_bytes()).fmt(f)
    }
}

impl fmt::Debug for ActivityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ActivityId({self})")
    }
}

/// The path that an [`ActivityId`] holds: `/#4242/1/60/` is number 60 within number 1 in process
/// 4242.
///
/// An activity whose path became too long for a GUID has a number of its own, behind the path of
/// one that encloses it: `/#4242/1/60$7/`. A path without a process begins with `//`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ActivityPath(ActivityId);

impl fmt::Display for ActivityPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.process_bits() {
            0 => f.write_str("/")?,
            process_id => write!(f, "/#{process_id}")?,
        }
        let mut numbers = Numbers::of(self.0);
        while let Some(Number { value, overflows }) = numbers.next() {
            write!(f, "{}{value}", if overflows { '$' } else { '/' })?;
        }
        f.write_str("/")
    }
}

/// A number of a path.
struct Number {
    value: u32,
    /// Whether it stands for all of the path that did not fit.
    overflows: bool,
}

/// The numbers of a path, read in units of four bits, the upper half of a byte first:
///
/// - 0 ends the list.
/// - 1 to 10 is that number.
/// - 11 precedes a number that overflows, which is of the following form.
/// - 12 to 15 precedes a number of 1 to 4 bytes, which begin at the next whole byte, little-endian.
///   If 12 to 15 is the upper half of a byte, the lower half holds higher bits of the number.
struct Numbers {
    bytes: [u8; 16],
    /// The next four bits, counted from the start.
    at: usize,
    /// Whether a number of whole bytes is shown with `$`: PerfView does not return to `/` for them.
    overflows: bool,
    /// Whether a prefix came before something that is not the length of a number.
    is_unknown: bool,
}

impl Numbers {
    const fn of(id: ActivityId) -> Self {
        Self { bytes: id.to_bytes_le(), at: 0, overflows: false, is_unknown: false }
    }

    /// Whether the list has a meaning to its end.
    const fn are_known(mut self) -> bool {
        while self.next().is_some() {}
        !self.is_unknown
    }

    const fn nibble(&self, at: usize) -> Option<u8> {
        match at / 2 {
            byte if byte >= PATH_LEN => None,
            byte if at % 2 == 0 => Some(self.bytes[byte] >> 4),
            byte => Some(self.bytes[byte] & 15),
        }
    }

    const fn next(&mut self) -> Option<Number> {
        let mut at = self.at;
        let Some(mut code) = self.nibble(at) else { return None };
        // Behind a prefix that is the upper half of a byte, PerfView takes the length itself for
        // the higher bits.
        let has_high_bits = at % 2 == 0;
        if code == 11 {
            self.overflows = true;
            at += 1;
            code = match self.nibble(at) {
                Some(code @ 12..) => code,
                Some(_) => {
                    self.is_unknown = true;
                    return None;
                }
                None => return None,
            };
        }
        match code {
            0 => None,
            1..=10 => {
                self.at = at + 1;
                Some(Number { value: code as u32, overflows: false })
            }
            _ => {
                let start = at / 2 + 1;
                let end = start + code as usize - 11;
                if end > PATH_LEN {
                    return None;
                }
                let mut value = match has_high_bits {
                    true => (self.bytes[at / 2] & 15) as u32,
                    false => 0,
                };
                let mut byte = end;
                while byte > start {
                    byte -= 1;
                    value = value << 8 | self.bytes[byte] as u32;
                }
                self.at = 2 * end;
                Some(Number { value, overflows: self.overflows })
            }
        }
    }
}
