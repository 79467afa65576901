//! The traces that tests convert.
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use nettrace_event::trace_context::{ActivityId, SpanId};
use testkit::{
    reference::{self, dotnet_traces},
    streams::{EventType, Row, Stream, samples, unusual, v5_samples, varuint},
};

/// All traces by name.
pub(crate) fn sources() -> Vec<(String, Vec<u8>)> {
    let old = v5_samples::all().into_iter();
    let mut all: Vec<_> = samples::all().into_iter().chain(old).collect::<Vec<_>>();
    let mut all: Vec<_> = all.drain(..).map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    all.extend(unusual::all());
    for path in dotnet_traces() {
        all.push((path.display().to_string(), fs::read(path).unwrap()));
    }
    all
}

/// A text with the characters that formats have rules for.
pub(crate) fn hostile_text() -> String {
    let mut text =
        String::from("\"quotes\" \\ \n\r\t\u{1}\u{7f} </script>;|`$(x) \u{2028}é\u{1F600}");
    text.push_str(&"x".repeat(20_000));
    text
}

/// A trace with samples of `Universal.Events`, whose names come behind them.
pub(crate) fn universal() -> Vec<u8> {
    let mut stream =
        Stream::with_keys(&[("ProcessId", "17"), ("ExpectedCPUSamplingRate", "2000000")]);
    stream.thread(5);
    stream.metadata(&EventType::new(1, "Universal.Events", 1, "cpu").field("Value", &[21]));
    stream.metadata(&EventType::new(2, "Universal.System", 3, "ProcessMapping"));
    stream.metadata(&EventType::new(3, "Universal.System", 4, "ProcessSymbol"));
    stream.stacks(1, &[&[0x1010, 0x1090], &[0x1020, 0x1090], &[0x3000, 0x1095], &[0x1200]]);
    let mut rows = Vec::new();
    for (number, stack) in [1, 1, 2, 3, 1, 4].into_iter().enumerate() {
        let at = 1000 + 2000 * number as u64;
        let row = Row::new(5, number as u32 + 1, at).metadata(1).payload(&[1]);
        rows.push(Row { stack, ..row });
    }
    let text = |text: &str| [&(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat();
    let numbers = |numbers: &[u64]| {
        let mut out = Vec::new();
        numbers.iter().for_each(|number| varuint(&mut out, *number));
        out
    };
    let mapping = [numbers(&[1, 0x1000, 0x2000, 0x400]), text("/opt/shop.so"), vec![0]].concat();
    let work = [numbers(&[1, 1, 0x1000, 0x104F]), text("work")].concat();
    let main = [numbers(&[2, 1, 0x1080, 0x10FF]), text("main<\"&\\>;x")].concat();
    for (number, (ty, payload)) in [(2, mapping), (3, work), (3, main)].iter().enumerate() {
        rows.push(Row::new(5, 7 + number as u32, 20_000).metadata(*ty).payload(payload));
    }
    stream.events(&rows).end()
}

/// The stacks of [`universal`], outermost first, with the number of their samples.
pub(crate) const UNIVERSAL: [(&[&str], usize); 3] = [
    (&["shop.so!main<\"&\\>;x", "shop.so!work"], 4),
    (&["shop.so!main<\"&\\>;x", "0x3000"], 1),
    (&["shop.so+0x600"], 1),
];

/// A span of one thread, from 100 to 200 us, with a child on another thread, from 120 to 150 us,
/// and an event that is related to it.
pub(crate) fn two_threads() -> Vec<u8> {
    let activity = |span| {
        let span = SpanId::from_u64(span).unwrap();
        ActivityId::from_span_id(span, 77).to_bytes_le()
    };
    let labels = |span: u64, related: u64| {
        let mut labels = vec![[&[4][..], &span.to_le_bytes()].concat()];
        if related != 0 {
            labels.push([&[2][..], &activity(related)].concat());
        }
        labels
    };
    let mut stream = Stream::new();
    stream.thread(5).thread(6);
    for (id, name, opcode) in [
        (1, "outerStart", 1),
        (2, "outerStop", 2),
        (3, "innerStart", 1),
        (4, "innerStop", 2),
        (5, "Linked", 0),
    ] {
        let ty = EventType::new(id, "Shop", id, name);
        stream.metadata(&ty.optional(&[8, 4, 1, opcode]));
    }
    let (outer, inner, linked) = (labels(1, 0), labels(2, 1), labels(3, 1));
    stream.label_lists(1, &[&outer, &inner, &linked]);
    let one =
        |number, at: u64, ty, labels| Row::new(5, number, 1000 + at).metadata(ty).labels(labels);
    let two =
        |number, at: u64, ty, labels| Row::new(6, number, 1000 + at).metadata(ty).labels(labels);
    stream.events(&[one(1, 100, 1, 1), one(2, 200, 2, 1)]);
    let rows = [two(1, 120, 3, 2), two(2, 150, 4, 2), two(3, 160, 5, 3)];
    stream.events(&rows).end()
}

/// Records the stacks of a live .NET process for a second. `None` if the tools are not there.
pub(crate) fn live_dotnet(folder: &Path) -> Option<PathBuf> {
    let (bench, tool) = (reference::tool("eventpipe-bench")?, reference::tool("dotnet-trace")?);
    let (other, trace) = (folder.join("other.nettrace"), folder.join("live.nettrace"));
    let mut child = Command::new(bench)
        .args(["two", "1", "30", "1"])
        .arg(&other)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let id = child.id().to_string();
    let mut is_recorded = false;
    // It fails while the process is still starting.
    for _ in 0..40 {
        let output = Command::new(&tool)
            .args(["collect", "-p", &id, "--profile", "dotnet-sampled-thread-time"])
            .args(["--duration", "00:00:01", "-o"])
            .arg(&trace)
            .output()
            .unwrap();
        is_recorded = output.status.success() && trace.exists();
        if is_recorded {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_recorded, "no trace of a live process");
    Some(trace)
}
