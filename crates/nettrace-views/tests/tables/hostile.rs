//! Traces that nobody would write: names and values at their limits, and very many columns.

#[cfg(target_os = "linux")]
use std::fs;
use std::path::Path;

use nettrace_reader::Reader;
use nettrace_views::tables::{Options, Tables, write};
#[cfg(target_os = "linux")]
use testkit::process::alone;
use testkit::{
    engines,
    streams::{EventType, Row, Stream},
};

const NAMES: [&str; 9] = [
    "quote\" and 'quote'",
    "line\nline\r\ttab",
    "nul\0nul",
    "back\\slash/slash",
    "",
    "x",
    "X",
    "💡 \u{202E}",
    "payload",
];

/// Names with quotes, line ends and NUL; texts of 64 KiB and with lone surrogates; ids and numbers
/// at their limits.
fn limits() -> Vec<u8> {
    let mut ty = EventType::new(1, "prov\"ider'\n\0", 0xFFFF_FFFF, "a/b\"c\n\0d");
    for name in NAMES {
        ty = ty.field(name, &[18]);
    }
    let ty = ty.field("most", &[12]).field("least", &[11]);
    let numbers = [u64::MAX.to_le_bytes(), i64::MIN.to_le_bytes()].concat();
    let text = |units: &[u16]| -> Vec<u8> {
        let mut bytes: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        bytes.extend([0, 0]);
        bytes
    };
    let plain: Vec<u16> = "a\"b'c\n\r\t\\".encode_utf16().collect();
    let texts = [vec![0xD800], vec![0xDFFF, 0x41, 0xDC00], plain, vec![0x6F22; 32 << 10], vec![]];
    let rows: Vec<_> = (0..40)
        .map(|number: u32| {
            let one = |field: usize| text(&texts[(number as usize + field) % texts.len()]);
            let mut payload: Vec<u8> = (0..NAMES.len()).flat_map(one).collect();
            payload.extend(&numbers);
            let row = Row::new(5, number + 1, 1000 + u64::from(number));
            row.labels(1 + number % 2).payload(&payload)
        })
        .collect();
    let mut key = vec![5, 9];
    key.extend(b"a\"\n\0\\'b c");
    key.extend([2, b'"', 0]);
    let all = |kind: u8, len| [vec![kind], vec![0xFF; len]].concat();
    let most = [all(3, 16), all(4, 8), all(8, 8), all(9, 1), all(10, 1), all(7, 1), key];
    let guids = [all(1, 16), all(2, 16)];
    let mut stream = Stream::with_keys(&[("quote\"\n", "nul\0"), ("", "")]);
    stream
        .metadata(&ty)
        .thread(u64::MAX - 1000)
        .thread(5)
        .label_lists(1, &[&most, &guids])
        .events(&rows);
    stream.end()
}

fn convert(source: &[u8], out: &Path, options: &Options) {
    let mut events = Reader::new(source).unwrap().sorted();
    let written = write(Tables::Parquet, &mut events, out, options).unwrap();
    written.end.unwrap();
}

#[test]
fn engines_read_what_is_at_its_limits() {
    let Some(python) = engines::python() else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tables/engines.py");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    convert(&limits(), &out, &Options::default());
    let said = engines::run(&python, &script, &[out.to_str().unwrap()]);
    assert!(said.contains("rows\tevents\t40\n"), "{said}");
    assert!(said.contains("rows\ttypes/prov%22ider%27%0A%00.a%2Fb%22c%0A%00d\t40\n"), "{said}");
}

/// Columns that no row fills take next to no memory, and long names not much more than once.
#[cfg(target_os = "linux")]
#[test]
fn many_columns_and_long_names_take_little_memory() {
    if !alone("hostile::many_columns_and_long_names_take_little_memory") {
        return;
    }
    const TYPES: u64 = 250;
    const FIELDS: usize = 200;
    let mut stream = Stream::new();
    stream.thread(5);
    let mut rows = Vec::new();
    for id in 1..=TYPES {
        let mut ty = EventType::new(id, "Wide", id, &format!("E{id}"));
        for field in 0..FIELDS {
            ty = ty.field(&format!("f{field}"), &[12]);
        }
        stream.metadata(&ty);
        rows.push(Row::new(5, id as u32, 1000 + id).metadata(id as u32).payload(&[7; 8 * FIELDS]));
    }
    stream.events(&rows);
    let source = stream.end();
    let folder = tempfile::tempdir().unwrap();
    convert(&source, &folder.path().join("out"), &Options::default());
    let mut stream = Stream::new();
    let rows = (0..8_000).map(|time| Row::new(5, time + 1, 1000 + u64::from(time)).metadata(1));
    let rows: Vec<_> = rows.collect();
    stream.thread(5).metadata(&EventType::new(1, &"p".repeat(60_000), 1, "E")).events(&rows);
    convert(&stream.end(), &folder.path().join("long"), &Options::default());
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = line.trim().strip_suffix(" kB").unwrap().parse().unwrap();
    println!("{peak} KiB for {} bytes", source.len());
    // Room for a thousand rows in each would be 400 MB.
    assert!(peak < 200 << 10, "{peak} KiB");
}
