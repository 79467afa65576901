//! The rows of a CSV file.

use std::mem;

/// The rows of CSV, as RFC 4180 describes them, but with lines that end in `\n`.
///
/// # Panics
/// If a line has no end, or if a quote or `\r` is outside of quotes.
#[must_use]
pub fn rows(csv: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut value) = (Vec::new(), Vec::new(), String::new());
    let mut chars = csv.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if value.is_empty() => loop {
                match chars.next().expect("quotes come in pairs") {
                    '"' if chars.next_if_eq(&'"').is_some() => value.push('"'),
                    '"' => break,
                    c => value.push(c),
                }
            },
            ',' => row.push(mem::take(&mut value)),
            '\n' => {
                row.push(mem::take(&mut value));
                rows.push(mem::take(&mut row));
            }
            '\r' | '"' => panic!("{c:?} outside of quotes"),
            c => value.push(c),
        }
    }
    assert!(row.is_empty() && value.is_empty(), "the last row has no end");
    rows
}
