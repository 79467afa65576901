//! Functions that are called when what sessions record has changed.

use std::sync::OnceLock;

/// The largest number of watchers.
const MOST: usize = 8;

static WATCHERS: [OnceLock<fn()>; MOST] = [const { OnceLock::new() }; MOST];

/// Calls `f` after each change. `false`: there are too many already. A function that is given twice
/// counts once.
pub(crate) fn add(f: fn()) -> bool {
    let is_f = |watcher: &OnceLock<fn()>| {
        watcher.set(f).is_ok() || watcher.get().is_some_and(|other| std::ptr::fn_addr_eq(*other, f))
    };
    WATCHERS.iter().any(is_f)
}

/// Says that what sessions record has changed. The caller holds no lock.
pub(super) fn changed() {
    WATCHERS.iter().filter_map(OnceLock::get).for_each(|watcher| watcher());
}
