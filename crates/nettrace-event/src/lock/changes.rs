//! Differences between two catalogues, and their effect on readers.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::{String, ToString as _},
    vec::Vec,
};
use core::fmt;

use crate::lock::{Catalogue, Event, Field, Type, text::level};

/// The effect of a change on readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Nothing.
    Note,
    /// Readers go on working.
    Compatible,
    /// Filters select other events, or values mean something else.
    Warning,
    /// Queries, dashboards and alerts stop working, or show something else.
    Breaking,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Note => "note",
            Self::Compatible => "compatible",
            Self::Warning => "warning",
            Self::Breaking => "breaking",
        })
    }
}

/// A difference between two catalogues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The effect on readers.
    pub verdict: Verdict,
    /// The event: its provider and its name.
    pub event: String,
    /// A description of the change.
    pub what: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.verdict, self.event, self.what)
    }
}

/// The changes, by events and in their order.
///
/// ```
/// use nettrace_event::lock::{Catalogue, Verdict, changes};
///
/// let sale = "provider Shop\nevent Sale\n  version 0\n  id 7 given\n  field cents u32\n";
/// let old: Catalogue = sale.parse()?;
/// let new: Catalogue = sale.replace("u32", "u64").parse()?;
/// let [change] = &changes(&old, &new)[..] else { panic!() };
/// assert_eq!(change.verdict, Verdict::Breaking);
/// assert_eq!(change.what, "field `cents` is `u64`, it was `u32`; write `version = 1`");
///
/// let new: Catalogue = new.to_string().replace("version 0", "version 1").parse()?;
/// assert_eq!(changes(&old, &new)[0].verdict, Verdict::Compatible);
/// # Ok::<(), nettrace_event::lock::ParseError>(())
/// ```
#[must_use]
pub fn changes(old: &Catalogue, new: &Catalogue) -> Vec<Change> {
    let (pairs, gone, added) = pair(old, new);
    let mut changes = Vec::new();
    for (old, new) in pairs.into_iter().filter(|(old, new)| old != new) {
        Of { old, new, changes: &mut changes }.all();
    }
    for event in gone {
        let what = "the event is gone".to_string();
        changes.push(Change { verdict: Verdict::Breaking, event: called(event), what });
    }
    let mut by_name: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for event in &old.events {
        by_name.entry(event.full_name()).or_default().push(event);
    }
    for event in added {
        // A version beside the others is compared with the last one before it.
        let versions = by_name.get(&event.full_name()).into_iter().flatten();
        let older = versions.filter(|older| older.version < event.version);
        if let Some(older) = older.max_by_key(|older| older.version) {
            Of { old: older, new: event, changes: &mut changes }.secrets();
        }
        let what = format!("new, version {}", event.version);
        changes.push(Change { verdict: Verdict::Compatible, event: called(event), what });
    }
    changes.sort_by(|a, b| a.event.cmp(&b.event));
    changes
}

fn called(event: &Event) -> String {
    format!("{}/{}", event.provider, event.name)
}

/// Whether an old event is a new one.
type Rule = fn(&Event, &Event) -> bool;

type Pairs<'a> = Vec<(&'a Event, &'a Event)>;

/// Finds which old event is which new one. Returns what is left of both, too.
fn pair<'a>(old: &'a Catalogue, new: &'a Catalogue) -> (Pairs<'a>, Vec<&'a Event>, Vec<&'a Event>) {
    let mut pairs = Vec::new();
    let (mut gone, mut added) = (Vec::new(), Vec::new());
    // Those of one name, and then the others by their modules.
    let by_name = |event: &'a Event| [event.provider.as_str(), event.name.as_str()];
    let all = groups(old.events.iter().collect(), new.events.iter().collect(), by_name);
    for (mut old, mut new) in all {
        pair_by(&BY_NAME, &mut old, &mut new, &mut pairs);
        gone.append(&mut old);
        added.append(&mut new);
    }
    let groups = groups(gone, added, |event| [event.module.as_str(), ""]);
    let (mut gone, mut added) = (Vec::new(), Vec::new());
    for (mut old, mut new) in groups {
        // By another name or provider, if there is no doubt.
        let (one_of_old, one_of_new) = (by_fields(&old), by_fields(&new));
        for (fields, a) in one_of_old {
            let other = one_of_new.get(fields).copied().flatten();
            let (Some(a), Some(b)) = (a, other) else { continue };
            let is_known = !a.module.is_empty() && !a.fields.is_empty();
            if is_known && (a.provider == b.provider || a.name == b.name) {
                pairs.push((a, b));
                old.retain(|event| !core::ptr::eq(*event, a));
                new.retain(|event| !core::ptr::eq(*event, b));
            }
        }
        gone.append(&mut old);
        added.append(&mut new);
    }
    (pairs, gone, added)
}

/// Rules that match two events of one name. The first rule that holds decides.
const BY_NAME: [Rule; 5] = [
    |a, b| a == b,
    |a, b| (a.version, &a.module, &a.fields) == (b.version, &b.module, &b.fields),
    |a, b| (a.version, &a.module) == (b.version, &b.module),
    |a, b| a.version == b.version,
    |_, _| true,
];

fn pair_by<'a>(
    rules: &[Rule],
    old: &mut Vec<&'a Event>,
    new: &mut Vec<&'a Event>,
    pairs: &mut Pairs<'a>,
) {
    for rule in rules {
        old.retain(|a| {
            let Some(at) = new.iter().position(|b| rule(a, b)) else { return true };
            pairs.push((*a, new.remove(at)));
            false
        });
    }
}

/// The event with some fields; `None` if there are several.
fn by_fields<'a>(events: &[&'a Event]) -> BTreeMap<&'a [Field], Option<&'a Event>> {
    let mut all = BTreeMap::new();
    for event in events {
        let known = all.entry(event.fields.as_slice());
        known.and_modify(|known| *known = None).or_insert(Some(*event));
    }
    all
}

/// Old and new events that have something in common.
fn groups<'a>(
    old: Vec<&'a Event>,
    new: Vec<&'a Event>,
    key: impl Fn(&'a Event) -> [&'a str; 2],
) -> impl Iterator<Item = (Vec<&'a Event>, Vec<&'a Event>)> {
    let mut groups: BTreeMap<_, (Vec<_>, Vec<_>)> = BTreeMap::new();
    old.into_iter().for_each(|event| groups.entry(key(event)).or_default().0.push(event));
    new.into_iter().for_each(|event| groups.entry(key(event)).or_default().1.push(event));
    groups.into_values()
}

/// The changes of one event.
struct Of<'a> {
    old: &'a Event,
    new: &'a Event,
    changes: &'a mut Vec<Change>,
}

impl Of<'_> {
    fn add(&mut self, verdict: Verdict, what: String) {
        let event = called(self.old);
        // A new version is a new contract.
        let is_new = self.new.version > self.old.version;
        let verdict = if is_new { verdict.min(Verdict::Compatible) } else { verdict };
        self.changes.push(Change { verdict, event, what });
    }

    /// A change that a new version does not mend: readers select by it.
    fn breaks_in_every_version(&mut self, what: String) {
        let event = called(self.old);
        self.changes.push(Change { verdict: Verdict::Breaking, event, what });
    }

    /// A change after which readers need to tell the events from those before.
    fn breaks(&mut self, what: &str) {
        let needs_version = self.new.version == self.old.version;
        let advice = match needs_version {
            true => format!("; write `version = {}`", self.new.version + 1),
            false => String::new(),
        };
        self.add(Verdict::Breaking, format!("{what}{advice}"));
    }

    fn all(&mut self) {
        let (old, new) = (self.old, self.new);
        if new.version != old.version {
            let verdict = match new.version > old.version {
                true => Verdict::Compatible,
                false => Verdict::Breaking,
            };
            self.add(verdict, format!("version {}, it was {}", new.version, old.version));
        }
        self.names();
        self.secrets();
        self.fields();
        if new.level != old.level {
            let levels = (level(new.level), level(old.level));
            self.add(Verdict::Warning, format!("level {}, it was {}", levels.0, levels.1));
        }
        if new.keywords != old.keywords {
            let what = format!("keywords {:#x}, they were {:#x}", new.keywords, old.keywords);
            self.add(Verdict::Warning, what);
        }
        if new.opcode != old.opcode {
            let shown = |opcode: Option<u8>| opcode.map_or("none".into(), |it| it.to_string());
            self.breaks(&format!("opcode {}, it was {}", shown(new.opcode), shown(old.opcode)));
        }
        self.keys("", &old.keys, &new.keys);
        let notes = [
            ("message", old.message != new.message),
            ("meaning", old.meaning != new.meaning),
            ("module", old.module != new.module),
            ("tag", old.tag != new.tag),
            ("group", old.group != new.group),
        ];
        for (what, _) in notes.into_iter().filter(|(_, has_changed)| *has_changed) {
            self.add(Verdict::Note, format!("another {what}"));
        }
    }

    fn names(&mut self) {
        let (old, new) = (self.old, self.new);
        if new.provider != old.provider {
            self.breaks_in_every_version(format!("the provider is now `{}`", new.provider));
        }
        if new.name != old.name {
            self.breaks_in_every_version(format!("the name is now `{}`", new.name));
        }
        if new.id != old.id && new.id != 0 && old.id != 0 {
            let why = match new.id_is_given {
                Some(false) => ", a hash of the name",
                _ => "",
            };
            let what = format!(
                "id {}{why}, it was {}; write `id = {}` to keep it",
                new.id, old.id, old.id
            );
            self.breaks_in_every_version(what);
        }
        if new.guid != old.guid {
            self.breaks_in_every_version("another GUID of the provider".to_string());
        }
    }

    fn keys(&mut self, of: &str, old: &[(String, String)], new: &[(String, String)]) {
        // Of several equal keys, all values: they are sorted.
        let find = |all: &[(String, String)], key: &str| {
            let values = all.iter().filter(|(other, _)| other == key);
            let values: Vec<_> = values.map(|(_, value)| value.as_str()).collect();
            (!values.is_empty()).then(|| values.join(", "))
        };
        let new_keys = new.iter().filter(|(key, _)| find(old, key).is_none());
        let keys: BTreeSet<_> = old.iter().chain(new_keys).map(|(key, _)| key).collect();
        for key in keys {
            let what = match (find(old, key), find(new, key)) {
                (Some(old), Some(new)) if old == new => continue,
                (Some(old), Some(new)) => format!("{of}`{key}` is {new:?}, it was {old:?}"),
                (_, Some(new)) => format!("{of}`{key}` is {new:?}, it was not there"),
                (_, None) => format!("{of}`{key}` is not there any more"),
            };
            self.add(Verdict::Warning, what);
        }
    }

    fn fields(&mut self) {
        let (old, new) = (numbered(&self.old.fields), numbered(&self.new.fields));
        let (old_places, new_places) = (places(&old), places(&new));
        let mut renamed = BTreeSet::new();
        let mut last = None;
        for (at, (name, field)) in old.iter().enumerate() {
            let Some(&to) = new_places.get(name) else {
                // One of the same type in the same place, which is new.
                let other = new.get(at).filter(|(_, it)| it.ty == field.ty);
                match other.filter(|(other, _)| !old_places.contains_key(other)) {
                    Some((other, _)) => {
                        self.breaks(&format!("field {name} is now {other}"));
                        renamed.insert(*other);
                    }
                    None => self.breaks(&format!("field {name} is gone")),
                }
                continue;
            };
            if last.is_some_and(|last| last > to) {
                self.breaks(&format!("field {name} is in another place"));
            }
            last = last.max(Some(to));
            self.field(*name, field, new[to].1);
        }
        let is_it = |old: FieldName<'_>, new: FieldName<'_>| old == new || renamed.contains(&new);
        let is_whole = old.iter().zip(&new).all(|((old, _), (new, _))| is_it(*old, *new));
        for (at, (name, _)) in new.iter().enumerate() {
            if old_places.contains_key(name) || renamed.contains(name) {
                continue;
            }
            if is_whole && at >= old.len() {
                self.add(Verdict::Compatible, format!("field {name} is appended"));
            } else {
                self.breaks(&format!("field {name} is new, and not behind the others"));
            }
        }
    }

    /// Finds values that were secret and no longer are, also within the values of fields.
    fn secrets(&mut self) {
        let mut found = Vec::new();
        told_fields(&self.old.fields, &self.new.fields, &mut Vec::new(), &mut found);
        for path in &found {
            self.breaks_in_every_version(format!("field `{path}` is not secret any more"));
        }
        // One that is gone from there can be within another field now, or beside the one that it
        // was in.
        let (old, new) = (leaves(&self.old.fields), leaves(&self.new.fields));
        for (path, was_secret) in &old {
            if !was_secret || new.contains_key(path) || found.contains(&path.join(".")) {
                continue;
            }
            let is_it = |other: &[&str]| other.last() == path.last() && !old.contains_key(other);
            let open = new.iter().filter(|(other, is_secret)| !**is_secret && is_it(other));
            for other in open.map(|(other, _)| other.join(".")) {
                let path = path.join(".");
                let what = format!("field `{path}` is not secret any more: it is `{other}` now");
                self.breaks_in_every_version(what);
            }
        }
    }

    fn field(&mut self, name: FieldName<'_>, old: &Field, new: &Field) {
        if new.is_secret && !old.is_secret {
            self.breaks(&format!("field {name} is secret now"));
        }
        if new.ty != old.ty {
            self.breaks(&format!("field {name} is `{}`, it was `{}`", new.ty, old.ty));
        }
        self.keys(&format!("field {name}: "), &old.keys, &new.keys);
        let shown = |word: &Option<String>| word.as_ref().map_or("none", |word| word).to_string();
        for (what, old, new) in
            [("format", &old.format, &new.format), ("role", &old.role, &new.role)]
        {
            if new != old {
                let (old, new) = (shown(old), shown(new));
                let what = format!("field {name}: {what} {new}, it was {old}");
                self.add(Verdict::Warning, what);
            }
        }
        if new.tag != old.tag {
            self.add(Verdict::Note, format!("field {name} has another tag"));
        }
        if new.meaning != old.meaning {
            self.add(Verdict::Note, format!("field {name} has another meaning"));
        }
    }
}

/// The identity of a field within its event or object: its name, and how many fields before have
/// the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FieldName<'a>(&'a str, usize);

impl fmt::Display for FieldName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(name, 0) => write!(f, "`{name}`"),
            Self(name, before) => write!(f, "`{name}` (number {} of that name)", before + 1),
        }
    }
}

/// The fields, each with its name.
fn numbered(fields: &[Field]) -> Vec<(FieldName<'_>, &Field)> {
    let mut counts = BTreeMap::new();
    let all = fields.iter().map(|field| {
        let count = counts.entry(field.name.as_str()).or_insert(0);
        *count += 1;
        (FieldName(&field.name, *count - 1), field)
    });
    all.collect()
}

/// The place of each name.
fn places<'a>(fields: &[(FieldName<'a>, &Field)]) -> BTreeMap<FieldName<'a>, usize> {
    fields.iter().enumerate().map(|(at, (name, _))| (*name, at)).collect()
}

/// Finds what was secret in the old fields and is not in the new ones. A field that is gone is
/// compared with a new one in its place: it may have another name now.
fn told_fields<'a>(
    old: &'a [Field],
    new: &'a [Field],
    path: &mut Vec<&'a str>,
    found: &mut Vec<String>,
) {
    let (old, new) = (numbered(old), numbered(new));
    let (old_places, new_places) = (places(&old), places(&new));
    for (at, (name, field)) in old.iter().enumerate() {
        let in_place = || new.get(at).filter(|(other, _)| !old_places.contains_key(other));
        let same = new_places.get(name).map(|at| &new[*at]);
        if let Some((_, other)) = same.or_else(in_place) {
            path.push(&field.name);
            told(field.is_secret, &field.ty, (other.is_secret, &other.ty), path, found);
            path.pop();
        }
    }
}

/// The paths of all fields, also of those within others, and whether each is secret. Of several
/// that have one path, whether the first is.
fn leaves(fields: &[Field]) -> BTreeMap<Vec<&str>, bool> {
    fn add<'a>(
        fields: &'a [Field],
        within_secret: bool,
        path: &mut Vec<&'a str>,
        all: &mut BTreeMap<Vec<&'a str>, bool>,
    ) {
        for field in fields {
            let is_secret = within_secret || field.is_secret;
            path.push(&field.name);
            all.entry(path.clone()).or_insert(is_secret);
            let mut ty = &field.ty;
            while let Type::Array(inner, ..) | Type::Option(inner) = ty {
                ty = inner;
            }
            if let Type::Object(inner) = ty {
                add(inner, is_secret, path, all);
            }
            path.pop();
        }
    }
    let mut all = BTreeMap::new();
    add(fields, false, &mut Vec::new(), &mut all);
    all
}

/// As [`told_fields`], of two values. All that is within a secret is secret.
fn told<'a>(
    was_secret: bool,
    old: &'a Type,
    (is_secret, new): (bool, &'a Type),
    path: &mut Vec<&'a str>,
    found: &mut Vec<String>,
) {
    if is_secret {
        return;
    }
    match (old, new) {
        (Type::Array(old, ..) | Type::Option(old), new) => {
            told(was_secret, old, (false, new), path, found);
        }
        (old, Type::Array(new, ..) | Type::Option(new)) => {
            told(was_secret, old, (false, new), path, found);
        }
        (Type::Object(old), Type::Object(new)) if !was_secret => {
            told_fields(old, new, path, found);
        }
        // A secret, or a value with secrets, is something else now.
        _ if was_secret || has_secrets(old) => found.push(path.join(".")),
        _ => {}
    }
}

fn has_secrets(ty: &Type) -> bool {
    match ty {
        Type::Object(fields) => fields.iter().any(|it| it.is_secret || has_secrets(&it.ty)),
        Type::Array(inner, ..) | Type::Option(inner) => has_secrets(inner),
        Type::Plain(_) => false,
    }
}
