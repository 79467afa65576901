//! Conditions on fields and labels: `--where FIELD=VALUE`.

use std::{borrow::Cow, cmp::Ordering, fmt, str::FromStr};

use nettrace_event::trace_context::ActivityId;
use nettrace_reader::{Label, Value};
use nettrace_views::{
    model::{Plain, label_name},
    text::Names,
};

use super::expression::Expression;
use crate::nanoseconds::nanoseconds;

/// A condition on one field or label.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    field: String,
    operator: Operator,
    text: String,
    number: Number,
}

/// A value as a number, if it is one. A duration with a unit and a time are nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Number {
    integer: Option<i128>,
    pub(super) float: Option<f64>,
}

impl Number {
    pub(super) fn of(text: &str) -> Option<Self> {
        let float = text.parse().ok();
        let integer = integer(text).or_else(|| nanoseconds(text));
        (float.is_some() || integer.is_some()).then_some(Self { integer, float })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Contains,
}

impl Operator {
    /// Whether it asks which of two values is the greater one.
    pub(super) fn is_order(self) -> bool {
        matches!(self, Self::Less | Self::LessOrEqual | Self::Greater | Self::GreaterOrEqual)
    }
}

/// The result of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// There is no such field.
    Absent,
    Fails,
    Holds,
}

/// A value that can be compared.
#[derive(Clone, Debug)]
pub(crate) enum Scalar<'a> {
    Bool(bool),
    Integer(i128),
    Float(f64),
    /// Text, or a value that is shown as text, such as a DateTime.
    Text(Cow<'a, str>),
    /// An id in hexadecimal digits. Its case does not matter.
    Id(String),
}

/// The operators. A longer one comes before its own prefix.
pub(super) const OPERATORS: [(&str, Operator); 8] = [
    ("!=", Operator::NotEqual),
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("==", Operator::Equal),
    ("=", Operator::Equal),
    ("<", Operator::Less),
    (">", Operator::Greater),
    ("~", Operator::Contains),
];

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Expression { field, operator, value } = Expression::parse(text)?;
        let number = Number::of(value).unwrap_or_default();
        Ok(Self { field: field.to_owned(), operator, number, text: value.to_owned() })
    }
}

/// Parses an integer, decimal or hexadecimal.
fn integer(text: &str) -> Option<i128> {
    match text.strip_prefix("0x") {
        Some(digits) => i128::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = OPERATORS.into_iter().rev().find(|(_, operator)| *operator == self.operator);
        write!(f, "{}{}{}", self.field, sign.map_or("", |(sign, _)| sign), self.text)
    }
}

impl Condition {
    /// The name of the field or label. Dots separate the names of nested fields.
    pub(crate) fn field(&self) -> &str {
        &self.field
    }

    /// Whether it holds only if no value of the field is the one that it names.
    pub(crate) fn is_negative(&self) -> bool {
        self.operator == Operator::NotEqual
    }

    /// Tests an event of NetTrace: its fields, and if none has the name, its labels.
    pub(crate) fn test(&self, fields: &[(&str, Option<Value<'_>>)], labels: &[Label]) -> Outcome {
        let values = fields.iter().filter_map(|(name, value)| Some((*name, value.as_ref()?)));
        let outcome = self.any_field(values, &self.field);
        if outcome != Outcome::Absent {
            return self.finish(outcome);
        }
        // A name that several labels have finds all of them. With a number it finds one of them.
        let mut names = Names::default();
        let named = labels.iter().filter(|label| {
            let name = label_name(label);
            let unique = names.unique(name);
            name == self.field || unique == self.field
        });
        let outcome = self.test_scalars(named.map(|label| scalar(Plain::of_label(label))));
        if outcome == Outcome::Absent && self.field == "SpanId" {
            // Versions 4 and 5 have no span ids, but the activity ids of spans hold them.
            return self.test_scalars(labels.iter().filter_map(span_of_activity));
        }
        outcome
    }

    /// Tests all values of the field.
    pub(crate) fn test_scalars<'v>(&self, values: impl Iterator<Item = Scalar<'v>>) -> Outcome {
        let outcome = values.map(|value| self.test_scalar(&value)).max();
        self.finish(outcome.unwrap_or(Outcome::Absent))
    }

    /// If a field has several values, "not equal" means that none of them is equal.
    fn finish(&self, outcome: Outcome) -> Outcome {
        match (self.operator, outcome) {
            (Operator::NotEqual, Outcome::Holds) => Outcome::Fails,
            (Operator::NotEqual, Outcome::Fails) => Outcome::Holds,
            (_, outcome) => outcome,
        }
    }

    fn any_field<'v>(
        &self,
        fields: impl Iterator<Item = (&'v str, &'v Value<'v>)>,
        path: &str,
    ) -> Outcome {
        let outcomes = fields.map(|(name, value)| match path.strip_prefix(name) {
            Some("") => self.test_value(value),
            Some(rest) => match rest.strip_prefix('.') {
                Some(path) => self.inside(value, path),
                None => Outcome::Absent,
            },
            None => Outcome::Absent,
        });
        outcomes.max().unwrap_or(Outcome::Absent)
    }

    fn inside(&self, value: &Value<'_>, path: &str) -> Outcome {
        match value {
            Value::Object(fields) => {
                self.any_field(fields.iter().map(|(name, value)| (*name, value)), path)
            }
            Value::Array(values) => {
                let outcomes = values.iter().map(|value| self.inside(value, path));
                outcomes.max().unwrap_or(Outcome::Absent)
            }
            _ => Outcome::Absent,
        }
    }

    /// Tests a value. For an array, one element is enough.
    fn test_value(&self, value: &Value<'_>) -> Outcome {
        let scalar = match Plain::of(value) {
            Plain::Array(values) => {
                let outcomes = values.iter().map(|value| self.test_value(value));
                return outcomes.max().unwrap_or_else(|| self.test_nothing());
            }
            Plain::Bytes(bytes) => {
                let outcomes =
                    bytes.iter().map(|byte| self.test_scalar(&Scalar::Integer((*byte).into())));
                return outcomes.max().unwrap_or_else(|| self.test_nothing());
            }
            Plain::Object(_) => return Outcome::Fails,
            plain => scalar(plain),
        };
        self.test_scalar(&scalar)
    }

    /// Tests an option without a value, or an array without elements. `none` stands for it, as in
    /// the output.
    fn test_nothing(&self) -> Outcome {
        let is_wanted = matches!(self.operator, Operator::Equal | Operator::NotEqual);
        if is_wanted && self.text == "none" { Outcome::Holds } else { Outcome::Fails }
    }

    fn test_scalar(&self, value: &Scalar<'_>) -> Outcome {
        if self.operator == Operator::Contains {
            let holds = match value {
                Scalar::Text(text) => text.contains(&self.text),
                Scalar::Id(id) => id.contains(&self.text.to_ascii_lowercase()),
                Scalar::Bool(value) => value.to_string().contains(&self.text),
                Scalar::Integer(value) => value.to_string().contains(&self.text),
                Scalar::Float(value) => value.to_string().contains(&self.text),
            };
            return if holds { Outcome::Holds } else { Outcome::Fails };
        }
        let order = match value {
            Scalar::Text(text) => Some((**text).cmp(&self.text)),
            Scalar::Id(id) => Some(id.as_str().cmp(&self.text.to_ascii_lowercase())),
            Scalar::Bool(value) => {
                let wanted = match &*self.text {
                    "true" | "1" => Some(true),
                    "false" | "0" => Some(false),
                    _ => None,
                };
                wanted.map(|wanted| value.cmp(&wanted))
            }
            Scalar::Integer(value) => match (self.number.integer, self.number.float) {
                (Some(wanted), _) => Some(value.cmp(&wanted)),
                (None, Some(wanted)) => (*value as f64).partial_cmp(&wanted),
                (None, None) => None,
            },
            Scalar::Float(value) if value.is_nan() => {
                let is_wanted = self.number.float.is_some_and(f64::is_nan);
                is_wanted.then_some(Ordering::Equal)
            }
            Scalar::Float(value) => {
                let Number { integer, float } = self.number;
                let wanted = float.or(integer.map(|wanted| wanted as f64));
                wanted.and_then(|wanted| value.partial_cmp(&wanted))
            }
        };
        let holds = order.is_some_and(|order| match self.operator {
            // `finish` negates the result.
            Operator::Equal | Operator::NotEqual => order.is_eq(),
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => order.is_le(),
            Operator::Greater => order.is_gt(),
            Operator::GreaterOrEqual => order.is_ge(),
            Operator::Contains => false,
        });
        if holds { Outcome::Holds } else { Outcome::Fails }
    }
}

fn span_of_activity(label: &Label) -> Option<Scalar<'_>> {
    let Label::ActivityId(id) = label else { return None };
    ActivityId::from_bytes(*id).span_id().map(|id| Scalar::Id(id.to_string()))
}

/// A value that has no values inside.
fn scalar(value: Plain<'_>) -> Scalar<'_> {
    match value {
        Plain::Bool(value) => Scalar::Bool(value),
        Plain::Signed(value) => Scalar::Integer(value.into()),
        Plain::Unsigned(value) => Scalar::Integer(value.into()),
        // Compare the shown digits, so that 0.1 finds the nearest 32-bit number.
        Plain::Single(value) => Scalar::Float(value.to_string().parse().unwrap_or(f64::NAN)),
        Plain::Double(value) => Scalar::Float(value),
        Plain::Text(text) => Scalar::Text(text.into()),
        Plain::Char(c) => Scalar::Text(c.to_string().into()),
        Plain::CodeUnit(unit) => Scalar::Integer(unit.into()),
        Plain::Id(id) => Scalar::Id(id.to_string()),
        Plain::Decimal(number) => Scalar::Float(number.to_string().parse().unwrap_or(f64::NAN)),
        Plain::Time(text) | Plain::Words(text) => Scalar::Text(text.to_string().into()),
        other => Scalar::Text(format!("{other:?}").into()),
    }
}

#[cfg(test)]
mod tests {
    use nettrace_event::trace_context::SpanId;
    use nettrace_reader::{Label, Value};

    use super::{ActivityId, Condition, Outcome, Outcome::*};

    fn test(condition: &str) -> Outcome {
        let object = Value::Object(vec![("in", Value::I8(-3)), ("t", Value::Text("é".into()))]);
        let fields = [
            ("n", Some(Value::U64(u64::MAX))),
            ("f", Some(Value::F32(0.1))),
            ("nan", Some(Value::F64(f64::NAN))),
            ("b", Some(Value::Bool(true))),
            ("list", Some(Value::Array(vec![Value::U8(3), Value::U8(5)]))),
            ("none", Some(Value::Array(vec![]))),
            ("bytes", Some(Value::Bytes(&[7, 8]))),
            ("o", Some(object.clone())),
            ("a.b", Some(Value::Text("10".into()))),
            ("os", Some(Value::Array(vec![object]))),
            ("absent", None),
        ];
        let id = std::array::from_fn(|i| i as u8 * 17);
        let labels =
            [Label::TraceId(id), Label::SpanId(10), Label::Int("k".into(), -1), Label::Level(2)];
        condition.parse::<Condition>().unwrap().test(&fields, &labels)
    }

    #[test]
    fn outcomes() {
        for holds in [
            "n=18446744073709551615",
            "n==0xffffffffffffffff",
            "n>1e9",
            "n!=18446744073709551614",
            "f=0.1",
            "f<1",
            "nan=NaN",
            "b=true",
            "b=1",
            "list=5",
            "list>4",
            "list!=4",
            "none!=4",
            "none=none",
            "list!=none",
            "n > 5",
            "o.t ~ é",
            "bytes=8",
            "o.in=-3",
            "o.t~é",
            "o.t!=e",
            "a.b=10",
            "os.in<=-3",
            "TraceId=00112233445566778899aabbccddeeff",
            "TraceId=00112233445566778899AABBCCDDEEFF",
            "SpanId=000000000000000a",
            "SpanId~0A",
            "k<0",
            "Level=2",
            "n~551615",
        ] {
            assert_eq!(test(holds), Holds, "{holds}");
        }
        for fails in [
            "n=1",
            "n=x",
            "list=4",
            "list!=3",
            "none=1",
            "none!=none",
            "list=none",
            "o.t= é",
            "nan>1",
            "b=maybe",
            "o=1",
            "SpanId=10",
        ] {
            assert_eq!(test(fails), Fails, "{fails}");
        }
        for absent in ["x=1", "absent!=1", "o.x=1", "n.x=1", "o.in.x=1", "li=1"] {
            assert_eq!(test(absent), Absent, "{absent}");
        }
    }

    /// A span id is found in an activity id, unless the event has another span id.
    #[test]
    fn span_ids_in_activity_ids() {
        let of = |span| ActivityId::from_span_id(SpanId::from_u64(span).unwrap(), 77);
        let activity = Label::ActivityId(of(10).to_bytes());
        let test = |condition: &str, labels: &[Label]| {
            condition.parse::<Condition>().unwrap().test(&[], labels)
        };
        let only = [activity.clone()];
        assert_eq!(test("SpanId=000000000000000a", &only), Holds);
        assert_eq!(test("SpanId=000000000000000b", &only), Fails);
        assert_eq!(test("SpanId!=000000000000000b", &only), Holds);
        assert_eq!(test("TraceId~a", &only), Absent);
        let both = [activity, Label::SpanId(11)];
        assert_eq!(test("SpanId=000000000000000a", &both), Fails);
        assert_eq!(test("SpanId=1", &[Label::ActivityId([7; 16])]), Absent);
    }

    #[test]
    fn a_condition_is_shown_as_it_was_written() {
        for right in ["a=b=c", "a!=", "a~<", "a<=1", "a<1"] {
            assert_eq!(right.parse::<Condition>().unwrap().to_string(), right);
        }
    }
}
