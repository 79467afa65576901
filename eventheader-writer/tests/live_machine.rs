//! Checks that the machine of the lane `vm` has what live tests rely on.
//!
//! These tests run in the machine, by `cargo xtask vm`. Elsewhere they print that they are skipped.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test waits")]

mod machine;

use std::{
    env,
    error::Error,
    fs,
    io::Write,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use machine::inside;

const TRACEFS: &str = "/sys/kernel/tracing";

/// Long enough for a busy host that emulates a processor.
const PATIENCE: Duration = Duration::from_secs(60);

type Outcome = Result<(), Box<dyn Error>>;

#[test]
fn the_kernel_has_user_events_and_says_so() -> Outcome {
    if !inside() {
        return Ok(());
    }
    assert!(fs::metadata(format!("{TRACEFS}/user_events_data"))?.is_file());
    let config = Command::new("zcat").arg("/proc/config.gz").output()?.stdout;
    let config = String::from_utf8(config)?;
    assert!(config.lines().any(|line| line == "CONFIG_USER_EVENTS=y"), "{config}");
    Ok(())
}

#[test]
fn the_job_is_root_and_may_write_to_memory_only() -> Outcome {
    if !inside() {
        return Ok(());
    }
    assert_eq!(Command::new("id").arg("-u").output()?.stdout, b"0\n");
    let scratch = env::temp_dir().join("live_machine");
    fs::write(&scratch, "memory")?;
    fs::remove_file(&scratch)?;
    // A test that goes wrong must not change the host's files.
    let here = fs::write("live_machine.tmp", "disk").expect_err("the host's files were written");
    assert_eq!(here.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    Ok(())
}

#[test]
fn perf_listens_to_a_user_event() -> Outcome {
    if !inside() {
        return Ok(());
    }
    let name = format!("machine_{}", std::process::id());
    dynamic_event(&format!("u:{name} u32 number\n"))?;
    assert_eq!(listeners(&name)?.as_deref(), Some(""));

    let data = env::temp_dir().join("live_machine.data");
    let mut perf = Command::new("perf")
        .args(["record", "--quiet", "--no-buildid", "--event", &format!("user_events:{name}")])
        .arg("--output")
        .arg(&data)
        .stderr(Stdio::null())
        .spawn()?;
    wait_until(|| Ok(listeners(&name)?.is_some_and(|text| text.contains("perf"))))?;
    // `kill` is a command of the shell. Not every machine has a program of that name.
    Command::new("sh").args(["-c", "kill -INT $0", &perf.id().to_string()]).status()?;
    perf.wait()?;
    wait_until(|| Ok(listeners(&name)?.as_deref() == Some("")))?;
    fs::remove_file(&data)?;

    dynamic_event(&format!("!u:{name} u32 number\n"))?;
    wait_until(|| Ok(listeners(&name)?.is_none()))
}

/// What follows the name of a user event in the kernel's list. `None` if it is not listed.
fn listeners(name: &str) -> Result<Option<String>, Box<dyn Error>> {
    let list = fs::read_to_string(format!("{TRACEFS}/user_events_status"))?;
    let mut lines = list.lines().filter_map(|line| line.strip_prefix(name));
    Ok(lines.find(|rest| rest.is_empty() || rest.starts_with(' ')).map(str::to_owned))
}

fn dynamic_event(line: &str) -> std::io::Result<()> {
    let path = format!("{TRACEFS}/dynamic_events");
    fs::OpenOptions::new().append(true).open(path)?.write_all(line.as_bytes())
}

fn wait_until(mut is_so: impl FnMut() -> Result<bool, Box<dyn Error>>) -> Outcome {
    let start = Instant::now();
    while !is_so()? {
        if start.elapsed() > PATIENCE {
            return Err("it did not come".into());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
