//! Activity ids: those of spans, those of .NET, and any other GUID.

use nettrace_event::trace_context::{ActivityId, SpanId};
use proptest::prelude::*;

/// The bytes of a GUID's text.
fn parse(text: &str) -> ActivityId {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let number = u128::from_str_radix(&digits, 16).unwrap();
    ActivityId::from_bytes(number.to_be_bytes())
}

/// A path GUID with these 12 bytes, and with the checksum of that process.
fn guid(path: [u8; 12], process_id: u32) -> ActivityId {
    let mut bytes = [0; 16];
    bytes[..12].copy_from_slice(&path);
    let words = path.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
    let sum = words.fold(0x599D_99AD_u32, u32::wrapping_add);
    bytes[12..].copy_from_slice(&(sum ^ process_id).to_le_bytes());
    ActivityId::from_bytes_le(bytes)
}

/// A path GUID that begins with these bytes, given as digits.
fn begins(path: &str, process_id: u32) -> ActivityId {
    let mut bytes = [0; 12];
    for (byte, pair) in bytes.iter_mut().zip(path.as_bytes().chunks(2)) {
        let digits = std::str::from_utf8(pair).unwrap();
        *byte = u8::from_str_radix(digits, 16).unwrap();
    }
    guid(bytes, process_id)
}

fn shown(id: ActivityId) -> String {
    id.path().map_or_else(|| id.to_string(), |path| path.to_string())
}

/// Ids in traces of .NET 10, with the paths that TraceEvent shows.
#[test]
fn paths_of_dotnet() {
    for (id, process_id, path) in [
        ("00000011-0000-0000-0000-00006d979d59", 3795, "/#3795/1/1/"),
        ("0000001a-0000-0000-0000-000014979d59", 3795, "/#3795/1/10/"),
        ("00003c1c-0000-0000-0000-00001adb9d59", 3795, "/#3795/1/60/"),
        ("00001011-0000-0000-0000-00006da79d59", 3795, "/#3795/1/1/1/"),
        ("00103c1c-0000-0000-0000-00001adbad59", 3795, "/#3795/1/60/1/"),
        ("00113c1c-0000-0000-0000-00001adbae59", 3795, "/#3795/1/60/1/1/"),
        ("00000015-0000-0000-0000-000023979d59", 3809, "/#3809/1/5/"),
        ("00001115-0000-0000-0000-000023a49d59", 3809, "/#3809/1/5/1/1/"),
    ] {
        let parsed = parse(id);
        assert_eq!(parsed.to_string(), id);
        assert_eq!(format!("{parsed:?}"), format!("ActivityId({id})"));
        assert_eq!(shown(parsed), path);
        assert_eq!(parsed.span_id(), None);
        assert!(parsed.is_path(process_id) && parsed.is_path(0), "{id}");
        assert!(!parsed.is_path(process_id + 1), "{id}");
    }
}

/// What TraceEvent shows of paths that are less usual, all of process 4242.
#[test]
fn rare_paths() {
    for (bytes, path) in [
        ("", "/#4242/"),
        ("0011", "/#4242/"),
        ("f0", "/#4242/0/"),
        ("111111111111111111111111", &format!("/#4242{}/", "/1".repeat(24))),
        // Numbers of one to four bytes, at each half of a byte.
        ("c0ff", "/#4242/255/"),
        ("cfff", "/#4242/4095/"),
        ("1c05", "/#4242/1/5/"),
        ("d1ffff", "/#4242/131071/"),
        ("1d1234", "/#4242/1/13330/"),
        ("ef123456", "/#4242/257307666/"),
        ("ff12345678", "/#4242/2018915346/"),
        ("f0ffffffff", "/#4242/4294967295/"),
        ("f078563412f02143658711", "/#4242/305419896/2271560481/1/1/"),
        // A number of which not all bytes are there.
        ("1111111111111111111111c1", &format!("/#4242{}/", "/1".repeat(22))),
        ("11111111111111111111d111", &format!("/#4242{}/", "/1".repeat(20))),
        // Overflow: behind the prefix at each half of a byte.
        ("1bc005", "/#4242/1$5/"),
        ("1bcf051122", "/#4242/1$5/1/1/2/2/"),
        ("1bd0ffff11", "/#4242/1$65535/1/1/"),
        ("bc05", "/#4242$3077/"),
        ("bd0506", "/#4242$853509/"),
        ("bdffff11bd1234", "/#4242$917503/1/1$865298/"),
        ("1bc005c007", "/#4242/1$5$7/"),
        ("1111111111111111111111bc", &format!("/#4242{}/", "/1".repeat(22))),
        ("11111111111111111111111b", &format!("/#4242{}/", "/1".repeat(23))),
    ] {
        assert_eq!(shown(begins(bytes, 4242)), path, "{bytes}");
    }
}

#[test]
fn what_is_no_path() {
    // The prefix before what is not the length of a number has no meaning.
    for bytes in ["b1", "b0", "1b10", "1b", "bb"] {
        let id = begins(bytes, 4242);
        assert!(id.is_path(4242) && id.path().is_none(), "{bytes}");
    }
    let random = ActivityId::from_bytes_le(std::array::from_fn(|at| at as u8));
    assert_eq!(random.to_string(), "03020100-0504-0706-0809-0a0b0c0d0e0f");
    for id in [random, ActivityId::from_bytes([0; 16])] {
        assert!(id.path().is_none() && !id.is_path(1));
    }
}

#[test]
fn the_process_of_a_path() {
    assert_eq!(shown(begins("11", 0)), "//1/1/");
    assert!(begins("11", 0).is_path(77), "the checksum of old versions says no process");
    assert_eq!(shown(begins("11", 1)), "/#1/1/1/");
    assert_eq!(shown(begins("11", 0xF_FFFF)), "/#1048575/1/1/");
    let large = begins("11", 0x10_0000);
    assert_eq!(shown(large), "00000011-0000-0000-0000-0000be998d59");
    assert!(!large.is_path(0) && large.is_path(0x10_0000));
    assert_eq!(large.path_in(0x10_0000).unwrap().to_string(), "/#1048576/1/1/");
}

/// Bytes written out by hand.
#[test]
fn the_bytes_of_a_span() {
    let span = SpanId::from_u64(0x1234_5678_9ABC_DEF0).unwrap();
    let id = ActivityId::from_span_id(span, 0);
    let sum = 0x3456_78F0_u32.wrapping_add(0xDEF0_F012).wrapping_add(0x0000_9ABC);
    let [a, b, c, d] = sum.wrapping_add(0x599D_99AD).to_le_bytes();
    let path = [0xF0, 0x78, 0x56, 0x34, 0x12, 0xF0, 0xF0, 0xDE, 0xBC, 0x9A, 0, 0];
    assert_eq!(id.to_bytes_le()[..12], path);
    assert_eq!(id.to_bytes_le()[12..], [a, b, c, d]);
    assert_eq!(id, guid(path, 0));
    let rfc = [0x34, 0x56, 0x78, 0xF0, 0xF0, 0x12, 0xDE, 0xF0, 0xBC, 0x9A, 0, 0, a, b, c, d];
    assert_eq!(id.to_bytes(), rfc);
    assert_eq!(shown(id), "//305419896/2596069104/");
}

#[test]
fn only_the_form_of_a_span_is_one() {
    let span = SpanId::from_u64(0xFFFF_FFFF_FFFF_FFFF).unwrap();
    let bytes = ActivityId::from_span_id(span, 9).to_bytes_le();
    for at in [0, 5, 10, 11] {
        for bit in 0..8 {
            let mut bytes = bytes;
            bytes[at] ^= 1 << bit;
            assert_eq!(ActivityId::from_bytes_le(bytes).span_id(), None, "byte {at}, bit {bit}");
        }
    }
    // Two zeros are a path, but no span.
    let zeros = begins("f000000000f000000000", 4242);
    assert_eq!((shown(zeros), zeros.span_id()), ("/#4242/0/0/".into(), None));
}

/// Writes numbers as `EventSource` does: into the next four bits if they are small, otherwise the
/// length and the bytes. The last number may overflow.
///
/// PerfView mistakes a length for a part of the number if the prefix of an overflow is the first
/// half of a byte, so another number is added where it would be. Returns the numbers as well, or
/// `None` if they do not fit.
fn encode(
    mut numbers: Vec<u32>,
    overflow: Option<u32>,
    process_id: u32,
) -> Option<(ActivityId, Vec<u32>)> {
    let mut nibbles = Vec::new();
    for number in &numbers {
        match number {
            1..=10 => nibbles.push(*number as u8),
            _ => push(*number, &mut nibbles),
        }
    }
    if let Some(number) = overflow {
        if nibbles.len() % 2 == 0 {
            numbers.push(1);
            nibbles.push(1);
        }
        nibbles.push(11);
        push(number, &mut nibbles);
    }
    (nibbles.len() <= 24).then(|| {
        nibbles.resize(24, 0);
        let bytes: Vec<u8> = nibbles.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
        (guid(bytes.try_into().unwrap(), process_id), numbers)
    })
}

/// Writes a number's length and its bytes.
fn push(number: u32, nibbles: &mut Vec<u8>) {
    let pair = |byte: u8| [byte >> 4, byte & 15];
    if nibbles.len() % 2 == 0 && number < 4096 {
        nibbles.extend([12, (number >> 8) as u8]);
        nibbles.extend(pair(number as u8));
        return;
    }
    let len = number.to_le_bytes().iter().rposition(|byte| *byte != 0).map_or(1, |at| at + 1);
    nibbles.push(11 + len as u8);
    if nibbles.len() % 2 == 1 {
        nibbles.push(0);
    }
    number.to_le_bytes()[..len].iter().for_each(|byte| nibbles.extend(pair(*byte)));
}

fn number() -> impl Strategy<Value = u32> {
    (1..=32_u32, any::<u32>()).prop_map(|(bits, number)| number >> (32 - bits))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_span_comes_back(span in 1..=u64::MAX, process_id: u32, other: u32) {
        let span_id = SpanId::from_u64(span).unwrap();
        let id = ActivityId::from_span_id(span_id, process_id);
        prop_assert_eq!(id.span_id(), Some(span_id));
        prop_assert!(id.is_path(process_id));
        prop_assert_eq!(id.is_path(other), other == process_id || process_id == 0
            || (other == 0 && process_id < 1 << 20));
        let process = match process_id { 0 => "/".into(), id => format!("/#{id}") };
        let path = format!("{process}/{}/{}/", span >> 32, span as u32);
        prop_assert_eq!(id.path_in(process_id).unwrap().to_string(), path);
    }

    #[test]
    fn two_spans_differ(one in 1..=u64::MAX, other in 1..=u64::MAX, process_id: u32) {
        let id = |span| ActivityId::from_span_id(SpanId::from_u64(span).unwrap(), process_id);
        prop_assert_eq!(id(one) == id(other), one == other);
    }

    #[test]
    fn bytes_read_back(bytes: [u8; 16]) {
        let id = ActivityId::from_bytes(bytes);
        prop_assert_eq!(id.to_bytes(), bytes);
        prop_assert_eq!(parse(&id.to_string()), id);
        prop_assert_eq!(ActivityId::from_bytes_le(id.to_bytes_le()), id);
        prop_assert_eq!(ActivityId::from_bytes_le(bytes).to_bytes_le(), bytes);
        // Whatever the bytes are, these end.
        let _ = (id.span_id(), id.path_in(1).map(|path| path.to_string()));
    }

    #[test]
    fn any_path_ends(path: [u8; 12], process_id in 0..1_u32 << 20) {
        let id = guid(path, process_id);
        prop_assert!(id.is_path(0) && id.is_path(process_id));
        let shown = shown(id);
        let has_prefix = path.iter().any(|byte| byte >> 4 == 11 || byte & 15 == 11);
        prop_assert!(shown.ends_with('/') || has_prefix);
    }

    #[test]
    fn a_path_of_event_source_reads_back(
        numbers in prop::collection::vec(number(), 0..8),
        // PerfView leaves out the upper four of twelve bits.
        overflow in prop::option::of(prop_oneof![1..256_u32, 4096..=u32::MAX]),
        process_id in 1..1_u32 << 20,
    ) {
        if let Some((id, numbers)) = encode(numbers, overflow, process_id) {
            let mut path = format!("/#{process_id}");
            numbers.iter().for_each(|number| path += &format!("/{number}"));
            overflow.iter().for_each(|number| path += &format!("${number}"));
            prop_assert_eq!(shown(id), path + "/");
        }
    }
}
