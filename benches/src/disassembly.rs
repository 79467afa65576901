//! The shortest path through a function, found in the output of `objdump` (AT&T syntax).

use std::{collections::HashMap, env, fmt, process::Command};

/// Disassembles the running program with `objdump`.
///
/// # Errors
/// The reason why there is no disassembly, as a sentence.
pub fn of_this_program() -> Result<String, String> {
    if cfg!(debug_assertions) || !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Err("this is no optimised program for x86-64 Linux".to_owned());
    }
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("objdump")
        .args(["--disassemble", "--demangle", "--no-show-raw-insn", "--wide"])
        .arg(program)
        .output();
    let output = output.map_err(|error| format!("objdump: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Every instruction of the first function whose name contains `name`. Addresses of code and data
/// are left out, so the same function has the same lines in another program.
#[must_use]
pub fn without_addresses(disassembly: &str, name: &str) -> Vec<String> {
    let lines = function(disassembly, name);
    let start = lines.first().map_or(0, |line| line.address);
    let end = lines.last().map_or(0, |line| line.address);
    let instruction = |line: &Line<'_>| {
        let text = line.instruction.split(['#', '<']).next().unwrap_or_default().trim_end();
        let words = text.split_whitespace().map(|word| match (target(text), word) {
            // An address within the function becomes a distance. The linker has chosen all others.
            (Some(to), word) if u64::from_str_radix(word, 16) == Ok(to) => {
                if (start..=end).contains(&to) {
                    format!("+{:x}", to - start)
                } else {
                    "…".into()
                }
            }
            (_, word) if word.contains("(%rip)") || word.contains("%fs:") => elsewhere(word),
            (_, word) => word.to_owned(),
        });
        words.collect::<Vec<_>>().join(" ")
    };
    let mut instructions: Vec<String> = lines.iter().map(instruction).collect();
    // Padding between functions.
    while instructions.last().is_some_and(|last| last == "int3" || last.starts_with("nop")) {
        instructions.pop();
    }
    for at in 1..instructions.len() {
        // The offset of a thread local, which the next instruction uses.
        let before = &instructions[at - 1];
        if let Some((_, register)) =
            before.strip_prefix("mov $0xffff").and_then(|t| t.split_once(','))
        {
            if instructions[at].contains("%fs:") && instructions[at].contains(register) {
                instructions[at - 1] = format!("mov …,{register}");
            }
        }
    }
    instructions
}

/// Removes the distance to what an operand names: `0x2f(%rip)`, `%fs:0xfffffffffffffff8`.
fn elsewhere(operands: &str) -> String {
    let operand = |text: &str| match text.split_once("%fs:") {
        Some((before, rest)) => {
            let rest = rest.trim_start_matches(|c: char| c == '-' || c.is_ascii_alphanumeric());
            format!("{before}%fs:…{rest}")
        }
        None if text.ends_with("(%rip)") => "…(%rip)".to_owned(),
        None => text.to_owned(),
    };
    // This also splits at commas within brackets. There it only separates registers.
    operands.split(',').map(operand).collect::<Vec<_>>().join(",")
}

/// Instructions from the entry of a function to a return, without a call.
#[derive(Debug)]
pub struct Path<'a> {
    instructions: Vec<&'a str>,
}

#[derive(Debug)]
struct Line<'a> {
    address: u64,
    instruction: &'a str,
}

impl<'a> Path<'a> {
    /// The shortest path through the first function whose name contains `name`.
    #[must_use]
    pub fn shortest(disassembly: &'a str, name: &str) -> Option<Self> {
        let lines = function(disassembly, name);
        let places: HashMap<u64, usize> =
            lines.iter().enumerate().map(|(place, line)| (line.address, place)).collect();
        // A breadth-first search. For each reachable instruction, the one that it was reached from.
        let mut from: HashMap<usize, Option<usize>> = HashMap::from([(0, None)]);
        let mut front = vec![0];
        while !front.is_empty() {
            let mut next = Vec::new();
            for &place in &front {
                let Some(line) = lines.get(place) else { continue };
                let mnemonic = mnemonic(line.instruction);
                if mnemonic.starts_with("ret") {
                    return Some(Self { instructions: walk(&lines, &from, place) });
                }
                if mnemonic.starts_with("call") {
                    continue;
                }
                let mut targets = Vec::new();
                if mnemonic.starts_with('j') {
                    targets.extend(target(line.instruction).and_then(|to| places.get(&to)));
                }
                if mnemonic != "jmp" {
                    targets.push(place + 1);
                }
                for target in targets {
                    if target < lines.len() && !from.contains_key(&target) {
                        from.insert(target, Some(place));
                        next.push(target);
                    }
                }
            }
            front = next;
        }
        None
    }

    /// The number of instructions, including the return.
    #[must_use]
    pub fn instructions(&self) -> usize {
        self.instructions.len()
    }

    /// The number of instructions that read memory outside of the function's own stack frame. A
    /// comparison with memory counts; computing an address does not.
    #[must_use]
    pub fn loads(&self) -> usize {
        self.count(|text| touches(text) && !is_store(text) && !text.contains("(%rsp"))
    }

    /// The number of instructions that write memory, including pushes.
    #[must_use]
    pub fn stores(&self) -> usize {
        self.count(|text| mnemonic(text).starts_with("push") || (touches(text) && is_store(text)))
    }

    /// The number of conditional jumps.
    #[must_use]
    pub fn branches(&self) -> usize {
        self.count(|text| mnemonic(text).starts_with('j') && mnemonic(text) != "jmp")
    }

    fn count(&self, is: impl Fn(&str) -> bool) -> usize {
        self.instructions.iter().filter(|text| is(text)).count()
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.instructions.iter().try_for_each(|text| writeln!(f, "    {text}"))
    }
}

fn walk<'a>(lines: &[Line<'a>], from: &HashMap<usize, Option<usize>>, last: usize) -> Vec<&'a str> {
    let mut way = Vec::new();
    let mut place = Some(last);
    while let Some(here) = place {
        way.push(lines[here].instruction);
        place = from[&here];
    }
    way.reverse();
    way
}

/// The lines below `<…name…>:`, up to the next empty one.
fn function<'a>(disassembly: &'a str, name: &str) -> Vec<Line<'a>> {
    let is_head = |line: &&str| line.ends_with(">:") && line.contains(name);
    let lines = disassembly.lines().skip_while(|line| !is_head(line)).skip(1);
    lines.map_while(line).collect()
}

/// `  401000:\tmov    %rax,%rbx`
fn line(text: &str) -> Option<Line<'_>> {
    let (address, instruction) = text.trim_start().split_once(':')?;
    let address = u64::from_str_radix(address, 16).ok()?;
    Some(Line { address, instruction: instruction.trim() })
}

fn mnemonic(instruction: &str) -> &str {
    instruction.split_whitespace().next().unwrap_or_default()
}

/// The target of `jne 401020 <name+0x20>`.
fn target(instruction: &str) -> Option<u64> {
    u64::from_str_radix(instruction.split_whitespace().nth(1)?, 16).ok()
}

/// Whether an operand is in memory.
fn touches(instruction: &str) -> bool {
    let mnemonic = mnemonic(instruction);
    instruction.contains('(') && !mnemonic.starts_with("lea") && !mnemonic.starts_with("nop")
}

/// Whether the last operand, which is the destination, is in memory.
fn is_store(instruction: &str) -> bool {
    let operands = instruction.split('#').next().unwrap_or_default().trim_end();
    let mnemonic = mnemonic(instruction);
    operands.ends_with(')') && !mnemonic.starts_with("cmp") && !mnemonic.starts_with("test")
}

#[cfg(test)]
mod tests {
    use super::{Path, without_addresses};

    const TEXT: &str = "\
0000000000001000 <other>:
    1000:\tret

0000000000001010 <some::site>:
    1010:\tmov    0x2f(%rip),%eax        # 2000 <WORD+0x8>
    1016:\ttest   %eax,%eax
    1018:\tjne    101b <some::site+0xb>
    101a:\tret
    101b:\tlea    0x8(%rsp),%rdi
    1020:\tmov    %rax,0x8(%rsp)
    1025:\tcall   1000 <other>
    102a:\tret

";

    #[test]
    fn the_way_without_a_call_is_found() {
        let path = Path::shortest(TEXT, "some::site").unwrap();
        assert_eq!((path.instructions(), path.loads()), (4, 1));
        assert_eq!((path.stores(), path.branches()), (0, 1));
    }

    #[test]
    fn a_jump_is_followed() {
        let text = "\
0000000000001000 <site>:
    1000:\tcmpl   $0x0,0x2f(%rip)        # 2000 <WORD+0x8>
    1007:\tje     1020 <site+0x20>
    1009:\tcall   2000 <other>
    1020:\tpush   %rbx
    1021:\tmov    %rbx,(%rsp)
    1025:\tpop    %rbx
    1026:\tret
";
        let path = Path::shortest(text, "site").unwrap();
        assert_eq!((path.instructions(), path.loads()), (6, 1));
        assert_eq!((path.stores(), path.branches()), (2, 1));
    }

    #[test]
    fn the_same_code_elsewhere_has_the_same_lines() {
        let here = without_addresses(TEXT, "some::site");
        assert_eq!(here[0], "mov …(%rip),%eax");
        assert_eq!(here[2], "jne +b");
        assert_eq!(here[6], "call …");
        assert_eq!(here.len(), 8);
        // The same code as the linker of another program may place it.
        let moved =
            TEXT.replace("    10", "    20").replace(" 101b", " 201b").replace("0x2f", "0x7");
        assert_eq!(without_addresses(&moved, "some::site"), here);
        let other = TEXT.replace("test ", "or   ");
        assert_ne!(without_addresses(&other, "some::site"), here);
        let local = "<a>:\n  10:\tmov %fs:0xfffffffffffffff8,%rax\n  18:\tmov %fs:0x0(%rdi),%eax\n";
        let expected = ["mov %fs:…,%rax", "mov %fs:…(%rdi),%eax"];
        assert_eq!(without_addresses(local, "<a>"), expected);
        let local =
            "<a>:\n  10:\tmov $0xffffffffffffffe8,%rcx\n  18:\tmov %fs:(%rcx,%rax,8),%rdi\n";
        let expected = ["mov …,%rcx", "mov %fs:…(%rcx,%rax,8),%rdi"];
        assert_eq!(without_addresses(local, "<a>"), expected);
    }

    #[test]
    fn there_may_be_no_way() {
        let text = TEXT.replace("    101a:\tret\n", "    101a:\tcall   1000 <other>\n");
        let text = text.replace("    102a:\tret\n", "    102a:\tud2\n");
        assert!(Path::shortest(&text, "some::site").is_none());
        assert!(Path::shortest(TEXT, "some::other").is_none());
    }
}
