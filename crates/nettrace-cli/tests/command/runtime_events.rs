//! Events of the .NET runtime: every name, field and value is the one that TraceEvent shows.

use std::{fs, path::Path, process::Command};

use serde_json::{Map, Value};
use testkit::{
    agreed::Agreed,
    effort::left_out,
    perfetto,
    reference::{dotnet_traces, tool},
    runtime_events,
    streams::runtime,
};

use crate::program::{stdout, strict_json};

/// Which traces came out well before.
const AGREED: &str = "tests/command/reference/runtime.agreed";

/// The reader's table.
const TABLE: &str = include_str!("../../../nettrace-reader/src/runtime/events.txt");

/// The parts of the table that need no runtime are those of the manifests here.
#[test]
fn the_table_has_what_the_manifests_here_say() {
    let Some(made) = runtime_events::table(&[]) else { return };
    let lines: Vec<_> = TABLE.lines().collect();
    // The reader searches the lines as they are.
    assert!(lines.is_sorted());
    assert!(made.lines().count() > 10);
    for line in made.lines() {
        assert!(lines.contains(&line), "{line}\nis not in the table; make it again");
    }
}

#[test]
fn the_table_is_what_all_manifests_say() {
    if left_out() {
        return;
    }
    let Some(trace) = dotnet_traces().pop() else { return };
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = runtime_events::manifests(&trace, folder.path()) else { return };
    let names = Path::new(runtime_events::FOLDER).join("names.tsv");
    let names = fs::read_to_string(names).unwrap();
    assert_eq!(runtime_events::names(&trace).unwrap(), names);
    let others = ["NativeRuntimeEventSource.man", "TplEventSource.man"];
    let others = others.map(|name| folder.path().join(name));
    assert_eq!(runtime_events::table(&others).unwrap(), TABLE);
}

fn dump(trace: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nettrace"));
    let output = command.args(["dump", "--json"]).arg(trace).output().unwrap();
    assert!(output.status.success(), "{}", trace.display());
    stdout(&output).to_owned()
}

/// What TraceEvent shows is either what is in the payload, or one of the exceptions listed here.
fn compare(ours: &str, theirs: &[Value]) -> usize {
    let mut compared = 0;
    assert_eq!(ours.lines().count(), theirs.len());
    for (ours, theirs) in ours.lines().zip(theirs) {
        let ours = strict_json(ours);
        let at = |what: &str| format!("{what}\n{ours}\n{theirs}");
        assert_eq!(ours["provider"], theirs["provider"], "{}", at("provider"));
        let Some(name) = theirs.get("name") else { continue };
        assert!(theirs.get("error").is_none(), "{}", at("error"));
        let fields = ours["fields"].as_object().unwrap();
        compared += 1;
        if ours["id"] == 39 {
            // TraceEvent decodes the events that the collector makes up as it runs. Their data has
            // no description; the command shows its bytes.
            let shown = format!("GC/{}", fields["Name"].as_str().unwrap());
            assert_eq!(name.as_str(), Some(&*shown), "{}", at("name"));
            continue;
        }
        assert_eq!(ours["id"], theirs["id"], "{}", at("id"));
        assert_eq!(ours["version"], theirs["version"], "{}", at("version"));
        // TraceEvent does not know all events of the manifest.
        // Tasks have names and fields in the trace itself.
        let is_own = ours["provider"] == "System.Threading.Tasks.TplEventSource";
        if !is_own && *name != format!("EventID({})", ours["id"]) {
            assert_eq!(ours["name"], *name, "{}", at("name"));
        }
        let values = theirs["values"].as_object().unwrap();
        for (field, value) in theirs["fields"].as_object().unwrap() {
            let value = values.get(field).unwrap_or(value);
            check_field(&ours, fields, field, value)
                .unwrap_or_else(|| panic!("{}", at(&format!("{field}: {value}"))));
        }
        for (field, value) in values {
            // An older version does not have the array.
            let is_none = *value == Value::Array(Vec::new());
            let is_same = fields
                .get(field)
                .is_some_and(|own| is_same(own, value) || own.is_null() && is_none);
            assert!(is_same, "{}", at(field));
        }
    }
    compared
}

/// Compares a field. `None` if it differs, and there is no reason for that.
fn check_field(
    ours: &Value,
    fields: &Map<String, Value>,
    field: &str,
    value: &Value,
) -> Option<()> {
    let id = ours["id"].as_u64()?;
    // Computed by TraceEvent from other fields, other events or nothing, or of .NET Framework only.
    let is_computed = match field {
        "OptimizationTier" | "ModuleILFileName" => true,
        "TotalHeapSize" | "TotalPromoted" | "Depth" => id == 4,
        "TypeID_0" | "TypeName_0" => id == 15,
        "TypeName" => id == 29,
        "ConcurrentCompactMechanisms" | "MemoryPressure" => id == 204,
        // The number of the highest bit of a mask.
        "CompactMechanisms" | "ExpandMechanisms" => id == 204,
        _ => false,
    };
    if is_computed {
        return Some(());
    }
    // Other names than those of the manifest.
    let own = fields.get(match (id, field) {
        (202, "Promoted") => "Bytes",
        (203, "ID") => "JoinID",
        (270, "Name") => "EventName",
        _ => field,
    })?;
    let is_as_shown = match (field, own) {
        // The version has no such field. TraceEvent shows a zero, nothing or a text for it.
        (_, Value::Null) => matches!(value, Value::Null) || is_empty(value),
        // The bits of the tier are left out.
        ("MethodFlags", own) => own.as_u64()? & !0x380 == value.as_u64()?,
        (_, own) => is_same(own, value),
    };
    is_as_shown.then_some(())
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty() || text == "00000000-0000-0000-0000-000000000000",
        _ => false,
    }
}

/// Whether two values are the same. TraceEvent takes some unsigned numbers as signed ones, and has
/// other names for the members of structures.
fn is_same(own: &Value, theirs: &Value) -> bool {
    match (own, theirs) {
        (Value::Number(own), Value::Number(theirs)) => match (own.as_u64(), theirs.as_i64()) {
            (Some(own), Some(theirs)) if theirs < 0 => {
                own == theirs as u64 || own == u64::from(theirs as u32)
            }
            _ => own.as_f64() == theirs.as_f64() && own.as_u64() == theirs.as_u64(),
        },
        (Value::Array(own), Value::Array(theirs)) => {
            own.len() == theirs.len() && own.iter().zip(theirs).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(own), Value::Object(theirs)) => own.iter().all(|(name, own)| {
            if name == "padding" {
                return true;
            }
            let name = match &**name {
                "Name" => "TypeName",
                "Value" => "Target",
                "ReferencingFieldID" => "ReferencingField",
                "FreeListBefore" => "FreeListSpaceBefore",
                "FreeObjBefore" => "FreeObjSpaceBefore",
                "FreeListAfter" => "FreeListSpaceAfter",
                "FreeObjAfter" => "FreeObjSpaceAfter",
                "NewAllocation" => "Budget",
                name => name,
            };
            theirs.get(name).is_some_and(|theirs| is_same(own, theirs))
        }),
        (own, theirs) => own == theirs,
    }
}

fn check(trace: &Path, agreed: &Agreed) {
    let ours = dump(trace);
    assert!(!ours.contains("\"rest\""), "{}: bytes that no field takes", trace.display());
    agreed.or_ask(&[ours.as_bytes()], || {
        let Some(theirs) = runtime_events::of(trace) else { return false };
        let compared = compare(&ours, &theirs);
        println!("{}: {compared} events", trace.display());
        assert!(compared > 0);
        true
    });
}

#[test]
fn judge_shows_the_same_of_real_traces() {
    if left_out() {
        return;
    }
    let agreed = Agreed::open(AGREED);
    for trace in dotnet_traces() {
        check(&trace, &agreed);
    }
}

/// Which events a live process of .NET 10 must have recorded, beside others: each keyword has some.
const RECORDED: [&str; 16] = [
    "GC/Start",
    "GC/HeapStats",
    "GC/PerHeapHistory",
    "GC/GlobalHeapHistory",
    "GC/FitBucketInfo",
    "GC/BulkNode",
    "GC/BulkEdge",
    "GC/BulkRootEdge",
    "GC/BulkRootStaticVar",
    "GC/BulkSurvivingObjectRanges",
    "Type/BulkType",
    "Exception/Start",
    "Method/LoadVerbose",
    "Method/DCStopVerbose",
    "Method/ILToNativeMapDCStop",
    "Loader/ModuleDCStop",
];

/// A process of .NET 10, recorded by `dotnet-trace` with the keywords for collections, heap dumps,
/// exceptions, compilation, loading and threads.
#[test]
fn a_live_process_shows_what_traceevent_shows() {
    if left_out() {
        return;
    }
    let (Some(tool), Some(sample)) = (tool("dotnet-trace"), dotnet_traces().pop()) else { return };
    let Some(process) = runtime_events::Exercise::start(&sample) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("live.nettrace");
    let id = process.id.to_string();
    let providers = "Microsoft-Windows-DotNETRuntime:0x1DD803B:5,\
                     System.Threading.Tasks.TplEventSource:0x82:5";
    let record = |duration: &str| {
        let mut command = Command::new(&tool);
        command.args(["collect", "-p", &id, "--duration", duration, "--providers", providers]);
        let output = command.arg("-o").arg(&file).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && file.exists(), "{errors}");
        dump(&file)
    };
    let missing = |ours: &str| {
        let is_missing = |name: &&&str| !ours.contains(&format!("\"name\":\"{name}\""));
        RECORDED.iter().find(is_missing).copied()
    };
    // A busy machine gives the process little time in a second.
    let mut ours = record("00:00:01");
    if missing(&ours).is_some() {
        ours = record("00:00:20");
    }
    drop(process);
    assert!(!ours.contains("\"rest\""), "bytes that no field takes");
    assert_eq!(missing(&ours), None);
    let theirs = runtime_events::of(&file).unwrap();
    println!("{} events", compare(&ours, &theirs));
}

/// The events of the runtime have the id of the activity during which they happen. Names that end
/// in Start and Stop do not make them activities.
#[test]
fn events_of_the_runtime_are_inside_of_activities() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("activity.nettrace");
    fs::write(&file, runtime::within_activity()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_nettrace"));
    let output = command.args(["tree", "--json"]).arg(&file).output().unwrap();
    let tree = strict_json(stdout(&output).trim_end());
    let spans = tree["spans"].as_array().unwrap();
    assert_eq!((spans.len(), &spans[0]["name"]), (1, &"Work".into()), "{tree}");
    let names = ["Exception/Start", "GC/Start", "GC/Stop"];
    for name in names {
        assert_eq!(stdout(&output).matches(&format!("\"name\":\"{name}\"")).count(), 1, "{tree}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_nettrace"));
    let output = command.args(["convert", "-", "-", "--to", "perfetto"]);
    let output = output.stdin(fs::File::open(&file).unwrap()).output().unwrap();
    let trace = perfetto::Trace::read(&output.stdout);
    let slices: Vec<_> = trace.spans().map(|(_, slice)| &*slice.name).collect();
    assert_eq!(slices, ["Work"]);
    let instants: Vec<_> = trace.instants().map(|it| &*it.name).collect();
    assert!(names.iter().all(|name| instants.contains(name)), "{instants:?}");
    let start = trace.instants().find(|it| it.name == "GC/Start").unwrap();
    for (name, value) in [("Count", 7), ("Depth", 2), ("ClrInstanceID", 9)] {
        assert_eq!(start.annotation(name), Some(&perfetto::Value::Uint(value)), "{name}");
    }
}

/// The runtime leaves out a text that it does not have.
#[test]
fn payloads_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runtime.nettrace");
    fs::write(&file, runtime::sample()).unwrap();
    let shown: Vec<_> = dump(&file).lines().map(strict_json).collect();
    let names: Vec<_> = shown.iter().map(|event| event["name"].as_str().unwrap()).collect();
    let expected = [
        "GC/Start",
        "GC/Start",
        "GC/Start",
        "Exception/Start",
        "Exception/Start",
        "Type/BulkType",
        "Method/ILToNativeMap",
        "ExceptionCatch/Stop",
        "Type/BulkType",
        "Method/TailCallFailed",
        "Thread/Sample",
        "ExecutionCheckpointRundown/ExecutionCheckpointDCEnd",
    ];
    assert_eq!(names, expected);
    assert_eq!(shown[0]["fields"]["rest"], Value::Null);
    assert_eq!(shown[2]["fields"]["rest"], serde_json::json!([1, 2, 3]));
    assert_eq!(shown[3]["fields"]["ExceptionMessage"], "no such file");
    assert_eq!(shown[4]["fields"]["ExceptionMessage"], "");
    assert_eq!(shown[4]["fields"]["ClrInstanceID"], 9);
    assert_eq!(shown[9]["fields"]["FailReason"], "no");
    // Text shows the fields that are there.
    let mut command = Command::new(env!("CARGO_BIN_EXE_nettrace"));
    let output = command.args(["dump", "--event", "GC/Start"]).arg(&file).output().unwrap();
    let lines: Vec<_> = stdout(&output).lines().collect();
    let start = "Microsoft-Windows-DotNETRuntime/GC/Start Count=7 Depth=2 Reason=";
    let ends = [
        "1 Type=0 ClrInstanceID=9 ClientSequenceNumber=11",
        "0x0100",
        "1 Type=0 ClrInstanceID=9 ClientSequenceNumber=11 rest=0x010203",
    ];
    assert_eq!(lines.len(), ends.len(), "{lines:?}");
    for (line, end) in lines.iter().zip(ends) {
        assert!(line.ends_with(&format!("{start}{end}")), "{line}");
    }
}
