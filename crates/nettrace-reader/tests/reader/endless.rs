//! Streams that never end. If they would need more and more memory, a limit ends them, and the
//! error names the limit.

use std::io::{self, Read};

use nettrace_reader::{Error, ErrorKind, Options, ReadAhead, Rule, verify_with};
use testkit::streams::{
    EventType, Row, Stream,
    v5::{self, Objects},
};

/// More bytes than a limit allows of any of these streams.
const PATIENCE: u64 = 8 << 20;

/// A beginning, then an endless number of pieces. Each piece is made from its number and its
/// offset.
struct Endless {
    pending: Vec<u8>,
    at: usize,
    offset: u64,
    number: u64,
    piece: fn(u64, u64) -> Vec<u8>,
}

impl Endless {
    fn new(beginning: Vec<u8>, piece: fn(u64, u64) -> Vec<u8>) -> Self {
        Self { pending: beginning, at: 0, offset: 0, number: 0, piece }
    }
}

impl Read for Endless {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.pending.len() {
            self.pending = (self.piece)(self.number, self.offset);
            self.number += 1;
            self.at = 0;
        }
        let rest = &self.pending[self.at..];
        let count = rest.len().min(out.len());
        out[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        self.offset += count as u64;
        if self.offset > PATIENCE {
            return Err(io::Error::other("it was read on and on"));
        }
        Ok(count)
    }
}

/// Keeps everything that a stream states about threads and types, within small limits.
fn options() -> Options {
    Options::default()
        .definitions_limit(1 << 20)
        .block_limit(1 << 20)
        .sort_limit(1 << 20)
        .keep_thread_totals(true)
        .keep_type_totals(true)
}

fn is_limit(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::LimitExceeded { limit: 0x10_0000, .. })
}

/// Which readers must reach a limit. Rows alone take memory only if they are sorted. Definitions
/// that the stream drops take memory only if their totals are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    All,
    AllThatDeliver,
    Sorted,
}

fn check(name: &str, who: Who, source: fn() -> Endless) {
    let sorted = |result: nettrace_reader::Result<()>| {
        let error = result.expect_err(name);
        assert!(is_limit(&error), "{name}: {error}");
        assert!(error.offset() > 0 && error.offset() < PATIENCE, "{name}: {error}");
    };
    sorted(options().open(source()).and_then(|reader| {
        let mut reader = reader.sorted();
        while reader.next_event()?.is_some() {}
        Ok(())
    }));
    sorted(options().open(ReadAhead::new(source()).at_once()).and_then(|reader| {
        let mut reader = reader.sorted();
        while reader.next_event()?.is_some() {}
        Ok(())
    }));
    let plain = |result: nettrace_reader::Result<()>| match who {
        Who::Sorted => {
            assert!(matches!(result.expect_err(name).kind(), ErrorKind::Io(_)), "{name}")
        }
        Who::All | Who::AllThatDeliver => sorted(result),
    };
    plain(options().open(source()).and_then(|mut reader| {
        while reader.next_event()?.is_some() {}
        Ok(())
    }));
    plain(options().open(source()).and_then(|mut reader| reader.read_to_end()));
    plain(options().open(source()).and_then(|mut reader| {
        while reader.next_item()?.is_some() {}
        Ok(())
    }));

    let report = verify_with(source(), options(), usize::MAX);
    if who == Who::All {
        let report = report.expect(name);
        assert!(report.bytes < PATIENCE, "{name}");
        let end = report.violations.last().expect(name);
        assert_eq!(end.rule, Rule::Readable, "{name}: {end}");
        assert!(end.detail.contains("would take more than 1048576 bytes"), "{name}: {end}");
    } else {
        assert!(matches!(report.expect_err(name).kind(), ErrorKind::Io(_)), "{name}");
    }
}

/// A stream of version 6 with a thread and a type, followed by the blocks of `add`.
fn v6(add: impl FnOnce(&mut Stream) -> &mut Stream) -> Vec<u8> {
    let mut stream = Stream { bytes: Vec::new() };
    add(&mut stream);
    stream.bytes
}

fn v6_begin() -> Vec<u8> {
    let mut stream = Stream::new();
    stream.thread(5).simple_metadata(1);
    stream.bytes
}

/// Objects of version 4 or 5 at `offset`, which determines their padding.
fn objects(offset: u64, add: impl FnOnce(&mut Objects) -> &mut Objects) -> Vec<u8> {
    let before = (offset % 4) as usize;
    let mut objects = Objects { bytes: vec![0; before] };
    add(&mut objects);
    objects.bytes.split_off(before)
}

fn v5_begin() -> Vec<u8> {
    let mut objects = Objects::new();
    objects.metadata(&[v5::simple_type(1)]);
    objects.bytes
}

#[test]
fn definitions_of_version_6() {
    check("threads", Who::All, || Endless::new(v6_begin(), |i, _| v6(|it| it.thread(100 + i))));
    check("types", Who::All, || {
        Endless::new(v6_begin(), |i, _| v6(|it| it.simple_metadata(100 + i)))
    });
    check("stacks", Who::All, || {
        Endless::new(v6_begin(), |i, _| v6(|it| it.stacks(1 + i as u32, &[&[1, 2, 3]])))
    });
    check("label lists", Who::All, || {
        Endless::new(v6_begin(), |i, _| v6(|it| it.label_lists(1 + i as u32, &[&[vec![9, 1]]])))
    });
    check("label lists in no order", Who::All, || {
        Endless::new(v6_begin(), |i, _| {
            let index = 1 + (i as u32).reverse_bits();
            v6(|it| it.label_lists(index, &[&[vec![9, 1]]]))
        })
    });
    check("label lists with texts", Who::All, || {
        Endless::new(v6_begin(), |i, _| {
            let text = [&[5, 1, b'k', 100], &[b'x'; 100][..]].concat();
            v6(|it| it.label_lists(1 + i as u32, &[&[text]]))
        })
    });
    check("a long name", Who::All, || {
        Endless::new(v6_begin(), |i, _| {
            let name = "name ".repeat(2000);
            v6(|it| it.metadata(&EventType::new(100 + i, "Test", 100 + i, &name)))
        })
    });
}

#[test]
fn what_is_kept_of_what_is_gone() {
    check("removed threads", Who::AllThatDeliver, || {
        Endless::new(v6_begin(), |i, _| v6(|it| it.thread(100 + i).remove_thread(100 + i, 0)))
    });
    check("flushed threads", Who::AllThatDeliver, || {
        Endless::new(v6_begin(), |i, _| {
            v6(|it| it.thread(100 + i).sequence_point(2000 + i, 1, &[]))
        })
    });
    check("flushed types", Who::AllThatDeliver, || {
        Endless::new(v6_begin(), |i, _| {
            v6(|it| it.simple_metadata(100 + i).sequence_point(2000 + i, 2, &[]))
        })
    });
}

#[test]
fn definitions_of_versions_4_and_5() {
    check("threads of rows", Who::All, || {
        Endless::new(v5_begin(), |i, offset| {
            objects(offset, |it| it.events(&[Row::new(100 + i, 1, 2000 + i).sorted()]))
        })
    });
    check("threads of sequence points", Who::All, || {
        // Every sequence point lists the threads, so none can be dropped.
        Endless::new(v5_begin(), |i, offset| {
            let threads: Vec<_> = (0..1000 * (i + 1)).map(|id| (100 + id, 1)).collect();
            objects(offset, |it| it.sequence_point(2000 + i, &threads))
        })
    });
    check("types", Who::All, || {
        Endless::new(v5_begin(), |i, offset| {
            objects(offset, |it| it.metadata(&[v5::simple_type(100 + i as u32)]))
        })
    });
    check("types of version 5", Who::All, || {
        Endless::new(v5_begin(), |i, offset| {
            let id = 100 + i as u32;
            let fields = v5::tagged_fields(&[("a", v5::code(&[19, 9])), ("b", v5::code(&[18]))]);
            let tags = [vec![0; 4], v5::tag(1, &[7]), v5::tag(2, &fields)].concat();
            objects(offset, |it| it.metadata(&[v5::event_type(id, id, "T", &tags)]))
        })
    });
    check("stacks", Who::All, || {
        Endless::new(v5_begin(), |i, offset| {
            objects(offset, |it| it.stacks(1 + i as u32, &[&[1, 2, 3]]))
        })
    });
}

#[test]
fn events_that_wait() {
    check("rows without a mark", Who::Sorted, || {
        Endless::new(v6_begin(), |i, _| {
            v6(|it| it.events(&[Row::new(5, 1 + i as u32, 2000 + i).payload(&[7; 900])]))
        })
    });
    check("rows without a mark, version 5", Who::Sorted, || {
        Endless::new(v5_begin(), |i, offset| {
            let row = Row::new(5, 1 + i as u32, 2000 + i).payload(&[7; 900]);
            objects(offset, |it| it.events(&[row]))
        })
    });
    // Marking the oldest event as sorted does not release the events after it.
    check("marks that release nothing", Who::Sorted, || {
        Endless::new(v6_begin(), |i, _| {
            let number = 1 + 2 * i as u32;
            let late = Row::new(5, number + 1, 9000 + i).payload(&[7; 900]);
            v6(|it| it.events(&[Row::new(5, number, 2000).sorted(), late]))
        })
    });
}

#[test]
fn one_block() {
    check("a block that claims 16 MiB", Who::All, || {
        let mut bytes = v6_begin();
        bytes.extend([0xFF, 0xFF, 0xFF, testkit::streams::EVENT]);
        Endless::new(bytes, |_, _| vec![0; 4096])
    });
    check("a block that claims 2 GiB", Who::All, || {
        let mut objects = Objects::new();
        objects.start(v5::EVENTS, 2, 2);
        objects.bytes.extend(i32::MAX.to_le_bytes());
        Endless::new(objects.bytes, |_, _| vec![0; 4096])
    });
    check("a stack of 2 GiB", Who::All, || {
        let mut objects = Objects::new();
        objects.start(v5::STACKS, 2, 2);
        objects.bytes.extend(i32::MAX.to_le_bytes());
        Endless::new(objects.bytes, |_, _| vec![0; 4096])
    });
}

/// Streams that take no memory may go on for ever, as live streams do. Only the source ends them.
#[test]
fn what_takes_no_memory_has_no_limit() {
    let sources: [fn() -> Endless; 4] = [
        || Endless::new(v6_begin(), |_, _| v6(|it| it.label_lists(7, &[&[vec![4; 9]]]))),
        || Endless::new(v6_begin(), |_, _| v6(|it| it.block(200, &[0; 1000]))),
        || {
            Endless::new(v6_begin(), |i, _| {
                v6(|it| it.events(&[Row::new(5, 1 + i as u32, 2000 + i).sorted()]))
            })
        },
        // An unknown object, followed by values that a reader must skip.
        || {
            let mut objects = Objects::new();
            objects.start("Nobody", 2, 2);
            Endless::new(objects.bytes, |_, _| [&[13, 0, 16, 0, 0][..], &[0; 4096]].concat())
        },
    ];
    for source in sources {
        let mut reader = options().open(source()).unwrap().sorted();
        let end = loop {
            match reader.next_event() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("there is no end"),
                Err(error) => break error,
            }
        };
        assert!(matches!(end.kind(), ErrorKind::Io(_)), "{end}");
    }
}
