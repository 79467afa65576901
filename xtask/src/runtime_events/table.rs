//! Writes the table.

use std::{collections::HashMap, fmt::Write};

use crate::runtime_events::manifest::{Count, Event, Field, Type};

type Result<T> = std::result::Result<T, String>;

/// The head of the table. Its lines stand before all others in the order of bytes.
const HEAD: &str = "\
# Events of the .NET runtime. Written by `cargo xtask runtime-events`; do not edit.
# The lines are sorted: provider, event id, version, name, fields.
";

/// Names by provider and event id.
pub(super) type Names<'a> = HashMap<(&'a str, u16), &'a str>;

/// Reads a list of names: provider, event id and name in columns with tabs between them.
pub(super) fn names(list: &str) -> Result<Names<'_>> {
    let mut names = Names::new();
    for line in list.lines() {
        let columns: Vec<_> = line.split('\t').collect();
        let entry = match &*columns {
            [provider, id, name] => id.parse().ok().map(|id| ((*provider, id), *name)),
            _ => None,
        };
        let (key, name) = entry.ok_or_else(|| format!("the list of names has the line {line}"))?;
        names.insert(key, name);
    }
    Ok(names)
}

/// Leaves out versions whose fields begin those of the next version. A reader takes the next one,
/// and finds the payload at its end before the further fields.
pub(super) fn without_prefixes(sorted: Vec<Event>) -> Vec<Event> {
    let mut kept: Vec<Event> = Vec::new();
    for event in sorted {
        if let Some(last) = kept.last() {
            let is_same = (&last.provider, last.id) == (&event.provider, event.id);
            if is_same && event.fields.starts_with(&last.fields) {
                kept.pop();
            }
        }
        kept.push(event);
    }
    kept
}

/// The text of the table.
pub(super) fn text(events: &[Event], names: &Names<'_>) -> Result<String> {
    let mut lines = Vec::new();
    for event in events {
        let name = names.get(&(&*event.provider, event.id)).copied();
        let name = name.unwrap_or_else(|| without_version(&event.symbol));
        let mut line = format!("{} {:05} {:03} {name}", event.provider, event.id, event.version);
        for text in [&event.provider, name] {
            check(text).map_err(|what| format!("{line}: {what}"))?;
        }
        write_fields(&event.fields, &mut line)?;
        lines.push(line);
    }
    lines.sort_unstable();
    Ok(lines.iter().fold(HEAD.to_owned(), |text, line| text + line + "\n"))
}

/// Writes fields, each after a blank.
fn write_fields(fields: &[Field], out: &mut String) -> Result<()> {
    for Field { name, count, ty } in fields {
        check(name)?;
        // A `String` takes everything.
        let _ = match count {
            Count::One => write!(out, " {name}"),
            Count::Number(count) => write!(out, " {name}[{count}]"),
            Count::Field(of) => write!(out, " {name}[{of}]"),
        };
        match ty {
            Type::Plain(ty) => out.extend([":", ty]),
            Type::Struct { fields, is_aligned } => {
                out.push_str(if *is_aligned { ":aligned{" } else { "{" });
                write_fields(fields, out)?;
                out.push_str(" }");
            }
        }
    }
    Ok(())
}

/// Checks that a name cannot be taken for anything else in a line.
fn check(name: &str) -> Result<()> {
    let is_mark = |c: char| c.is_whitespace() || matches!(c, ':' | '[' | ']' | '{' | '}');
    match name.is_empty() || name.contains(is_mark) || !name.is_ascii() {
        true => Err(format!("the name {name:?} does not fit into the table")),
        false => Ok(()),
    }
}

/// A symbol without the version at its end: `GCStart` for `GCStart_V2`.
fn without_version(symbol: &str) -> &str {
    match symbol.rsplit_once("_V") {
        Some((name, version)) if version.parse::<u8>().is_ok() => name,
        _ => symbol,
    }
}
