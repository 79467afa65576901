//! The results of a check so far.

use nettrace_format::Damage;

use crate::{
    error::{Error, ErrorKind, Result, Table},
    value::Fields,
    verify::{Basis, Report, Rule, Violation},
};

/// The report so far, and how many violations it may list.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) report: Report,
    pub(super) most: usize,
}

impl Log {
    pub(super) fn add(&mut self, offset: u64, rule: Rule, detail: impl FnOnce() -> String) {
        self.report.count += 1;
        self.report.format_count += u64::from(rule.basis() == Basis::Format);
        if self.report.violations.len() < self.most {
            self.report.violations.push(Violation { offset, rule, detail: detail() });
        }
    }

    #[cold]
    pub(super) fn undefined(&mut self, offset: u64, table: Table, id: u64) {
        self.add(offset, Rule::Reference, || ErrorKind::Undefined { table, id }.to_string());
    }

    /// Notes an undefined reference as a violation. Exceeding a limit on memory ends the check.
    pub(super) fn not_found(&mut self, error: Error) -> std::result::Result<(), Stop> {
        match error.kind() {
            ErrorKind::Undefined { .. } => {
                self.add(error.offset(), Rule::Reference, || error.kind().to_string());
                Ok(())
            }
            _ => Err(Stop::Error(error)),
        }
    }

    /// Notes a repeated definition as a violation. Exceeding a limit on memory ends the check.
    pub(super) fn defined(&mut self, result: Result<()>) -> std::result::Result<(), Stop> {
        match result {
            Err(error) if matches!(error.kind(), ErrorKind::Duplicate { .. }) => {
                self.add(error.offset(), Rule::Duplicate, || error.kind().to_string());
                Ok(())
            }
            result => result.map_err(Stop::Error),
        }
    }

    pub(super) fn check_fields(&mut self, mut fields: Fields<'_>, payload: &[u8], end: u64) {
        while let Some(field) = fields.next() {
            if let Err(error) = field {
                if fields.is_lost() {
                    // That is a violation of the event type.
                    return;
                }
                self.add(error.offset(), Rule::PayloadFields, || error.kind().to_string());
                return;
            }
        }
        if fields.has_short_boolean() {
            self.add(end - 1, Rule::PayloadFields, || {
                "the last field, a Boolean, has one byte instead of four".to_owned()
            });
        }
        let (used, size) = (fields.used(), payload.len());
        if used != size {
            self.add(end - (size - used) as u64, Rule::PayloadFields, || {
                format!("a payload has {size} bytes, its fields take {used}")
            });
        }
    }
}

/// Why a block was not checked to its end.
pub(super) enum Stop {
    /// The block is damaged.
    Damage(Damage),
    /// The check cannot continue.
    Error(Error),
}

impl From<Damage> for Stop {
    fn from(damage: Damage) -> Self {
        Self::Damage(damage)
    }
}
