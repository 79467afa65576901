//! Cells of CSV, which programs read, and which people open in spreadsheets.

use std::fmt;

use crate::spelling::OneLine;

/// Characters that a spreadsheet takes for the beginning of a formula, also in the wide forms that
/// it takes for the narrow ones in some languages. Tabs and line ends are escaped before.
const FORMULA: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

/// A text as a cell: in one line, in quotes where RFC 4180 wants them, and behind an apostrophe if
/// it would be a formula. A number is no text: its minus stays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CsvCell<'a>(pub(crate) &'a str);

impl fmt::Display for CsvCell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quote = if self.0.contains(['"', ',']) { "\"" } else { "" };
        let apostrophe = if self.0.starts_with(FORMULA) { "'" } else { "" };
        write!(f, "{quote}{apostrophe}")?;
        for (at, part) in self.0.split('"').enumerate() {
            write!(f, "{}{}", if at > 0 { "\"\"" } else { "" }, OneLine(part))?;
        }
        f.write_str(quote)
    }
}

#[cfg(test)]
mod tests {
    use super::CsvCell;

    #[test]
    fn cells_are_one_line_and_no_formula() {
        for (text, cell) in [
            ("", ""),
            ("plain 'text' a=b", "plain 'text' a=b"),
            ("a,b \"c\"", "\"a,b \"\"c\"\"\""),
            ("a\r\nb\0", "a\\r\\nb\\0"),
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            ("-1,2", "\"'-1,2\""),
            ("@SUM(1)", "'@SUM(1)"),
            ("+1", "'+1"),
            ("＝1", "'＝1"),
            ("\t=1", "\\t=1"),
        ] {
            assert_eq!(CsvCell(text).to_string(), cell);
        }
    }
}
