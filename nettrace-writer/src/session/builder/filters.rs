//! The filters of a session's builder.

use std::ffi::OsStr;

use super::SessionBuilder;
use crate::{
    process::environment,
    shared::{
        error::Error,
        filter::{FilterError, ProviderFilter},
    },
    sync::{AtomicBool, Ordering},
};

/// The variable that has the filters of the session that the environment asks for.
const VARIABLE: &str = "NETTRACE_PROVIDERS";

/// Whether the application takes filters from [`VARIABLE`], too.
static IS_READ: AtomicBool = AtomicBool::new(false);

/// Whether [`SessionBuilder::providers_from_env`] was called for `NETTRACE_PROVIDERS`, so that the
/// variable has an effect even if the environment asks for no session.
#[must_use]
pub fn reads_providers() -> bool {
    // Relaxed: only this flag counts.
    IS_READ.load(Ordering::Relaxed)
}

impl SessionBuilder {
    /// Records the events that this filter selects, in addition to those that other filters select.
    /// A session without any filter records everything.
    ///
    /// A name can stand for a filter, as in [`ProviderFilter::new`], so it can end in `*`.
    ///
    /// ```
    /// use nettrace_writer::{Level, ProviderFilter, Session, sink::MemorySink};
    ///
    /// let session = Session::builder()
    ///     .sink(MemorySink::new())
    ///     .provider("Contoso-*")
    ///     .provider(ProviderFilter::all().level(Level::Error))
    ///     .start()?;
    /// # session.finish()?;
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    pub fn provider(self, provider: impl Into<ProviderFilter>) -> Self {
        self.providers([provider])
    }

    /// Records the events that any of these filters selects, in addition to those that other
    /// filters select.
    ///
    /// If the list is empty and there are no other filters, the session records nothing. It records
    /// everything only if no filter method of the builder was called.
    ///
    /// ```
    /// use nettrace_writer::{ProviderFilter, Session, sink::MemorySink};
    ///
    /// let filters = ProviderFilter::parse_list("Contoso-Checkout:3:Warning,error")?;
    /// let session = Session::builder().sink(MemorySink::new()).providers(filters).start()?;
    /// # session.finish()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn providers<F: Into<ProviderFilter>>(
        mut self,
        filters: impl IntoIterator<Item = F>,
    ) -> Self {
        let filters = filters.into_iter().map(Into::into);
        self.providers.get_or_insert_default().extend(filters);
        self
    }

    /// Takes the filters from an environment variable, if it is set. They replace all filters that
    /// the builder was given before, so those serve as the default.
    ///
    /// The variable holds filters in their [text form](ProviderFilter#text-form). A variable that
    /// is empty or blank counts as not set. So does any in a program that has more rights than who
    /// starts it: one with the setuid or setgid bit, or with capabilities of its file. If the
    /// filters cannot be read, [`start`](Self::start) fails.
    ///
    /// A filter that has selected nothing when the session ends is a line on standard error,
    /// because who has set the variable may have misspelt a name. Until then
    /// [`health`](crate::health) tells it.
    ///
    /// ```
    /// use nettrace_writer::{Session, sink::MemorySink};
    ///
    /// // NETTRACE_PROVIDERS='Contoso-Checkout:3:Warning,error'
    /// let session = Session::builder()
    ///     .sink(MemorySink::new())
    ///     .provider("Contoso-*")
    ///     .providers_from_env("NETTRACE_PROVIDERS")
    ///     .start()?;
    /// # session.finish()?;
    /// # Ok::<(), nettrace_writer::Error>(())
    /// ```
    pub fn providers_from_env(mut self, variable: impl AsRef<OsStr>) -> Self {
        let variable = variable.as_ref();
        if variable == VARIABLE {
            IS_READ.store(true, Ordering::Relaxed);
        }
        let Some(text) = environment::variable(variable) else { return self };
        let text = text.to_str().ok_or(FilterError::NotUnicode);
        if text.as_ref().is_ok_and(|text| text.trim_ascii().is_empty()) {
            return self;
        }
        match text.and_then(ProviderFilter::parse_list) {
            Ok(filters) => {
                self.providers = Some(filters);
                self.filters_from = Some(variable.to_string_lossy().into_owned());
            }
            Err(reason) => {
                let variable = variable.to_string_lossy().into_owned();
                self.refused.get_or_insert(Error::FilterVariable { variable, reason });
            }
        }
        self
    }
}
