//! The process as a trace describes it without being asked: the program, its host, and the
//! container or the unit of systemd that it runs in.

use std::{env, path::Path};

/// The text that Linux appends to the path of a running program whose file was deleted or replaced.
const DELETED: &str = " (deleted)";

/// The names of a container's id in paths are hexadecimal and so long.
const CONTAINER_ID: usize = 64;

/// The key of what only a session has that asks for it.
pub(crate) const COMMAND_LINE: &str = "process.command_line";

/// The keys are those of OpenTelemetry, which has none for a unit.
const KEYS: [&str; 4] = ["process.executable.name", "host.name", "container.id", "systemd.unit"];

/// The key-values that every trace has, if the system tells them.
pub(crate) fn key_values() -> impl Iterator<Item = (&'static str, String)> {
    let groups = read("/proc/self/cgroup");
    let container = container_of(&groups).map(ToOwned::to_owned);
    let container =
        container.or_else(|| container_of(&read("/proc/self/mountinfo")).map(ToOwned::to_owned));
    let values = [program(), host(), container, unit_of(&groups).map(ToOwned::to_owned)];
    let known = KEYS.into_iter().zip(values).filter_map(|(key, value)| Some((key, value?)));
    known.filter(|(_, value)| !value.is_empty())
}

/// Whether this is a key of [`key_values`].
pub(crate) fn is_told(key: &str) -> bool {
    KEYS.contains(&key)
}

/// The name of this program without its extension, such as `.exe`.
pub(crate) fn program() -> Option<String> {
    env::current_exe().ok().and_then(|path| name_of(&path))
}

/// The arguments of this program, the program first. One with a space or a quote is quoted.
pub(crate) fn command_line() -> String {
    let arguments = env::args_os().map(|argument| {
        let argument = argument.to_string_lossy();
        let is_plain = !argument.is_empty() && !argument.contains([' ', '"', '\'', '\\', '\n']);
        if is_plain { argument.into_owned() } else { format!("{argument:?}") }
    });
    arguments.collect::<Vec<_>>().join(" ")
}

fn name_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy();
    let name = name.strip_suffix(DELETED).unwrap_or(&name);
    let name = name.strip_suffix(env::consts::EXE_SUFFIX).unwrap_or(name);
    Some(name.to_owned())
}

fn host() -> Option<String> {
    #[cfg(unix)]
    {
        rustix::system::uname().nodename().to_str().ok().map(ToOwned::to_owned)
    }
    #[cfg(not(unix))]
    {
        super::environment::variable("COMPUTERNAME")?.into_string().ok()
    }
}

/// A file of Linux, or nothing.
fn read(path: &str) -> String {
    if cfg!(target_os = "linux") {
        std::fs::read_to_string(path).unwrap_or_default()
    } else {
        String::new()
    }
}

/// The id of a container in the paths of control groups or mounts. Docker, containerd, CRI-O and
/// Podman write 64 hexadecimal digits between other signs. In a mount it counts only below a folder
/// of containers, because images have ids, too.
fn container_of(text: &str) -> Option<&str> {
    let is_in_container = |line: &&str| !line.contains(" - ") || line.contains("containers/");
    let words = text.lines().filter(is_in_container).flat_map(|line| {
        let path = line.rsplit_once("containers/").map_or(line, |(_, path)| path);
        path.split(|sign: char| !sign.is_ascii_alphanumeric())
    });
    let is_id = |word: &&str| {
        word.len() == CONTAINER_ID && word.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    words.into_iter().find(is_id)
}

/// The service of systemd in the paths of control groups.
fn unit_of(groups: &str) -> Option<&str> {
    let paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let names = paths.flat_map(|path| path.rsplit('/'));
    // `user@1000.service` is all that a user runs.
    names.into_iter().find(|name| name.ends_with(".service") && !name.starts_with("user@"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_known_by_the_name_of_its_file() {
        for (path, name) in
            [("/usr/bin/shop", "shop"), ("/bin/service-1.2 (deleted)", "service-1.2")]
        {
            assert_eq!(name_of(Path::new(path)).as_deref(), Some(name));
        }
        let with_suffix = format!("service{}", env::consts::EXE_SUFFIX);
        assert_eq!(name_of(Path::new(&with_suffix)).as_deref(), Some("service"));
        assert_eq!(name_of(Path::new("/")), None);
    }

    #[test]
    fn containers_and_units_are_found_in_control_groups() {
        let id = "3f2a".repeat(16);
        for (groups, container, unit) in [
            ("0::/\n".to_owned(), None, None),
            ("0::/system.slice/shop.service\n".to_owned(), None, Some("shop.service")),
            (
                "0::/user.slice/user-1000.slice/user@1000.service/app.slice/shop@7.service\n"
                    .to_owned(),
                None,
                Some("shop@7.service"),
            ),
            ("0::/user.slice/user@1000.service/app.slice/run-1.scope".to_owned(), None, None),
            (format!("0::/system.slice/docker-{id}.scope\n"), Some(&id), None),
            (format!("12:pids:/docker/{id}\n1:name=systemd:/\n"), Some(&id), None),
            (format!("0::/kubepods.slice/x.slice/cri-containerd-{id}.scope"), Some(&id), None),
        ] {
            assert_eq!(container_of(&groups), container.map(String::as_str), "{groups}");
            assert_eq!(unit_of(&groups), unit, "{groups}");
        }
    }

    #[test]
    fn a_container_with_groups_of_its_own_is_found_in_its_mounts() {
        let (image, id) = ("ab".repeat(32), "12".repeat(32));
        let mounts = format!(
            "1 0 0:1 / / rw - overlay overlay rw,upperdir=/x/{image}/diff\n\
             2 1 8:1 /var/lib/docker/containers/{id}/hostname /etc/hostname rw - ext4 /dev/a rw\n"
        );
        assert_eq!(container_of(&mounts), Some(&*id));
        let podman = format!(
            "2 1 8:1 /var/lib/containers/storage/overlay-containers/{id}/userdata/hosts /etc/hosts \
             rw - ext4 /dev/a rw\n"
        );
        assert_eq!(container_of(&podman), Some(&*id));
        assert_eq!(container_of(mounts.lines().next().unwrap()), None, "an image");
    }
}
