//! The checks of the target `tables`.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
    process,
    sync::LazyLock,
};

use arrow_array::{ArrayRef, RecordBatch};
use nettrace_cli::lines_of;
use nettrace_views::tables::{Options, Tables, write};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde::de::IgnoredAny;
use testkit::csv;

use crate::{Way, bounded};

/// How many columns CSV has.
const COLUMNS: usize = 19;

/// Writes the events of a stream as tables or as lines. Their readers must accept the result, and
/// find all events. Both formats of tables must have the same values.
pub fn check_tables(way: Way, bytes: &[u8]) {
    bounded(|| match way.0 >> 2 & 3 {
        0 => lines(way, bytes),
        kind => tables(way, bytes, kind == 1),
    });
}

fn lines(way: Way, bytes: &[u8]) {
    let is_csv = way.0 >> 5 & 1 == 1;
    let Ok(reader) = way.options().open(bytes) else { return };
    let mut events = reader.sorted();
    let mut out = Vec::new();
    lines_of(&mut events, is_csv, &mut out).expect("a Vec");
    let expected = events.totals().events;
    if is_csv {
        let rows = csv::rows(std::str::from_utf8(&out).expect("UTF-8"));
        assert_eq!(rows.len() as u64, 1 + expected);
        for row in &rows {
            assert_eq!(row.len(), COLUMNS, "{row:?}");
        }
        for row in &rows[1..] {
            for json in row[COLUMNS - 2..].iter().filter(|text| !text.is_empty()) {
                let _: IgnoredAny = serde_json::from_str(json).expect("JSON");
            }
        }
    } else {
        let mut objects = 0;
        for line in out.split_inclusive(|byte| *byte == b'\n') {
            let _: IgnoredAny = serde_json::from_slice(line).expect("JSON");
            objects += 1;
        }
        assert_eq!(objects, expected);
    }
}

fn tables(way: Way, bytes: &[u8], is_partitioned: bool) {
    let options = Options::default().spans_limit(4 << 10);
    let options = options.rows_limit(usize::from(way.0 >> 5) << 9);
    let options = if is_partitioned { options.partition("host/a") } else { options };
    fs::create_dir_all(&*FOLDER).expect("a folder");
    let [parquet, arrow] = [Tables::Parquet, Tables::Arrow].map(|tables| {
        let out = FOLDER.join(tables.name());
        let mut events = way.options().open(bytes).ok()?.sorted();
        write(tables, &mut events, &out, &options).expect("a folder");
        let (mut files, mut rows) = (BTreeMap::new(), 0);
        read(&out, &out, &mut files);
        for (path, batches) in &files {
            if path.ends_with("events") {
                rows += batches.iter().map(RecordBatch::num_rows).sum::<usize>();
            }
        }
        assert_eq!(rows as u64, events.totals().events);
        Some(files)
    });
    fs::remove_dir_all(&*FOLDER).expect("removed");
    let (Some(parquet), Some(arrow)) = (parquet, arrow) else { return };
    assert!(parquet.keys().eq(arrow.keys()), "{:?} {:?}", parquet.keys(), arrow.keys());
    for ((path, parquet), arrow) in parquet.iter().zip(arrow.values()) {
        let mut parquet = Rows::of(parquet);
        let mut arrow = Rows::of(arrow);
        loop {
            match (parquet.next(), arrow.next()) {
                (None, None) => break,
                (one, other) => assert!(one == other, "{path:?}: {one:?} {other:?}"),
            }
        }
    }
}

/// Reads all tables of a result, by their paths without endings.
fn read(root: &Path, folder: &Path, files: &mut BTreeMap<PathBuf, Vec<RecordBatch>>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            read(root, &path, files);
            continue;
        }
        let file = File::open(&path).expect("a file");
        let batches: Vec<_> = match path.extension().and_then(|ending| ending.to_str()) {
            Some("parquet") => {
                let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("Parquet");
                let reader = reader.build().expect("Parquet");
                reader.map(|batch| batch.expect("rows")).collect()
            }
            Some("arrow") => {
                let reader = arrow_ipc::reader::FileReader::try_new(file, None).expect("Arrow");
                reader.map(|batch| batch.expect("rows")).collect()
            }
            _ => panic!("{path:?}"),
        };
        let name = path.strip_prefix(root).expect("within").with_extension("");
        files.insert(name, batches);
    }
}

/// The rows of batches, one by one.
struct Rows<'a> {
    batches: &'a [RecordBatch],
    row: usize,
}

impl<'a> Rows<'a> {
    fn of(batches: &'a [RecordBatch]) -> Self {
        Self { batches, row: 0 }
    }

    fn next(&mut self) -> Option<Vec<ArrayRef>> {
        while let [first, rest @ ..] = self.batches {
            if self.row < first.num_rows() {
                self.row += 1;
                return Some(first.slice(self.row - 1, 1).columns().to_vec());
            }
            (self.batches, self.row) = (rest, 0);
        }
        None
    }
}

/// Where results are while an input is checked: in memory, if there is such a place. A result that
/// made a check fail stays there.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    place.join(format!("nettrace-fuzz-{}", process::id()))
});
