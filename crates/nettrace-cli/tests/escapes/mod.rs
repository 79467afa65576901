//! Looks at every byte that a command prints.
#![allow(dead_code, unreachable_pub)] // each test takes what it needs

use std::process::Output;

/// What a terminal obeys, what ends a line, and what changes how others are shown. Written down
/// apart from the list of the command.
fn is_forbidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
}

/// Nothing of what a command printed comes from a hostile text unchanged. `but` are characters that
/// the output has of its own, beside the ends of lines.
#[track_caller]
pub fn assert_printable(output: &Output, but: &str, what: &str) {
    for (name, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
        let text = std::str::from_utf8(bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
        for line in text.split('\n') {
            let is_wrong = |c: char| is_forbidden(c) && !(name == "stdout" && but.contains(c));
            assert!(!line.contains(is_wrong), "{what}, {name}: {line:?}");
            // The rest of a name that has broken its line.
            assert!(!line.starts_with("\t</script>"), "{what}, {name}: {line:?}");
        }
    }
}
