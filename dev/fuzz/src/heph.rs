//! The checks of the target `heph`.

use nettrace_reader::{
    Error,
    heph::{Options, Reader, Value, verify},
};

/// A packet of each kind, with all types of attributes.
const SAMPLE: &[u8] = b"\x75\xD1\x1D\x4D\0\0\0\x17\0\x05epoch\x16\x58\x45\xE9\x12\x14\xEC\x90\
    \xC1\xFC\x1F\xB7\0\0\0\x5B\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\
    \0\0\0\0\0\0\0\x64\0\0\0\0\0\0\0\xC8\0\x08My event\
    \0\x04Test\x01\0\0\0\0\0\0\0\x7B\
    \0\x05Test2\x83\0\x02\x40\x5E\xDD\x2F\x1A\x9F\xBE\x77\x40\x88\xA8\0\0\0\0\0\
    \x75\xD1\x1D\x4D\0\0\0\x10\0\x03redabc\
    \xC1\xFC\x1F\xB7\0\0\0\x43\0\0\0\x07\0\0\0\x01\0\0\0\0\0\0\0\0\
    \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
    \0\x01b\x04\0\x02\xC3\xA9\0\0\x84\0\x02\0\x01x\0\x01y\0\x01c\x82\0\0";

/// Limits that small inputs can reach.
fn options() -> Options {
    Options::default().packet_limit(1 << 16).streams_limit(1 << 12)
}

/// Reads `bytes` in one way: as a whole, byte by byte, or by `verify`. Limits memory and time.
pub fn check(way: u8, bytes: &[u8]) {
    crate::bounded(|| match way % 4 {
        0 => {
            let mut dribbled = options().open(OneByOne(bytes));
            while let Ok(Some(_)) = dribbled.next_event() {}
            assert_eq!(dribbled.totals(), read(bytes).0.totals());
        }
        1 => {
            if let Ok(report) = verify(bytes, options(), 3) {
                let (reader, end) = read(bytes);
                assert_eq!(report.events, reader.totals().events);
                assert!(!report.is_sound() || end.is_ok());
            }
        }
        _ => {
            let (reader, end) = read(bytes);
            assert!(reader.offset() <= bytes.len() as u64);
            if let Err(error) = &end {
                assert!(error.offset() <= bytes.len() as u64, "{error}");
            }
        }
    });
}

/// Reads to the end, including attributes.
fn read(bytes: &[u8]) -> (Reader<&[u8]>, Result<(), Error>) {
    let mut reader = options().open(bytes);
    let mut values = 0;
    let end = loop {
        match reader.next_event() {
            Ok(Some(event)) => {
                values += event
                    .attributes()
                    .map_while(Result::ok)
                    .fold(event.description.len(), |sum, (name, value)| {
                        sum + name.len() + size(&value)
                    })
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    assert!(values <= bytes.len(), "more values than bytes");
    (reader, end)
}

/// The number of events of a complete trace.
pub fn events(bytes: &[u8]) -> u64 {
    let mut reader = Reader::new(bytes);
    while reader.next_event().expect("a whole trace").is_some() {}
    reader.totals().events
}

/// A sound trace, changed in the places that `orders` names.
pub fn mutated(orders: &[u8]) -> Vec<u8> {
    let mut bytes = SAMPLE.repeat(2);
    for order in orders.chunks_exact(4).take(64) {
        let at = usize::from(u16::from_be_bytes([order[1], order[2]])) % bytes.len();
        match order[0] % 4 {
            0 => bytes[at] = order[3],
            1 => bytes[at] ^= 1 << (order[3] % 8),
            2 => drop(bytes.splice(at..at, std::iter::repeat_n(order[3], 4))),
            _ => bytes.truncate(at.max(1)),
        }
    }
    bytes
}

fn size(value: &Value<'_>) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Array(array) => {
            let elements = array.iter();
            assert_eq!(elements.len(), array.len());
            let mut count = 0;
            let sum = elements.inspect(|_| count += 1).map(|element| size(&element)).sum();
            assert_eq!(count, array.len());
            sum
        }
        _ => 1,
    }
}

/// Returns one byte at a time.
struct OneByOne<'a>(&'a [u8]);

impl std::io::Read for OneByOne<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let len = out.len().min(1);
        std::io::Read::read(&mut self.0, &mut out[..len])
    }
}
