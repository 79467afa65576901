//! Helpers for tests of the command: run it on bytes, find the reference reader and .NET traces.
#![allow(dead_code, unreachable_pub)] // each test takes what it needs

use std::{
    io::Write,
    process::{Command, Output, Stdio},
};

/// Runs the command with `input` on its standard input.
#[allow(clippy::disallowed_methods)] // a pipe has to be written and read at once
pub fn nettrace(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_nettrace"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // The command may stop reading early, so a failed write does not matter.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

pub fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

pub fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// Parses a line of JSON. An object must not have two members of the same name.
pub fn strict_json(line: &str) -> serde_json::Value {
    assert!(!line.contains('\n'));
    let unique: Unique = serde_json::from_str(line).unwrap_or_else(|error| {
        panic!("no JSON, or two equal names: {error}\n{line}");
    });
    unique.0
}

/// A JSON value whose objects have no duplicate names.
struct Unique(serde_json::Value);

impl<'de> serde::Deserialize<'de> for Unique {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Unique)
    }
}

struct UniqueVisitor;

impl<'de> serde::de::Visitor<'de> for UniqueVisitor {
    type Value = serde_json::Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(serde_json::Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Unique(value)) = seq.next_element()? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = serde_json::Map::new();
        while let Some((name, Unique(value))) = map.next_entry::<String, _>()? {
            if members.insert(name.clone(), value).is_some() {
                return Err(serde::de::Error::custom(format_args!("{name} stands twice")));
            }
        }
        Ok(members.into())
    }
}

/// The last line, which a command prints about all events together.
pub fn summary(output: &Output) -> &str {
    stderr(output).lines().find(|line| line.starts_with("# events=")).unwrap()
}
