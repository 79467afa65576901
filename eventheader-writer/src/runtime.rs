//! Providers and events that are known only at run time.

mod builder;

use nettrace_event::{Level, check};

pub use crate::runtime::builder::EventBuilder;
use crate::{
    error::Error,
    header,
    state::{self, KERNEL, Parts, RuntimePoint},
    sync::Ordering,
};

/// A provider whose name is known only at run time. It registers [`Tracepoint`]s.
///
/// ```
/// use eventheader_writer::{DynamicProvider, Level};
///
/// let provider = DynamicProvider::new("Contoso_Plugins")?.group("plugins")?;
/// let loaded = provider.tracepoint(Level::Informational, 0x1);
/// assert_eq!(loaded.name(), "Contoso_Plugins_L4K1Gplugins");
/// # Ok::<(), eventheader_writer::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynamicProvider {
    name: String,
    group: Option<String>,
}

impl DynamicProvider {
    /// A provider with this name: 1 to 233 bytes, without white space, control characters, `,`, `:`
    /// and `;`. In tracepoint names, each character except ASCII letters, digits and `_` becomes
    /// `_`.
    ///
    /// # Errors
    /// [`Error::Name`].
    ///
    /// ```
    /// use eventheader_writer::DynamicProvider;
    ///
    /// assert!(DynamicProvider::new("Contoso-Plugins").is_ok());
    /// assert!(DynamicProvider::new("Contoso Plugins").is_err());
    /// ```
    pub fn new(name: &str) -> Result<Self, Error> {
        if !check::is_provider_name(name, None) {
            let problem =
                "must have 1 to 233 bytes without white space, control characters, `,`, `:` or `;`";
            return Err(Error::Name { what: "provider", name: name.to_owned(), problem });
        }
        Ok(Self { name: name.to_owned(), group: None })
    }

    /// Puts the provider into a group: lower-case letters and digits. Provider and group together
    /// have at most 233 bytes.
    ///
    /// # Errors
    /// [`Error::Name`].
    ///
    /// ```
    /// use eventheader_writer::{DynamicProvider, Level};
    ///
    /// let provider = DynamicProvider::new("Contoso_Plugins")?.group("spell")?;
    /// assert!(provider.tracepoint(Level::Error, 0x8).name().ends_with("Gspell"));
    /// # Ok::<(), eventheader_writer::Error>(())
    /// ```
    pub fn group(mut self, group: &str) -> Result<Self, Error> {
        let plain = group.bytes().all(|c| matches!(c, b'a'..=b'z' | b'0'..=b'9'));
        let problem = if group.is_empty() || !plain {
            "has characters other than lower-case letters and digits"
        } else if !check::is_provider_name(&self.name, Some(group)) {
            "exceeds the 233 bytes that provider and group may have together"
        } else {
            self.group = Some(group.to_owned());
            return Ok(self);
        };
        Err(Error::Name { what: "group", name: group.to_owned(), problem })
    }

    /// Registers the tracepoint for events with this level and these keywords. It stays registered
    /// until the returned value is dropped. If the kernel cannot take it, it waits: see
    /// [`retry`](crate::retry).
    ///
    /// ```
    /// use eventheader_writer::{DynamicProvider, Level, status};
    ///
    /// let provider = DynamicProvider::new("Contoso_Plugins")?;
    /// let warnings = provider.tracepoint(Level::Warning, 0x1);
    /// assert_eq!(status().tracepoints[0].name, warnings.name());
    /// drop(warnings);
    /// assert!(status().tracepoints.is_empty());
    /// # Ok::<(), eventheader_writer::Error>(())
    /// ```
    #[must_use]
    pub fn tracepoint(&self, level: Level, keywords: u64) -> Tracepoint {
        let level = header::level(level);
        let (provider, group) = (self.name.clone(), self.group.clone());
        let (point, name) = state::register_runtime(Parts { provider, group, level, keywords });
        Tracepoint { point, name, level }
    }
}

/// A registered tracepoint for events that are built at run time. Dropping it unregisters it.
///
/// ```
/// use eventheader_writer::{DynamicProvider, EventBuilder, Level};
///
/// let failed = DynamicProvider::new("Contoso_Plugins")?.tracepoint(Level::Error, 0x1);
/// if failed.is_enabled() {
///     EventBuilder::new("Failed").add("plugin", "spellcheck").write(&failed)?;
/// }
/// # Ok::<(), eventheader_writer::Error>(())
/// ```
#[derive(Debug)]
pub struct Tracepoint {
    point: &'static RuntimePoint,
    name: String,
    level: u8,
}

impl Tracepoint {
    /// Whether somebody listens. This is one load.
    ///
    /// ```
    /// use eventheader_writer::{DynamicProvider, EventBuilder, Level};
    ///
    /// # fn main() -> Result<(), eventheader_writer::Error> {
    /// let loaded = DynamicProvider::new("Contoso_Plugins")?.tracepoint(Level::Verbose, 0x1);
    /// // Collect what is expensive only for a listener.
    /// if loaded.is_enabled() {
    ///     EventBuilder::new("Loaded").add("symbols", &count_symbols()).write(&loaded)?;
    /// }
    /// # fn count_symbols() -> u64 { panic!("nobody listens") }
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        // Relaxed: an event may miss a listener that has just come, or meet one that has just gone.
        self.point.word.load(Ordering::Relaxed) & KERNEL != 0
    }

    /// The tracepoint's name, as `perf record -e user_events:NAME` takes it.
    ///
    /// ```
    /// use eventheader_writer::{DynamicProvider, Level};
    ///
    /// let loaded = DynamicProvider::new("Contoso-Plugins")?.tracepoint(Level::Verbose, 0x1F);
    /// assert_eq!(loaded.name(), "Contoso_Plugins_L5K1f");
    /// # Ok::<(), eventheader_writer::Error>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Tracepoint {
    fn drop(&mut self) {
        state::unregister_runtime(self.point);
    }
}
