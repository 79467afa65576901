//! Rows decode to what was encoded, with padded numbers too, and no bytes make the decoder panic.

use nettrace_format::v6::{
    MAX_ROW_HEADER, RELABEL_ROOM, RowChange, RowEncoder, RowFlags, RowHeader, RowState, change_row,
    decode_row, relabel_row,
};
use proptest::prelude::*;

/// Headers whose fields often repeat, as those of real rows do.
fn headers() -> impl Strategy<Value = Vec<RowHeader>> {
    let number = || prop_oneof![3 => Just(1_u32), 1 => 0_u32..300, 1 => any::<u32>()];
    let long = || prop_oneof![3 => Just(1_u64), 1 => 0_u64..300, 1 => any::<u64>()];
    let row = (
        (number(), number(), long(), number(), long()),
        (number(), long(), number(), any::<bool>(), 0_u32..=65_436),
    );
    let header = row.prop_map(
        |(
            (metadata_id, sequence, capture_thread, processor, thread),
            (stack, timestamp, labels, sorted, payload_len),
        )| RowHeader {
            metadata_id,
            sequence,
            capture_thread,
            processor,
            thread,
            stack,
            timestamp,
            labels,
            sorted,
            payload_len,
        },
    );
    prop::collection::vec(header, 1..20)
}

/// Makes every LEB128 number of a header one byte longer, if its width allows.
fn pad(header: &[u8]) -> Vec<u8> {
    let flags = header[0];
    let mut widths = Vec::new();
    let present = [
        (RowFlags::METADATA, &[5][..]),
        (RowFlags::CAPTURE, &[5, 10, 5]),
        (RowFlags::THREAD, &[10]),
        (RowFlags::STACK, &[5]),
        (0, &[10]),
        (RowFlags::LABELS, &[5]),
        (RowFlags::PAYLOAD_LEN, &[5]),
    ];
    for (flag, group) in present {
        if flag == 0 || flags & flag != 0 {
            widths.extend_from_slice(group);
        }
    }
    let mut padded = vec![flags];
    let mut numbers = header[1..].split_inclusive(|byte| byte & 0x80 == 0);
    for width in widths {
        let number = numbers.next().unwrap();
        padded.extend_from_slice(number);
        if number.len() < width {
            *padded.last_mut().unwrap() |= 0x80;
            padded.push(0);
        }
    }
    assert!(numbers.next().is_none());
    padded
}

/// Rows of one thread in the order of time: timestamps of 1, 2 and more bytes, sometimes another
/// type.
fn steady_rows() -> impl Strategy<Value = Vec<RowHeader>> {
    let delta = prop_oneof![0_u64..0x80, 0x80_u64..0x4000, any::<u32>().prop_map(u64::from)];
    let change = (delta, any::<bool>(), 0_u8..10, 1_u32..300, 0_u32..300);
    prop::collection::vec(change, 1..50).prop_map(|changes| {
        let mut row = RowHeader { metadata_id: 1, capture_thread: 7, ..RowHeader::default() };
        let next = |(delta, sorted, what, metadata_id, payload_len): (u64, bool, u8, u32, u32)| {
            row.sequence += 1;
            row.timestamp += delta;
            row.sorted = sorted;
            if what == 0 || what == 1 {
                row.metadata_id = metadata_id;
            }
            if what == 0 || what == 2 {
                row.payload_len = payload_len;
            }
            row
        };
        changes.into_iter().map(next).collect()
    })
}

proptest! {
    #[test]
    fn steady_rows_come_back(rows in steady_rows()) {
        let mut encoder = RowEncoder::new();
        let mut state = RowState::new();
        for (index, row) in rows.iter().enumerate() {
            let mut bytes = Vec::new();
            encoder.row(row, &mut bytes);
            if index > 0 {
                let rare = RowFlags::CAPTURE | RowFlags::THREAD | RowFlags::STACK;
                prop_assert_eq!(bytes[0] & rare, 0);
                for len in 0..bytes.len() {
                    let before = state;
                    prop_assert_eq!(state.advance(&bytes[..len]), None);
                    prop_assert_eq!(state, before);
                }
            }
            prop_assert_eq!(decode_row(&mut state, &bytes), Some((*row, bytes.len())));
        }
    }

    #[test]
    fn encoded_rows_come_back(headers in headers(), full in any::<u32>()) {
        let mut encoder = RowEncoder::new();
        let mut state = RowState::new();
        for (index, header) in headers.iter().enumerate() {
            let mut bytes = Vec::new();
            let full = index == 0 || full >> (index % 32) & 1 == 1;
            if full {
                encoder.full_row(header, &mut bytes);
                let explicit = RowFlags::METADATA | RowFlags::CAPTURE | RowFlags::PAYLOAD_LEN;
                prop_assert_eq!(bytes[0] & explicit, explicit);
            } else {
                encoder.row(header, &mut bytes);
            }
            prop_assert!(bytes.len() <= MAX_ROW_HEADER);
            let mut padded_state = state;
            let padded = pad(&bytes);
            prop_assert_eq!(padded_state.advance(&padded), Some(padded.len()));
            prop_assert_eq!(decode_row(&mut state, &bytes), Some((*header, bytes.len())));
            prop_assert_eq!(padded_state, state);
        }
    }

    /// A plain row that says more than it was recorded with reads as one that was encoded with it,
    /// whether its numbers are padded or not.
    #[test]
    fn changed_rows_come_back(
        rows in steady_rows(),
        change in any::<(Option<(u32, u64, u32)>, Option<u64>, Option<u32>, Option<u32>)>(),
        padded in any::<bool>(),
    ) {
        let (skipped, thread, stack, labels) = change;
        let change = RowChange { skipped, thread, stack, labels };
        let (mut encoder, mut state) = (RowEncoder::new(), RowState::new());
        let mut bytes = Vec::new();
        for row in rows {
            bytes.clear();
            let before = *state.last();
            encoder.row(&row, &mut bytes);
            let header = if padded { pad(&bytes) } else { bytes.clone() };
            let mut plain = state;
            let len = plain.advance(&header).unwrap();
            prop_assert_eq!(len, header.len());
            let mut out = vec![7];
            let special = RowFlags::CAPTURE | RowFlags::THREAD | RowFlags::STACK | RowFlags::LABELS;
            if header[0] & special != 0 {
                prop_assert_eq!(change_row(&header, &change, &mut out), None);
                prop_assert_eq!(relabel_row(&header, 1, &mut [0; RELABEL_ROOM]), None);
                prop_assert_eq!(out, [7]);
            } else {
                // With a payload and without: the short way looks at eight bytes.
                for payload in [&[][..], &[0; 8], &[0xFF; 8]] {
                    let row = [&header, payload].concat();
                    let (id, mut room) = (labels.unwrap_or(1), [7; RELABEL_ROOM]);
                    let (replaced, len) = relabel_row(&row, id, &mut room).unwrap();
                    let out = [&room[..len], &row[replaced..]].concat();
                    let mut changed = state;
                    let len = out.len() - payload.len();
                    prop_assert_eq!(changed.advance(&out), Some(len));
                    prop_assert_eq!(*changed.last(), RowHeader { labels: id, ..*plain.last() });
                }
                let replaced = change_row(&header, &change, &mut out).unwrap();
                out.extend_from_slice(&header[replaced..]);
                let mut changed = state;
                prop_assert_eq!(changed.advance(&out[1..]), Some(out.len() - 1));
                let mut expected = *plain.last();
                if let Some((skipped, capture_thread, processor)) = skipped {
                    expected.sequence = expected.sequence.wrapping_add(skipped);
                    (expected.capture_thread, expected.processor) = (capture_thread, processor);
                }
                expected.thread = thread.unwrap_or(before.thread);
                expected.stack = stack.unwrap_or(before.stack);
                expected.labels = labels.unwrap_or(before.labels);
                prop_assert_eq!(*changed.last(), expected);
            }
            state = plain;
        }
    }

    #[test]
    fn cut_headers_are_refused(headers in headers()) {
        let mut bytes = Vec::new();
        RowEncoder::new().full_row(&headers[0], &mut bytes);
        for len in 0..bytes.len() {
            let mut state = RowState::after(headers[0]);
            prop_assert_eq!(state.advance(&bytes[..len]), None);
            prop_assert_eq!(*state.last(), headers[0]);
        }
    }

    #[test]
    fn any_bytes_are_taken_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let mut state = RowState::new();
        let mut at = 0;
        while let Some(len) = state.advance(&bytes[at..]) {
            prop_assert!((2..=bytes.len() - at).contains(&len));
            at += len;
        }
    }
}

/// A producer's row is a delta to the row before it, which may have been written to another block
/// as a full row. With a full row before them, the same bytes of later rows are still correct.
#[test]
fn rows_behind_a_full_row_stay_as_they_are() {
    let row = |sequence, timestamp| RowHeader {
        metadata_id: 3,
        sequence,
        capture_thread: 9,
        processor: 1,
        thread: 9,
        stack: 0,
        timestamp,
        labels: 2,
        sorted: false,
        payload_len: 16,
    };
    let rows = [row(1, 100), row(2, 110), row(3, 125), row(5, 130)];
    let mut producer = RowEncoder::new();
    let written: Vec<Vec<u8>> = rows
        .iter()
        .map(|row| {
            let mut bytes = Vec::new();
            producer.row(row, &mut bytes);
            bytes
        })
        .collect();

    let mut block = Vec::new();
    RowEncoder::new().full_row(&rows[1], &mut block);
    block.extend_from_slice(&written[2]);
    block.extend_from_slice(&written[3]);

    let mut state = RowState::new();
    let mut at = 0;
    for row in &rows[1..] {
        let (decoded, len) = decode_row(&mut state, &block[at..]).unwrap();
        assert_eq!(decoded, *row);
        at += len;
    }
    assert_eq!(at, block.len());
}
