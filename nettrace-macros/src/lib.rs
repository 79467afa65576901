//! The derive macros of NetTrace for Rust. Applications use them through `nettrace-writer`, and
//! libraries through `nettrace-event` and `nettrace-span`, which re-export them. The generated code
//! names only that crate, mostly its `__private`. Programs that read traces have `ReadEvent` and
//! `ReadField` through `nettrace-reader`.
//!
//! `ast` and `doc_comment` read the input, `valid` checks it, `expand`, `field` and `read` write
//! the code. If there are mistakes, `fallback` writes the code instead. `traced` and `span` write
//! spans. The events of a span are an input for the derive, which `start_and_stop` writes.

mod ast;
mod attr;
mod doc_comment;
mod error;
mod expand;
mod fallback;
mod field;
mod message;
mod read;
mod span;
mod start_and_stop;
mod traced;
mod valid;
mod value;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

use crate::{ast::Derive, error::Errors};

#[doc = include_str!("../docs/trace_event.md")]
#[proc_macro_derive(TraceEvent, attributes(trace_event))]
pub fn derive_trace_event(input: TokenStream) -> TokenStream {
    derive(&parse_macro_input!(input), Derive::Event, syn::parse_quote!(::nettrace_writer)).into()
}

#[doc = include_str!("../docs/trace_field.md")]
#[proc_macro_derive(TraceField, attributes(trace_event))]
pub fn derive_trace_field(input: TokenStream) -> TokenStream {
    derive(&parse_macro_input!(input), Derive::Field, syn::parse_quote!(::nettrace_writer)).into()
}

/// `#[derive(TraceEvent)]` of `eventheader-writer`, which re-exports it under that name. The
/// generated code names that crate.
#[doc(hidden)]
#[proc_macro_derive(TracepointEvent, attributes(trace_event))]
pub fn derive_tracepoint_event(input: TokenStream) -> TokenStream {
    let home = syn::parse_quote!(::eventheader_writer);
    derive(&parse_macro_input!(input), Derive::Event, home).into()
}

/// `#[derive(TraceField)]` of `eventheader-writer`.
#[doc(hidden)]
#[proc_macro_derive(TracepointField, attributes(trace_event))]
pub fn derive_tracepoint_field(input: TokenStream) -> TokenStream {
    let home = syn::parse_quote!(::eventheader_writer);
    derive(&parse_macro_input!(input), Derive::Field, home).into()
}

// Those of `nettrace-event`, which re-exports them as `TraceEvent` and `TraceField`. The generated
// code names that crate.

#[doc = include_str!("../docs/trace_event.md")]
#[proc_macro_derive(LibraryEvent, attributes(trace_event))]
pub fn derive_library_event(input: TokenStream) -> TokenStream {
    derive(&parse_macro_input!(input), Derive::Event, syn::parse_quote!(::nettrace_event)).into()
}

#[doc = include_str!("../docs/trace_field.md")]
#[proc_macro_derive(LibraryField, attributes(trace_event))]
pub fn derive_library_field(input: TokenStream) -> TokenStream {
    derive(&parse_macro_input!(input), Derive::Field, syn::parse_quote!(::nettrace_event)).into()
}

#[doc = include_str!("../docs/read_event.md")]
#[proc_macro_derive(ReadEvent, attributes(trace_event))]
pub fn derive_read_event(input: TokenStream) -> TokenStream {
    read::read(&parse_macro_input!(input), Derive::Event).into()
}

#[doc = include_str!("../docs/read_field.md")]
#[proc_macro_derive(ReadField, attributes(trace_event))]
pub fn derive_read_field(input: TokenStream) -> TokenStream {
    read::read(&parse_macro_input!(input), Derive::Field).into()
}

#[doc = include_str!("../docs/trace_span.md")]
#[proc_macro_derive(TraceSpan, attributes(trace_event))]
pub fn derive_trace_span(input: TokenStream) -> TokenStream {
    span::trace_span(&parse_macro_input!(input), syn::parse_quote!(::nettrace_writer)).into()
}

#[doc = include_str!("../docs/traced.md")]
#[proc_macro_attribute]
pub fn traced(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let home = syn::parse_quote!(::nettrace_writer);
    traced::traced(arguments.into(), item.into(), home).into()
}

// Those of `nettrace-span`, likewise.

#[doc = include_str!("../docs/trace_span.md")]
#[proc_macro_derive(LibrarySpan, attributes(trace_event))]
pub fn derive_library_span(input: TokenStream) -> TokenStream {
    span::trace_span(&parse_macro_input!(input), syn::parse_quote!(::nettrace_span)).into()
}

#[doc = include_str!("../docs/traced.md")]
#[proc_macro_attribute]
pub fn library_traced(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let home = syn::parse_quote!(::nettrace_span);
    traced::traced(arguments.into(), item.into(), home).into()
}

fn derive(input: &DeriveInput, derive: Derive, home: syn::Path) -> proc_macro2::TokenStream {
    let mut errors = Errors::default();
    let container = ast::Container::parse(input, derive, home, &mut errors);
    let code = match derive {
        Derive::Event => {
            valid::refuse_parameters(&container, &mut errors);
            let events = valid::events(&container, &mut errors);
            expand::trace_event(&container, &events)
        }
        Derive::Field => field::trace_field(&container, &mut errors),
    };
    match errors.into_compile_errors() {
        None => code,
        Some(mut errors) => {
            errors.extend(fallback::implementation(&container, derive));
            errors
        }
    }
}

/// The README, so that the tests compile its example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Code of older editions, which have other paths.
#[cfg(doctest)]
#[doc = include_str!("../tests/edition_2015.md")]
struct Edition2015;
