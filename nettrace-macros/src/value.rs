//! Reads and checks the values of keys.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Expr, ExprLit, Ident, Lit, LitStr};

use crate::{
    attr::Attrs,
    error::{Errors, list},
};

/// The levels, as `nettrace_event::Level` names them.
pub(crate) const LEVELS: &[&str] =
    &["LogAlways", "Critical", "Error", "Warning", "Informational", "Verbose"];

/// The opcodes with a name in ETW, and their numbers.
pub(crate) const OPCODES: [(&str, u8); 11] = [
    ("Info", 0),
    ("Start", 1),
    ("Stop", 2),
    ("DataCollectionStart", 3),
    ("DataCollectionStop", 4),
    ("Extension", 5),
    ("Reply", 6),
    ("Resume", 7),
    ("Suspend", 8),
    ("Send", 9),
    ("Receive", 240),
];

/// The words of `encoding = …` that encode a field in its place, and their markers.
pub(crate) const ENCODINGS: &[(&str, &str)] = &[
    ("utf16", "Utf16"),
    ("utf16_nul", "Utf16Nul"),
    ("utf8", "Utf8"),
    ("varint", "VarInt"),
    ("bool8", "Bool8"),
    ("utf16_unit", "Utf16Unit"),
    ("date_time", "DateTime"),
    ("guid", "Guid"),
    ("name", "Name"),
    ("number", "Number"),
];

/// The words of `encoding = …` that store a field's data after the other fields, and their markers.
pub(crate) const LOCATIONS: &[(&str, &str)] = &[
    ("rel_loc", "RelLoc"),
    ("data_loc", "DataLoc"),
    ("utf8_rel_loc", "Utf8RelLoc"),
    ("utf8_data_loc", "Utf8DataLoc"),
];

/// The words of `encoding = …` that record the text of a value, and their markers.
pub(crate) const TEXTS: &[(&str, &str)] =
    &[("display", "Display"), ("debug", "Debug"), ("error", "Error"), ("as_ref", "AsRef")];

/// The words of `format = …` and their formats.
pub(crate) const FORMATS: &[(&str, &str)] = &[
    ("signed", "Signed"),
    ("unsigned", "Unsigned"),
    ("hex", "Hex"),
    ("boolean", "Boolean"),
    ("errno", "Errno"),
    ("pid", "Pid"),
    ("time", "Time"),
    ("port", "Port"),
    ("ip_address", "IpAddress"),
    ("uuid", "Uuid"),
    ("latin1", "Latin1"),
    ("utf", "Utf"),
    ("utf_bom", "UtfBom"),
    ("xml", "Xml"),
    ("json", "Json"),
    ("hex_bytes", "HexBytes"),
];

/// The most bytes of an event or field name, as in `nettrace_event::check`.
pub(crate) const MAX_NAME: usize = 255;

/// The most bytes of a message, a description, a key or a value: well below the limit of a metadata
/// row.
pub(crate) const MAX_TEXT: usize = 8_192;

/// The most bytes of a provider's name and group, as in `nettrace_event::check`.
pub(crate) const MAX_PROVIDER: usize = 233;

/// A level as written.
#[derive(Clone)]
pub(crate) enum Level {
    /// One of [`LEVELS`].
    Named(Ident),
    /// A number, or an expression for one.
    Number(TokenStream),
}

/// The id of an event, or an expression for it.
pub(crate) enum Number {
    Literal(u64),
    Expression,
}

impl Attrs {
    /// A string literal.
    pub(crate) fn string(&self, key: &str, errors: &mut Errors) -> Option<LitStr> {
        let value = ungroup(self.value(key)?);
        let Some(literal) = string_literal(value) else {
            errors.on(value, format!("`{key}` takes a string, for example `{key} = \"…\"`"));
            return None;
        };
        Some(literal)
    }

    /// A string literal for people: within the length limit, without a NUL.
    pub(crate) fn text(&self, key: &str, errors: &mut Errors) -> Option<LitStr> {
        let literal = self.string(key, errors)?;
        check_text(&literal, key, errors);
        Some(literal)
    }

    /// One of a list of words, and its position in the source.
    pub(crate) fn word<'a>(
        &self,
        key: &str,
        words: impl IntoIterator<Item = &'a str> + Clone,
        errors: &mut Errors,
    ) -> Option<Ident> {
        let value = ungroup(self.value(key)?);
        let found = match value {
            Expr::Path(path) => path.path.get_ident().cloned(),
            _ => None,
        };
        match found {
            Some(ident) if words.clone().into_iter().any(|word| ident == word) => Some(ident),
            _ => {
                errors.on(value, format!("`{key}` is one of {}", list(words)));
                None
            }
        }
    }

    /// A level by name or number.
    pub(crate) fn level(&self, errors: &mut Errors) -> Option<Level> {
        let value = ungroup(self.value("level")?);
        if let Expr::Path(path) = value {
            if let Some(ident) = path.path.get_ident() {
                if LEVELS.iter().any(|level| ident == level) {
                    return Some(Level::Named(ident.clone()));
                }
                let mut message = unknown_word("level", LEVELS, ident);
                if let Some(level) = meant_level(&ident.to_string()) {
                    message = format!("there is no level `{ident}`; write `level = {level}`");
                }
                errors.on(value, message);
                return None;
            }
        }
        if let Some(literal) = string_literal(value) {
            let level = meant_level(&literal.value()).unwrap_or("Warning");
            errors.on(value, format!("a level has no quotes: write `level = {level}`"));
            return None;
        }
        self.number("level", 0, 255, errors).map(|(_, tokens)| Level::Number(tokens))
    }

    /// A number from `min` to `max`, or a constant expression, which the compiler checks. The
    /// returned tokens are the value, for a place of its type.
    pub(crate) fn number(
        &self,
        key: &str,
        min: u64,
        max: u64,
        errors: &mut Errors,
    ) -> Option<(Number, TokenStream)> {
        let value = ungroup(self.value(key)?);
        match value {
            Expr::Lit(ExprLit { lit: Lit::Int(literal), .. }) => {
                match literal.base10_parse::<u64>() {
                    Ok(number) if (min..=max).contains(&number) => {
                        Some((Number::Literal(number), quote!(#value)))
                    }
                    _ => {
                        errors.on(value, out_of_range(key, min, max));
                        None
                    }
                }
            }
            Expr::Lit(_) | Expr::Array(_) | Expr::Tuple(_) | Expr::Unary(_) => {
                errors.on(value, out_of_range(key, min, max));
                None
            }
            _ => {
                let value = unbraced(value);
                Some((Number::Expression, quote!(#value)))
            }
        }
    }

    /// An opcode by name or number.
    pub(crate) fn opcode(&self, errors: &mut Errors) -> Option<TokenStream> {
        let value = ungroup(self.value("opcode")?);
        if let Expr::Path(path) = value {
            if let Some(ident) = path.path.get_ident() {
                let known = OPCODES.iter().find(|(name, _)| ident == name);
                let Some((_, number)) = known else {
                    let names = OPCODES.map(|(name, _)| name);
                    errors.on(value, unknown_word("opcode", &names, ident));
                    return None;
                };
                return Some(quote!(#number));
            }
        }
        self.number("opcode", 0, 255, errors).map(|(_, tokens)| tokens)
    }

    /// A GUID in the usual text form, as bytes in the order of RFC 4122.
    pub(crate) fn guid(&self, key: &str, errors: &mut Errors) -> Option<[u8; 16]> {
        let literal = self.string(key, errors)?;
        let guid = parse_guid(&literal.value());
        if guid.is_none() {
            errors.on(
                &literal,
                "not a GUID: 32 hexadecimal digits in groups of 8-4-4-4-12, for example \
                 \"01234567-89ab-cdef-0123-456789abcdef\"",
            );
        }
        guid
    }

    /// `[("key", "value"), …]` with unique keys.
    pub(crate) fn pairs(&self, key: &str, errors: &mut Errors) -> Vec<(LitStr, LitStr)> {
        let Some(value) = self.value(key).map(ungroup) else { return Vec::new() };
        let Expr::Array(array) = value else {
            errors.on(value, format!("`{key}` takes pairs: `{key} = [(\"key\", \"value\")]`"));
            return Vec::new();
        };
        let mut pairs: Vec<(LitStr, LitStr)> = Vec::new();
        for element in &array.elems {
            let pair = match ungroup(element) {
                Expr::Tuple(tuple) if tuple.elems.len() == 2 => {
                    string_literal(ungroup(&tuple.elems[0]))
                        .zip(string_literal(ungroup(&tuple.elems[1])))
                }
                _ => None,
            };
            let Some((name, text)) = pair else {
                errors.on(element, "expected a pair of strings: `(\"key\", \"value\")`");
                continue;
            };
            check_text(&name, "a key", errors);
            if name.value().is_empty() || name.value().contains([';', '=']) {
                errors.on(&name, "a key has at least one character, and no `;` or `=`");
            }
            check_text(&text, "a value", errors);
            if pairs.iter().any(|(earlier, _)| earlier.value() == name.value()) {
                errors.on(&name, format!("the key \"{}\" is given twice", name.value()));
            } else {
                pairs.push((name, text));
            }
        }
        pairs
    }
}

/// The level that a word in another case, or one of the crates `log` and `tracing`, stands for.
fn meant_level(word: &str) -> Option<&'static str> {
    let word = word.to_ascii_lowercase();
    Some(match &*word {
        "warn" => "Warning",
        "info" => "Informational",
        "debug" | "trace" => "Verbose",
        _ => LEVELS.iter().find(|level| level.eq_ignore_ascii_case(&word))?,
    })
}

/// The message for a word that is neither one of a list nor a number from 0 to 255.
fn unknown_word(key: &str, names: &[&str], word: &Ident) -> String {
    format!(
        "`{key}` is a number from 0 to 255 or one of {}; a constant of your own goes in braces: \
         `{key} = {{ {word} }}`",
        list(names),
    )
}

fn out_of_range(key: &str, min: u64, max: u64) -> String {
    match max {
        u64::MAX => format!("`{key}` is a set of 64 bits, such as `0x1`, or a constant expression"),
        _ => format!("`{key}` is a number from {min} to {max}, or a constant expression"),
    }
}

/// The expression without the invisible brackets that `macro_rules` puts around it.
pub(crate) fn ungroup(mut value: &Expr) -> &Expr {
    while let Expr::Group(group) = value {
        value = &group.expr;
    }
    value
}

/// The expression without a pair of braces, which the compiler would call unnecessary.
fn unbraced(value: &Expr) -> &Expr {
    match value {
        Expr::Block(block) if block.attrs.is_empty() && block.label.is_none() => {
            match block.block.stmts.as_slice() {
                [syn::Stmt::Expr(inner, None)] => inner,
                _ => value,
            }
        }
        _ => value,
    }
}

/// The literal, if the expression is a string literal.
pub(crate) fn string_literal(value: &Expr) -> Option<LitStr> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(literal), .. }) => Some(literal.clone()),
        _ => None,
    }
}

/// Why a string cannot be the name of an event or a field; `None` if it can.
pub(crate) fn name_problem(name: &str) -> Option<String> {
    if name.is_empty() {
        Some("a name has at least one character".to_owned())
    } else if name.len() > MAX_NAME {
        Some(format!("a name has at most {MAX_NAME} bytes, this one {}", name.len()))
    } else if name.chars().any(|c| c.is_control() || c == ';') {
        Some("a name has no NUL or other control character, and no `;`".to_owned())
    } else {
        None
    }
}

/// Why a string cannot be a provider's name; `None` if it can. `room` is what the group leaves of
/// the limit.
pub(crate) fn provider_problem(name: &str, room: usize) -> Option<String> {
    if name.is_empty() {
        Some("a provider's name has at least one character".to_owned())
    } else if name.len() > room {
        Some(format!("a provider's name has at most {room} bytes, this one {}", name.len()))
    } else if name.bytes().any(|c| matches!(c, 0..=b' ' | b',' | b':' | b';' | 0x7f)) {
        Some(
            "a provider's name has no white space, control character, `,`, `:` or `;`: session \
             filters and tracepoint names could not spell it"
                .to_owned(),
        )
    } else {
        None
    }
}

/// Reads `8-4-4-4-12` hexadecimal digits, optionally in braces.
pub(crate) fn parse_guid(text: &str) -> Option<[u8; 16]> {
    let text = text.strip_prefix('{').map_or(Some(text), |rest| rest.strip_suffix('}'))?;
    let groups: Vec<&str> = text.split('-').collect();
    if !groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12]) {
        return None;
    }
    let digits = groups.concat();
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
}

fn check_text(literal: &LitStr, what: &str, errors: &mut Errors) {
    let text = literal.value();
    if text.contains('\0') {
        errors.on(literal, format!("`{what}` must not contain a NUL"));
    }
    if text.len() > MAX_TEXT {
        errors.on(literal, format!("`{what}` is longer than {MAX_TEXT} bytes"));
    }
}
