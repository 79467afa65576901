//! Boots the kernel under QEMU for one job, and ends it with the job.
//!
//! The machine has no disk and no network. It sees the host's files read-only. It shares one
//! writable folder with the host, which holds the job, its output and its exit status. QEMU
//! emulates the processor, so the host needs no support for virtual machines. QEMU ends when this
//! program ends, or at the time limit.

use std::{
    fs::{self, File},
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::{Folder, file_error, quoted};
use crate::{
    error::{Error, Result},
    step::Step,
    workspace::Workspace,
};

/// How often to look for output.
const PACE: Duration = Duration::from_millis(50);

/// How many lines of the kernel's log to show if the machine ends badly.
const LOG_LINES: usize = 30;

/// Runs `script` as root in a shell, within a time limit. Prints its output and calls `each` with
/// each line.
///
/// `TMPDIR` and `HOME` of the script are in memory. Everything else is read-only, except the folder
/// of the job. `NETTRACE_LIVE` tells tests that they run in the machine, where they may unmount
/// file systems and count what the whole system has.
pub(super) fn run(
    workspace: &Workspace,
    kernel: &Path,
    script: &str,
    limit: Duration,
    mut each: impl FnMut(&str),
) -> Result<()> {
    let temporary = Folder::new(&workspace.target.join("vm"))?;
    let folder = temporary.0.as_path();
    let (files, job) = (folder.join("files"), folder.join("job"));
    fs::create_dir(&job).map_err(file_error(&job))?;
    first_program(workspace, &files, folder)?;
    write(&job.join("place"), &format!("{}\n", job.display()))?;
    write(&job.join("run"), &with_environment(script))?;
    let output = job.join("output");
    write(&output, "")?;

    println!("$ qemu-system-x86_64 … for up to {} s:", limit.as_secs());
    let mut machine = Machine(start(kernel, folder, &job)?);
    let mut output = File::open(&output).map_err(file_error(&output))?;
    let mut lines = Lines::default();
    let start = Instant::now();
    let ended = loop {
        let status = machine.0.try_wait();
        let mut bytes = Vec::new();
        // Reads once more after the end, because the last lines may have come just before it.
        let _ = output.read_to_end(&mut bytes);
        lines.take(&bytes, &mut each);
        match status {
            Ok(Some(_)) => break true,
            Ok(None) if start.elapsed() < limit => thread::sleep(PACE),
            Ok(None) => break false,
            Err(source) => {
                return Err(Error::Start { command: "qemu-system-x86_64".into(), source });
            }
        }
    };
    drop(machine);
    lines.finish(&mut each);
    if !ended {
        show_log(folder);
        return Err(Error::Nothing(format!(
            "the job did not end within {} s; NETTRACE_VM_SECONDS gives it longer",
            limit.as_secs()
        )));
    }
    let status = fs::read_to_string(job.join("status")).unwrap_or_default();
    match status.trim().parse() {
        Ok(0) => Ok(()),
        Ok(code) => {
            Err(Error::Failed { command: "the job in the machine".into(), code: Some(code) })
        }
        Err(_) => {
            show_log(folder);
            Err(Error::Nothing("the machine ended before its job; its log is above".into()))
        }
    }
}

/// Packs `vm/init` and its shell into the archive from which the kernel starts.
fn first_program(workspace: &Workspace, files: &Path, folder: &Path) -> Result<()> {
    for name in ["bin", "dev", "proc", "job", "host"] {
        let path = files.join(name);
        fs::create_dir_all(&path).map_err(file_error(&path))?;
    }
    let shell = Step::new("sh").args(["-c", "command -v busybox"]).read()?;
    for (from, to) in
        [(PathBuf::from(shell.trim()), "bin/busybox"), (workspace.root.join("vm/init"), "init")]
    {
        Step::new("install").args(["-m", "755"]).arg(from).arg(files.join(to)).read()?;
    }
    let archive = folder.join("files.gz");
    let pack = format!("find . | cpio -o -H newc --quiet | gzip -1 >{}", quoted(&archive));
    Step::new("sh").args(["-ec", &pack]).within(files).read().map(|_| ())
}

fn start(kernel: &Path, folder: &Path, job: &Path) -> Result<Child> {
    // QEMU ends when its parent ends, even if that is killed.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "qemu-system-x86_64"]);
    command.args(["-M", "microvm,acpi=off,rtc=on", "-accel", "tcg,thread=multi", "-cpu", "max"]);
    command.args(["-smp", "2", "-m", "2048", "-nodefaults", "-no-user-config", "-no-reboot"]);
    command.args(["-display", "none", "-serial"]);
    command.arg(format!("file:{}", for_qemu(&folder.join("log"))));
    command.arg("-kernel").arg(kernel).arg("-initrd").arg(folder.join("files.gz"));
    let told = format!("console=ttyS0 panic=-1 reboot=t tsc=reliable{}", counter_rate());
    command.args(["-append", &told]);
    for (name, path, more) in [("host", Path::new("/"), ",readonly=on"), ("job", job, "")] {
        let path = for_qemu(path);
        command
            .arg("-fsdev")
            .arg(format!("local,id={name},path={path},security_model=none,multidevs=remap{more}"));
        command.arg("-device").arg(format!("virtio-9p-device,fsdev={name},mount_tag={name}"));
    }
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
        .spawn()
        .map_err(|source| Error::Start { command: "setpriv … qemu-system-x86_64".into(), source })
}

/// The option that tells the kernel the rate of the processor's counter. QEMU passes the host's
/// counter on unchanged.
///
/// The kernel would measure the rate with a timer that is late on a busy host. Without the counter
/// the machine's clock advances in steps of 4 ms. If the host is a virtual machine itself, the
/// frequency that it reports is that of the counter. On other hosts the kernel must measure.
fn counter_rate() -> String {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let kilohertz = kilohertz(&processors);
    kilohertz.map(|rate| format!(" tsc_early_khz={rate}")).unwrap_or_default()
}

fn kilohertz(processors: &str) -> Option<u64> {
    let value = |name: &str| {
        let mut lines = processors.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
    };
    let is_virtual = value("flags")?.split(' ').any(|flag| flag == "hypervisor");
    let megahertz: f64 = value("cpu MHz").filter(|_| is_virtual)?.parse().ok()?;
    (megahertz >= 1.0).then_some((megahertz * 1e3) as u64)
}

/// `path` as part of an option of QEMU. A comma would end the part, so commas are doubled.
fn for_qemu(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// The script with our PATH, but with a home folder that can be written.
fn with_environment(script: &str) -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    format!(
        "export PATH={} HOME=/dev/shm TMPDIR=/dev/shm RUST_BACKTRACE=1 NETTRACE_LIVE=1\n{script}",
        quoted(Path::new(&path))
    )
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(file_error(path))
}

fn show_log(folder: &Path) {
    let log = fs::read(folder.join("log")).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let lines: Vec<&str> = log.lines().collect();
    println!("the end of the machine's log:");
    for line in &lines[lines.len().saturating_sub(LOG_LINES)..] {
        println!("  {line}");
    }
}

/// QEMU while it runs.
#[derive(Debug)]
struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        // Neither has an effect if it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Cuts bytes into lines. The last line may be incomplete.
#[derive(Debug, Default)]
struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    fn take(&mut self, bytes: &[u8], each: &mut impl FnMut(&str)) {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let text = String::from_utf8_lossy(&line);
            println!("{}", text.trim_end());
            each(text.trim_end());
        }
        let _ = std::io::stdout().flush();
    }

    fn finish(mut self, each: &mut impl FnMut(&str)) {
        if !self.rest.is_empty() {
            self.take(b"\n", each);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_whatever_the_pieces() {
        let mut seen = Vec::new();
        let mut lines = Lines::default();
        for piece in ["test a ..", ". ok\ntest", " b\n", "end"] {
            lines.take(piece.as_bytes(), &mut |line: &str| seen.push(line.to_owned()));
        }
        lines.finish(&mut |line: &str| seen.push(line.to_owned()));
        assert_eq!(seen, ["test a ... ok", "test b", "end"]);
    }

    #[test]
    fn the_counter_is_known_where_the_host_is_virtual() {
        let one = "processor\t: 0\ncpu MHz\t\t: 2499.998\nflags\t\t: fpu hypervisor tsc\n";
        assert_eq!(kilohertz(one), Some(2_499_998));
        assert_eq!(kilohertz(&one.replace("hypervisor ", "")), None);
        assert_eq!(kilohertz(""), None);
    }

    #[test]
    fn a_comma_does_not_end_a_path() {
        assert_eq!(for_qemu(Path::new("/a,b")), "/a,,b");
    }
}
