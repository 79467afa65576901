//! Patterns of the events and spans that a test expects, and the message if there is none.

use std::{
    fmt::{Debug, Write as _},
    ops::{Range, RangeFrom, RangeInclusive},
};

use nettrace_event::{EventType, TraceEvent};
use nettrace_span::{SpanEvents, TraceSpan};

use super::{
    event::Event,
    span::{CapturedItem, Span},
    value::{FromValue, Value},
};

/// The expectation of a field.
///
/// A value of the field's type, a range of such values, [`Value::None`] for an `Option` without a
/// value, or a condition: [`that`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be expected of a field",
    label = "not a value that a test can expect",
    note = "expect a number, `bool`, text, `Duration`, `SystemTime`, an address, a list, a range, \
            a `Value`, or `that(|value| …)`; of a reference to a number, its value"
)]
pub trait Expected {
    /// Whether the value is as expected.
    fn fits(&self, value: &Value) -> bool;
    /// The expectation as text.
    fn text(&self) -> String;
}

impl<T: FromValue + PartialEq + Debug> Expected for T {
    fn fits(&self, value: &Value) -> bool {
        T::from_value(value).is_some_and(|value| value == *self)
    }

    fn text(&self) -> String {
        format!("{self:?}")
    }
}

/// Declares what is expected as another type.
macro_rules! expected {
    ($([$($generics:tt)*] $ty:ty: $own:ident, $value:ident => $fits:expr;)*) => {$(
        impl<$($generics)*> Expected for $ty {
            fn fits(&self, $value: &Value) -> bool {
                let $own = self;
                $fits
            }

            fn text(&self) -> String {
                format!("{self:?}")
            }
        }
    )*};
}

expected! {
    [] &str: own, value => match value {
        Value::Text(text) => text == own,
        Value::Guid(_) => value.to_string() == *own,
        _ => false,
    };
    [] Option<&str>: own, value => match own {
        Some(own) => own.fits(value),
        None => *value == Value::None,
    };
    [] &String: own, value => own.as_str().fits(value);
    [T: Expected + Debug, const N: usize] [T; N]: own, value => own.as_slice().fits(value);
    [T: Expected + Debug] &[T]: own, value => match value {
        Value::List(values) => {
            values.len() == own.len() && own.iter().zip(values).all(|(own, it)| own.fits(it))
        }
        _ => false,
    };
    [T: FromValue + PartialOrd + Debug] Range<T>: own, value =>
        T::from_value(value).is_some_and(|value| own.contains(&value));
    [T: FromValue + PartialOrd + Debug] RangeInclusive<T>: own, value =>
        T::from_value(value).is_some_and(|value| own.contains(&value));
    [T: FromValue + PartialOrd + Debug] RangeFrom<T>: own, value =>
        T::from_value(value).is_some_and(|value| own.contains(&value));
}

/// A condition: see [`that`].
#[derive(Debug)]
pub struct That<F>(F);

/// Expects a value of which a condition holds.
///
/// ```
/// # use nettrace_writer::{Emit, TraceEvent, assert_event};
/// use nettrace_writer::testing::{self, Value, that};
///
/// # #[derive(TraceEvent)]
/// # #[trace_event(provider = "Contoso-Checkout")]
/// # struct Answered<'a> { url: &'a str }
/// let events = testing::capture();
/// Answered { url: "/cart/7" }.emit();
/// let in_cart = |url: &Value| url.to_string().contains("/cart/");
/// assert_event!(events, Answered { url: that(in_cart) });
/// ```
pub fn that<F: Fn(&Value) -> bool>(condition: F) -> That<F> {
    That(condition)
}

impl<F: Fn(&Value) -> bool> Expected for That<F> {
    fn fits(&self, value: &Value) -> bool {
        self.0(value)
    }

    fn text(&self) -> String {
        "a value of which the condition holds".into()
    }
}

/// The expectation of an event or a span. [`pattern!`](crate::pattern) makes one.
pub struct Pattern<'a> {
    what: Expectation,
    name: String,
    types: &'static [&'static EventType],
    /// The type of a span's first event.
    first: Option<&'static EventType>,
    fields: Vec<(&'static str, Box<dyn Expected + 'a>)>,
    within: Option<&'a str>,
}

impl Debug for Pattern<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Expectation {
    Event,
    Span,
}

impl<'a> Pattern<'a> {
    fn new(what: Expectation, name: &str) -> Self {
        let (types, first, fields, within) = (&[][..], None, Vec::new(), None);
        Self { what, name: name.into(), types, first, fields, within }
    }

    /// Any event of this name. With a provider before it, only that one's: `Provider/Name`.
    #[must_use]
    pub fn event(name: &str) -> Self {
        Self::new(Expectation::Event, name)
    }

    /// Any event of the type that a closure takes. If that is an enum, the variant that `path`
    /// ends with.
    #[must_use]
    pub fn event_of<T: TraceEvent>(path: &str, _: impl FnOnce(T)) -> Self {
        Self { types: T::event_types(), ..Self::event(last_of(path)) }
    }

    /// Any span of this name. With a provider before it, only that one's: `Provider/Name`.
    #[must_use]
    pub fn span(name: &str) -> Self {
        Self::new(Expectation::Span, name)
    }

    /// Any span of the type that a closure takes.
    #[must_use]
    pub fn span_of<T: TraceSpan>(path: &str, _: impl FnOnce(T)) -> Self {
        Self { first: T::Events::first_type(), ..Self::span(last_of(path)) }
    }

    /// Expects this of a field.
    #[must_use]
    pub fn field(mut self, name: &'static str, expected: impl Expected + 'a) -> Self {
        let name = name.strip_prefix("r#").unwrap_or(name);
        self.fields.push((name, Box::new(expected)));
        self
    }

    /// Expects it in a span of this name, at any depth.
    #[must_use]
    pub fn within(mut self, span: &'a str) -> Self {
        self.within = Some(span);
        self
    }

    /// The pattern as the macro has it.
    fn text(&self) -> String {
        let mut text = self.name.clone();
        if !self.fields.is_empty() {
            text.push_str(" { ");
            for (name, expected) in &self.fields {
                let _ = write!(text, "{name}: {}, ", expected.text());
            }
            text.push_str(".. }");
        }
        if let Some(span) = self.within {
            let _ = write!(text, " within `{span}`");
        }
        text
    }

    fn has_name(&self, provider: &str, name: &str) -> bool {
        match self.name.rsplit_once('/') {
            Some((of, own)) if of == provider => own == name,
            _ => self.name == name,
        }
    }

    fn is_of_type(&self, event: &Event) -> bool {
        let is_it = |ty: &EventType| std::ptr::eq(ty.schema(), event.schema());
        match self.types {
            [] => self.has_name(event.provider(), event.name()),
            [ty] => is_it(ty),
            variants => {
                // The name of a variant's event ends with that of the variant, unless it is given.
                let names = variants.iter().filter(|ty| ty.schema().name.ends_with(&self.name));
                match names.min_by_key(|ty| ty.schema().name.len()) {
                    Some(ty) => is_it(ty),
                    None => variants.iter().any(|ty| is_it(ty)),
                }
            }
        }
    }

    fn is_of_span(&self, span: &Span) -> bool {
        match self.first {
            Some(first) => span.is_of(first.schema()),
            None => self.has_name(span.provider(), span.name()),
        }
    }

    /// The differences between a capture and the expectation: a line for each field.
    fn differences<'v>(&self, field: impl Fn(&str) -> Option<&'v Value>) -> Vec<String> {
        let difference = |(name, expected): &(&str, Box<dyn Expected + 'a>)| match field(name) {
            Some(value) if expected.fits(value) => None,
            Some(value) => Some(format!("{name}: expected {}, found {value}", expected.text())),
            None => Some(format!("{name}: expected {}, there is no such field", expected.text())),
        };
        self.fields.iter().filter_map(difference).collect()
    }
}

fn last_of(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path).trim()
}

/// The match of a pattern, or why there is none.
pub(super) struct MatchResult<T> {
    pub(super) fitting: Vec<T>,
    pub(super) text: String,
}

impl Pattern<'_> {
    /// Those of the events that fit.
    pub(super) fn find_events(&self, roots: &[CapturedItem], all: &[Event]) -> MatchResult<Event> {
        let is_inside = |event: &Event| {
            let Some(span) = self.within else { return true };
            spans_of(roots).into_iter().any(|it| {
                it.name() == span
                    && descendants(it).iter().any(|inner| {
                        inner.events().chain(inner.parts()).any(|own| own.is_same(event))
                    })
            })
        };
        let candidates = all.iter().filter(|event| self.is_of_type(event) && is_inside(event));
        self.found(candidates, |event, name| event.field(name), ToString::to_string)
    }

    /// Those of the spans that fit.
    pub(super) fn find_spans(&self, roots: &[CapturedItem]) -> MatchResult<Span> {
        let all = match self.within {
            None => spans_of(roots),
            Some(name) => {
                let outer = spans_of(roots).into_iter().filter(|span| span.name() == name);
                outer.flat_map(|span| descendants(span).split_off(1)).collect()
            }
        };
        let candidates = all.into_iter().filter(|span| self.is_of_span(span));
        self.found(candidates, |span, name| span.field(name), Span::line)
    }

    fn found<'v, T: Clone + 'v>(
        &self,
        candidates: impl Iterator<Item = &'v T>,
        field: impl Fn(&'v T, &str) -> Option<&'v Value>,
        line: impl Fn(&T) -> String,
    ) -> MatchResult<T> {
        let mut fitting = Vec::new();
        let mut nearest: Option<(Vec<String>, &T)> = None;
        let mut count = 0;
        for candidate in candidates {
            count += 1;
            let differences = self.differences(|name| field(candidate, name));
            if differences.is_empty() {
                fitting.push(candidate.clone());
            } else if nearest.as_ref().is_none_or(|(least, _)| differences.len() < least.len()) {
                nearest = Some((differences, candidate));
            }
        }
        let kind = if self.what == Expectation::Event { "event" } else { "span" };
        let mut text = format!("no {kind} fits `{}`\n", self.text());
        match nearest {
            None => {
                let _ = writeln!(text, "there is none of that name");
            }
            Some((differences, nearest)) => {
                let _ = writeln!(text, "nearest of {count}: {}", line(nearest));
                for difference in differences {
                    let _ = writeln!(text, "    {difference}");
                }
            }
        }
        MatchResult { fitting, text }
    }

    /// Says which events fit that should not.
    pub(super) fn unwanted(&self, found: &[String]) -> String {
        format!("`{}` should not be there, but it is: {}\n", self.text(), found.join(", "))
    }
}

/// All spans of these trees.
fn spans_of(items: &[CapturedItem]) -> Vec<&Span> {
    items.iter().filter_map(CapturedItem::span).flat_map(descendants).collect()
}

/// A span, and all that are in it.
fn descendants(span: &Span) -> Vec<&Span> {
    let mut all = vec![span];
    all.extend(span.children().flat_map(descendants));
    all
}

/// The expectation of an event or a span, for [`Capture::find`](crate::testing::Capture::find) and
/// the like.
///
/// `event` or `span`, then a type or a name, then fields. A type's fields are checked by the
/// compiler: one that the type does not have does not compile, and without `..` all must be named.
/// A name is a literal, for what has no type here, or one with private fields: events and spans of
/// `tracing`, traced functions. The name of a field can be a literal as well: that is the name that
/// the event has for it.
///
/// ```
/// use nettrace_writer::{Emit, TraceEvent, pattern, testing, traced};
///
/// #[derive(TraceEvent)]
/// #[trace_event(provider = "Contoso-Checkout")]
/// struct Answered<'a> {
///     url: &'a str,
///     status: u16,
/// }
///
/// #[traced(provider = "Contoso-Checkout", fields = [cart])]
/// fn check_out(cart: u64) {
///     Answered { url: "/cart", status: 200 }.emit();
/// }
///
/// let events = testing::capture();
/// check_out(7);
/// let fine = pattern!(event Answered { status: 200..300, .. }).within("check_out");
/// assert_eq!(events.find(&fine).len(), 1);
/// assert_eq!(events.find_spans(&pattern!(span "check_out" { cart: 8, .. })).len(), 0);
/// ```
///
/// ```compile_fail
/// # use nettrace_writer::{TraceEvent, pattern, testing};
/// # #[derive(TraceEvent)]
/// # #[trace_event(provider = "Contoso-Checkout")]
/// # struct Answered { status: u16 }
/// pattern!(event Answered { stauts: 200, .. });
/// ```
#[macro_export]
macro_rules! pattern {
    // What has a name.
    (@ $of:ident $name:literal $({ $(..)? })?) => { $crate::testing::Pattern::$of($name) };
    (@ $of:ident $name:literal {
        $($($field:ident)? $($text:literal)? : $expected:expr),+ $(, $(..)?)?
    }) => {
        $crate::testing::Pattern::$of($name)
            $(.field(concat!($(stringify!($field))? $($text)?), $expected))+
    };
    // What has a type. By the `if let` the compiler checks the names of its fields.
    (@ $of:ident $path:path {
        $($($field:ident)? $($text:literal)? : $expected:expr),+ $(,)?
    }) => {
        $crate::testing::Pattern::$of(stringify!($path), |it| {
            #[allow(irrefutable_let_patterns)]
            if let $path { $($($field: _,)?)* } = it {}
        })
        $(.field(concat!($(stringify!($field))? $($text)?), $expected))+
    };
    (@ $of:ident $path:path {
        $($($field:ident)? $($text:literal)? : $expected:expr ,)* ..
    }) => {
        $crate::testing::Pattern::$of(stringify!($path), |it| {
            #[allow(irrefutable_let_patterns)]
            if let $path { $($($field: _,)?)* .. } = it {}
        })
        $(.field(concat!($(stringify!($field))? $($text)?), $expected))*
    };
    (@ $of:ident $path:path) => { $crate::pattern!(@ $of $path { .. }) };
    (event $name:literal $($rest:tt)*) => { $crate::pattern!(@ event $name $($rest)*) };
    (event $($rest:tt)+) => { $crate::pattern!(@ event_of $($rest)+) };
    (span $name:literal $($rest:tt)*) => { $crate::pattern!(@ span $name $($rest)*) };
    (span $($rest:tt)+) => { $crate::pattern!(@ span_of $($rest)+) };
}
