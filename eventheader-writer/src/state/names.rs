//! The names of tracepoints. No two providers share one.
//!
//! A tracepoint's name has fewer characters than a provider's: `a-b` and `a_b` both become `a_b`.
//! Listeners tell providers apart by that name alone, so their events would be mixed without a
//! trace. The provider that comes second gets another name, which contains a hash of its own. So
//! nothing is lost, and the name is the same in every process where the provider comes second.
//!
//! The same name helps if another process has registered the tracepoint with other fields: the
//! kernel then refuses the registration (`EADDRINUSE`). With the same fields the kernel shares the
//! tracepoint, as it does between two processes of one program.
//!
//! Rejected: refusing the second provider, whose events would be lost. Rejected: the hash in every
//! name that differs from its provider's, because most providers have a `-` and no rival.

use std::collections::BTreeMap;

use crate::header;

/// The most bytes of a provider's name and its group in a tracepoint's name.
const MOST: usize = 233;

/// The parts of a tracepoint's name.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) provider: String,
    pub(crate) group: Option<String>,
    pub(crate) level: u8,
    pub(crate) keywords: u64,
}

impl Parts {
    /// The name that the tracepoint has, unless that is another's.
    pub(crate) fn name(&self) -> String {
        header::name_of(&self.provider, self.group.as_deref(), self.level, self.keywords)
    }

    /// Another name. `number` is 0, unless that one is another's, too.
    fn other_name(&self, number: u32) -> String {
        let hash = self
            .provider
            .bytes()
            .fold(0x811C_9DC5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        let suffix = format!("_x{:08x}", hash.wrapping_add(number));
        let group = self.group.as_deref();
        let room = MOST - suffix.len() - group.map_or(0, str::len);
        let provider: String = self.provider.chars().take(room).chain(suffix.chars()).collect();
        header::name_of(&provider, group, self.level, self.keywords)
    }
}

/// The owners of names.
#[derive(Debug)]
pub(super) struct Names {
    providers: BTreeMap<String, String>,
}

impl Names {
    pub(super) const fn new() -> Self {
        Self { providers: BTreeMap::new() }
    }

    /// Takes a name for a tracepoint: its own, or another if that is another provider's. Then it
    /// also returns the reason.
    pub(super) fn take(&mut self, parts: &Parts) -> (String, Option<String>) {
        let own = parts.name();
        if self.claim(&own, &parts.provider) {
            return (own, None);
        }
        let rival = self.providers.get(&own).map_or("", |rival| rival);
        let reason = format!("`{own}` is that of provider `{rival}`");
        (self.take_other(parts), Some(reason))
    }

    /// Takes a name for a tracepoint that cannot have its own.
    pub(super) fn take_other(&mut self, parts: &Parts) -> String {
        let names = (0..).map(|number| parts.other_name(number));
        let free = names.into_iter().find(|name| self.claim(name, &parts.provider));
        free.unwrap_or_default()
    }

    /// Forgets a name that no tracepoint has any more.
    pub(super) fn give_back(&mut self, name: &str) {
        self.providers.remove(name);
    }

    fn claim(&mut self, name: &str, provider: &str) -> bool {
        if let Some(owner) = self.providers.get(name) {
            return owner == provider;
        }
        self.providers.insert(name.to_owned(), provider.to_owned());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(provider: &str, group: Option<&str>) -> Parts {
        Parts { provider: provider.into(), group: group.map(Into::into), level: 4, keywords: 0 }
    }

    #[test]
    fn no_two_providers_share_a_name() {
        let mut names = Names::new();
        let mut take = |provider: &str, group| names.take(&parts(provider, group));
        assert_eq!(take("a-b", None), ("a_b_L4K0".into(), None));
        let (name, reason) = take("a_b", None);
        assert_eq!(name, "a_b_x1ba46871_L4K0");
        assert_eq!(reason.unwrap(), "`a_b_L4K0` is that of provider `a-b`");
        // The same again, and what only looks alike.
        assert_eq!(take("a-b", None).0, "a_b_L4K0");
        assert_eq!(take("a_b", None).0, name);
        assert_eq!(take("A-b", None), ("A_b_L4K0".into(), None));
        assert_eq!(take("a_b", Some("g")), ("a_b_L4K0Gg".into(), None));
        // A provider that has the other name already.
        let mut names = Names::new();
        names.take(&parts("a-b", None));
        names.take(&parts("a_b_x1ba46871", None));
        assert_eq!(names.take(&parts("a_b", None)).0, "a_b_x1ba46872_L4K0");
        names.give_back("a_b_L4K0");
        assert_eq!(names.take(&parts("a_b", None)).0, "a_b_L4K0");
    }

    #[test]
    fn other_names_keep_the_limit() {
        let mut names = Names::new();
        let group = "g".repeat(30);
        let long = ["é", "ü"].map(|last| format!("{}{last}", "x".repeat(200)));
        let [first, second] = long.map(|name| names.take(&parts(&name, Some(&group))).0);
        assert_ne!(first, second);
        let longest = Parts { level: 255, keywords: u64::MAX, ..parts(&"x".repeat(233), None) };
        assert_eq!(longest.name().len(), 254);
        assert_eq!(names.take_other(&longest).len(), 254);
    }
}
