//! Checks the file's guarantees by a reader, after every byte that reaches a faulty disk.

use proptest::prelude::*;

use super::*;

/// Two formats. In V6 the end of stream has four bytes, and the first four of a block differ from
/// it in the last. In V4 and V5 it has one byte.
#[derive(Clone, Copy, Debug)]
enum Format {
    Four,
    One,
}

const HEADER: &[u8] = b"header!";

impl Format {
    fn end_of_stream(self) -> &'static [u8] {
        match self {
            Self::Four => &[0; 4],
            Self::One => &[1],
        }
    }

    fn block(self, payload: &[u8]) -> Vec<u8> {
        let length = payload.len() as u16;
        let mut block = match self {
            Self::Four => u32::to_le_bytes(u32::from(length) | 2 << 24).to_vec(),
            Self::One => [&[5], length.to_le_bytes().as_slice()].concat(),
        };
        block.extend_from_slice(payload);
        block
    }

    /// Reads a stream as strictly as the reference reader. Returns its bytes up to the end of
    /// stream, or `None` if the reader would refuse it.
    fn visible(self, content: &[u8]) -> Option<&[u8]> {
        let mut rest = content.strip_prefix(HEADER)?;
        loop {
            let length = match self {
                Self::Four => {
                    let (start, behind) = rest.split_first_chunk::<4>()?;
                    let word = u32::from_le_bytes(*start);
                    let length = (word & 0xFF_FFFF) as usize;
                    match word >> 24 {
                        // An end with a payload, for later versions. The payload must be complete.
                        0 if behind.len() >= length => break,
                        2 => 4 + length,
                        _ => return None,
                    }
                }
                Self::One => match rest.first()? {
                    1 => break,
                    5 => 3 + usize::from(u16::from_le_bytes(rest.get(1..3)?.try_into().ok()?)),
                    _ => return None,
                },
            };
            rest = rest.get(length..)?;
        }
        Some(&content[..content.len() - rest.len()])
    }
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    Short(usize),
    Interrupted,
    Nothing,
    Fails(ErrorKind),
    /// Some bytes arrive, and the next call fails.
    ShortThenFails(usize),
}

/// A disk in memory that misbehaves by a list, and checks after each byte what a reader would see.
#[derive(Debug)]
struct Disk {
    format: Format,
    content: Vec<u8>,
    capacity: u64,
    limit: u64,
    faults: Vec<Fault>,
    next_fails: bool,
    /// A reader may see any prefix of this.
    whole: Vec<u8>,
    /// The number of bytes that a reader saw last. It never becomes less.
    seen: usize,
    /// Whether the file has no name yet: then nothing is checked.
    named: bool,
    calls: usize,
}

impl Disk {
    fn new(format: Format) -> Self {
        Self {
            format,
            content: Vec::new(),
            capacity: u64::MAX,
            limit: u64::MAX,
            faults: Vec::new(),
            next_fails: false,
            whole: Vec::new(),
            seen: 0,
            named: false,
            calls: 0,
        }
    }

    fn check(&mut self) {
        if self.named {
            let visible = self.format.visible(&self.content).expect("a reader refuses the file");
            assert!(self.whole.starts_with(visible), "a reader misreads the file");
            assert!(visible.len() >= self.seen, "what was there is gone");
            self.seen = visible.len();
        }
    }
}

impl FileCalls for Disk {
    fn write_at(&mut self, pieces: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        self.calls += 1;
        let bytes = pieces.iter().flat_map(|piece| piece.iter().copied()).collect::<Vec<u8>>();
        assert!(!bytes.is_empty() && offset < self.limit, "SIGXFSZ would end the process");
        if std::mem::take(&mut self.next_fails) {
            return Err(ErrorKind::StorageFull.into());
        }
        let most = match self.faults.pop().unwrap_or(Fault::None) {
            Fault::None => bytes.len(),
            Fault::Short(count) => count.clamp(1, bytes.len()),
            Fault::Interrupted => return Err(ErrorKind::Interrupted.into()),
            Fault::Nothing => return Ok(0),
            Fault::Fails(kind) => return Err(kind.into()),
            Fault::ShortThenFails(count) => {
                self.next_fails = true;
                count.clamp(1, bytes.len())
            }
        };
        let end = self.capacity.min(self.limit);
        let room = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
        if room == 0 {
            return Err(ErrorKind::StorageFull.into());
        }
        let count = most.min(room);
        for (index, &byte) in bytes[..count].iter().enumerate() {
            let position = offset as usize + index;
            assert!(position <= self.content.len(), "a hole");
            if position == self.content.len() {
                self.content.push(byte);
            } else {
                self.content[position] = byte;
            }
            self.check();
        }
        Ok(count)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.calls += 1;
        if let Some(Fault::Fails(kind)) = self.faults.pop() {
            return Err(kind.into());
        }
        assert!(length <= self.content.len() as u64);
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

fn begin(format: Format) -> CompleteFile<Disk> {
    let mut file = CompleteFile::begin(Disk::new(format), HEADER, format.end_of_stream()).unwrap();
    file.calls.whole = HEADER.to_vec();
    file.calls.named = true;
    file.calls.check();
    file
}

/// Appends blocks, cut into pieces of the given sizes. Checks the result against what a reader
/// sees.
fn append(
    file: &mut CompleteFile<Disk>,
    blocks: &[Vec<u8>],
    cuts: &[usize],
) -> Result<(), WriteError> {
    let bytes = blocks.concat();
    let mut block_ends = Vec::new();
    for block in blocks {
        block_ends.push(block_ends.last().copied().unwrap_or(0) + block.len() as u64);
    }
    let mut pieces = Vec::new();
    let mut rest = bytes.as_slice();
    for cut in cuts {
        let (piece, behind) = rest.split_at((*cut).min(rest.len()));
        pieces.push(IoSlice::new(piece));
        rest = behind;
    }
    pieces.push(IoSlice::new(rest));
    let before = file.calls.whole.clone();
    file.calls.whole.extend_from_slice(&bytes);
    let result = file.append(&Batch::new(&pieces, &block_ends));
    let kept = match &result {
        Ok(()) => bytes.len() as u64,
        Err(error) => error.kept,
    };
    assert!(kept == 0 || block_ends.contains(&kept), "not a block boundary");
    let format = file.calls.format;
    let expected = [before.as_slice(), &bytes[..kept as usize]].concat();
    assert_eq!(
        format.visible(&file.calls.content).unwrap(),
        expected,
        "`kept` is not what stands there"
    );
    file.calls.whole = expected;
    result
}

fn formats() -> impl Strategy<Value = Format> {
    prop_oneof![Just(Format::Four), Just(Format::One)]
}

fn batches(format: Format) -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    let payload = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..8),
        prop::collection::vec(any::<u8>(), 200..700),
    ];
    let block = payload.prop_map(move |payload| format.block(&payload));
    prop::collection::vec(prop::collection::vec(block, 0..5), 1..6)
}

fn faults() -> impl Strategy<Value = Vec<Fault>> {
    let fault = prop_oneof![
        4 => Just(Fault::None),
        4 => (1_usize..600).prop_map(Fault::Short),
        2 => (1_usize..4).prop_map(Fault::Short),
        2 => Just(Fault::Interrupted),
        1 => Just(Fault::Nothing),
        1 => Just(Fault::Fails(ErrorKind::StorageFull)),
        1 => Just(Fault::Fails(ErrorKind::Other)),
        2 => (1_usize..600).prop_map(Fault::ShortThenFails),
        2 => (1_usize..4).prop_map(Fault::ShortThenFails),
    ];
    prop::collection::vec(fault, 0..24)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(600)
    })]

    /// Holds whatever fails, in whatever order, and wherever the process is killed.
    #[test]
    fn every_byte_leaves_a_complete_stream(
        (format, batches) in formats().prop_flat_map(|format| (Just(format), batches(format))),
        cuts in prop::collection::vec(0_usize..300, 0..8),
        faults in faults(),
        garbage in prop::collection::vec(any::<u8>(), 0..900),
    ) {
        let mut file = begin(format);
        file.calls.content.extend_from_slice(&garbage);
        file.calls.faults = faults;
        for blocks in &batches {
            let _ = append(&mut file, blocks, &cuts);
        }
        file.finish();
        file.calls.check();
    }

    /// A full disk keeps each block that fits, with an end of stream, and nothing after it.
    #[test]
    fn a_full_disk_keeps_what_fits(
        (format, batches) in formats().prop_flat_map(|format| (Just(format), batches(format))),
        room in 0_u64..3_000,
        by_limit in any::<bool>(),
    ) {
        let mut file = begin(format);
        let empty = file.length();
        if by_limit {
            file.calls.limit = empty + room;
        } else {
            file.calls.capacity = empty + room;
        }
        let mut fitting = empty;
        let mut full = false;
        for blocks in &batches {
            let result = append(&mut file, blocks, &[]);
            for block in blocks {
                if fitting + block.len() as u64 > empty + room {
                    full = true;
                    break;
                }
                fitting += block.len() as u64;
            }
            prop_assert_eq!(result.is_err(), full);
            prop_assert_eq!(file.length(), fitting);
            if let Err(error) = result {
                let expected =
                    if by_limit { ErrorKind::FileTooLarge } else { ErrorKind::StorageFull };
                prop_assert_eq!(error.source.kind(), expected);
                prop_assert_eq!(file.calls.content.len() as u64, fitting);
                break;
            }
        }
    }
}

/// Each call of a batch fails once, alone and for good. The file is as before, or as `kept` says.
#[test]
fn each_call_fails_in_turn() {
    for format in [Format::Four, Format::One] {
        for lasting in [1, 100] {
            for at in 0..4 {
                let mut file = begin(format);
                let blocks = [format.block(b"one"), format.block(b"second"), format.block(b"3")];
                append(&mut file, &blocks, &[]).unwrap();
                let calls = file.calls.calls;
                let mut faults = vec![Fault::Fails(ErrorKind::Other); lasting];
                faults.resize(lasting + at, Fault::Short(6));
                file.calls.faults = faults;
                let error = append(&mut file, &blocks, &[]).unwrap_err();
                assert_eq!(error.source.kind(), ErrorKind::Other);
                assert!(file.calls.calls > calls);
            }
        }
    }
}

/// A switch that fails half-way and cannot be undone leaves everything that the half-written end
/// needs.
#[test]
fn a_torn_switch_keeps_what_follows_it() {
    for half in 1..4 {
        let mut file = begin(Format::Four);
        file.calls.faults =
            [vec![Fault::Fails(ErrorKind::Other); 2], vec![Fault::Short(half), Fault::None]]
                .concat();
        let error = append(&mut file, &[Format::Four.block(&[7; 300])], &[]).unwrap_err();
        assert_eq!(error.kept, 0);
        assert!(file.torn);
        file.calls.check();
        // As long as the undoing fails nothing is taken.
        file.calls.faults = vec![Fault::Fails(ErrorKind::Other)];
        let error = append(&mut file, &[Format::Four.block(b"next")], &[]).unwrap_err();
        assert_eq!((error.kept, error.source.kind()), (0, ErrorKind::Other));
        // A batch without blocks completes the undoing, too.
        append(&mut file, &[], &[]).unwrap();
        assert!(!file.torn);
        append(&mut file, &[Format::Four.block(b"next")], &[]).unwrap();
        file.finish();
        file.calls.check();
    }
}

#[test]
fn a_failed_batch_leaves_nothing_behind() {
    let mut file = begin(Format::Four);
    file.calls.faults = vec![Fault::Fails(ErrorKind::Other), Fault::Short(20)];
    let length = file.length();
    append(&mut file, &[Format::Four.block(&[7; 300])], &[]).unwrap_err();
    assert_eq!(file.calls.content.len() as u64, length);
}

#[test]
fn short_and_interrupted_calls_are_no_errors() {
    let mut file = begin(Format::Four);
    let faults = [Fault::Interrupted, Fault::Short(1), Fault::Interrupted, Fault::Short(3)];
    file.calls.faults = faults.repeat(40);
    let blocks = [Format::Four.block(&[7; 30]), Format::Four.block(b"")];
    append(&mut file, &blocks, &[1, 2, 0, 5]).unwrap();
    assert!(!file.calls.faults.is_empty() && file.calls.faults.len() < 120);
}

/// A flush costs one call for the batch and one for the switch.
#[test]
fn a_batch_is_two_calls() {
    let mut file = begin(Format::Four);
    let calls = file.calls.calls;
    append(&mut file, &[Format::Four.block(&[7; 300]), Format::Four.block(b"")], &[1, 2, 0, 5])
        .unwrap();
    assert_eq!(file.calls.calls, calls + 2);
}

#[test]
fn without_an_end_of_stream_batches_follow_each_other() {
    let mut disk = Disk::new(Format::Four);
    disk.capacity = 30;
    let mut file = CompleteFile::begin(disk, HEADER, &[]).unwrap();
    let pieces = [IoSlice::new(b"0123456789")];
    file.append(&Batch::new(&pieces, &[10])).unwrap();
    file.append(&Batch::new(&pieces, &[4, 10])).unwrap();
    let error = file.append(&Batch::new(&pieces, &[2, 4, 10])).unwrap_err();
    assert_eq!((error.kept, error.source.kind()), (2, ErrorKind::StorageFull));
    assert_eq!(file.calls.content, b"header!0123456789012345678901");
}

#[test]
fn a_long_end_of_stream_is_refused() {
    let error = CompleteFile::begin(Disk::new(Format::Four), HEADER, &[0; 17]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}
