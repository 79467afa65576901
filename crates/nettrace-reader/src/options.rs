//! The choices of a caller before a stream is read.

/// Which interpretation to follow where the specification and the reference reader disagree.
///
/// The reference reader is Microsoft's TraceEvent 4.0.0, the library behind PerfView, Visual Studio
/// and dotnet-trace. It differs from the specification in how it counts losses, and in what it
/// refuses:
///
/// | | [`Specification`](Self::Specification) | [`Reference`](Self::Reference) |
/// |---|---|---|
/// | a sequence point gives a lower number for a thread than that of the thread's last event | the number is a lower bound: nothing is lost | 2^31 - 1 events are lost, and numbers continue from there |
/// | versions 4 and 5: a thread's numbers begin again at 1 | another thread has got the id: nothing is lost | 2^31 - 1 events are lost |
/// | versions 4 and 5: the first number of a thread is not 1, or follows number 0 with a gap | the numbers before it are lost | nothing is lost |
/// | versions 4 and 5: a field has an unknown type | the fields before it are decoded, the rest is bytes | the event type has no fields |
/// | [`verify`](crate::verify()): several event types of a provider have event id 0 | 0 means "no id" | a violation: readers may confuse the types |
/// | [`verify`](crate::verify()): threads or event types have optional parts of an unknown kind | readers skip them | a violation: this reader refuses the stream |
///
/// ```
/// use nettrace_reader::{Dialect, Options};
///
/// let options = Options::default().dialect(Dialect::Reference);
/// # let _ = options;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// The specification of the format.
    #[default]
    Specification,
    /// The behaviour of the reference reader. Use this to compare results with it.
    /// [`verify`](crate::verify()) then also reports what that reader refuses or misreads.
    Reference,
}

/// How much memory a reader may take, what it keeps, and which [`Dialect`] it follows.
///
/// ```
/// use nettrace_reader::Options;
///
/// # fn main() -> Result<(), nettrace_reader::Error> {
/// # let file = nettrace_reader::example();
/// let options = Options::default().sort_limit(64 << 20).keep_thread_totals(true);
/// let mut reader = options.open(&file[..])?;
/// reader.read_to_end()?;
/// for thread in reader.finished_threads() {
///     println!("{:?} lost {} events", thread.thread.name, thread.lost);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) definitions_limit: usize,
    pub(crate) block_limit: usize,
    pub(crate) sort_limit: usize,
    pub(crate) keep_thread_totals: bool,
    pub(crate) keep_type_totals: bool,
    pub(crate) dialect: Dialect,
    pub(crate) runtime_events: bool,
    pub(crate) joined: bool,
    pub(crate) alone: bool,
}

impl Default for Options {
    /// 256 MiB for definitions, 64 MiB for one block, 1 GiB for events that wait to be sorted, no
    /// totals of removed threads and types, [`Dialect::Specification`], names and fields of the
    /// .NET runtime's events.
    fn default() -> Self {
        Self {
            definitions_limit: 256 << 20,
            block_limit: 64 << 20,
            sort_limit: 1 << 30,
            keep_thread_totals: false,
            keep_type_totals: false,
            dialect: Dialect::default(),
            runtime_events: true,
            joined: false,
            alone: false,
        }
    }
}

impl Options {
    /// Limits the memory for definitions that are valid at the same time, in bytes (approximate):
    /// threads, event types, stacks and label lists.
    ///
    /// ```
    /// use nettrace_reader::{ErrorKind, Options};
    ///
    /// # let file = nettrace_reader::example();
    /// // Too little for even one thread.
    /// let mut reader = Options::default().definitions_limit(8).open(&file[..])?;
    /// let error = reader.read_to_end().unwrap_err();
    /// assert!(matches!(error.kind(), ErrorKind::LimitExceeded { limit: 8, .. }));
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[must_use]
    pub fn definitions_limit(mut self, bytes: usize) -> Self {
        self.definitions_limit = bytes;
        self
    }

    /// Limits the size of one block, in bytes. Version 6 allows 16 MiB, versions 4 and 5 allow 2
    /// GiB. Blocks of real producers have about 100 KiB.
    ///
    /// ```
    /// use nettrace_reader::{ErrorKind, Options};
    ///
    /// # let file = nettrace_reader::example();
    /// let error = Options::default().block_limit(16).open(&file[..]).unwrap_err();
    /// assert!(matches!(error.kind(), ErrorKind::LimitExceeded { limit: 16, .. }));
    /// ```
    #[must_use]
    pub fn block_limit(mut self, bytes: usize) -> Self {
        self.block_limit = bytes;
        self
    }

    /// Limits the memory for events that wait to be sorted, in bytes. They wait until the stream
    /// states that no earlier event follows.
    ///
    /// ```
    /// use nettrace_reader::Options;
    ///
    /// # let file = nettrace_reader::example();
    /// let mut reader = Options::default().sort_limit(64 << 20).open(&file[..])?.sorted();
    /// assert_eq!(reader.next_event()?.unwrap().header.timestamp, 2_000);
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[must_use]
    pub fn sort_limit(mut self, bytes: usize) -> Self {
        self.sort_limit = bytes;
        self
    }

    /// Whether to keep the totals of threads that the stream removes. They count towards the limit
    /// for definitions.
    ///
    /// ```
    /// use nettrace_reader::Options;
    ///
    /// # let file = nettrace_reader::example();
    /// let mut reader = Options::default().keep_thread_totals(true).open(&file[..])?;
    /// reader.read_to_end()?;
    /// // All threads: those that have ended, and those that have not.
    /// let all = reader.finished_threads().iter().chain(reader.live_threads());
    /// assert_eq!(all.map(|thread| thread.events).sum::<u64>(), reader.totals().events);
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[must_use]
    pub fn keep_thread_totals(mut self, keep: bool) -> Self {
        self.keep_thread_totals = keep;
        self
    }

    /// Whether to keep the totals of event types whose ids the stream makes invalid. They count
    /// towards the limit for definitions.
    ///
    /// ```
    /// use nettrace_reader::Options;
    ///
    /// # let file = nettrace_reader::example();
    /// let mut reader = Options::default().keep_type_totals(true).open(&file[..])?;
    /// reader.read_to_end()?;
    /// let events: u64 = reader.type_totals().map(|totals| totals.events).sum();
    /// assert_eq!(events, reader.totals().events);
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[must_use]
    pub fn keep_type_totals(mut self, keep: bool) -> Self {
        self.keep_type_totals = keep;
        self
    }

    /// Chooses what to follow where the specification and the reference reader disagree.
    ///
    /// ```
    /// use nettrace_reader::{Dialect, Options, verify_with};
    ///
    /// # let file = nettrace_reader::example();
    /// let strict = Options::default().dialect(Dialect::Reference);
    /// assert!(verify_with(&file[..], strict, 100)?.is_sound());
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Whether events of the .NET runtime get names and fields.
    ///
    /// The runtime writes its own events without a name and a list of fields: those of the
    /// providers `Microsoft-Windows-DotNETRuntime`, `Microsoft-Windows-DotNETRuntimeRundown` and
    /// `Microsoft-DotNETCore-SampleProfiler`. This crate has a table of them, made from the
    /// manifests of .NET 10 and older, which also has those of
    /// `System.Threading.Tasks.TplEventSource`. If this is `true`, an event type that states no
    /// fields and is in the table gets its fields from there, and its name unless it states one.
    /// [`Metadata::is_from_table`](crate::Metadata::is_from_table) is then `true`. Names are those
    /// that Microsoft's tools show, such as `GC/Start`. A type that gets its name so has the opcode
    /// 0 unless the stream states one.
    ///
    /// The version of an event decides which fields it has. A version that the table does not have
    /// is decoded by the nearest one. Fields that a payload does not reach are absent, as always. A
    /// field that does not fit, and the bytes after the last field (as field `rest`), are
    /// [`Value::Bytes`](crate::Value::Bytes). A text that the runtime left out, which only the size
    /// of the payload shows, is empty. Numbers with names, such as the reason of a collection,
    /// remain numbers.
    ///
    /// Use `false` to see event types as the stream describes them, for instance to copy them.
    ///
    /// ```
    /// use nettrace_reader::Options;
    ///
    /// # let file = nettrace_reader::example();
    /// let mut reader = Options::default().runtime_events(false).open(&file[..])?;
    /// assert!(!reader.next_event()?.unwrap().metadata().is_from_table);
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[must_use]
    pub fn runtime_events(mut self, describe: bool) -> Self {
        self.runtime_events = describe;
        self
    }

    /// Whether what follows the end of the stream is read as its continuation.
    ///
    /// A session that rotates its files writes one recording as several streams of version 6, and
    /// defines in each again what its rows refer to. If this is `true`, the source may be all of
    /// them, one after another in their order and nothing else. They are then read as the one
    /// stream that the session would have written without rotation: threads go on, events are
    /// sorted over the ends, and times are those of the first stream's clock. What
    /// [`Reader::next_item`](crate::Reader::next_item) returns can define a type or a thread more
    /// than once.
    ///
    /// Streams that have the same value of [`Trace::FILE`](crate::Trace::FILE), too, are dumps of a
    /// flight recorder, in the order in which they begin. What one of them repeats of those before
    /// is left out.
    ///
    /// All streams must have the same value of [`Trace::RECORDING`](crate::Trace::RECORDING), or
    /// reading fails with [`ErrorKind::OtherRecording`](crate::ErrorKind::OtherRecording).
    ///
    /// ```
    /// use nettrace_reader::{ErrorKind, Options};
    ///
    /// // These streams do not say that they are of one recording.
    /// let file = nettrace_reader::example();
    /// let twice = [&file[..], &file[..]].concat();
    /// let mut reader = Options::default().joined(true).open(&twice[..])?;
    /// let error = reader.read_to_end().unwrap_err();
    /// assert!(matches!(error.kind(), ErrorKind::OtherRecording));
    /// assert_eq!(error.offset(), file.len() as u64);
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[must_use]
    pub fn joined(mut self, joined: bool) -> Self {
        self.joined = joined;
        self
    }

    /// Whether it is an error if another stream begins behind the end of the stream. The default is
    /// `false`: what stands there is not read, as the format demands.
    ///
    /// With `true`, a reader waits at the end for the next bytes of the source. So it is for files,
    /// in which somebody may have put two traces one after the other.
    ///
    /// ```
    /// use nettrace_reader::{ErrorKind, Options};
    ///
    /// let file = nettrace_reader::example();
    /// let twice = [&file[..], &file[..]].concat();
    /// let mut reader = Options::default().alone(true).open(&twice[..])?;
    /// let error = reader.read_to_end().unwrap_err();
    /// assert!(matches!(error.kind(), ErrorKind::AnotherStream));
    /// assert_eq!((error.offset(), reader.totals().events), (file.len() as u64, 2));
    /// // Anything else is what the writer of a file has left there.
    /// let behind = [&file[..], &file[8..]].concat();
    /// Options::default().alone(true).open(&behind[..])?.read_to_end()?;
    /// # Ok::<(), nettrace_reader::Error>(())
    /// ```
    #[must_use]
    pub fn alone(mut self, alone: bool) -> Self {
        self.alone = alone;
        self
    }
}
