//! How many processors the process may use. The count is .NET's: those that the process's affinity
//! allows, but no more than the quota of its control groups, rounded up.
//!
//! The standard library's `available_parallelism` rounds the quota down: with one and a half
//! processors a container would have one.

use std::{fs, path::Path};

use crate::sync::thread;

/// How many processors the process may use now.
pub(crate) fn usable() -> u32 {
    let counted = if cfg!(target_os = "linux") {
        counted(Path::new("/proc/self"), Path::new("/sys/fs/cgroup"))
    } else {
        None
    };
    counted.unwrap_or_else(|| {
        thread::available_parallelism().map_or(1, |count| count.get().min(1 << 31) as u32)
    })
}

/// Reads the count from the kernel's files: in the folder of the process and those of the control
/// groups.
fn counted(process: &Path, groups: &Path) -> Option<u32> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed:"))?;
    let allowed: u32 =
        allowed.trim().chars().filter_map(|c| c.to_digit(16)).map(u32::count_ones).sum();
    let quota = fs::read_to_string(process.join("cgroup")).ok().and_then(|lines| {
        let quotas = lines.lines().filter_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            quota_of(groups, controllers, Path::new(path))
        });
        quotas.min()
    });
    (allowed > 0).then(|| allowed.min(quota.unwrap_or(u32::MAX)))
}

/// The smallest quota of a group and of the groups that contain it. `controllers` is empty in
/// version 2.
fn quota_of(groups: &Path, controllers: &str, path: &Path) -> Option<u32> {
    let is_second = controllers.is_empty();
    if !is_second && !controllers.split(',').any(|controller| controller == "cpu") {
        return None;
    }
    let root = if is_second { groups.to_owned() } else { groups.join(controllers) };
    let quotas = path.ancestors().filter_map(|group| {
        let group = root.join(group.strip_prefix("/").unwrap_or(group));
        let read = |name: &str| fs::read_to_string(group.join(name)).ok();
        if is_second {
            let limit = read("cpu.max")?;
            let (quota, period) = limit.trim().split_once(' ')?;
            rounded_up(quota, period)
        } else {
            rounded_up(read("cpu.cfs_quota_us")?.trim(), read("cpu.cfs_period_us")?.trim())
        }
    });
    quotas.min()
}

/// Reads a quota. Returns `None` if there is no limit (`max`, or -1).
fn rounded_up(quota: &str, period: &str) -> Option<u32> {
    let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0).then(|| quota.div_ceil(period).clamp(1, u32::MAX.into()) as u32)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{counted, usable};

    /// The count if the process's folder and that of the groups have these files.
    fn count(files: &[(&str, &str)]) -> Option<u32> {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        counted(&root.path().join("process"), &root.path().join("groups"))
    }

    const EIGHT: (&str, &str) = ("process/status", "Name:\tx\nCpus_allowed:\t0f,0000f000\nX:\t1\n");

    #[test]
    fn affinity_and_quota_count() {
        assert_eq!(count(&[]), None);
        assert_eq!(count(&[EIGHT]), Some(8));
        let group = ("process/cgroup", "0::/a.slice/b\n");
        assert_eq!(count(&[EIGHT, group]), Some(8));
        let of = |max: &str| count(&[EIGHT, group, ("groups/a.slice/b/cpu.max", max)]);
        assert_eq!(of("max 100000\n"), Some(8));
        assert_eq!(of("50000 100000\n"), Some(1));
        assert_eq!(of("150000 100000\n"), Some(2));
        assert_eq!(of("200000 100000\n"), Some(2));
        assert_eq!(of("990000 100000\n"), Some(8));
        let outer = ("groups/a.slice/cpu.max", "300000 100000\n");
        let inner = ("groups/a.slice/b/cpu.max", "700000 100000\n");
        assert_eq!(count(&[EIGHT, group, outer, inner]), Some(3));
    }

    #[test]
    fn the_first_version_of_groups_counts_too() {
        let group = ("process/cgroup", "5:memory:/x\n4:cpu,cpuacct:/docker/1\n0::/\n");
        let of = |quota: &str| {
            let (quota, period) = (
                ("groups/cpu,cpuacct/docker/1/cpu.cfs_quota_us", quota),
                ("groups/cpu,cpuacct/docker/1/cpu.cfs_period_us", "100000\n"),
            );
            count(&[EIGHT, group, quota, period])
        };
        assert_eq!(of("-1\n"), Some(8));
        assert_eq!(of("250000\n"), Some(3));
        // In a container the path is the host's, while the group is mounted at the root.
        let root = [
            ("groups/cpu,cpuacct/cpu.cfs_quota_us", "250000\n"),
            ("groups/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ];
        assert_eq!(count(&[EIGHT, group, root[0], root[1]]), Some(3));
    }

    #[test]
    fn this_process_may_use_some() {
        let most = std::fs::read_to_string("/proc/cpuinfo");
        let most = most.map_or(usize::MAX, |text| text.matches("\nprocessor").count() + 1);
        assert!((1..=most).contains(&(usable() as usize)), "{} of {most}", usable());
    }
}
