//! Values that are recorded as text, through the traits by which they are shown.

#[cfg(feature = "alloc")]
use alloc::string::String;
use core::{
    error::Error,
    fmt::{self, Write as _},
};

use crate::{
    encode::PayloadEncoder,
    encoding,
    field::TextField,
    schema::{FieldType, StrEncoding},
};

impl<T: AsRef<str> + ?Sized> TextField<encoding::AsRef> for T {
    const TYPE: FieldType = FieldType::Str(StrEncoding::Utf16);

    #[inline]
    fn encode_text<E: PayloadEncoder>(&self, encoder: &mut E) {
        encoder.str(self.as_ref(), StrEncoding::Utf16);
    }
}

impl<T: fmt::Display + ?Sized> TextField<encoding::Display> for T {
    const TYPE: FieldType = FieldType::Str(StrEncoding::Utf16);

    fn encode_text<E: PayloadEncoder>(&self, encoder: &mut E) {
        encode(format_args!("{self}"), encoder);
    }
}

impl<T: fmt::Debug + ?Sized> TextField<encoding::Debug> for T {
    const TYPE: FieldType = FieldType::Str(StrEncoding::Utf16);

    fn encode_text<E: PayloadEncoder>(&self, encoder: &mut E) {
        encode(format_args!("{self:?}"), encoder);
    }
}

impl<T: Error + ?Sized> TextField<encoding::Error> for T {
    const TYPE: FieldType = FieldType::Str(StrEncoding::Utf16);

    fn encode_text<E: PayloadEncoder>(&self, encoder: &mut E) {
        let chain = Chain { first: self, source: self.source() };
        encode(format_args!("{chain}"), encoder);
    }
}

/// An error and what caused it.
struct Chain<'a, E: ?Sized> {
    first: &'a E,
    source: Option<&'a (dyn Error + 'static)>,
}

impl<E: fmt::Display + ?Sized> fmt::Display for Chain<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first.fmt(f)?;
        let mut source = self.source;
        while let Some(cause) = source {
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

fn encode<E: PayloadEncoder>(text: fmt::Arguments<'_>, encoder: &mut E) {
    if let Some(text) = text.as_str() {
        return encoder.str(text, StrEncoding::Utf16);
    }
    let mut short = Short { bytes: [0; SHORT], len: 0, is_whole: true };
    // An error of the value's own implementation ends the text.
    let _ = short.write_fmt(text);
    #[cfg(feature = "alloc")]
    if !short.is_whole {
        let mut long = String::with_capacity(4 * SHORT);
        let _ = long.write_fmt(text);
        return encoder.str(&long, StrEncoding::Utf16);
    }
    encoder.str(short.text(), StrEncoding::Utf16);
}

/// Texts of up to so many bytes take no allocation.
const SHORT: usize = 256;

/// A text on the stack.
struct Short {
    bytes: [u8; SHORT],
    len: usize,
    /// Whether everything that was written is here.
    is_whole: bool,
}

impl Short {
    fn text(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

impl fmt::Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut end = text.len().min(SHORT - self.len);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.bytes[self.len..self.len + end].copy_from_slice(&text.as_bytes()[..end]);
        self.len += end;
        if end < text.len() {
            self.is_whole = false;
            return Err(fmt::Error);
        }
        Ok(())
    }
}
