//! The header `tracestate`.

use alloc::string::String;
use core::fmt;

/// The most members that a state can have.
pub const MAX_MEMBERS: usize = 32;

/// The longest key and the longest value, in bytes.
const MAX_TEXT: usize = 256;

/// Why a text is not a valid `tracestate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceStateError {
    /// It has more than [`MAX_MEMBERS`] members.
    TooMany,
    /// A member is not of the form `key=value`.
    Member,
    /// A key breaks the rules: see [`TraceState::insert`].
    Key,
    /// A value breaks the rules: see [`TraceState::insert`].
    Value,
    /// Two members have the same key.
    Duplicate,
}

impl fmt::Display for TraceStateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooMany => return write!(f, "a tracestate has at most {MAX_MEMBERS} members"),
            Self::Member => "a member of a tracestate has the form key=value",
            Self::Key => {
                "the key of a tracestate begins with a lowercase letter and has at most 256 of \
                 a-z, 0-9, `_`, `-`, `*`, `/`; or it is TENANT@SYSTEM with at most 241 and 14 of \
                 them"
            }
            Self::Value => {
                "the value of a tracestate has 1 to 256 printable ASCII characters, no comma, no \
                 equals sign, and no blank at its end"
            }
            Self::Duplicate => "a key stands twice in a tracestate",
        })
    }
}

impl core::error::Error for TraceStateError {}

/// Additions to a trace by services along the way: pairs of key and value, the newest first.
///
/// ```
/// use nettrace_event::trace_context::TraceState;
///
/// let mut state = TraceState::from_headers(["rojo=00f067aa0ba902b7 , congo=t61rcWkgMzE"])?;
/// assert_eq!(state.get("congo"), Some("t61rcWkgMzE"));
/// state.insert("congo", "new")?;
/// assert_eq!(state.to_string(), "congo=new,rojo=00f067aa0ba902b7");
/// # Ok::<(), nettrace_event::trace_context::TraceStateError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TraceState {
    /// The members as the header has them, without blanks around them.
    text: String,
}

impl TraceState {
    /// A state without members.
    #[must_use]
    pub const fn new() -> Self {
        Self { text: String::new() }
    }

    /// Reads the values of all headers `tracestate` of a request, in their order. Empty members are
    /// left out.
    ///
    /// # Errors
    ///
    /// [`TraceStateError`] if the headers, taken together, break a rule of the standard.
    pub fn from_headers<'a>(
        headers: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, TraceStateError> {
        let mut state = Self::new();
        let mut count = 0;
        for member in headers.into_iter().flat_map(|header| header.split(',')) {
            let member = member.trim_matches([' ', '\t']);
            if member.is_empty() {
                continue;
            }
            let (key, value) = member.split_once('=').ok_or(TraceStateError::Member)?;
            check(key, value)?;
            if state.get(key).is_some() {
                return Err(TraceStateError::Duplicate);
            }
            count += 1;
            if count > MAX_MEMBERS {
                return Err(TraceStateError::TooMany);
            }
            state.push(member);
        }
        Ok(state)
    }

    /// Whether there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The keys and values, the newest first.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.text.split(',').filter_map(|member| member.split_once('='))
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find_map(|(other, value)| (other == key).then_some(value))
    }

    /// Puts a member first, in place of the one with the same key. If there would be more than
    /// [`MAX_MEMBERS`], the last one is removed.
    ///
    /// A key has at most 256 of the characters `a-z`, `0-9`, `_`, `-`, `*` and `/`, and begins with
    /// a letter. Or it has the form `TENANT@SYSTEM`. The tenant has at most 241 of these characters
    /// and begins with a letter or a digit. The system has at most 14 and begins with a letter. A
    /// value has 1 to 256 printable ASCII characters. None of them is a comma or an equals sign,
    /// and the last is not a space.
    ///
    /// # Errors
    ///
    /// [`TraceStateError::Key`], [`TraceStateError::Value`]. The state stays as it was.
    pub fn insert(&mut self, key: &str, value: &str) -> Result<(), TraceStateError> {
        check(key, value)?;
        let mut changed = Self::new();
        changed.text.extend([key, "=", value]);
        self.without(key).take(MAX_MEMBERS - 1).for_each(|member| changed.push(member));
        *self = changed;
        Ok(())
    }

    /// Removes the member with this key. Returns whether there was one.
    ///
    /// ```
    /// use nettrace_event::trace_context::TraceState;
    ///
    /// let mut state = TraceState::from_headers(["a=1,b=2"])?;
    /// assert!(state.remove("a") && !state.remove("a"));
    /// assert_eq!(state.to_string(), "b=2");
    /// # Ok::<(), nettrace_event::trace_context::TraceStateError>(())
    /// ```
    pub fn remove(&mut self, key: &str) -> bool {
        if self.get(key).is_none() {
            return false;
        }
        let mut changed = Self::new();
        self.without(key).for_each(|member| changed.push(member));
        *self = changed;
        true
    }

    /// The value of the header `tracestate`. Empty if there are no members; then send no header.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The members that do not have this key.
    fn without<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        let members = self.text.split(',');
        members.filter(move |it| it.split_once('=').is_some_and(|(other, _)| other != key))
    }

    /// Adds a member at the end.
    fn push(&mut self, member: &str) {
        if !self.text.is_empty() {
            self.text.push(',');
        }
        self.text.push_str(member);
    }
}

impl fmt::Display for TraceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

fn check(key: &str, value: &str) -> Result<(), TraceStateError> {
    if !is_key(key) {
        return Err(TraceStateError::Key);
    }
    let is_blank_or_visible = |byte: u8| matches!(byte, b' '..=b'~') && !b",=".contains(&byte);
    let is_value = (1..=MAX_TEXT).contains(&value.len())
        && value.bytes().all(is_blank_or_visible)
        && !value.ends_with(' ');
    if is_value { Ok(()) } else { Err(TraceStateError::Value) }
}

fn is_key(key: &str) -> bool {
    let is_part = |part: &str, most: usize, digit_first: bool| {
        let is_inner =
            |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/');
        let begins_well = match part.bytes().next() {
            Some(b'a'..=b'z') => true,
            Some(b'0'..=b'9') => digit_first,
            _ => false,
        };
        begins_well && part.len() <= most && part.bytes().all(is_inner)
    };
    match key.split_once('@') {
        Some((tenant, system)) => is_part(tenant, 241, true) && is_part(system, 14, false),
        None => is_part(key, MAX_TEXT, false),
    }
}
