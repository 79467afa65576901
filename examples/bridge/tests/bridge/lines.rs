//! The JSON lines of a run, by thread.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Map, Value};

/// A line: an event, or a span that is made or closes.
#[derive(Debug)]
pub(crate) struct Line {
    /// Its number in the file, from 1.
    pub(crate) number: usize,
    pub(crate) level: String,
    pub(crate) target: String,
    pub(crate) file: String,
    pub(crate) line: u64,
    /// What the event has, or `message` and, when a span closes, its times.
    pub(crate) fields: Map<String, Value>,
    /// The fields of the span that the event is in, and its `name`.
    pub(crate) span: Map<String, Value>,
    /// The same of all spans that the thread was in, the root first.
    pub(crate) spans: Vec<Map<String, Value>>,
    /// The ids of the spans that the event is in, the root first. That of a span that is made or
    /// closes is the last.
    pub(crate) ids: Vec<u64>,
}

/// The lines of each thread, by its name.
pub(crate) fn read(path: &Path) -> BTreeMap<String, Vec<Line>> {
    let mut threads: BTreeMap<String, Vec<Line>> = BTreeMap::new();
    for (index, line) in fs::read_to_string(path).unwrap().lines().enumerate() {
        let mut line: Map<String, Value> =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let mut take = |key: &str| line.remove(key).unwrap_or_default();
        let text = |value: Value| value.as_str().unwrap().to_owned();
        let object = |value: Value| match value {
            Value::Object(object) => object,
            Value::Null => Map::new(),
            other => panic!("{other}"),
        };
        let array = |value: Value| match value {
            Value::Array(values) => values,
            Value::Null => Vec::new(),
            other => panic!("{other}"),
        };
        let thread = text(take("threadName"));
        threads.entry(thread).or_default().push(Line {
            number: index + 1,
            level: text(take("level")),
            target: text(take("target")),
            file: text(take("filename")),
            line: take("line_number").as_u64().unwrap(),
            fields: object(take("fields")),
            span: object(take("span")),
            spans: array(take("spans")).into_iter().map(object).collect(),
            ids: array(take("ids")).iter().map(|id| id.as_u64().unwrap()).collect(),
        });
    }
    threads
}
