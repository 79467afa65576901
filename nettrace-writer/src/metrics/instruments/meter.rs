//! Meters, and how instruments are made.

use std::sync::Arc;

use crate::metrics::{
    once::ForkSafeOnce,
    state::{
        BoundValue, Description, MeterInfo,
        kinds::InstrumentKind,
        observable::{Observable, Observer},
        tags_text,
    },
};

/// A group of instruments with a name, which clients ask for: mostly the name of a library or a
/// part of a program.
///
/// ```
/// use nettrace_writer::metrics::{Counter, Meter};
///
/// static SHOP: Meter = Meter::new("Contoso-Shop").version("1.2");
/// static ORDERS: Counter = Counter::new(&SHOP, "orders").unit("{order}");
///
/// ORDERS.add(1);
/// ```
///
/// A meter is a name, not a place: two meters of one name are shown as one.
#[derive(Debug)]
pub struct Meter {
    name: &'static str,
    version: &'static str,
    info: ForkSafeOnce<Arc<MeterInfo>>,
}

impl Meter {
    /// A meter, for a `static`.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, version: "", info: ForkSafeOnce::new() }
    }

    /// The version of what the meter belongs to. The default is empty.
    #[must_use]
    pub const fn version(mut self, version: &'static str) -> Self {
        self.version = version;
        self
    }

    /// A meter whose name is known at run time, or that has tags.
    ///
    /// ```
    /// use nettrace_writer::metrics::Meter;
    ///
    /// let part = String::from("Checkout");
    /// let meter = Meter::builder(format!("Contoso-{part}")).tag("zone", "eu").build();
    /// let waiting = meter.gauge("waiting").unit("{customer}").build();
    /// waiting.set(3.0);
    /// ```
    pub fn builder(name: impl Into<String>) -> MeterBuilder {
        MeterBuilder { name: name.into(), version: String::new(), tags: Vec::new() }
    }

    pub(crate) fn info(&self) -> Arc<MeterInfo> {
        let make = || {
            let (name, version) = (self.name.to_owned(), self.version.to_owned());
            Arc::new(MeterInfo { name, version, tags: String::new() })
        };
        Arc::clone(self.info.get_or_set(make))
    }

    /// A counter whose sums a callback reports when somebody looks.
    pub fn observable_counter(
        &self,
        name: impl Into<String>,
        callback: impl Fn(&mut Observer<'_>) + Send + Sync + 'static,
    ) -> InstrumentBuilder<Observable> {
        self.observable(InstrumentKind::ObservableCounter, name.into(), callback)
    }

    /// An up-down counter whose sums a callback reports when somebody looks.
    pub fn observable_up_down_counter(
        &self,
        name: impl Into<String>,
        callback: impl Fn(&mut Observer<'_>) + Send + Sync + 'static,
    ) -> InstrumentBuilder<Observable> {
        self.observable(InstrumentKind::ObservableUpDownCounter, name.into(), callback)
    }

    /// A gauge whose values a callback reports when somebody looks.
    ///
    /// ```
    /// use std::thread;
    ///
    /// use nettrace_writer::metrics::Meter;
    ///
    /// static MACHINE: Meter = Meter::new("Contoso-Machine");
    ///
    /// let processors = MACHINE
    ///     .observable_gauge("processors", |observer| {
    ///         if let Ok(count) = thread::available_parallelism() {
    ///             observer.observe(count.get());
    ///         }
    ///     })
    ///     .build();
    /// // It is reported until it is dropped.
    /// drop(processors);
    /// ```
    pub fn observable_gauge(
        &self,
        name: impl Into<String>,
        callback: impl Fn(&mut Observer<'_>) + Send + Sync + 'static,
    ) -> InstrumentBuilder<Observable> {
        self.observable(InstrumentKind::ObservableGauge, name.into(), callback)
    }

    fn observable(
        &self,
        kind: InstrumentKind,
        name: String,
        callback: impl Fn(&mut Observer<'_>) + Send + Sync + 'static,
    ) -> InstrumentBuilder<Observable> {
        let mut builder = InstrumentBuilder::new(self, kind, name, Observable::bound);
        builder.description.callback = Some(Box::new(callback));
        builder
    }
}

/// Makes a [`Meter`]: see [`Meter::builder`].
#[derive(Clone, Debug)]
#[must_use = "a meter is made by `build`"]
pub struct MeterBuilder {
    name: String,
    version: String,
    tags: Vec<(String, String)>,
}

impl MeterBuilder {
    /// The version of what the meter belongs to. The default is empty.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// A tag of the meter, which clients see beside its name.
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.push((key.into(), value.into()));
        self
    }

    /// The meter.
    #[must_use]
    pub fn build(self) -> Meter {
        let tags: Vec<_> = self.tags.iter().map(|(key, value)| (&**key, &**value)).collect();
        let tags = tags_text(&tags);
        let info = MeterInfo { name: self.name, version: self.version, tags };
        Meter { name: "", version: "", info: ForkSafeOnce::with(Arc::new(info)) }
    }
}

/// Makes an instrument of a [`Meter`].
///
/// ```
/// use nettrace_writer::metrics::Meter;
///
/// let meter = Meter::new("Contoso-Shop");
/// let sizes = meter.histogram("size").unit("By").description("Sizes of answers").build();
/// sizes.record(1_536.0);
/// ```
#[must_use = "an instrument is made by `build`"]
pub struct InstrumentBuilder<T> {
    meter: Arc<MeterInfo>,
    kind: InstrumentKind,
    description: Description,
    make: fn(BoundValue) -> T,
}

impl<T> std::fmt::Debug for InstrumentBuilder<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InstrumentBuilder")
            .field("kind", &self.kind)
            .field("name", &self.description.name)
            .finish_non_exhaustive()
    }
}

impl<T> InstrumentBuilder<T> {
    pub(super) fn new(
        meter: &Meter,
        kind: InstrumentKind,
        name: String,
        make: fn(BoundValue) -> T,
    ) -> Self {
        let description = Description { name, ..Description::default() };
        Self { meter: meter.info(), kind, description, make }
    }

    /// The unit of its values, such as `ms`, `By` or `{order}` (UCUM). The default is none.
    pub fn unit(mut self, unit: impl Into<String>) -> Self {
        self.description.unit = unit.into();
        self
    }

    /// A description for people. The default is empty.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description.description = description.into();
        self
    }

    /// The instrument. Clients that ask for its meter see it from now on, until its last handle is
    /// dropped.
    #[must_use]
    pub fn build(self) -> T {
        (self.make)(BoundValue::new(self.meter, self.kind, self.description))
    }
}
