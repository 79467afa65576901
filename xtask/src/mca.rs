//! What `llvm-mca` says of an event's usual way, for processors that are not at hand.
//!
//! The program `instructions` of package `benches` runs once under callgrind (x86-64) or QEMU
//! (AArch64). That tells which instructions of `emit_enabled` nearly every event executes.
//! `objdump` says what they are. `llvm-mca` then simulates a processor that executes them.
//!
//! - *each*: cycles for each event of many, where no load waits for a store. Events then wait for
//!   each other only for the processor's units.
//! - *alone*: cycles for one event, from its first instruction to the end of its last. The longest
//!   chain of instructions that need each other's results is in it.
//!
//! The call and the return are left out, and the reading of the counter is a constant: an event at
//! the floor has them as well, and the models know little of them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use crate::{
    compiler,
    error::{Error, Result},
    lanes::{EMULATOR, one_processor},
    step::Step,
    workspace::Workspace,
};

/// Rows of the program `instructions`.
const ROWS: [&str; 2] = ["two_u64", "string_16"];
/// How many events the program records. QEMU writes a line for each instruction of the process.
const EVENTS: u64 = 1_000;
/// An instruction is on the usual way if so many events or more execute it.
const USUAL: u64 = EVENTS * 9 / 10;
/// Names of the simulator, the newest first.
const SIMULATORS: [&str; 4] = ["llvm-mca-22", "llvm-mca-19", "llvm-mca-16", "llvm-mca"];
/// How many events a simulated processor executes where one is not enough.
const MANY: u64 = 1_000;

struct Architecture {
    name: &'static str,
    triple: &'static str,
    processors: &'static [&'static str],
    disassembler: &'static str,
    /// What must be there, and Debian's package of it.
    tools: &'static [(&'static str, &'static str)],
}

const X86_64: Architecture = Architecture {
    name: "x86-64",
    triple: "x86_64-unknown-linux-gnu",
    processors: &["skylake", "sapphirerapids", "znver3", "znver4"],
    disassembler: "objdump",
    tools: &[("valgrind", "valgrind"), ("objdump", "binutils")],
};

const AARCH64: Architecture = Architecture {
    name: "AArch64",
    triple: compiler::AARCH64,
    processors: &["neoverse-n1", "neoverse-v1", "neoverse-v2"],
    disassembler: "aarch64-linux-gnu-objdump",
    tools: &[
        (EMULATOR, "qemu-user-static"),
        ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
        ("aarch64-linux-gnu-objdump", "binutils-aarch64-linux-gnu"),
    ],
};

/// Prints a table for each architecture.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        println!("skipped: this is for x86-64 Linux");
        return Ok(());
    }
    let is_there = |name: &str| Step::new(name).arg("--version").quiet().read().is_ok();
    let Some(simulator) = SIMULATORS.into_iter().find(|name| is_there(name)) else {
        println!("skipped: no llvm-mca; `apt-get install llvm-19`, or the newest that there is");
        return Ok(());
    };
    for architecture in [&X86_64, &AARCH64] {
        let name = architecture.name;
        let missing = architecture.tools.iter().find(|(tool, _)| !is_there(tool));
        if let Some((tool, package)) = missing {
            println!("skipped: {name}: no {tool}; `apt-get install {package}`");
            continue;
        }
        let program = match build(workspace, architecture) {
            Ok(program) => program,
            Err(Error::Missing(what)) => {
                println!("skipped: {name}: {what}");
                continue;
            }
            Err(error) => return Err(error),
        };
        simulate(simulator, architecture, &program, &workspace.target)?;
    }
    Ok(())
}

/// Builds the program, for AArch64 with the compiler of lane `aarch64` unless the toolchain in use
/// has that target.
fn build(workspace: &Workspace, architecture: &Architecture) -> Result<PathBuf> {
    let build = ["build", "--release", "--locked", "-p", "benches", "--bin", "instructions"];
    let triple = architecture.triple;
    if architecture.name == X86_64.name {
        // Without `--target`, which would build everything again.
        Step::cargo().args(build).run()?;
        return Ok(workspace.target.join("release/instructions"));
    }
    let (mut cargo, folder) = if compiler::has_target(triple)? {
        (Step::cargo(), workspace.target.clone())
    } else {
        (compiler::oldest_for_aarch64(workspace)?.cargo(), workspace.target.join("msrv"))
    };
    for linker in [compiler::X86_64_LINKER, compiler::AARCH64_LINKER] {
        cargo = cargo.env(linker.variable, linker.program(workspace)?);
    }
    cargo.args(build).args(["--target", triple]).env("CARGO_TARGET_DIR", &folder).run()?;
    Ok(folder.join(triple).join("release/instructions"))
}

/// Prints the table of one architecture.
fn simulate(
    simulator: &str,
    architecture: &Architecture,
    program: &Path,
    folder: &Path,
) -> Result<()> {
    let listing = Step::new(architecture.disassembler);
    let listing = listing.args(["--disassemble", "--no-show-raw-insn", "--wide"]);
    let listing = listing.arg(program).read()?;
    let wrong = |what: String| Error::Output { command: simulator.into(), source: what.into() };
    println!("\n{:<15} {:<10} instructions   µops   each  alone", architecture.name, "row");
    for row in ROWS {
        let executed = if architecture.name == AARCH64.name {
            emulated(program, folder, row)?
        } else {
            counted(program, folder, row)?
        };
        let way = usual_way(&listing, &executed)
            .map_err(|what| wrong(format!("{row}: no usual way: {what}")))?;
        let path = folder.join("xtask-mca.s");
        fs::write(&path, way.join("\n") + "\n")
            .map_err(|source| Error::File { path: path.clone(), source })?;
        for processor in architecture.processors {
            let simulate = |times: u64| {
                Step::new(simulator)
                    .arg(format!("-mtriple={}", architecture.triple))
                    .arg(format!("-mcpu={processor}"))
                    .arg(format!("-iterations={times}"))
                    .arg(&path)
                    .quiet()
                    .read()
            };
            let (Ok(many), Ok(one)) = (simulate(MANY), simulate(1)) else {
                println!("{processor:<15} unknown to {simulator}");
                continue;
            };
            let number =
                |text, name| number_after(text, name).ok_or_else(|| wrong(format!("no {name}")));
            println!(
                "{processor:<15} {row:<10} {:>12} {:>6} {:>6.1} {:>6}",
                way.len(),
                number(&one, "Total uOps:")?,
                number(&many, "Total Cycles:")? / MANY as f64,
                number(&one, "Total Cycles:")?,
            );
        }
    }
    Ok(())
}

/// How often the instructions of some functions were executed, by their addresses.
#[derive(Debug, Default)]
struct Executed {
    /// Those of `emit_enabled`, for all types of events.
    emit: BTreeMap<u64, u64>,
    /// The first instruction of `main`. It says where the program was loaded.
    main: Option<u64>,
}

impl Executed {
    fn add(&mut self, function: &str, address: u64, times: u64) {
        if function.contains("emit_enabled") {
            *self.emit.entry(address).or_default() += times;
        } else if function == "main" {
            self.main = Some(self.main.map_or(address, |main| main.min(address)));
        }
    }
}

/// Runs a row under callgrind.
fn counted(program: &Path, folder: &Path, row: &str) -> Result<Executed> {
    let path = folder.join("xtask-mca.out");
    Step::new("valgrind")
        .args(["--tool=callgrind", "--quiet", "--dump-instr=yes", "--compress-pos=no"])
        .args(["--compress-strings=no".into(), format!("--callgrind-out-file={}", path.display())])
        .arg(program)
        .args([row, &EVENTS.to_string()])
        .read()?;
    Ok(read_callgrind(&take(path)?))
}

/// Runs a row in QEMU, one instruction at a time.
fn emulated(program: &Path, folder: &Path, row: &str) -> Result<Executed> {
    let path = folder.join("xtask-mca.out");
    Step::new("taskset")
        .args(["-c", &one_processor()?, EMULATOR])
        .args(["-singlestep", "-d", "exec,nochain", "-D"])
        .arg(&path)
        .arg(program)
        .args([row, &EVENTS.to_string()])
        .env("QEMU_LD_PREFIX", "/usr/aarch64-linux-gnu")
        .read()?;
    Ok(read_qemu(&take(path)?))
}

/// Reads a file, and removes it.
fn take(path: PathBuf) -> Result<String> {
    let text = fs::read(&path).and_then(|bytes| fs::remove_file(&path).map(|()| bytes));
    let text = text.map_err(|source| Error::File { path, source })?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Lines `0xADDRESS LINE TIMES` below `fn=NAME`.
fn read_callgrind(text: &str) -> Executed {
    let mut executed = Executed::default();
    let mut function = "";
    let mut is_call = false;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            function = name;
        } else if line.starts_with("calls=") {
            // The next line has what the callee took.
            is_call = true;
        } else if let Some(rest) = line.strip_prefix("0x") {
            let words: Vec<_> = rest.split(' ').collect();
            if let ([address, _, times], false) = (words.as_slice(), is_call) {
                if let (Some(address), Ok(times)) = (hexadecimal(address), times.parse()) {
                    executed.add(function, address, times);
                }
            }
            is_call = false;
        }
    }
    executed
}

/// Lines `Trace CPU: HOST [BASE/ADDRESS/FLAGS/FLAGS] FUNCTION`.
fn read_qemu(text: &str) -> Executed {
    let mut executed = Executed::default();
    for line in text.lines().filter(|line| line.starts_with("Trace ")) {
        let Some((place, function)) = line.rsplit_once("] ") else { continue };
        let address = place.split('/').nth(1).and_then(hexadecimal);
        if let Some(address) = address {
            executed.add(function, address, 1);
        }
    }
    executed
}

/// The instructions that nearly every event executes, in the order of execution, as an assembler
/// takes them.
fn usual_way(listing: &str, executed: &Executed) -> std::result::Result<Vec<String>, &'static str> {
    let start = listing.lines().find_map(|line| hexadecimal(line.strip_suffix(" <main>:")?));
    let loaded = executed.main.zip(start).map(|(main, start)| main.wrapping_sub(start));
    let loaded = loaded.ok_or("no `main`")?;
    let usual = executed.emit.iter().filter(|(_, times)| **times >= USUAL);
    let usual: Vec<u64> = usual.map(|(address, _)| address.wrapping_sub(loaded)).collect();
    let is_usual = |address: &u64| usual.binary_search(address).is_ok();
    let instructions: BTreeMap<u64, &str> = listing.lines().filter_map(instruction).collect();

    let mut way = Vec::new();
    let mut at = *usual.first().ok_or("no event executes `emit_enabled`")?;
    for _ in 0..usual.len() {
        let (text, target) = target(instructions.get(&at).ok_or("no such instruction")?);
        let name = text.split_whitespace().next().unwrap_or_default();
        match name {
            "ret" | "retq" => return Ok(way),
            "call" | "callq" | "bl" | "blr" => return Err("it has a call"),
            "rdtsc" => way.extend(["mov $1,%eax".into(), "mov $2,%edx".into()]),
            "mrs" if text.contains("cntvct") => {
                let register = text.split([' ', '\t', ',']).nth(1).unwrap_or_default();
                way.push(format!("mov {register}, #1"));
            }
            _ => way.push(text.clone()),
        }
        let next = instructions.range(at + 1..).next().map(|(next, _)| *next);
        let next = next.filter(|_| !matches!(name, "jmp" | "b")).filter(is_usual);
        at = next.or(target.filter(is_usual)).ok_or("it leaves `emit_enabled`")?;
    }
    Err("it does not return")
}

/// `  401000:\tmov    %rax,0x8(%rip)        # 2000 <WORD>`, without the comment.
fn instruction(line: &str) -> Option<(u64, &str)> {
    let (address, text) = line.trim_start().split_once(":\t")?;
    let text = text.split(" # ").next()?.split("//").next()?;
    Some((hexadecimal(address)?, text.trim()))
}

/// An instruction with a label instead of the address that it names, as in
/// `jne 4011f0 <main+0x10>`, and that address.
fn target(text: &str) -> (String, Option<u64>) {
    let Some((text, _)) = text.split_once('<') else { return (text.to_owned(), None) };
    match text.trim_end().rsplit_once([' ', '\t']) {
        Some((rest, address)) => (format!("{rest} elsewhere"), hexadecimal(address)),
        None => (text.to_owned(), None),
    }
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// The number that follows a name in a text.
fn number_after(text: &str, name: &str) -> Option<f64> {
    text.split_once(name)?.1.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tail calls, jumps forth and back, and what only a few events execute.
    const LISTING: &str = "\
0000000000001000 <main>:
    1000:\tcall   1010 <writer::emit::emit_enabled>

0000000000001010 <writer::emit::emit_enabled>:
    1010:\trdtsc
    1012:\tcmp    %edx,0x8(%rip)        # 2000 <WORD>
    1018:\tjbe    1030 <writer::emit::emit_enabled+0x20>
    101a:\tjmp    3000 <writer::emit::place_otherwise>
    101f:\tret
    1030:\tmov    %rax,(%rdi)
    1033:\tjmp    101f <writer::emit::emit_enabled+0xf>
";

    #[test]
    fn the_usual_way_is_found_in_what_callgrind_writes() {
        let counts = format!(
            "fn=main\n0x401000 3 1\ncalls=20000 1\n0x401000 3 900000\n\
             fn=writer::emit::emit_enabled\n0x401010 7 {EVENTS}\n0x401012 7 {EVENTS}\n\
             0x401018 8 {EVENTS}\n0x40101a 8 30\ncalls=30 1\n0x40101a 8 90000\n\
             fi=owner.rs\n0x401030 9 {USUAL}\n0x401033 9 {USUAL}\n0x40101f 9 {EVENTS}\n"
        );
        let expected = [
            "mov $1,%eax",
            "mov $2,%edx",
            "cmp    %edx,0x8(%rip)",
            "jbe    elsewhere",
            "mov    %rax,(%rdi)",
            "jmp    elsewhere",
        ];
        assert_eq!(usual_way(LISTING, &read_callgrind(&counts)).unwrap(), expected);
        let fewer = counts.replace("0x401030 9 900", "0x401030 9 899");
        let left = usual_way(LISTING, &read_callgrind(&fewer));
        assert_eq!(left, Err("it leaves `emit_enabled`"));
        assert_eq!(usual_way(LISTING, &Executed::default()), Err("no `main`"));
    }

    #[test]
    fn the_usual_way_is_found_in_what_qemu_writes() {
        let listing = "\
0000000000001000 <main>:
    1000:\tbl\t1010 <emit_enabled>

0000000000001010 <emit_enabled>:
    1010:\tmrs\tx2, cntvct_el0
    1014:\tcbz\tx9, 1020 <emit_enabled+0x10>
    1018:\tmov\tw9, #0x1                   \t// #1
    101c:\tret
    1020:\tb\t3000 <place_otherwise>
";
        let line = |address: &str, name: &str| {
            format!("Trace 0: 0x7f68 [0000000000000000/00000055000{address}/1040/80] {name}\n")
        };
        let event = ["01010", "01014", "01018", "0101c"].map(|at| line(at, "emit_enabled"));
        let trace = format!(
            "{}{}{}",
            line("01000", "main"),
            line("01020", "emit_enabled"),
            event.concat().repeat(EVENTS as usize)
        );
        let expected = ["mov x2, #1", "cbz\tx9, elsewhere", "mov\tw9, #0x1"];
        assert_eq!(usual_way(listing, &read_qemu(&trace)).unwrap(), expected);
    }

    #[test]
    fn numbers_are_read() {
        let text = "Iterations: 300\nTotal Cycles:      2628\n";
        assert_eq!(number_after(text, "Total Cycles:"), Some(2_628.0));
        assert_eq!(number_after("", "Total Cycles:"), None);
    }
}
