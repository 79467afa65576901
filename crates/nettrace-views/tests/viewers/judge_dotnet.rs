//! The stacks of samples in traces of .NET are those that `dotnet-trace convert` shows: of a live
//! process, whose methods are listed at the end of the trace, and of a trace that has few names.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use nettrace_reader::Reader;
use nettrace_views::viewers::{Options, View, write};
use serde_json::Value as Json;
use testkit::reference::{dotnet_traces, tool};

use crate::sources::live_dotnet;

/// The stacks of each thread, by the thread's id: outermost first, with how much each took.
type Stacks = BTreeMap<(String, Vec<String>), f64>;

/// The last frame of a sample in native code.
const NATIVE: &str = "UNMANAGED_CODE_TIME";

fn frames(file: &Json) -> Vec<String> {
    let frames = file["shared"]["frames"].as_array().unwrap();
    frames.iter().map(|frame| frame["name"].as_str().unwrap().to_owned()).collect()
}

/// The digits in a text.
fn id(text: &str) -> String {
    text.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect()
}

/// What `dotnet-trace` shows: the time of each stack in milliseconds.
fn theirs(path: &Path, folder: &Path) -> Option<Stacks> {
    let out = folder.join("theirs");
    let output = Command::new(tool("dotnet-trace")?)
        .arg("convert")
        .arg(path)
        .args(["--format", "speedscope", "-o"])
        .arg(&out)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let file = fs::read(out.with_extension("speedscope.json")).unwrap();
    let file: Json = serde_json::from_slice(&file).unwrap();
    let names = frames(&file);
    let mut stacks = Stacks::new();
    for profile in file["profiles"].as_array().unwrap() {
        let thread = id(profile["name"].as_str().unwrap());
        let (mut open, mut last) = (Vec::<String>::new(), 0.0);
        for event in profile["events"].as_array().unwrap() {
            let at = event["at"].as_f64().unwrap();
            // The first four frames are the process, and that it is a thread of it.
            if at > last && open.len() > 4 {
                let key = (thread.clone(), open[4..].to_vec());
                *stacks.entry(key).or_default() += at - last;
            }
            last = at;
            let name = &names[event["frame"].as_u64().unwrap() as usize];
            if event["type"] == "O" {
                open.push(name.clone());
            } else {
                open.pop();
            }
        }
    }
    Some(stacks)
}

/// The same of our file: the number of samples of each stack.
fn ours(path: &Path) -> Stacks {
    let bytes = fs::read(path).unwrap();
    let mut events = Reader::new(&bytes[..]).unwrap().sorted();
    let mut out = Vec::new();
    write(View::Speedscope, &mut events, &mut out, &Options::default()).unwrap().end.unwrap();
    let file: Json = serde_json::from_slice(&out).unwrap();
    let names = frames(&file);
    let mut stacks = Stacks::new();
    for profile in file["profiles"].as_array().unwrap() {
        if profile["type"] != "sampled" {
            continue;
        }
        let thread = id(profile["name"].as_str().unwrap());
        for sample in profile["samples"].as_array().unwrap() {
            let name = |at: &Json| &*names[at.as_u64().unwrap() as usize];
            let mut stack: Vec<String> = sample
                .as_array()
                .unwrap()
                .iter()
                .map(|at| if name(at).starts_with("0x") { "?!?" } else { name(at) }.to_owned())
                .collect();
            if stack.last().is_some_and(|last| last == "(native code or waiting)") {
                stack.pop();
                stack.push(NATIVE.to_owned());
            } else {
                stack.push("CPU_TIME".to_owned());
            }
            *stacks.entry((thread.clone(), stack)).or_default() += 1.0;
        }
    }
    stacks
}

fn without_modules(stacks: Stacks) -> Stacks {
    let function = |name: String| match name.split_once('!') {
        // In arguments, an exclamation mark precedes the number of a generic parameter.
        Some((module, function)) if name != "?!?" && !module.contains('(') => function.to_owned(),
        _ => name,
    };
    let mut all = Stacks::new();
    for ((thread, stack), amount) in stacks {
        let stack = stack.into_iter().map(function).collect();
        *all.entry((thread, stack)).or_default() += amount;
    }
    all
}

#[test]
fn judge_stacks_are_those_of_dotnet_trace() {
    let folder = tempfile::tempdir().unwrap();
    let mut traces: Vec<PathBuf> = dotnet_traces();
    traces.retain(|path| path.to_string_lossy().contains("core3.0"));
    traces.extend(live_dotnet(folder.path()));
    for path in traces {
        let Some(mut theirs) = theirs(&path, folder.path()) else { return };
        let mut ours = ours(&path);
        let name = path.display();
        let is_live = !dotnet_traces().contains(&path);
        if !is_live {
            // There the reference calls modules `ManagedModule` whose names come without a rundown.
            ours = without_modules(ours);
            theirs = without_modules(theirs);
        }
        assert!(ours.len() >= 5, "{name}: {}", ours.len());
        let (mut missing, mut all) = (0.0, 0.0);
        for (stack, count) in &ours {
            all += count;
            // They show no stack of a thread's last sample, which ends when it begins.
            missing += if theirs.contains_key(stack) { 0.0 } else { *count };
        }
        let threads =
            ours.keys().map(|(thread, _)| thread).collect::<std::collections::BTreeSet<_>>();
        assert!(missing <= threads.len() as f64, "{name}: {missing} of {all} samples");
        // Where other events have stacks, too, the reference gives them a share of the time.
        for (stack, milliseconds) in theirs.iter().filter(|_| is_live) {
            let is_sample = stack.1.last().is_some_and(|last| last == NATIVE || last == "CPU_TIME");
            let is_known = ours.contains_key(stack) || *milliseconds < 0.1 || !is_sample;
            assert!(is_known, "{name}: {stack:?} {milliseconds}");
        }
    }
}
