//! Recorder files that are damaged. Whatever their bytes are, the result is a sound trace.

use std::{fs, ops::Range};

use nettrace_format::recorder::{Recorder, Seen, layout};
use nettrace_reader::{Rule, Violation, verify};
use testkit::streams::random::Random;

use super::{Died, UNWRITTEN, text};
use crate::program::{nettrace, stderr};

const PAGE: usize = 4096;

/// Where a file has something: its pages, without those that have only zeros.
fn pages(bytes: &[u8]) -> Vec<usize> {
    let zeros = [0; PAGE];
    (0..bytes.len() / PAGE).filter(|page| bytes[page * PAGE..][..PAGE] != zeros).collect()
}

/// Damages a file in one of several ways. Returns the bytes that it had before.
fn damage(bytes: &mut [u8], pages: &[usize], random: &mut Random) -> Vec<(usize, Vec<u8>)> {
    let mut before = Vec::new();
    for _ in 0..=random.below(3) {
        let page = match random.below(4) {
            0 => 0,
            _ => pages[random.below(pages.len() as u64) as usize],
        };
        // The first page has few bytes that matter.
        let within = if page == 0 { 176 } else { PAGE };
        let at = page * PAGE + random.below(within as u64) as usize;
        let (range, fill): (Range<usize>, Option<u8>) = match random.below(8) {
            0 => (page * PAGE..(page + 1) * PAGE, Some(0)),
            1 => (at / 8 * 8..at / 8 * 8 + 8, Some(0xFF)),
            2 => (at / 8 * 8..at / 8 * 8 + 8, Some(0)),
            3 => (at..at + 1, Some(random.below(256) as u8)),
            _ => (at..at + 1, None),
        };
        before.push((range.start, bytes[range.clone()].to_vec()));
        match fill {
            Some(fill) => bytes[range].fill(fill),
            None => bytes[at] ^= 1 << random.below(8),
        }
    }
    before
}

/// Whether a violation is of what a type or a payload says, which nobody can check.
fn is_of_content(violation: &Violation) -> bool {
    let detail = &violation.detail;
    match violation.rule {
        Rule::PayloadFields => true,
        Rule::Readable => detail.contains("Metadata") || detail.contains("unknown type"),
        _ => false,
    }
}

#[test]
fn whatever_the_bytes_are_the_result_is_sound() {
    let died = Died::with("file");
    let mut bytes = fs::read(&died.recorder).unwrap();
    let pages = pages(&bytes);
    let mut random = Random::new(7);
    let (mut opened, mut recovered, mut most) = (0, 0, 0);
    for round in 0..2000 {
        let before = damage(&mut bytes, &pages, &mut random);
        if let Ok(recorder) = Recorder::open(&bytes) {
            opened += 1;
            let _ = (recorder.owner(), recorder.trace_path(), recorder.threads_without_slot());
            let seen = (round % 2 == 0).then(|| Seen::new(recorder.streams()));
            if let Ok(got) = recorder.recover(seen.as_ref()) {
                recovered += 1;
                most = most.max(got.events);
                let report = verify(&*got.stream).unwrap_or_else(|error| {
                    panic!("round {round}: {error}");
                });
                assert!(report.violations.iter().all(is_of_content), "round {round}: {report:?}");
                assert_eq!((report.events, report.lost), (got.events, got.lost), "round {round}");
            }
        }
        for (at, old) in before.into_iter().rev() {
            bytes[at..at + old.len()].copy_from_slice(&old);
        }
    }
    assert!(opened > 500 && recovered > 500, "{opened} {recovered}");
    assert!(most >= UNWRITTEN, "{most}");
}

#[test]
fn the_command_ends_with_a_trace_or_a_message() {
    let died = Died::with("file");
    let whole = fs::read(&died.recorder).unwrap();
    let pages = pages(&whole);
    let mut random = Random::new(11);
    let ends = [0, 7, 100, PAGE, layout::types::AT, layout::slot::AT + PAGE, whole.len() - 1];
    let cut = ends.map(|end| whole[..end].to_vec());
    let damaged = (0..24).map(|_| {
        let mut bytes = whole.clone();
        damage(&mut bytes, &pages, &mut random);
        bytes
    });
    let mut codes = Vec::new();
    for bytes in cut.into_iter().chain(damaged) {
        fs::write(&died.recorder, bytes).unwrap();
        for more in [&[][..], &["--rest"]] {
            let (output, out) = died.recover("out", more);
            let (code, said) = (output.status.code().unwrap(), stderr(&output));
            assert!(matches!(code, 0..=3) && !said.contains("panicked"), "{code}: {said}");
            if out.exists() {
                assert!(matches!(code, 0 | 3), "{code}: {said}");
                assert_eq!(code == 3, said.contains("the result has everything else"), "{said}");
                let report = verify(&*fs::read(&out).unwrap()).unwrap();
                assert!(report.violations.iter().all(is_of_content), "{report:?}");
                fs::remove_file(&out).unwrap();
            } else {
                assert!(matches!(code, 1 | 2) && said.starts_with("nettrace: "), "{code}: {said}");
            }
            codes.push(code);
        }
        let output = nettrace(&["info", text(&died.recorder)], b"");
        assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
    }
    assert!([0, 1, 3].iter().all(|code| codes.contains(code)), "{codes:?}");
}
