//! Events as values of Rust types: see [`ReadEvent`].

mod field;

use std::{error, fmt, marker::PhantomData};

pub use self::field::{Guid, ReadField};
use nettrace_format::Metadata;

use crate::{
    error::{Error, Result},
    event::Event,
    rows::Header,
    value::Value,
};

/// An event that is read as a value of this type. `#[derive(ReadEvent)]` implements it, with the
/// feature `derive`.
///
/// The attributes are those of `derive(TraceEvent)`, so one type can be written and read:
///
/// ```
/// # #[cfg(feature = "derive")] {
/// use nettrace_reader::{ReadEvent, Reader};
///
/// #[derive(Debug, PartialEq, ReadEvent)]
/// #[trace_event(provider = "Shop")]
/// struct Sale {
///     cents: u64,
///     // Older versions of the event do not have it.
///     customer: Option<String>,
/// }
///
/// # let file = nettrace_reader::example();
/// let mut reader = Reader::new(&file[..])?;
/// for sale in reader.events::<Sale>() {
///     let sale = sale?;
///     assert_eq!(sale.value, Sale { cents: 1_250, customer: None });
///     println!("at tick {}: {:?}", sale.header.timestamp, sale.value);
///     # break;
/// }
/// # }
/// # Ok::<(), nettrace_reader::ReadError>(())
/// ```
///
/// An event is of the type if provider and name are equal, whatever its version. Its fields are
/// found by their names:
///
/// - a field that the type does not have is not read: it is new;
/// - a field that the event does not have is `None` if it is an `Option`; otherwise the event is a
///   [`Mismatch`];
/// - a number is read if it fits, whatever its size in the event;
/// - a field marked `#[trace_event(skip)]` is `Default::default()`.
///
/// [`ReadField`] lists the types of fields. They are owned: text is a `String`, not a `&str`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be read from a trace",
    note = "derive `ReadEvent` for it"
)]
pub trait ReadEvent: Sized {
    /// Reads an event; `None` if it is not of this type.
    fn read(event: &Event<'_>) -> Option<std::result::Result<Self, Mismatch>>;
}

/// An event that is of a type by its provider and name, but does not have its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Provider and name of the event.
    pub event: String,
    /// The field.
    pub field: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The event does not have it.
    Missing,
    /// Its value is of another type, or does not fit: the value.
    Value(String),
    /// The payload cannot be decoded: why.
    Damaged(String),
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { event, field, problem } = self;
        match problem {
            Problem::Missing => write!(f, "{event} has no field `{field}`"),
            Problem::Value(value) => write!(f, "field `{field}` of {event} is {value}"),
            Problem::Damaged(why) => write!(f, "{event} cannot be decoded: {why}"),
        }
    }
}

impl error::Error for Mismatch {}

/// Why an event could not be read.
#[derive(Debug)]
pub enum ReadError {
    /// The trace is damaged or cannot be read further.
    Trace(Error),
    /// The event has other fields. The next ones may be as expected.
    Event(Mismatch),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trace(error) => error.fmt(f),
            Self::Event(mismatch) => mismatch.fmt(f),
        }
    }
}

impl error::Error for ReadError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(match self {
            Self::Trace(error) => error,
            Self::Event(mismatch) => mismatch,
        })
    }
}

impl From<Error> for ReadError {
    fn from(error: Error) -> Self {
        Self::Trace(error)
    }
}

impl From<Mismatch> for ReadError {
    fn from(mismatch: Mismatch) -> Self {
        Self::Event(mismatch)
    }
}

/// The values of an event or object, for an implementation of [`ReadEvent`] or [`ReadField`].
///
/// ```
/// use nettrace_reader::{Event, Mismatch, ReadEvent, Values};
///
/// struct Sale(u32);
///
/// impl ReadEvent for Sale {
///     fn read(event: &Event<'_>) -> Option<Result<Self, Mismatch>> {
///         let mut values = Values::of(event, "Shop", "Sale")?;
///         Some((|| Ok(Self(values.take("cents")?)))())
///     }
/// }
/// # let file = nettrace_reader::example();
/// # let mut reader = nettrace_reader::Reader::new(&file[..])?;
/// assert_eq!(reader.events::<Sale>().next().unwrap()?.value.0, 1_250);
/// # Ok::<(), nettrace_reader::ReadError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Values<'a> {
    metadata: Option<&'a Metadata>,
    values: Vec<(&'a str, Value<'a>)>,
    damage: Option<String>,
}

impl<'a> Values<'a> {
    /// Those of an event, if its provider and its name are these.
    #[must_use]
    pub fn of(event: &Event<'a>, provider: &str, name: &str) -> Option<Self> {
        let metadata = event.metadata();
        if (metadata.provider.as_str(), metadata.name.as_str()) != (provider, name) {
            return None;
        }
        let mut all = Self { metadata: Some(metadata), values: Vec::new(), damage: None };
        let mut fields = event.fields();
        // An older version of the type has fewer fields.
        while !fields.is_exhausted() {
            match fields.next() {
                Some(Ok(field)) => all.values.push(field),
                Some(Err(error)) => all.damage = Some(error.to_string()),
                None => break,
            }
        }
        Some(all)
    }

    /// Those of an object.
    #[must_use]
    pub fn of_object(value: Value<'a>) -> Option<Self> {
        match value {
            Value::Object(values) => Some(Self { metadata: None, values, damage: None }),
            _ => None,
        }
    }

    /// Reads a field by its name.
    ///
    /// # Errors
    /// The field is missing, or of another type.
    pub fn take<T: ReadField>(&mut self, name: &str) -> std::result::Result<T, Mismatch> {
        let Some(at) = self.values.iter().position(|(own, _)| *own == name) else {
            let problem = match &self.damage {
                Some(why) => Problem::Damaged(why.clone()),
                None => match T::absent() {
                    Some(value) => return Ok(value),
                    None => Problem::Missing,
                },
            };
            return Err(self.mismatch(name, problem));
        };
        let (_, value) = self.values.swap_remove(at);
        let shown = value.clone();
        T::read_field(value)
            .ok_or_else(|| self.mismatch(name, Problem::Value(format!("{shown:.200?}"))))
    }

    fn mismatch(&self, field: &str, problem: Problem) -> Mismatch {
        let event = match self.metadata {
            Some(Metadata { provider, name, .. }) => format!("{provider}/{name}"),
            None => "the object".to_owned(),
        };
        Mismatch { event, field: field.to_owned(), problem }
    }
}

/// An event with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Typed<T> {
    /// The header of its row: when and where it was recorded.
    pub header: Header,
    /// What it says.
    pub value: T,
}

/// The events of one type, in the order of the reader. Ends after an error of the trace.
#[derive(Debug)]
pub struct Events<'r, R, T> {
    reader: &'r mut R,
    has_ended: bool,
    of: PhantomData<fn() -> T>,
}

impl<'r, R, T> Events<'r, R, T> {
    pub(crate) fn new(reader: &'r mut R) -> Self {
        Self { reader, has_ended: false, of: PhantomData }
    }
}

/// What lends events one by one: a [`Reader`](crate::Reader) or a
/// [`SortedReader`](crate::SortedReader).
pub trait EventSource {
    /// The next event; `None` at the end of the trace.
    ///
    /// # Errors
    /// As the reader says.
    fn lend_event(&mut self) -> Result<Option<Event<'_>>>;
}

impl<R: EventSource, T: ReadEvent> Iterator for Events<'_, R, T> {
    type Item = std::result::Result<Typed<T>, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.has_ended {
            let event = match self.reader.lend_event() {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(error) => {
                    self.has_ended = true;
                    return Some(Err(error.into()));
                }
            };
            if let Some(read) = T::read(&event) {
                let header = *event.header;
                return Some(read.map(|value| Typed { header, value }).map_err(Into::into));
            }
        }
        self.has_ended = true;
        None
    }
}
