//! Texts that are cut where they are longer than an event should hold.

use core::fmt;

use crate::{encode::PayloadEncoder, field::TraceField, schema::FieldType};

/// A text of which an event has at most `MOST` UTF-16 units. A longer one ends with `…`.
///
/// An event that is larger than its limits is refused as a whole, and counted. For a text of a
/// length that nobody knows, such as a body or a query, its beginning is often worth more than
/// nothing. Only a text that is cut takes an allocation. What is cut off is not hashed either:
/// `Secret<Cut<T, MOST>, Hashed>` has one hash for all texts with the same beginning.
///
/// ```
/// use nettrace_event::{Cut, TraceEvent};
///
/// #[derive(TraceEvent)]
/// #[trace_event(provider = "Contoso-Shop")]
/// struct Refused<'a> {
///     body: Cut<&'a str, 2_000>,
/// }
///
/// let refused = Refused { body: Cut(&"x".repeat(1 << 20)) };
/// assert_eq!(refused.body.to_string().len(), 1_999 + "…".len());
/// assert_eq!(Cut::<_, 5>("five5").to_string(), "five5");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cut<T, const MOST: usize>(pub T);

impl<T: AsRef<str>, const MOST: usize> Cut<T, MOST> {
    /// The kept part of the text, and the mark behind it if something is left out.
    fn kept(&self) -> (&str, &'static str) {
        let text = self.0.as_ref();
        // No text has more units than bytes.
        if text.len() <= MOST {
            return (text, "");
        }
        let (mut units, mut end) = (0, 0);
        for (at, character) in text.char_indices() {
            // There is room for the mark as long as this is the end.
            if units < MOST {
                end = at;
            }
            units += character.len_utf16();
            if units > MOST {
                return (&text[..end], if MOST > 0 { "…" } else { "" });
            }
        }
        (text, "")
    }
}

impl<T: AsRef<str>, As, const MOST: usize> TraceField<As> for Cut<T, MOST>
where
    str: TraceField<As>,
{
    const TYPE: FieldType = <str as TraceField<As>>::TYPE;

    fn encode_field<E: PayloadEncoder>(&self, encoder: &mut E) {
        match self.kept() {
            (text, "") => text.encode_field(encoder),
            (text, mark) => [text, mark].concat().as_str().encode_field(encoder),
        }
    }
}

/// The text as an event has it.
impl<T: AsRef<str>, const MOST: usize> fmt::Display for Cut<T, MOST> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, mark) = self.kept();
        f.write_str(text)?;
        f.write_str(mark)
    }
}

#[cfg(test)]
mod tests {
    use std::string::{String, ToString as _};

    use super::Cut;

    #[test]
    fn a_text_has_at_most_so_many_units() {
        assert_eq!(Cut::<_, 4>("four").to_string(), "four");
        assert_eq!(Cut::<_, 3>("four").to_string(), "fo…");
        assert_eq!(Cut::<_, 1>("four").to_string(), "…");
        assert_eq!(Cut::<_, 0>("four").to_string(), "");
        assert_eq!(Cut::<_, 0>("").to_string(), "");
        // Of several bytes, and of two units.
        assert_eq!(Cut::<_, 3>("µµµ").to_string(), "µµµ");
        assert_eq!(Cut::<_, 2>("µµµ").to_string(), "µ…");
        assert_eq!(Cut::<_, 4>("😀😀").to_string(), "😀😀");
        assert_eq!(Cut::<_, 3>("😀😀").to_string(), "😀…");
        assert_eq!(Cut::<_, 2>("😀😀").to_string(), "…");
        assert_eq!(Cut::<_, 1>("😀").to_string(), "…");
    }

    #[test]
    fn what_is_kept_is_as_long_as_it_may_be() {
        for text in ["aµ😀b", "😀aµ", "µ😀😀a", "abc"] {
            let units: usize = text.encode_utf16().count();
            check::<0>(text, units);
            check::<1>(text, units);
            check::<2>(text, units);
            check::<3>(text, units);
            check::<4>(text, units);
            check::<5>(text, units);
            check::<6>(text, units);
        }
    }

    fn check<const MOST: usize>(text: &str, units: usize) {
        let shown = Cut::<_, MOST>(text).to_string();
        assert!(shown.encode_utf16().count() <= MOST, "{shown} of {text}");
        if units <= MOST {
            assert_eq!(shown, text);
            return;
        }
        let kept = shown.trim_end_matches('…');
        assert!(text.starts_with(kept));
        // One character more, and the mark, would be too long.
        let next: String = text[kept.len()..].chars().take(1).collect();
        assert!(kept.encode_utf16().count() + next.encode_utf16().count() + 1 > MOST, "{shown}");
    }
}
