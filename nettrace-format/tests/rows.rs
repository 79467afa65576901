//! Rows: what is encoded comes back, padded numbers too, and nothing makes the decoder panic.

use nettrace_format::v6::{MAX_ROW_HEADER, RowEncoder, RowFlags, RowHeader, RowState, decode_row};
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

/// Makes every LEB128 number of a header one byte longer where its width allows.
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

/// Rows of one thread as time goes by: timestamps of 1, 2 and more bytes, a type now and then.
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

/// A producer's row refers to the row before it, which may have gone out in full in another block:
/// a full row in front leaves the rows behind it right, byte for byte.
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
