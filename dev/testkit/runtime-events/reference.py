"""What .NET and TraceEvent know of the events of the .NET runtime.

Usage: reference.py manifests FOLDER   the manifests of the runtime's own event sources
       reference.py names              the names that TraceEvent shows: provider, id, name
       reference.py events FILE        the events of a trace as TraceEvent shows them, as JSON lines
       reference.py exercise           a process of .NET that collects, throws, waits and compiles;
                                       prints its id, ends with its standard input

Needs the Python package pythonnet, and the folder of the reference reader: that of the program which
NETTRACE_JUDGE names, else ../shared/judge beside the project. The runtime there is .NET 10.0.12,
TraceEvent there is 4.0.0.
"""

import json
import os
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
JUDGE = os.path.dirname(
    os.environ.get("NETTRACE_JUDGE") or os.path.join(ROOT, "..", "shared", "judge", "judge")
)
LIBRARY = os.path.join(JUDGE, "lib", "judge")

from clr_loader import get_coreclr
from pythonnet import set_runtime

set_runtime(
    get_coreclr(
        runtime_config=os.path.join(LIBRARY, "judge.runtimeconfig.json"),
        dotnet_root=os.path.join(JUDGE, "runtime"),
    )
)
import clr

sys.path.append(LIBRARY)
clr.AddReference("Microsoft.Diagnostics.Tracing.TraceEvent")
clr.AddReference("Microsoft.Diagnostics.FastSerialization")
import System
from System import Action, Activator
from System.Diagnostics.Tracing import EventManifestOptions, EventSource
from System.Reflection import BindingFlags
from Microsoft.Diagnostics.Tracing import EventPipeEventSource, TraceEvent
from Microsoft.Diagnostics.Tracing.Parsers.Clr import Gens

PARSERS = [
    "Parsers.ClrTraceEventParser",
    "Parsers.Clr.ClrRundownTraceEventParser",
    "EventPipe.SampleProfilerTraceEventParser",
    "Parsers.TplEtwProviderTraceEventParser",
]
SOURCES = [
    "System.Diagnostics.Tracing.NativeRuntimeEventSource",
    "System.Threading.Tasks.TplEventSource",
]


def parsers(source):
    """TraceEvent's parsers of the runtime's events, for a source."""
    library = clr.GetClrType(TraceEvent).Assembly
    types = [library.GetType("Microsoft.Diagnostics.Tracing." + name) for name in PARSERS]
    return [Activator.CreateInstance(of, source) for of in types]


def manifests(folder):
    core = System.Object().GetType().Assembly
    for name in SOURCES:
        text = EventSource.GenerateManifest(
            core.GetType(name), "runtime.dll", getattr(EventManifestOptions, "None")
        )
        path = os.path.join(folder, name.rsplit(".")[-1] + ".man")
        with open(path, "w", encoding="utf-8") as file:
            file.write(str(text))


def names():
    # The parsers want a source, but do not read it here.
    data = os.path.join(ROOT, "..", "shared", "data", "dotnet")
    data = os.environ.get("NETTRACE_DOTNET_DATA") or data
    trace = next(name for name in sorted(os.listdir(data)) if name.endswith(".nettrace"))
    flags = BindingFlags.Instance | BindingFlags.NonPublic | BindingFlags.Public
    found = set()

    def add(event):
        # The events of old runtimes, which had no ids, have the id -1.
        number = int(event.ID) & 0xFFFF
        if number != 0xFFFF:
            found.add((event.ProviderName, number, event.EventName))

    for parser in parsers(EventPipeEventSource(os.path.join(data, trace))):
        templates = parser.GetType().GetMethod("EnumerateTemplates", flags)
        templates.Invoke(parser, [None, Action[TraceEvent](add)])
    for entry in sorted(found):
        print(*entry, sep="\t")


def plain(value):
    """A value as JSON. Enums are numbers, as in the trace."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, System.Enum):
        return int(System.Convert.ToInt64(value))
    if isinstance(value, System.Array):
        return [plain(item) for item in value]
    if hasattr(value, "ToUInt64") or "Pointer" in value.GetType().Name:
        return int(str(value))
    return str(value)


def row(item):
    """The properties of an element."""
    properties = item.GetType().GetProperties()
    return {it.Name: plain(it.GetValue(item)) for it in properties}


def values(event):
    """The parts of an event that TraceEvent has no payload names for: arrays."""
    name = event.GetType().Name
    if name == "MethodILToNativeMapTraceData":
        count = range(event.CountOfMapEntries)
        return {
            "ILOffsets": [plain(event.ILOffset(i)) for i in count],
            "NativeOffsets": [plain(event.NativeOffset(i)) for i in count],
        }
    if name == "MethodDetailsTraceData":
        # Its payload values are not in the order of its payload names.
        count = range(event.TypeParameterCount)
        return {
            "MethodID": plain(event.MethodID),
            "TypeID": plain(event.TypeID),
            "MethodToken": plain(event.MethodToken),
            "TypeParameterCount": plain(event.TypeParameterCount),
            "LoaderModuleID": plain(event.LoaderModuleID),
            "TypeParameters": [plain(event.TypeParameters(i)) for i in count],
        }
    if name == "GCPerHeapHistoryTraceData":
        return {"Values": [row(event.GenData(Gens(i))) for i in range(event.Count)]}
    if name == "GCGlobalHeapHistoryTraceData":
        return {"Values": [{"Time": plain(time)} for time in event.Times or []]}
    if name == "GCFitBucketInfoTraceData":
        return {"Values": [row(event.Buckets(i)) for i in range(event.Count)]}
    if name == "GCLOHCompactTraceData":
        return {"Values": [row(event.Info(i)) for i in range(event.Count)]}
    if not hasattr(event, "Values") or not hasattr(event, "Count"):
        return {}
    rows = []
    for i in range(event.Count):
        item = event.Values(i)
        shown = row(item)
        if name == "GCBulkTypeTraceData":
            count = range(item.TypeParameterCount)
            shown["TypeParameters"] = [plain(item.TypeParameterID(j)) for j in count]
        rows.append(shown)
    return {"Values": rows}


def events(path):
    source = EventPipeEventSource(path)
    # A parser decodes the events that somebody listens to.
    kept = parsers(source)
    for parser in [*kept, source.Dynamic]:
        parser.All += Action[TraceEvent](lambda event: None)
    out = sys.stdout
    names = {}
    providers = {
        "Microsoft-Windows-DotNETRuntime",
        "Microsoft-Windows-DotNETRuntimeRundown",
        "Microsoft-DotNETCore-SampleProfiler",
        "System.Threading.Tasks.TplEventSource",
    }

    def show(event):
        line = {"provider": event.ProviderName, "id": int(event.ID) & 0xFFFF}
        line["version"] = int(event.Version)
        if event.ProviderName in providers:
            line["name"] = event.EventName
            line["fields"] = {}
            try:
                key = (line["provider"], line["id"], line["version"])
                if key not in names:
                    names[key] = [str(name) for name in event.PayloadNames]
                for i, name in enumerate(names[key]):
                    line["fields"][name] = plain(event.PayloadValue(i))
                line["values"] = values(event)
            except Exception as error:
                line["error"] = str(error)
        out.write(json.dumps(line) + "\n")

    source.AllEvents += Action[TraceEvent](show)
    source.Process()
    del kept


def exercise():
    import threading
    from System.Runtime.ExceptionServices import ExceptionDispatchInfo
    from System.Threading.Tasks import Task

    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    print(os.getpid(), flush=True)
    for turn in range(1_000_000):
        thrown = [System.Exception(), System.ArgumentNullException("a"), System.Exception("é💡")]
        for exception in thrown:
            try:
                ExceptionDispatchInfo.Throw(exception)
            except System.Exception:
                pass
        kept = [System.Object() for _ in range(1000)]
        System.GC.Collect(turn % 3)
        tasks = [Task.Run(Action(lambda: None)) for _ in range(3)]
        for task in tasks:
            task.Wait()
        System.Threading.Thread.Sleep(200)
        del kept


match sys.argv[1:]:
    case ["manifests", folder]:
        manifests(folder)
    case ["names"]:
        names()
    case ["events", path]:
        events(path)
    case ["exercise"]:
        exercise()
    case _:
        sys.exit(__doc__)
