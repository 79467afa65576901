//! `eventheader doctor` says whether this machine can take tracepoints, which are registered, who
//! listens, and how to record them. `eventheader decode FILE` prints what `perf` recorded, as JSON.
//!
//! Exit code 0 for success, 1 for failure (for `doctor`: tracepoints are not available), 2 for a
//! mistake on the command line.

#[cfg(feature = "decode")]
mod decode;

use std::process::ExitCode;

const USAGE: &str = "\
usage: eventheader doctor
       eventheader decode FILE

doctor  says whether this machine can take EventHeader tracepoints (Linux user_events) from this
        user, and if not, why; lists the registered tracepoints and their listeners; prints the
        perf command to use
decode  prints the EventHeader events in a file that `perf record` wrote, one JSON object per line
        (if this program was built with `--features decode`)";

fn main() -> ExitCode {
    // The decoder takes file names as UTF-8. A name that is not UTF-8 becomes one that does not
    // exist.
    let arguments = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let arguments: Vec<_> = arguments.collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["help" | "--help" | "-h"] | ["doctor" | "decode", "--help" | "-h"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        ["doctor"] => {
            let diagnosis = eventheader_writer::doctor();
            print!("{diagnosis}");
            if diagnosis.is_ready() { ExitCode::SUCCESS } else { ExitCode::from(1) }
        }
        ["decode", file] => decode(file),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

#[cfg(feature = "decode")]
fn decode(file: &str) -> ExitCode {
    match decode::print(file, &mut std::io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {file}: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(not(feature = "decode"))]
fn decode(_: &str) -> ExitCode {
    eprintln!(
        "error: this program was built without its decoder; run it with\n  \
         cargo run -p eventheader-writer --features decode --bin eventheader -- decode FILE"
    );
    ExitCode::FAILURE
}
