//! `eventheader doctor`: can this machine take tracepoints, which are registered, who listens, and
//! how to record them. Exit code 0 if it can, 1 if not, 2 for a mistake on the command line.

use std::process::ExitCode;

const USAGE: &str = "\
usage: eventheader doctor

Says whether this machine can take EventHeader tracepoints (Linux user_events) from this user and
if not, why; lists those that are registered, with who listens; prints the perf command to use.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["doctor"] => {
            let diagnosis = eventheader_writer::doctor();
            print!("{diagnosis}");
            if diagnosis.is_ready() { ExitCode::SUCCESS } else { ExitCode::from(1) }
        }
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}
