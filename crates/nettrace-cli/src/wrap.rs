//! Lines that a terminal is too narrow for.

use console::{Term, measure_text_width};

/// How many columns standard output has, if it is a terminal.
pub(crate) fn columns_of_stdout() -> Option<usize> {
    let term = Term::stdout();
    term.is_term().then(|| usize::from(term.size().1)).filter(|columns| *columns > 0)
}

/// Breaks a line that has more columns, at blanks. What follows is indented.
pub(crate) fn wrap(line: &str, columns: usize, indent: usize, out: &mut Vec<u8>) {
    let (mut column, mut blanks) = (0, 0);
    for word in line.split(' ') {
        let width = measure_text_width(word.trim_end());
        if width > 0 && column > indent && column + blanks + width > columns {
            out.push(b'\n');
            (column, blanks) = (0, indent);
        }
        if width > 0 {
            out.resize(out.len() + blanks, b' ');
            (column, blanks) = (column + blanks + width, 0);
        }
        out.extend_from_slice(word.as_bytes());
        blanks += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[track_caller]
    fn check(line: &str, columns: usize, expected: &str) {
        let mut out = Vec::new();
        let indent = 4 + line.len() - line.trim_start_matches(' ').len();
        wrap(line, columns, indent, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn lines_are_broken_at_blanks() {
        let line = "12:00  INFO   > \x1b[38;5;244mShop/Pay [id]\x1b[0m: µ is paid\n\n";
        for columns in [40, 100] {
            check(line, columns, line);
        }
        let broken = "12:00  INFO   > \x1b[38;5;244mShop/Pay [id]\x1b[0m: µ is\n    paid\n\n";
        for columns in [35, 39] {
            check(line, columns, broken);
        }
        let broken =
            "12:00  INFO\n    > \x1b[38;5;244mShop/Pay\n    [id]\x1b[0m: µ is\n    paid\n\n";
        check(line, 14, broken);
        // What has no blank is the terminal's own affair.
        let words: Vec<_> = line.split_whitespace().collect();
        check(line, 1, &(words.join("\n    ") + "\n\n"));
        // These take two columns each.
        check("12:00  支払い 済み\n", 12, "12:00\n    支払い\n    済み\n");
        check("12:00  支払い 済み\n", 13, "12:00  支払い\n    済み\n");
        check("    at shop, shop.rs:1\n", 14, "    at shop,\n        shop.rs:1\n");
    }
}
