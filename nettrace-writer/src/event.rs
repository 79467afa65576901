//! Event types, their schemas, and how their values become bytes.
//!
//! A program that only derives and emits events does not need this module. It is for code that
//! reads the schema of a type, implements [`TraceField`] by hand, or encodes events itself.
//!
//! # Examples
//!
//! The derive writes a schema for each event type:
//!
//! ```
//! use nettrace_writer::{TraceEvent, event::FieldType};
//!
//! #[derive(TraceEvent)]
//! #[trace_event(provider = "Contoso-Checkout")]
//! struct Answered<'a> {
//!     url: &'a str,
//!     micros: u64,
//! }
//!
//! let schema = Answered::event_types()[0].schema();
//! assert_eq!((schema.provider.name, schema.name), ("Contoso-Checkout", "Answered"));
//! assert_eq!(schema.fields[1].name, "micros");
//! assert_eq!(schema.fields[1].ty, FieldType::U64);
//! ```
//!
//! A type that is recorded in another form implements [`TraceField`]:
//!
//! ```
//! use nettrace_writer::{
//!     TraceEvent, TraceField,
//!     event::{FieldType, PayloadEncoder},
//! };
//!
//! /// A temperature, recorded in thousandths of a degree.
//! struct Celsius(f64);
//!
//! impl TraceField for Celsius {
//!     const TYPE: FieldType = FieldType::I32;
//!
//!     fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
//!         encoder.i32((self.0 * 1000.0) as i32);
//!     }
//! }
//!
//! #[derive(TraceEvent)]
//! #[trace_event(provider = "Contoso-Sensors")]
//! struct Measured {
//!     temperature: Celsius,
//! }
//! # let schema = Measured::event_types()[0].schema();
//! # assert_eq!(schema.fields[0].ty, FieldType::I32);
//! ```

pub use nettrace_event::{
    ArrayLayout, EventSchema, EventType, FieldAs, FieldFormat, FieldRole, FieldSchema, FieldType,
    LocatedField, Pairs, PayloadEncoder, Place, ProviderSchema, SESSION_BITS, Storage, StrEncoding,
    TextField, derived_id, encoding,
    traits::{TraceEvent, TraceField},
};
