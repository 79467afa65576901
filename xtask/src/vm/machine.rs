//! Boots the kernel under QEMU for one job, and ends it with the job.
//!
//! The machine has no disk and no network. It sees this machine's files, read-only, and one folder
//! that both may write, through which job, output and exit status pass. QEMU emulates the processor,
//! so that nothing is asked of the one below; it ends when this program does, or at its time limit.

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

/// How often output is looked for.
const PACE: Duration = Duration::from_millis(50);

/// Lines of the kernel's log that are shown where the machine ended badly.
const LOG_LINES: usize = 30;

/// Runs `script` as root in a shell, with a limit, prints its output and hands `each` its lines.
///
/// The script finds `TMPDIR` and `HOME` in memory; everything else but the folder of the job is
/// read-only. `NETTRACE_LIVE` tells tests that they are here, where they may unmount and count.
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
        // Once more after the end: the last lines may have come just before it.
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

/// The archive with `vm/init` and its shell, from which the kernel starts.
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
    // Its parent's end is QEMU's end too, even where that is a kill.
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

/// What tells the kernel how fast the processor's counter is, which QEMU passes on as it is.
///
/// The timer by which the kernel would find out comes late where the host is busy, and without the
/// counter the machine's clock goes in steps of 4 ms. A host that is a virtual machine itself knows
/// one frequency only, that of the counter. Elsewhere the kernel is left to find out.
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

/// `path` as a part of an option, where a comma ends it unless doubled.
fn for_qemu(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// The job as it is run: with our PATH, but with a home that can be written.
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
        // Both do nothing where it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Bytes cut into lines, the last of which may still be coming.
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
