//! Bounds of what is counted, kept in a file of the workspace: a lane fails if a count has grown.
//!
//! Counts depend on the compiler, so they are only compared with bounds of the same release.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use xtask::{step::Step, workspace::read};

/// The bounds, and the compiler that they hold for.
#[derive(Debug)]
pub(crate) struct Bounds {
    pub(crate) rustc: String,
    pub(crate) rows: BTreeMap<String, f64>,
}

impl Bounds {
    /// Reads a file that has a bound for each of `names`, and no other.
    pub(crate) fn read(path: &Path, names: &[&str]) -> Result<Self> {
        let parsed = Self::parse(&serde_json::from_str(&read(path)?)?, names);
        parsed.with_context(|| format!("{}: a bound or the compiler is missing", path.display()))
    }

    /// Whether the compiler in use is the one that the bounds hold for. Says so if it is not.
    pub(crate) fn are_comparable(&self) -> Result<bool> {
        let release = release()?;
        let are_comparable = release == self.rustc;
        if !are_comparable {
            println!(
                "not compared: the bounds are those of rustc {}, and this is {release}",
                self.rustc
            );
        }
        Ok(are_comparable)
    }

    pub(crate) fn parse(value: &Value, names: &[&str]) -> Option<Self> {
        let rows = value["rows"].as_object()?.iter();
        let rows = rows.map(|(name, bound)| Some((name.clone(), bound.as_f64()?)));
        let rows: BTreeMap<_, _> = rows.collect::<Option<_>>()?;
        let all = rows.len() == names.len() && names.iter().all(|name| rows.contains_key(*name));
        all.then_some(Self { rustc: value["rustc"].as_str()?.to_owned(), rows })
    }
}

/// A bound as tables show it.
pub(crate) fn shown(bound: Option<f64>) -> String {
    bound.map_or_else(|| "none".to_owned(), |bound| format!("{bound:.1}"))
}

/// Whether this is a machine that the bounds are for. Says so if it is not.
pub(crate) fn is_known_machine() -> bool {
    let is_known = cfg!(all(target_arch = "x86_64", target_os = "linux"));
    if !is_known {
        println!("skipped: the bounds are for x86-64 Linux");
    }
    is_known
}

/// The result of the comparison with a bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Verdict {
    Grown { count: f64, bound: f64 },
    Kept,
    Fallen { count: f64, bound: f64 },
}

impl Verdict {
    /// Compares a count with its bound. `tolerance` is the part of the bound by which they may
    /// differ.
    pub(crate) fn of(count: f64, bound: Option<f64>, tolerance: f64) -> Self {
        match bound {
            Some(bound) if count <= bound * (1.0 - tolerance) => Self::Fallen { count, bound },
            Some(bound) if count <= bound * (1.0 + tolerance) => Self::Kept,
            bound => Self::Grown { count, bound: bound.unwrap_or(0.0) },
        }
    }
}

/// Fails if a row has grown. `unit` is what is counted, and `file` has the bounds.
pub(crate) fn conclude(verdicts: &[(&str, Verdict)], unit: &str, file: &str) -> Result<()> {
    let mut grown = Vec::new();
    for (name, verdict) in verdicts {
        match verdict {
            Verdict::Grown { count, bound } => {
                grown.push(format!("{name} takes {count:.1} {unit}, bound {bound:.1}"));
            }
            Verdict::Kept => {}
            Verdict::Fallen { count, bound } => {
                println!("{name} takes {count:.1}: lower its bound of {bound:.1} in {file}");
            }
        }
    }
    ensure!(
        grown.is_empty(),
        "more {unit} than before: {}; make it shorter, or raise the bound and say why",
        grown.join("; ")
    );
    Ok(())
}

/// The release of the compiler, such as `1.95.0`.
pub(crate) fn release() -> Result<String> {
    let text = Step::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .arg("--version")
        .read()?;
    Ok(text.split(' ').nth(1).unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn growth_fails_and_a_fall_does_not() {
        let of = |count| Verdict::of(count, Some(100.0), 0.02);
        assert_eq!(of(102.0), Verdict::Kept);
        assert_eq!(of(98.1), Verdict::Kept);
        assert_eq!(of(102.1), Verdict::Grown { count: 102.1, bound: 100.0 });
        assert_eq!(of(97.9), Verdict::Fallen { count: 97.9, bound: 100.0 });
        let unbounded = Verdict::of(1.0, None, 0.02);
        assert!(matches!(unbounded, Verdict::Grown { .. }), "a row without a bound");
        let conclude = |verdicts: &[_]| conclude(verdicts, "instructions", "benches/some.json");
        assert!(conclude(&[("a", of(100.0)), ("b", of(50.0))]).is_ok());
        let error = conclude(&[("a", of(100.0)), ("b", of(110.0))]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "more instructions than before: b takes 110.0 instructions, bound 100.0; make it \
             shorter, or raise the bound and say why"
        );
    }

    #[test]
    fn every_row_has_a_bound_and_every_bound_a_row() {
        let value = json!({ "rustc": "1.95.0", "rows": { "a": 1.0, "b": 2.5 } });
        let bounds = Bounds::parse(&value, &["a", "b"]).unwrap();
        assert_eq!((bounds.rustc.as_str(), bounds.rows["b"]), ("1.95.0", 2.5));
        assert!(Bounds::parse(&value, &["a", "b", "c"]).is_none(), "a row without a bound");
        assert!(Bounds::parse(&value, &["a"]).is_none(), "a bound without a row");
        assert!(Bounds::parse(&json!({ "rows": {} }), &[]).is_none(), "no compiler");
    }
}
