//! The programs that are weighed: their code, and the manifests around it.

use std::{fmt::Write as _, path::Path};

use anyhow::Result;
use xtask::workspace::{Workspace, read, write};

use super::{Application, ItemKind, Library};

/// A program, by the name of its package.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) name: String,
    dependencies: String,
    code: String,
}

const AXUM: &str = "axum = \"0.8\"\n\
    tokio = { version = \"1\", features = [\"macros\", \"net\", \"rt-multi-thread\"] }\n";

impl Program {
    /// A program with one item of each kind, and with `more` of `kind`.
    pub(super) fn with_items(
        workspace: &Workspace,
        library: Library,
        more: Option<(ItemKind, usize)>,
    ) -> Self {
        // Not the library's own name, which would be ambiguous.
        let name = format!("{}-{}", library.name(), more.map_or("few", |(kind, _)| kind.name()));
        let mut code = library.imports().to_owned();
        code.push_str(START);
        let mut calls = String::new();
        for kind in ItemKind::ALL {
            // An event of each shape, so that what they share is there as well.
            let count = if kind == ItemKind::Event { SHAPES } else { 1 };
            let more = more.map_or(0, |(other, more)| if other == kind { more } else { 0 });
            for number in 0..count + more {
                code.push_str(&item(library, kind, number));
                writeln!(calls, "    {}_{number}(number, &text);", kind.name()).expect("a string");
            }
        }
        code.push_str(&END.replace("CALLS", &calls));
        Self { name, dependencies: library.dependencies(workspace), code }
    }

    /// An application, and its one event or traced function if `library` is given.
    pub(super) fn whole(
        workspace: &Workspace,
        library: Option<Library>,
        application: Application,
    ) -> Self {
        let is_heard = matches!(application, Application::Program | Application::Service);
        let is_call = application == Application::OfTracedLibrary;
        let dependencies = match library {
            None => String::new(),
            Some(Library::Ours) if is_heard => Library::Ours.dependencies(workspace),
            Some(Library::Ours) => of_libraries(workspace, is_call),
            Some(Library::Tracing) if is_heard => {
                Library::Tracing.dependencies(workspace) + "tracing-subscriber = \"0.3\"\n"
            }
            Some(Library::Tracing) => Library::Tracing.dependencies(workspace),
        };
        let (items, start, event) = match library {
            None => (String::new(), "", ""),
            Some(Library::Ours) if is_call => (OUR_CALL.to_owned(), "", "call(number);"),
            Some(Library::Tracing) if is_call => (THEIR_CALL.to_owned(), "", "call(number);"),
            Some(Library::Ours) => {
                let (imports, start) =
                    if is_heard { (OUR_IMPORTS, OUR_START) } else { (LIBRARY_IMPORTS, "") };
                (format!("{imports}{OUR_EVENT}"), start, "Answered { number }.emit();")
            }
            Some(Library::Tracing) => {
                let start = if is_heard { "tracing_subscriber::fmt().init();" } else { "" };
                (String::new(), start, "tracing::info!(number, \"answered\");")
            }
        };
        let (more, program) =
            if application == Application::Service { (AXUM, SERVICE) } else { ("", PROGRAM) };
        let code = (items + program).replace("START", start).replace("EVENT", event);
        let library = library.map_or("nothing", Library::name);
        let name = format!("{}-{library}", application.name());
        Self { name, dependencies: dependencies + more, code }
    }

    /// Writes the program's code, which makes cargo compile it again.
    pub(super) fn write_code(&self, folder: &Path) -> Result<()> {
        write(&folder.join(&self.name).join("src/main.rs"), &self.code)
    }
}

/// What a library depends on for its events, or for its spans.
fn of_libraries(workspace: &Workspace, is_call: bool) -> String {
    let name = if is_call { "nettrace-span" } else { "nettrace-event" };
    let path = workspace.root.join("crates").join(name);
    format!("{name} = {{ path = {path:?}, features = [\"derive\"] }}\n")
}

/// Writes a workspace of `programs` into `folder`.
///
/// Its lock file begins as that of this workspace, so that the releases are the same.
pub(super) fn write_all(workspace: &Workspace, folder: &Path, programs: &[Program]) -> Result<()> {
    let members: Vec<_> = programs.iter().map(|program| program.name.as_str()).collect();
    write(&folder.join("Cargo.toml"), &WORKSPACE.replace("MEMBERS", &members.join("\", \"")))?;
    write(&folder.join("Cargo.lock"), &read(&workspace.root.join("Cargo.lock"))?)?;
    for program in programs {
        let manifest = format!(
            "[package]\nname = \"{}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
             [dependencies]\n{}",
            program.name, program.dependencies
        );
        write(&folder.join(&program.name).join("Cargo.toml"), &manifest)?;
        program.write_code(folder)?;
    }
    Ok(())
}

/// Debug information and incremental compilation have their own costs.
const WORKSPACE: &str = "\
[workspace]
resolver = \"3\"
members = [\"MEMBERS\"]

[profile.dev]
debug = false
incremental = false

[profile.release]
debug = false
incremental = false
strip = true
";

impl Library {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Tracing => "tracing",
        }
    }

    fn dependencies(self, workspace: &Workspace) -> String {
        match self {
            Self::Ours => {
                let path = workspace.root.join("nettrace-writer");
                format!("nettrace-writer = {{ path = {path:?} }}\n")
            }
            Self::Tracing => "tracing = \"0.1\"\n".to_owned(),
        }
    }

    fn imports(self) -> &'static str {
        match self {
            Self::Ours => "use nettrace_writer::{Emit, TraceEvent, traced};\n",
            Self::Tracing => "use tracing::{info, instrument};\n",
        }
    }
}

impl ItemKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Call => "call",
            Self::AsyncCall => "async_call",
        }
    }
}

const START: &str = "\
use std::{future::ready, hint::black_box, pin::Pin, task::{Context, Waker}};

#[inline(never)]
fn run(mut call: Pin<Box<dyn Future<Output = u64>>>) {
    let is_ready = call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
    black_box(is_ready);
}
";

/// Nothing is known about the values.
const END: &str = "
fn main() {
    let text = std::env::args().next().unwrap_or_default();
    let number = text.len() as u64;
CALLS}
";

/// One item, with a function that uses it. `@` stands for its number.
fn item(library: Library, kind: ItemKind, number: usize) -> String {
    let attribute = match library {
        Library::Ours => "#[traced(provider = \"Weight\", fields = [value])]",
        Library::Tracing => "#[instrument(skip_all, fields(value))]",
    };
    let code = match kind {
        ItemKind::Event => event(library, number % SHAPES),
        ItemKind::Call => CALL.replace("ATTRIBUTE", attribute),
        ItemKind::AsyncCall => ASYNC_CALL.replace("ATTRIBUTE", attribute),
    };
    code.replace('@', &number.to_string())
}

const CALL: &str = "
ATTRIBUTE
#[inline(never)]
fn inner_@(value: u64) -> u64 {
    black_box(value) + @
}

#[inline(never)]
fn call_@(number: u64, _: &str) {
    black_box(inner_@(number));
}
";

const ASYNC_CALL: &str = "
ATTRIBUTE
async fn waits_@(value: u64) -> u64 {
    ready(black_box(value)).await + @
}

#[inline(never)]
fn async_call_@(number: u64, _: &str) {
    run(Box::pin(waits_@(number)));
}
";

/// How many shapes of events there are.
const SHAPES: usize = 4;

fn event(library: Library, shape: usize) -> String {
    // The fields of a type, those of its value, and the same as `tracing` has them.
    let (generics, fields, values, named) = [
        (
            "",
            "first: u64, second: u64",
            "first: number, second: number + @",
            "first = number, second = number + @",
        ),
        (
            "<'a>",
            "text: &'a str, number: u64",
            "text, number: number + @",
            "text, number = number + @",
        ),
        (
            "<'a>",
            "id: u64, name: &'a str, size: u32, share: f64, last: bool",
            "id: number + @, name: text, size: number as u32, share: number as f64, \
             last: number > @",
            "id = number + @, name = text, size = number as u32, share = number as f64, \
             last = number > @",
        ),
        (
            "",
            "list: [u64; 3], maybe: Option<u64>",
            "list: [number, number + 1, number + @], maybe: number.checked_sub(@)",
            "list = ?[number, number + 1, number + @], maybe = number.checked_sub(@)",
        ),
    ][shape];
    let (definition, statement) = match library {
        Library::Ours => (
            format!(
                "\n#[derive(TraceEvent)]\n#[trace_event(provider = \"Weight\")]\n\
                 struct Event@{generics} {{ {fields} }}\n"
            ),
            format!("Event@ {{ {values} }}.emit()"),
        ),
        Library::Tracing => (String::new(), format!("info!({named})")),
    };
    format!(
        "{definition}
#[inline(never)]
#[allow(unused_variables)]
fn event_@(number: u64, text: &str) {{
    {statement};
}}
"
    )
}

const OUR_IMPORTS: &str = "use nettrace_writer::{Emit, Session, TraceEvent};\n";
const LIBRARY_IMPORTS: &str = "use nettrace_event::{Emit, TraceEvent};\n";

const OUR_EVENT: &str = "
#[derive(TraceEvent)]
#[trace_event(provider = \"Weight\")]
struct Answered {
    number: u64,
}

";

const OUR_CALL: &str = "
#[nettrace_span::traced(provider = \"Weight\", fields = [number])]
#[inline(never)]
fn call(number: u64) -> u64 {
    number + 1
}

";

const THEIR_CALL: &str = "
#[tracing::instrument(skip_all, fields(number))]
#[inline(never)]
fn call(number: u64) -> u64 {
    number + 1
}

";

const OUR_START: &str =
    "let _session = Session::builder().file(\"weight.nettrace\").overwrite(true).start()?;";

const PROGRAM: &str = "\
fn main() -> Result<(), Box<dyn std::error::Error>> {
    START
    let number = std::env::args().count() as u64;
    EVENT
    println!(\"{number}\");
    Ok(())
}
";

const SERVICE: &str = "\
use axum::{Router, routing::get};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    START
    let listener = tokio::net::TcpListener::bind(\"127.0.0.1:8080\").await?;
    let app = Router::new().route(\"/\", get(answer));
    axum::serve(listener, app).await?;
    Ok(())
}

async fn answer() -> String {
    let number = std::env::args().count() as u64;
    EVENT
    number.to_string()
}
";
