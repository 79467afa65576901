//! Schemas as JSON and as Markdown.

use std::{collections::BTreeMap, io::Write};

use nettrace_event::lock::Catalogue;
use serde::Serialize;

use crate::{failure::Failure, spelling::OneLine};

/// An event. A key that is not there has nothing to say.
#[derive(Serialize)]
pub(super) struct EventRow<'a> {
    provider: &'a str,
    name: &'a str,
    version: u32,
    id: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    id_is_given: Option<bool>,
    level: u8,
    keywords: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    opcode: Option<u8>,
    #[serde(skip_serializing_if = "str::is_empty")]
    module: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    meaning: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    keys: BTreeMap<&'a str, &'a str>,
    fields: Vec<FieldRow<'a>>,
}

#[derive(Serialize)]
struct FieldRow<'a> {
    name: &'a str,
    #[serde(rename = "type")]
    ty: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    secret: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    meaning: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    keys: BTreeMap<&'a str, &'a str>,
}

fn keys(pairs: &[(String, String)]) -> BTreeMap<&str, &str> {
    pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

/// All events.
pub(super) fn json(catalogue: &Catalogue) -> Vec<EventRow<'_>> {
    catalogue
        .events
        .iter()
        .map(|event| EventRow {
            provider: &event.provider,
            name: &event.name,
            version: event.version,
            id: event.id,
            id_is_given: event.id_is_given,
            level: event.level,
            keywords: event.keywords,
            opcode: event.opcode,
            module: &event.module,
            message: event.message.as_deref(),
            meaning: event.meaning.as_deref(),
            keys: keys(&event.keys),
            fields: event
                .fields
                .iter()
                .map(|field| FieldRow {
                    name: &field.name,
                    ty: field.ty.to_string(),
                    secret: field.is_secret,
                    format: field.format.as_deref(),
                    role: field.role.as_deref(),
                    meaning: field.meaning.as_deref(),
                    keys: keys(&field.keys),
                })
                .collect(),
        })
        .collect()
}

/// A page with a table of each event's fields.
pub(super) fn markdown(catalogue: &Catalogue, out: &mut impl Write) -> Result<(), Failure> {
    let mut provider = None;
    for event in &catalogue.events {
        if provider != Some(&event.provider) {
            provider = Some(&event.provider);
            writeln!(out, "# {}\n", cell(&event.provider))?;
        }
        writeln!(out, "## {}\n", cell(&event.name))?;
        if let Some(meaning) = &event.meaning {
            writeln!(out, "{}\n", cell(meaning))?;
        }
        write!(out, "Id {}, version {}, level {}", event.id, event.version, event.level)?;
        if event.keywords != 0 {
            write!(out, ", keywords {:#x}", event.keywords)?;
        }
        if !event.module.is_empty() {
            write!(out, ", module {}", cell(&event.module))?;
        }
        writeln!(out, ".\n")?;
        if event.fields.is_empty() {
            continue;
        }
        writeln!(out, "| field | type | meaning |\n|---|---|---|")?;
        for field in &event.fields {
            let secret = if field.is_secret { "secret " } else { "" };
            let mut meaning = field.meaning.clone().unwrap_or_default();
            let shown = [("format", &field.format), ("role", &field.role)];
            let shown = shown.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
            let keys = field.keys.iter().map(|(key, value)| (key.as_str(), value));
            for (key, value) in shown.chain(keys) {
                let comma = if meaning.is_empty() { "" } else { "; " };
                meaning += &format!("{comma}{key}: {value}");
            }
            let ty = field.ty.to_string();
            writeln!(
                out,
                "| {} | {secret}{} | {} |",
                cell(&field.name),
                cell(&ty),
                cell(&meaning)
            )?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// A text that Markdown does not take for its own signs.
fn cell(text: &str) -> String {
    let mut cell = String::new();
    for character in OneLine(text).to_string().chars() {
        if character.is_ascii_punctuation() && !matches!(character, '.' | ',' | ':' | '/' | '-') {
            cell.push('\\');
        }
        cell.push(character);
    }
    cell
}
