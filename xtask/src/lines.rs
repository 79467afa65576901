//! Checks that no line of a text that people write is longer than 100 columns.
//!
//! A column is a character, not a byte. Lines that cannot be broken are exempt: rows of tables,
//! links and other long words, in Markdown and in comments.

use std::{fs, path::PathBuf};

use crate::{
    error::{Error, Result},
    step::Step,
    workspace::Workspace,
};

/// The width of a line, for text as for code.
const WIDTH: usize = 100;

/// Checks every file that git tracks or would add.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let listed = Step::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "--"])
        .args(["*.rs", "*.toml", "*.md", "*.sh", ".ci/run"])
        // Compiler messages are expected to repeat the lines of these files.
        .arg(":!nettrace-macros/tests/ui")
        .within(&workspace.root)
        .read()?;
    let mut findings = Vec::new();
    let mut files = 0;
    for name in listed.lines() {
        let path: PathBuf = workspace.root.join(name);
        // The file was deleted, but the deletion is not committed.
        if !path.is_file() {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(|source| Error::File { path, source })?;
        let kind = name.rsplit('.').next().unwrap_or_default();
        let long = too_long(kind, &text);
        findings.extend(long.map(|(line, width)| format!("{name}:{line}: {width} columns")));
        files += 1;
    }
    if files == 0 {
        return Err(Error::Nothing("git lists no text".into()));
    }
    if findings.is_empty() {
        return Ok(());
    }
    Err(Error::Lines(format!("lines of more than {WIDTH} columns:\n  {}", findings.join("\n  "))))
}

/// The numbers, from 1, and the widths of the lines that are too long.
fn too_long<'a>(kind: &'a str, text: &'a str) -> impl Iterator<Item = (usize, usize)> + 'a {
    let widths = text.lines().map(|line| (line, line.chars().count()));
    let long = (1..)
        .zip(widths)
        .filter(move |(_, (line, width))| *width > WIDTH && !is_unbreakable(kind, line));
    long.map(|(number, (_, width))| (number, width))
}

/// Whether the line cannot be broken to make it shorter.
fn is_unbreakable(kind: &str, line: &str) -> bool {
    // In a Rust file only comments are exempt.
    let comment = line.trim_start();
    let text = ["//! ", "/// ", "// "].iter().find_map(|mark| comment.strip_prefix(mark));
    let text = match (kind, text) {
        ("md", _) => line,
        ("rs", Some(text)) => text,
        _ => return false,
    };
    let is_table = text.trim_start().starts_with('|');
    // The text without a list or quotation mark at its start.
    let words = text.trim().trim_start_matches(['-', '*', '>', ' ']);
    let is_word = !words.contains(' ') && words.len() > WIDTH / 2;
    is_table || is_word || text.contains("](")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: &str, line: &str, is_too_long: bool) {
        assert_eq!(too_long(kind, line).count(), usize::from(is_too_long), "{line}");
    }

    #[test]
    fn characters_are_counted() {
        check("rs", &"ä".repeat(100), false);
        check("rs", &"ä".repeat(101), true);
        assert_eq!(too_long("md", &format!("\n{}\n", "a b ".repeat(30))).next(), Some((2, 120)));
    }

    #[test]
    fn what_cannot_be_broken_may_be_longer() {
        let words = "some words ".repeat(10);
        for kind in ["md", "rs", "toml", "sh"] {
            check(kind, &words, true);
        }
        check("md", &format!("| {words} |"), false);
        check("md", &format!("see [{words}](there)"), false);
        check("md", &format!("    {}", "a".repeat(100)), false);
        check("rs", &format!("/// | {words} |"), false);
        check("rs", &format!("    // {words}"), true);
        check("rs", &format!("let a = \"| {words} |\";"), true);
        check("toml", &format!("# | {words} |"), true);
    }
}
