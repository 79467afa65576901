//! Checks the file's guarantees by a reader, after every part of a page that reaches a faulty disk.

use proptest::prelude::*;

use super::*;

const HEADER: &[u8] = b"header!";
const BLOCK: u8 = 1;
const PADDED: u8 = 2;

/// A block or padding begins with a byte that says which, and with its size.
fn padding(size: u32) -> [u8; START] {
    let mut start = [0xEE; START];
    start[0] = PADDED;
    start[1..5].copy_from_slice(&size.to_be_bytes());
    start
}

fn block(size: usize, fill: u8) -> Vec<u8> {
    let mut block = vec![fill; size];
    block[0] = BLOCK;
    block[1..5].copy_from_slice(&(size as u32).to_be_bytes());
    block
}

/// The blocks that a reader sees, or `None` if it would complain.
fn visible(content: &[u8]) -> Option<Vec<u8>> {
    let mut rest = content.strip_prefix(HEADER)?;
    let mut blocks = Vec::new();
    while !rest.is_empty() {
        let size = u32::from_be_bytes(rest.get(1..5)?.try_into().ok()?) as usize;
        if size < START {
            return None;
        }
        let whole = rest.get(..size)?;
        match rest[0] {
            BLOCK => blocks.extend_from_slice(whole),
            PADDED => {}
            _ => return None,
        }
        rest = &rest[size..];
    }
    Some(blocks)
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    /// The call ends after this many pages.
    Short(usize),
    Interrupted,
    Fails,
}

/// A disk in memory that misbehaves by a list, and checks what a reader would see.
#[derive(Debug)]
struct Disk {
    content: Vec<u8>,
    capacity: u64,
    limit: u64,
    faults: Vec<Fault>,
    /// Whether the file has no name yet: then nothing is checked.
    named: bool,
    /// The expected contents of the file: first without the batch that is being written, then with
    /// it.
    before: Vec<u8>,
    whole: Vec<u8>,
    seen_whole: bool,
    checks: usize,
}

impl Disk {
    fn new() -> Self {
        Self {
            content: Vec::new(),
            capacity: u64::MAX,
            limit: u64::MAX,
            faults: Vec::new(),
            named: false,
            before: Vec::new(),
            whole: Vec::new(),
            seen_whole: false,
            checks: 0,
        }
    }

    fn check(&mut self) {
        if !self.named {
            return;
        }
        self.checks += 1;
        let blocks = visible(&self.content).expect("a complete stream");
        if blocks != self.before {
            assert!(self.whole.starts_with(&blocks), "something else, or a part of a block");
            assert!(blocks.len() > self.before.len());
            self.seen_whole = true;
        } else {
            assert!(!self.seen_whole || self.before == self.whole, "it was there and is gone");
        }
    }
}

impl FileCalls for Disk {
    fn write_at(&mut self, pieces: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let bytes = pieces.iter().map(|piece| &**piece).collect::<Vec<_>>().concat();
        let pages = match self.faults.pop().unwrap_or(Fault::None) {
            Fault::None => usize::MAX,
            Fault::Short(pages) => pages.max(1),
            Fault::Interrupted => return Err(ErrorKind::Interrupted.into()),
            Fault::Fails => return Err(io::Error::from_raw_os_error(5)),
        };
        let mut done = 0;
        for _ in 0..pages {
            let at = offset as usize + done;
            // A system writes page by page. It may be stopped between two pages.
            let to_page = PAGE as usize - at % PAGE as usize;
            let room = self.capacity.min(self.limit).saturating_sub(at as u64);
            let len = (bytes.len() - done).min(to_page).min(room as usize);
            if len == 0 {
                break;
            }
            let is_full = len < (bytes.len() - done).min(to_page) && self.capacity <= self.limit;
            self.content.resize(self.content.len().max(at + len), 0);
            self.content[at..at + len].copy_from_slice(&bytes[done..done + len]);
            done += len;
            // What a full disk leaves of a page is cut off at once. (A file size limit is known
            // before the write, and leaves nothing.)
            if !is_full {
                self.check();
            }
        }
        if done == 0 {
            return Err(ErrorKind::StorageFull.into());
        }
        Ok(done)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.content.truncate(length as usize);
        self.check();
        Ok(())
    }

    fn size_limit(&mut self) -> u64 {
        self.limit
    }

    fn too_large(&self) -> io::Error {
        ErrorKind::FileTooLarge.into()
    }
}

/// Writes batches with blocks of these sizes. Returns the last error. After each batch the disk has
/// more room, and the file goes on.
fn run(disk: Disk, batches: &[Vec<usize>]) -> (Disk, Result<(), (ErrorKind, u64)>) {
    let mut file = PaddedFile::begin(disk, HEADER, Padding::new(padding)).unwrap();
    file.calls.named = true;
    file.calls.check();
    let mut result = Ok(());
    for (number, sizes) in batches.iter().enumerate() {
        let blocks: Vec<_> = sizes.iter().map(|&size| block(size, number as u8)).collect();
        let pieces: Vec<_> = blocks.iter().flat_map(|block| block.chunks(1_000)).collect();
        let pieces: Vec<_> = pieces.into_iter().map(IoSlice::new).collect();
        let ends = blocks.iter().scan(0, |end, block| {
            *end += block.len() as u64;
            Some(*end)
        });
        let ends: Vec<_> = ends.collect();
        file.calls.before = visible(&file.calls.content).unwrap();
        file.calls.whole = [&file.calls.before, &*blocks.concat()].concat();
        file.calls.seen_whole = false;
        let batch = Batch::new(&pieces, &ends);
        let written = file.append(&batch);
        let blocks = visible(&file.calls.content).unwrap();
        match written {
            Ok(()) => assert_eq!(blocks, file.calls.whole),
            Err(WriteError { source, kept }) => {
                assert!(kept == 0 || ends.contains(&kept));
                let whole = &file.calls.whole;
                assert_eq!(blocks, whole[..file.calls.before.len() + kept as usize]);
                result = Err((source.kind(), kept));
                let disk = &mut file.calls;
                disk.capacity = disk.capacity.saturating_add(30_000);
                disk.limit = disk.limit.saturating_add(30_000);
            }
        }
    }
    file.finish();
    (file.calls, result)
}

#[test]
fn a_file_that_was_ended_has_no_padding_behind_it() {
    let (disk, result) = run(Disk::new(), &[vec![30, 50], vec![22], vec![100_000, 40]]);
    assert_eq!(result, Ok(()));
    assert_eq!(disk.content.len(), HEADER.len() + 30 + 50 + 22 + 100_000 + 40);
    assert!(disk.checks > 50, "{}", disk.checks);
    // If the next padding would lie on two pages a short one precedes it.
    let (disk, _) = run(Disk::new(), &[vec![4_096 - HEADER.len() - 21]]);
    assert_eq!(disk.content.len(), 4_096 + 1);
    let (disk, _) = run(Disk::new(), &[vec![4_096 - HEADER.len() - 22]]);
    assert_eq!(disk.content.len(), 4_096 - 22);
    let (disk, _) = run(Disk::new(), &[vec![4_096 - HEADER.len()]]);
    assert_eq!(disk.content.len(), 4_096);
}

#[test]
fn a_full_disk_keeps_the_blocks_that_fit() {
    for (limit, capacity, kind) in [
        (u64::MAX, 20_480, ErrorKind::StorageFull),
        (u64::MAX, 20_000, ErrorKind::StorageFull),
        (20_000, u64::MAX, ErrorKind::FileTooLarge),
    ] {
        let disk = Disk { limit, capacity, ..Disk::new() };
        let (disk, result) = run(disk, &[vec![5_000], vec![5_000, 4_000, 9_000]]);
        assert_eq!(result, Err((kind, 9_000)));
        assert_eq!(disk.content.len(), HEADER.len() + 14_000);
    }
    let (disk, result) = run(Disk { limit: 4_096, ..Disk::new() }, &[vec![5_000]]);
    assert_eq!((result, disk.content.len()), (Err((ErrorKind::FileTooLarge, 0)), HEADER.len()));
    // With room again the file goes on after what was kept.
    let disk = Disk { capacity: 20_000, ..Disk::new() };
    let (disk, result) = run(disk, &[vec![5_000, 4_000, 19_000], vec![6_000], vec![100]]);
    assert_eq!(result, Err((ErrorKind::StorageFull, 9_000)));
    assert_eq!(disk.content.len(), HEADER.len() + 9_000 + 6_100);
}

#[test]
fn an_invalid_batch_changes_nothing() {
    let mut file = PaddedFile::begin(Disk::new(), HEADER, Padding::new(padding)).unwrap();
    let pieces = [IoSlice::new(&[1; 40])];
    for ends in [&[39][..], &[], &[41], &[5, 40]] {
        let error = file.append(&Batch::new(&pieces, ends)).unwrap_err();
        assert_eq!((error.kept, error.source.kind()), (0, ErrorKind::InvalidInput));
    }
    assert_eq!(file.length(), PAGE);
    assert_eq!(visible(&file.calls().content), Some(Vec::new()));
    file.append(&Batch::new(&[], &[])).unwrap();
    assert_eq!(file.length(), PAGE);
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        6 => Just(Fault::None),
        3 => (1_usize..4).prop_map(Fault::Short),
        2 => Just(Fault::Interrupted),
        1 => Just(Fault::Fails),
    ]
}

proptest! {
    #[test]
    fn a_stopped_write_leaves_a_complete_stream(
        batches in prop::collection::vec(
            prop::collection::vec(prop_oneof![START..200, 3_900_usize..4_200, START..20_000], 1..8),
            1..6,
        ),
        faults in prop::collection::vec(fault(), 0..30),
        capacity in prop_oneof![Just(u64::MAX), 5_000_u64..100_000],
    ) {
        let mut disk = Disk { capacity, ..Disk::new() };
        // The first two writes make the file, which has no name until then.
        disk.faults = faults;
        disk.faults.extend([Fault::None, Fault::None]);
        let (disk, _) = run(disk, &batches);
        prop_assert!(visible(&disk.content).is_some());
    }
}
