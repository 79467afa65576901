//! The text of a condition, taken apart: `FIELD=VALUE`.
//!
//! What could not mean anything is an error that names its place: a condition that compares with
//! nothing would find nothing, and look like an answer.

use super::{
    SPAN_FACTS,
    condition::{Number, OPERATORS, Operator},
};
use crate::spelling::OneLine;

/// Units of time.
const UNITS: &str = "ns, us, ms, s, m, h";

/// How a condition is written.
const HOW: &str = "write FIELD=VALUE, or != < <= > >= in the place of =, or FIELD~TEXT for text \
    that contains TEXT; quotes keep the shell from taking < and > for its own";

/// The parts of a condition.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Expression<'a> {
    pub(super) field: &'a str,
    pub(super) operator: Operator,
    pub(super) value: &'a str,
}

impl<'a> Expression<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, String> {
        let place = |at: usize| text[..at].chars().count() + 1;
        let fail = |at: usize, what: &str| Err(format!("character {}: {what}", place(at)));
        let Some(at) = text.find(['=', '!', '<', '>', '~']) else {
            return fail(text.len(), &format!("an operator is missing; {HOW}"));
        };
        let (before, rest) = text.split_at(at);
        let found = OPERATORS.into_iter().find(|(sign, _)| rest.starts_with(sign));
        let Some((sign, operator)) = found else {
            return fail(at, &format!("`!` is no operator, but `!=` is; {HOW}"));
        };
        // Blanks around the operator belong to neither side. A blank behind it alone may be meant.
        let behind = &rest[sign.len()..];
        let field = before.trim_end();
        let value = if field.len() < before.len() { behind.trim_start() } else { behind };
        if let Some(at) = empty_name(field) {
            return fail(at, &format!("the name of a field is missing; {HOW}"));
        }
        let at = text.len() - value.len();
        let is_order = operator.is_order();
        if value.trim().is_empty() && (is_order || operator == Operator::Contains) {
            return fail(at, &format!("a value is missing behind `{sign}`"));
        }
        let bare = value.trim_start_matches(['=', '!', '<', '>', '~']);
        let is_text = operator == Operator::Contains;
        if !is_text && bare.len() < value.len() && (is_order || Number::of(bare.trim()).is_some()) {
            let both = format!("{sign}{}", &value[..value.len() - bare.len()]);
            let signs: Vec<_> = OPERATORS.iter().map(|(sign, _)| format!("`{sign}`")).collect();
            let signs = signs.join(", ");
            return fail(at, &format!("`{both}` is no operator; the operators are {signs}"));
        }
        let number = Number::of(value);
        if is_order && number.is_some_and(|number| number.float.is_some_and(f64::is_nan)) {
            return fail(at, "nothing is less or greater than NaN");
        }
        let is_duration = field == SPAN_FACTS[0] && !is_text;
        let bare = value.trim();
        if is_duration && bare.parse::<f64>().is_ok_and(|number| number != 0.0) {
            let what = format!("{bare} has no unit: {bare}ms, {bare}us, …?");
            return fail(at, &format!("{what} The units are {UNITS}"));
        }
        let unit = value.trim_start_matches(|c: char| "+-._".contains(c) || c.is_ascii_digit());
        let unit = unit.trim_start();
        let has_unit = unit.len() < value.len() && !unit.is_empty();
        let is_word = unit.chars().all(char::is_alphabetic);
        let is_hexadecimal = unit.chars().all(|c| c.is_ascii_hexdigit());
        let is_length = is_order && has_unit && is_word && !is_hexadecimal;
        if number.is_none() && (is_duration || is_length) {
            let (at, what) = match has_unit {
                true => {
                    (text.len() - unit.len(), format!("`{}` is no unit of time", OneLine(unit)))
                }
                false => (at, "write a duration as 5ms".to_owned()),
            };
            return fail(at, &format!("{what}; the units are {UNITS}"));
        }
        Ok(Self { field, operator, value })
    }
}

/// Where one of the names is empty that dots separate.
fn empty_name(field: &str) -> Option<usize> {
    let mut at = 0;
    field.split('.').find_map(|name| {
        let begin = at;
        at += name.len() + 1;
        name.trim().is_empty().then_some(begin)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (wrong, place, what) in [
            ("", 1, "an operator is missing"),
            ("a", 2, "an operator is missing"),
            ("=1", 1, "the name of a field"),
            (" = 1", 1, "the name of a field"),
            ("!=1", 1, "the name of a field"),
            ("a.=1", 3, "the name of a field"),
            ("a..b=1", 3, "the name of a field"),
            (".a=1", 1, "the name of a field"),
            ("a!1", 2, "`!` is no operator"),
            ("duration>", 10, "a value is missing behind `>`"),
            ("é <= ", 6, "a value is missing behind `<=`"),
            ("a~", 3, "a value is missing behind `~`"),
            ("a> ", 3, "a value is missing behind `>`"),
            ("a=>5", 3, "`=>` is no operator; the operators are `!=`"),
            ("a=<5ms", 3, "`=<` is no operator"),
            ("a>>5", 3, "`>>` is no operator"),
            ("a<>x", 3, "`<>` is no operator"),
            ("a>NaN", 3, "nothing is less or greater than NaN"),
            ("duration>5mss", 11, "`mss` is no unit of time; the units are ns, "),
            ("duration = 5 x", 14, "`x` is no unit of time"),
            ("duration>140", 10, "140 has no unit: 140ms, 140us, …? The units are ns, us"),
            ("duration!=1.5", 11, "1.5 has no unit"),
            ("duration>long", 10, "write a duration as 5ms"),
            ("duration=", 10, "write a duration as 5ms"),
            ("size>5kb", 7, "`kb` is no unit of time"),
        ] {
            let said = Expression::parse(wrong).unwrap_err();
            let expected = format!("character {place}: {what}");
            assert!(said.starts_with(&expected), "{wrong:?}: {said}, not {expected}");
        }
        for right in [
            "a=b=c",
            "a==b",
            "a!=",
            "a=",
            "a~<",
            "a<=1",
            "a<1",
            "a=<none>",
            "a=>b",
            "time>2026-01",
            "version>1.2.3",
            "TraceId>5ab",
            "name>5",
            "a>text",
            "duration>0",
            "duration~5m",
            "duration!=1.5 ms",
            "n>1e9",
            "n>0xff",
            "n=-5",
        ] {
            assert!(Expression::parse(right).is_ok(), "{right:?}");
        }
    }

    /// Whatever is written, it is a condition with all its parts, or an error at a place in it.
    #[test]
    fn anything_is_a_condition_or_an_error_with_its_place() {
        let parts = [
            "",
            " ",
            "a",
            "é",
            "duration",
            ".",
            "=",
            "!",
            "<",
            ">",
            "~",
            "5",
            "ms",
            "x",
            "-",
            "\n",
            "\u{1b}",
            "NaN",
            "0x",
            "none",
            "\u{202e}",
            "99999999999999999999999999999999999999999",
        ];
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            (state >> 33) as usize
        };
        let (mut right, mut wrong) = (0, 0);
        for _ in 0..100_000 {
            let text: String = (0..next() % 8).map(|_| parts[next() % parts.len()]).collect();
            match Expression::parse(&text) {
                Ok(Expression { field, operator, value }) => {
                    right += 1;
                    assert!(!field.trim().is_empty() && text.starts_with(field), "{text:?}");
                    assert!(text.ends_with(value), "{text:?}");
                    assert!(!operator.is_order() || !value.trim().is_empty(), "{text:?}");
                }
                Err(said) => {
                    wrong += 1;
                    let place = said.strip_prefix("character ").and_then(|it| it.split_once(": "));
                    let place: usize = place.unwrap().0.parse().unwrap();
                    assert!((1..=text.chars().count() + 1).contains(&place), "{text:?}: {said}");
                }
            }
        }
        assert!(right > 10_000 && wrong > 10_000, "{right} {wrong}");
    }
}
