//! The status of an application's tracepoints.

use super::{KERNEL, WordEntry, lock, points};
use crate::{sync::Ordering, tracefs::Availability};

/// The current tracepoints of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Whether events can go to the kernel.
    pub availability: Availability,
    /// The tracepoints that are registered with the kernel or wait for that, by name. Types with
    /// the same name share one.
    pub tracepoints: Vec<TracepointStatus>,
    /// The providers whose tracepoints have other names than their own, each with the reason. In a
    /// tracepoint's name `-` becomes `_`, so the providers `a-b` and `a_b` would share one. The
    /// second of them has a name with `_x` and eight digits more, the same in every run. Another
    /// process can also have the name, with other fields.
    ///
    /// ```
    /// use eventheader_writer::{DynamicProvider, Level, status};
    ///
    /// let [first, second] = ["my-app", "my_app"].map(|provider| {
    ///     DynamicProvider::new(provider).map(|it| it.tracepoint(Level::Error, 1))
    /// });
    /// let (first, second) = (first?, second?);
    /// assert_eq!((first.name(), second.name()), ("my_app_L2K1", "my_app_xf8559637_L2K1"));
    /// assert_eq!(
    ///     status().renamed,
    ///     ["the tracepoint of provider `my_app` is `my_app_xf8559637_L2K1`, because \
    ///       `my_app_L2K1` is that of provider `my-app`; to choose a name, rename the provider"]
    /// );
    /// # Ok::<(), eventheader_writer::Error>(())
    /// ```
    pub renamed: Vec<String>,
    /// The types that cannot be tracepoints, each with the reason. Their events are not written.
    pub refused: Vec<String>,
}

/// One tracepoint of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TracepointStatus {
    /// Its name, without `user_events:`.
    pub name: String,
    /// The write index, with which its events begin; `None` while it waits to be registered.
    pub write_index: Option<u32>,
    /// Whether somebody listens.
    pub enabled: bool,
    /// The number of event types and run-time tracepoints that share it.
    pub types: usize,
    /// Why the kernel refused it, if it did: the error number (`errno`).
    pub error: Option<i32>,
}

/// The tracepoints that are registered, that wait, and that were refused.
///
/// ```
/// for tracepoint in eventheader_writer::status().tracepoints {
///     println!("user_events:{} enabled: {}", tracepoint.name, tracepoint.enabled);
/// }
/// ```
#[must_use]
pub fn status() -> Status {
    let state = lock();
    let mut tracepoints: Vec<TracepointStatus> = Vec::new();
    let are_written = |entry: &&WordEntry| !std::ptr::eq(entry.channel, &raw const points::NOWHERE);
    for entry in state.entries.iter().filter(are_written) {
        let enabled = entry.word.load(Ordering::Relaxed) & KERNEL != 0 && entry.is_registered;
        let write_index = entry.is_registered.then(|| entry.channel.write_index()).flatten();
        match tracepoints.iter_mut().find(|known| known.name == entry.name) {
            Some(known) => {
                known.types += 1;
                known.enabled |= enabled;
                known.write_index = known.write_index.or(write_index);
                known.error = known.error.or(entry.error);
            }
            None => tracepoints.push(TracepointStatus {
                name: entry.name.clone(),
                write_index,
                enabled,
                types: 1,
                error: entry.error,
            }),
        }
    }
    let mut renamed: Vec<String> = Vec::new();
    for entry in &state.entries {
        let Some(reason) = &entry.renamed else { continue };
        let text = format!(
            "the tracepoint of provider `{}` is `{}`, because {reason}; to choose a name, rename \
             the provider",
            entry.parts.provider, entry.name
        );
        if !renamed.contains(&text) {
            renamed.push(text);
        }
    }
    renamed.sort();
    tracepoints.sort_by(|a, b| a.name.cmp(&b.name));
    Status {
        availability: state.availability.clone(),
        tracepoints,
        renamed,
        refused: state.refused.iter().map(|(_, words)| words.clone()).collect(),
    }
}
