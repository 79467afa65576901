//! The recipes of the pages about systemd, logrotate and containers, with the files that they show.

use std::{
    fs::{self, File, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use nettrace_diagnostics::client::{Target, Wanted};
use nettrace_reader::{Reader, verify};
use tempfile::{TempDir, tempdir, tempdir_in};
use testkit::process::{copy_program, skipped_in_emulator, until};

use crate::Service;

/// The first block of a page in this language.
fn block(page: &str, language: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = fs::read_to_string(path).unwrap();
    let (_, rest) = text.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

/// Whether a program is there. Says so if it is not.
fn has(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).output();
    let is_there = output.is_ok_and(|output| output.status.success());
    if !is_there {
        println!("skipped: `{program} {}` does not work here", arguments.join(" "));
    }
    is_there
}

/// The service in a container of its own, as user 65534.
struct Container {
    _folder: TempDir,
    program: PathBuf,
}

impl Container {
    /// `None` where nobody may make one.
    fn new() -> Option<Self> {
        let can = !skipped_in_emulator("a container has no emulator")
            && has("unshare", &["--mount", "--propagation", "private", "true"])
            && has("setpriv", &["--reuid", "65534", "--clear-groups", "true"]);
        if !can {
            return None;
        }
        // Its own `/tmp` would hide a folder there.
        let folder = tempdir_in("/var/tmp").unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let program = folder.path().join("shop");
        copy_program(Path::new(env!("CARGO_BIN_EXE_service")), &program);
        Some(Self { _folder: folder, program })
    }

    /// The service, after `mounts`, which the host does not see.
    fn service(&self, mounts: &str, arguments: &[&str]) -> Command {
        let script = format!(
            "cd /; {mounts}; exec setpriv --reuid 65534 --regid 65534 --clear-groups -- \"$@\""
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-ec", &script, "sh"]);
        command.arg(&self.program).arg("--attach").args(arguments);
        command.env_remove("TMPDIR").stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// The standard error of a service that has answered a hundred requests.
#[track_caller]
fn served(output: &Output) -> String {
    let [out, said] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    assert!(output.status.success() && out.contains("\"requests\":100,"), "{out}\n{said}");
    said.into_owned()
}

const READ_ONLY: &str = "mount -o remount,bind,ro /";

#[test]
fn a_container_without_a_folder_to_write_to_serves_and_says_what_it_lacks() {
    let Some(container) = Container::new() else { return };
    let few = ["--load", "100"];
    let said = served(&container.service(READ_ONLY, &few).output().unwrap());
    println!("{said}");
    assert!(said.contains("cannot make the socket /tmp/") && said.contains("TMPDIR"), "{said}");

    // No folder for temporary files, and none for traces.
    let mut command = container.service("true", &few);
    command.env("TMPDIR", "/nowhere").env("NETTRACE_OUTPUT", "/nowhere/shop.nettrace");
    let said = served(&command.output().unwrap());
    println!("{said}");
    assert!(said.contains("cannot make the socket /nowhere/"), "{said}");
    assert!(said.contains("/nowhere/shop.nettrace"), "{said}");
}

#[test]
fn tools_of_the_host_attach_through_the_process() {
    let Some(container) = Container::new() else { return };
    let mounts = format!(
        "{READ_ONLY}; mount -t tmpfs -o size=64k,mode=1777 tmpfs /tmp; \
         mount -t tmpfs -o size=64k tmpfs /dev/shm"
    );
    let endless = ["--seconds", "3600", "--rate", "300"];
    let service = Service(container.service(&mounts, &endless).spawn().unwrap());
    let pid = service.0.id();
    let inside = PathBuf::from(format!("/proc/{pid}/root/tmp"));
    // Before the service has its own folder, this is the host's, with other processes' sockets.
    let find = || {
        let mut all = Target::all_in(&inside).ok()?.into_iter();
        all.find(|target| target.pid == pid && target.info().is_ok())
    };
    until("it listens", || find().is_some());
    let target = find().unwrap();
    assert_eq!((target.pid, target.info().unwrap().program), (pid, "shop".to_owned()));
    let seen = Target::all_in(Path::new("/tmp")).unwrap();
    assert!(seen.iter().all(|it| it.pid != pid), "its socket is in a folder of its own");
    let wanted = Wanted {
        name: "Example-Service".to_owned(),
        keywords: u64::MAX,
        level: 5,
        arguments: String::new(),
    };
    let live = target.collect(&[wanted], 16).unwrap();
    let mut reader = Reader::new(live.stream).unwrap();
    assert!(reader.next_event().unwrap().is_some());
    drop(reader);
    service.end();
}

#[test]
fn the_unit_of_systemd_is_valid() {
    if !has("systemd-analyze", &["--version"]) {
        return;
    }
    let folder = tempdir().unwrap();
    let unit = block("systemd.md", "ini");
    assert!(unit.contains("ExecStart=/usr/local/bin/shop\n"));
    let unit = unit.replace("/usr/local/bin/shop", env!("CARGO_BIN_EXE_service"));
    let path = folder.path().join("shop.service");
    fs::write(&path, unit).unwrap();
    let mut command = Command::new("systemd-analyze");
    let output = command.args(["verify", "--man=no"]).arg(&path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("shop"), "{said}");
}

/// How many events a sound trace has. `None` while there is none.
fn events(path: &Path) -> Option<u64> {
    let report = verify(File::open(path).ok()?).ok()?;
    report.is_sound().then_some(report.events)
}

#[test]
fn logrotate_copies_a_trace_and_the_session_begins_anew() {
    if !has("logrotate", &["--version"]) {
        return;
    }
    let folder = tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_service"));
    command.args(["--attach", "--seconds", "3600", "--rate", "300"]).env("TMPDIR", folder.path());
    command.env("NETTRACE_OUTPUT", folder.path().join("shop-{pid}.nettrace"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let service = Service(command.spawn().unwrap());
    let path = folder.path().join(format!("shop-{}.nettrace", service.0.id()));
    until("it records", || events(&path).is_some_and(|events| events > 100));

    let configuration = block("systemd.md", "conf");
    assert!(configuration.contains("/var/log/shop/"));
    let here = format!("{}/", folder.path().display());
    let file = folder.path().join("logrotate.conf");
    fs::write(&file, configuration.replace("/var/log/shop/", &here)).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let mut command = Command::new("logrotate");
    let output = command.arg("-f").arg("-s").arg(folder.path().join("state")).arg(&file).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let copy = folder.path().join(format!("shop-{}.nettrace.1", service.0.id()));
    assert!(events(&copy).unwrap() > 100);
    until("the file begins anew", || events(&path).is_some_and(|events| events > 0));
    service.end();
    assert!(events(&path).unwrap() > 0);
}
