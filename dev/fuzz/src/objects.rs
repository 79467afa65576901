//! Changes streams of versions 4 and 5 object by object. The padding of each object is computed
//! anew, so objects after a change stay readable.

use crate::streams::v5::{EVENTS, METADATA, Objects, POINT, STACKS};

/// The objects after the Trace object, by name and body. Bytes that cannot be parsed follow them
/// unchanged.
struct Parts {
    objects: Vec<(String, Vec<u8>)>,
    rest: Vec<u8>,
}

/// Whether a stream is of version 4 or 5.
pub fn is_objects(bytes: &[u8]) -> bool {
    bytes.starts_with(b"Nettrace\x14")
}

/// Repeats an object elsewhere (6), removes one (7), or gives one another type (any other `what`).
pub fn change(bytes: &mut Vec<u8>, what: u8, place: usize, value: u8) {
    let mut parts = Parts::read(bytes);
    let count = parts.objects.len();
    if count == 0 {
        return;
    }
    let (at, to) = (place % count, usize::from(value) % count);
    match what {
        6 => {
            let copy = parts.objects[at].clone();
            parts.objects.insert(to, copy);
        }
        7 => drop(parts.objects.remove(at)),
        _ => {
            let names = [EVENTS, METADATA, STACKS, POINT, "Trace", "Other"];
            parts.objects[at].0 = names[usize::from(value) % names.len()].to_owned();
        }
    }
    let mut stream = Objects::new();
    for (name, body) in &parts.objects {
        stream.object(name, body);
    }
    stream.bytes.extend(parts.rest);
    *bytes = stream.bytes;
}

impl Parts {
    fn read(bytes: &[u8]) -> Self {
        let mut at = Objects::new().bytes.len();
        let mut objects = Vec::new();
        while let Some((object, end)) = read_object(bytes, at) {
            objects.push(object);
            at = end;
        }
        Self { objects, rest: bytes.get(at..).unwrap_or_default().to_vec() }
    }
}

/// The object at `at`, and its end.
fn read_object(bytes: &[u8], at: usize) -> Option<((String, Vec<u8>), usize)> {
    let word = |at: usize| -> Option<usize> {
        let four = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(four) as usize)
    };
    if bytes.get(at..at + 3)? != [5, 5, 1] {
        return None;
    }
    let name = at + 15..at + 15 + word(at + 11)?;
    let size = word(name.end + 1)?;
    let body = (name.end + 5).next_multiple_of(4);
    let end = body.checked_add(size)?;
    let object =
        (String::from_utf8_lossy(bytes.get(name)?).into_owned(), bytes.get(body..end)?.to_vec());
    (bytes.get(end)? == &6).then_some((object, end + 1))
}
