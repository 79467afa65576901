//! Event types, their schemas, and how their values become bytes.
//!
//! A program that only derives and emits events does not need this module. It is for code that
//! reads the schema of a type, or that implements [`TraceField`] by hand.
//!
//! ```
//! use eventheader_writer::{TraceEvent, event::FieldType};
//!
//! #[derive(TraceEvent)]
//! #[trace_event(provider = "Contoso_Checkout")]
//! struct Answered {
//!     micros: u64,
//! }
//!
//! let schema = Answered::event_types()[0].schema();
//! assert_eq!((schema.fields[0].name, schema.fields[0].ty), ("micros", FieldType::U64));
//! ```

pub use nettrace_event::{
    ArrayLayout, EventSchema, EventType, FieldAs, FieldFormat, FieldRole, FieldSchema, FieldType,
    LocatedField, PayloadEncoder, Place, ProviderSchema, Storage, StrEncoding, derived_id,
    encoding,
    traits::{TraceEvent, TraceField},
};
