//! Weighs what users pay when they build: processor time of the compiler, and bytes of code.
//!
//! The first table is about what grows with an application: an event, a traced function and an
//! async one, each beside the same of `tracing`. A program with one of each is built, and one with
//! [`COUNT`] more of a kind; the difference is what they cost. Only the program itself is compiled
//! while the time is taken. The second table is about what an application pays once: all that it
//! compiles and contains for one event, from an empty target folder. In the rows `unheard` and
//! `unheard-call` the event, or the traced function, is that of a library, and the application has
//! neither a session nor a subscriber.
//!
//! Bytes of code are those of the section `.text`. With the same compiler they hardly depend on the
//! machine, so the lane compares them with the bounds in `benches/weight.json`. Times do, so they
//! have no bounds.

mod programs;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::Duration,
};

use anyhow::{Context, Result};
use programs::{Program, write_all};
use xtask::{
    step::Step,
    workspace::{Workspace, read, remove_folder},
};

use crate::bounds::{Bounds, Verdict, conclude, is_known_machine, shown};

/// The number of further items of a program.
const COUNT: usize = 100;
/// The number of times that a build's duration is taken. The least counts.
const TIMES: usize = 3;

/// The file of bounds, in the workspace.
const BOUNDS: &str = "benches/weight.json";
/// By which part of its bound a count may differ from it.
const TOLERANCE: f64 = 0.01;

/// The rows of that file: bytes of code for each item of a kind.
const ROWS: [(&str, ItemKind, Profile); 6] = [
    ("event", ItemKind::Event, Profile::Release),
    ("event_dev", ItemKind::Event, Profile::Dev),
    ("call", ItemKind::Call, Profile::Release),
    ("call_dev", ItemKind::Call, Profile::Dev),
    ("async_call", ItemKind::AsyncCall, Profile::Release),
    ("async_call_dev", ItemKind::AsyncCall, Profile::Dev),
];

/// The library that a program records with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Library {
    Ours,
    Tracing,
}

/// The items that an application has many of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ItemKind {
    Event,
    Call,
    AsyncCall,
}

impl ItemKind {
    const ALL: [Self; 3] = [Self::Event, Self::Call, Self::AsyncCall];

    fn what(self) -> &'static str {
        match self {
            Self::Event => "an event, emitted once",
            Self::Call => "a traced function with one field",
            Self::AsyncCall => "the same, async",
        }
    }
}

/// What an application is that has one event, or one traced function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Application {
    /// A program that records it, and does nothing else.
    Program,
    /// A service that records it.
    Service,
    /// A program that records nothing. The event is that of a library that it uses.
    OfLibrary,
    /// The same, with a traced function in place of the event.
    OfTracedLibrary,
}

impl Application {
    const ALL: [Self; 4] = [Self::Program, Self::Service, Self::OfLibrary, Self::OfTracedLibrary];

    fn name(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Service => "service",
            Self::OfLibrary => "unheard",
            Self::OfTracedLibrary => "unheard-call",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Profile {
    Release,
    Dev,
}

impl Profile {
    fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Dev => "dev",
        }
    }

    /// The folder in which cargo puts programs.
    fn folder(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Dev => "debug",
        }
    }
}

/// Compares bytes of code with their bounds.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    if !is_known_machine() {
        return Ok(());
    }
    let names = ROWS.map(|(name, ..)| name);
    let bounds = Bounds::read(&workspace.root.join(BOUNDS), &names)?;
    let items = Items::weigh(workspace, &[Library::Ours], 0)?;
    let is_comparable = bounds.are_comparable()?;
    println!("\n{:<16} {:>9} {:>9}  what", "row", "bytes", "bound");
    let mut verdicts = Vec::new();
    for (name, kind, profile) in ROWS {
        let bytes = items.each(Library::Ours, kind, profile).bytes;
        let bound = bounds.rows.get(name).copied();
        println!(
            "{name:<16} {bytes:>9.1} {:>9}  {}, {}",
            shown(bound),
            kind.what(),
            profile.name()
        );
        if is_comparable {
            verdicts.push((name, Verdict::of(bytes, bound, TOLERANCE)));
        }
    }
    println!();
    conclude(&verdicts, "bytes of code", BOUNDS)
}

/// Weighs everything, and prints tables in Markdown.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    if !is_known_machine() {
        return Ok(());
    }
    let items = Items::weigh(workspace, &[Library::Ours, Library::Tracing], TIMES)?;
    let wholes = Application::ALL.map(|application| weigh_wholes(workspace, application));
    println!(
        "\n| each costs | profile | ms | `tracing` | ratio | bytes of code | `tracing` | ratio |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|");
    for (_, kind, profile) in ROWS {
        let ours = items.each(Library::Ours, kind, profile);
        let theirs = items.each(Library::Tracing, kind, profile);
        println!(
            "| {} | {} | {:.1} | {:.1} | {:.1} | {:.0} | {:.0} | {:.1} |",
            kind.what(),
            profile.name(),
            ours.ms,
            theirs.ms,
            ours.ms / theirs.ms,
            ours.bytes,
            theirs.bytes,
            ours.bytes / theirs.bytes,
        );
    }
    println!("\n| with one event more | crates | processor seconds | KB, stripped |");
    println!("|---|---:|---:|---:|");
    for rows in wholes {
        let [nothing, others @ ..] = rows?;
        println!(
            "| {} | {} | {:.1} | {:.0} |",
            nothing.name, nothing.crates, nothing.seconds, nothing.kilobytes
        );
        for row in others {
            println!(
                "| {} | + {} | + {:.1} | + {:.0} |",
                row.name,
                row.crates - nothing.crates,
                row.seconds - nothing.seconds,
                row.kilobytes - nothing.kilobytes
            );
        }
    }
    Ok(())
}

/// What one program takes.
#[derive(Clone, Copy, Debug)]
struct Weight {
    /// Processor time, if that was measured.
    ms: f64,
    /// Bytes of code.
    bytes: f64,
}

/// The programs with one item of each kind, and those with more of a kind.
#[derive(Debug, Default)]
struct Items(BTreeMap<(Library, Option<ItemKind>, Profile), Weight>);

impl Items {
    /// Builds the programs of `libraries`, and measures the time as often as `times` says.
    fn weigh(workspace: &Workspace, libraries: &[Library], times: usize) -> Result<Self> {
        let folder = workspace.target.join("weight/items");
        let target = workspace.target.join("weight/target");
        let mut programs = Vec::new();
        for &library in libraries {
            for kind in [None].into_iter().chain(ItemKind::ALL.map(Some)) {
                let more = kind.map(|kind| (kind, COUNT));
                let program = Program::with_items(workspace, library, more);
                programs.push((library, kind, program));
            }
        }
        let all: Vec<_> = programs.iter().map(|(.., program)| program.clone()).collect();
        write_all(workspace, &folder, &all)?;
        let mut items = Self::default();
        for profile in [Profile::Release, Profile::Dev] {
            for (library, kind, program) in &programs {
                build(&folder, &target, program, profile)?;
                let mut least = Duration::MAX;
                for _ in 0..times {
                    program.write_code(&folder)?;
                    least = least.min(build(&folder, &target, program, profile)?);
                }
                let path = target.join(profile.folder()).join(&program.name);
                let bytes = bytes_of_code(&path)?;
                let weight = Weight { ms: least.as_secs_f64() * 1e3, bytes: bytes as f64 };
                items.0.insert((*library, *kind, profile), weight);
            }
        }
        Ok(items)
    }

    /// What each of the items costs that a program has more.
    fn each(&self, library: Library, kind: ItemKind, profile: Profile) -> Weight {
        let few = self.0[&(library, None, profile)];
        let many = self.0[&(library, Some(kind), profile)];
        let each = |few: f64, many: f64| (many - few) / COUNT as f64;
        Weight { ms: each(few.ms, many.ms), bytes: each(few.bytes, many.bytes) }
    }
}

/// What a whole application takes.
#[derive(Debug)]
struct ApplicationWeight {
    name: String,
    crates: f64,
    seconds: f64,
    kilobytes: f64,
}

/// Builds applications without any tracing and with each library, each from an empty folder.
fn weigh_wholes(workspace: &Workspace, application: Application) -> Result<[ApplicationWeight; 3]> {
    let folder = workspace.target.join("weight/wholes");
    let target = workspace.target.join("weight/cold");
    let programs = [None, Some(Library::Ours), Some(Library::Tracing)]
        .map(|library| Program::whole(workspace, library, application));
    remove_folder(&folder)?;
    write_all(workspace, &folder, &programs)?;
    let manifest = folder.join("Cargo.toml");
    Step::cargo().args(["fetch", "--manifest-path"]).arg(&manifest).run()?;
    let [nothing, ours, tracing] = programs.map(|program| -> Result<ApplicationWeight> {
        remove_folder(&target)?;
        let time = build(&folder, &target, &program, Profile::Release)?;
        let path = target.join("release").join(&program.name);
        let size = fs::metadata(path)?.len();
        let tree = Step::cargo()
            .args(["tree", "--manifest-path"])
            .arg(&manifest)
            .args(["-p", &program.name, "--prefix", "none", "--edges", "normal,build"])
            .read()?;
        Ok(ApplicationWeight {
            crates: crates(&tree) as f64,
            seconds: time.as_secs_f64(),
            kilobytes: size as f64 / 1e3,
            name: program.name,
        })
    });
    remove_folder(&target)?;
    Ok([nothing?, ours?, tracing?])
}

/// How many crates a tree names. One that it has shown before ends in a sign.
fn crates(tree: &str) -> usize {
    let lines = tree.lines().map(|line| line.trim_end_matches(" (*)"));
    lines.collect::<BTreeSet<_>>().len()
}

/// Builds a program, and returns the processor time that this took.
fn build(folder: &Path, target: &Path, program: &Program, profile: Profile) -> Result<Duration> {
    let before = time_of_children()?;
    Step::cargo()
        .args(["build", "--quiet", "--profile", profile.name(), "-p", &program.name])
        .within(folder)
        .env("CARGO_TARGET_DIR", target)
        .without(&["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"])
        .run()?;
    Ok(time_of_children()? - before)
}

/// The processor time of the processes that this one has waited for, and of those that they have
/// waited for, in steps of 10 ms.
fn time_of_children() -> Result<Duration> {
    let ticks = ticks(&read(Path::new("/proc/self/stat"))?);
    Ok(Duration::from_millis(10 * ticks.context("/proc has no times of this process")?))
}

/// The fields `cutime` and `cstime`. The second field is a name that may have spaces.
fn ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(13);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

/// The size of the section of code, as binutils see it.
fn bytes_of_code(program: &Path) -> Result<u64> {
    let text = Step::new("size").args(["-A", "-d"]).arg(program).read()?;
    section(&text).with_context(|| format!("{} has no code", program.display()))
}

fn section(sizes: &str) -> Option<u64> {
    let line = sizes.lines().find_map(|line| line.strip_prefix(".text "))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_times_and_crates_are_read_as_they_are_written() {
        let sizes =
            "a  :\nsection  size  addr\n.text.hot  7  1\n.text    292000   4096\nTotal  9\n";
        assert_eq!(section(sizes), Some(292_000));
        assert_eq!(section("a  :\n.data  1  2\n"), None);
        let stat = "12 (a ) b) S 1 2 3 4 5 6 7 8 9 10 11 12 340 60 20 0 1";
        assert_eq!(ticks(stat), Some(400));
        assert_eq!(ticks("12 (a) S 1"), None, "cut off");
        let tree = "own v0.1.0 (/some/own)\nlog v0.4.29\ncfg-if v1.0.4\n\nlog v0.4.29 (*)\n";
        assert_eq!(crates(tree), 4);
    }

    #[test]
    fn what_both_programs_have_does_not_count() {
        let mut items = Items::default();
        let few = Weight { ms: 100.0, bytes: 5_000.0 };
        let many = Weight { ms: 600.0, bytes: 6_000.0 };
        items.0.insert((Library::Ours, None, Profile::Dev), few);
        items.0.insert((Library::Ours, Some(ItemKind::Call), Profile::Dev), many);
        let each = items.each(Library::Ours, ItemKind::Call, Profile::Dev);
        assert_eq!((each.ms, each.bytes), (5.0, 10.0));
    }

    #[test]
    fn every_row_has_a_bound() {
        let text = include_str!("../../../weight.json");
        let value = serde_json::from_str(text).unwrap();
        assert!(Bounds::parse(&value, &ROWS.map(|(name, ..)| name)).is_some());
    }
}
