//! The first paragraph of a doc comment, which describes an event or a field.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Attribute, Expr, LitStr, Meta};

use crate::value::{MAX_TEXT, string_literal, ungroup};

/// The text that describes an item.
pub(crate) enum DocComment {
    /// As it is in the trace.
    Text(LitStr),
    /// The parts of the comment, some of which are macros, as in
    /// `#[doc = include_str!("answered.md")]`. The compiler finds the paragraph.
    Parts(Vec<Expr>),
}

impl DocComment {
    /// Reads the attributes of an item. `None` also for a text that cannot be in a trace.
    pub(crate) fn read(attributes: &[Attribute]) -> Option<Self> {
        let parts = attributes.iter().filter_map(|attribute| match &attribute.meta {
            Meta::NameValue(meta) if meta.path.is_ident("doc") => Some(ungroup(&meta.value)),
            _ => None,
        });
        let mut lines = Vec::new();
        for part in parts.clone() {
            match string_literal(part) {
                Some(text) => {
                    lines.extend(text.value().split('\n').map(|line| line.trim().to_owned()))
                }
                None if is_paragraph_over(&lines) => break,
                None => return Some(Self::Parts(parts.cloned().collect())),
            }
        }
        let lines = lines.iter().map(String::as_str).skip_while(|line| line.is_empty());
        let paragraph = lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
        // An unusable comment is left out without an error, because it was not written for the
        // trace.
        let is_usable =
            !paragraph.is_empty() && paragraph.len() <= MAX_TEXT && !paragraph.contains('\0');
        is_usable.then(|| Self::Text(LitStr::new(&paragraph, Span::call_site())))
    }

    /// An `Option` of the text.
    pub(crate) fn optional(&self, private: &TokenStream) -> TokenStream {
        match self {
            Self::Text(text) => quote!(::core::option::Option::Some(#text)),
            Self::Parts(parts) => quote!({
                const __DOC: &::core::primitive::str = ::core::concat!(#(#parts, "\n"),*);
                const __LEN: ::core::primitive::usize = #private::doc_comment::paragraph_len(__DOC);
                const __PARAGRAPH: [::core::primitive::u8; __LEN] =
                    #private::doc_comment::paragraph(__DOC);
                #private::doc_comment::text(&__PARAGRAPH)
            }),
        }
    }

    /// The text, which is empty if there is none.
    pub(crate) fn or_empty(comment: Option<&Self>, private: &TokenStream) -> TokenStream {
        match comment {
            None => quote!(""),
            Some(Self::Text(text)) => quote!(#text),
            Some(parts) => {
                let text = parts.optional(private);
                quote!(match #text {
                    ::core::option::Option::Some(__text) => __text,
                    ::core::option::Option::None => "",
                })
            }
        }
    }
}

/// Whether an empty line follows a line with text.
fn is_paragraph_over(lines: &[String]) -> bool {
    lines.iter().skip_while(|line| line.is_empty()).any(String::is_empty)
}
