//! What a redaction replaces in a stream of version 6, besides payloads.

use alloc::vec::Vec;

use super::Redaction;
use crate::{
    content::{Label, TraceInfo},
    trace::Thread,
    v6::{LAST_LABEL, append_label, read::Malformed, read_label},
};

impl Redaction {
    /// A stream begins: no type is defined.
    pub(crate) fn begin<T>(
        &mut self,
        info: &TraceInfo<'_>,
        take: impl FnOnce(&TraceInfo<'_>) -> T,
    ) -> T {
        self.types.clear();
        let pairs = info.key_values.iter().map(|&(key, value)| (key, self.text(key, value)));
        let pairs: Vec<_> = pairs.collect();
        let key_values: Vec<_> = pairs.iter().map(|(key, value)| (*key, &**value)).collect();
        take(&TraceInfo { key_values: &key_values, ..*info })
    }

    /// Whether rows can have values that are replaced.
    pub(crate) fn has_types(&self) -> bool {
        !self.types.is_empty()
    }

    pub(crate) fn thread(&mut self, thread: &mut Thread) {
        thread.process_id = thread.process_id.filter(|_| !self.hides("ProcessId"));
        for (key, value) in &mut thread.key_values {
            *value = self.text(key, value).into_owned();
        }
    }

    /// The rows of a block of label lists.
    pub(crate) fn label_lists(&mut self, mut rows: &[u8]) -> Result<Vec<u8>, Malformed> {
        let mut replaced = Vec::with_capacity(rows.len());
        while let Some(kind) = rows.first() {
            // Nothing is copied that cannot be read.
            let (label, len) = read_label(rows).ok_or(Malformed)?;
            rows = &rows[len..];
            let start = replaced.len();
            let text;
            let label = match label {
                Label::Str(key, value) => {
                    text = self.text(key, value);
                    Label::Str(key, &text)
                }
                Label::Int(key, value) => Label::Int(key, self.number(key, value)),
                other => other,
            };
            append_label(&label, &mut replaced);
            replaced[start] |= kind & LAST_LABEL;
        }
        Ok(replaced)
    }
}
