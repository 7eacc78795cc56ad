//! Memory of the machine and of this process, as the operating system reports it.

use std::path::Path;

/// Returns the bytes of memory that this process may use: the machine's memory, or the limit of its
/// control group or of the process (`ulimit -v`, `ulimit -d`) if smaller. `None` if the operating
/// system does not report it.
pub fn available_memory() -> Option<usize> {
    available_memory_under(Path::new("/"))
}

/// Returns the default memory budget: half of [`available_memory`], or 2 GiB if that is not known.
pub fn default_memory() -> usize {
    available_memory().map_or(2 << 30, |bytes| bytes / 2)
}

/// Returns the highest resident memory of this process so far, in bytes, including mapped pages.
/// `None` if the operating system does not report it.
pub fn peak_rss() -> Option<usize> {
    read_kib_as_bytes(Path::new("/proc/self/status"), "VmHWM:")
}

/// Returns the current resident memory of this process, in bytes, as [`peak_rss`] counts it.
pub fn rss() -> Option<usize> {
    read_kib_as_bytes(Path::new("/proc/self/status"), "VmRSS:")
}

/// Implements [`available_memory`] for a system whose files are under `root`.
fn available_memory_under(root: &Path) -> Option<usize> {
    let limits = [read_kib_as_bytes(&root.join("proc/meminfo"), "MemTotal:"), cgroup_limit(root), process_limit(root)];
    limits.into_iter().flatten().min()
}

/// Names in `/proc/self/limits` of the limits on the address space.
const ADDRESS_LIMIT_NAMES: [&str; 2] = ["Max address space", "Max data size"];

/// Returns the limit on the address space of this process, in bytes (`ulimit -v`, `ulimit -d`);
/// `None` without a limit.
pub fn address_space_limit() -> Option<usize> {
    process_limit(Path::new("/"))
}

fn process_limit(root: &Path) -> Option<usize> {
    let text = std::fs::read_to_string(root.join("proc/self/limits")).ok()?;
    let parse_limit = |line: &str| {
        let limit_text = ADDRESS_LIMIT_NAMES.iter().find_map(|name| line.strip_prefix(name))?;
        limit_text.split_ascii_whitespace().next()?.parse().ok()
    };
    text.lines().filter_map(parse_limit).min()
}

/// Address space of the stack of a thread, in bytes: the default of the standard library.
const STACK_BYTES: usize = 2 << 20;

/// Size of the largest cache if the system does not report it, in bytes.
const DEFAULT_CACHE_BYTES: usize = 32 << 20;

/// Returns the largest number of threads, at most `requested`, whose address space fits half of the
/// [`address_space_limit`] together with the current address space of the process. A thread
/// reserves its stack and, for matrix products, twice the size of the largest cache. It never
/// touches most of this memory.
pub fn allowed_threads(requested: usize) -> usize {
    let Some(limit) = address_space_limit() else { return requested };
    let cache_size_text = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index3/size").ok();
    let cache_bytes = cache_size_text.and_then(|size| super::parse_bytes(&size).ok()).unwrap_or(DEFAULT_CACHE_BYTES);
    let used_bytes = read_kib_as_bytes(Path::new("/proc/self/status"), "VmSize:").unwrap_or(0);
    let max_threads = (limit / 2).saturating_sub(used_bytes) / (STACK_BYTES + 2 * cache_bytes);
    requested.min(max_threads.max(1))
}

/// Returns the value of the line that begins with `name`, such as `MemTotal: 123 kB`, converted
/// from kB to bytes; `None` if the file has no such line.
fn read_kib_as_bytes(file: &Path, name: &str) -> Option<usize> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_ascii_whitespace().nth(1)?.parse::<usize>().ok().map(|kib| kib * 1024)
}

/// Limits from here on mean "no limit": version 1 writes a number near 2^63, version 2 the word
/// `max`.
const MIN_UNLIMITED: usize = 1 << 60;

/// Returns the tightest memory limit among this process's control group and its ancestors, for
/// versions 1 and 2 of control groups.
fn cgroup_limit(root: &Path) -> Option<usize> {
    let cgroup_text = std::fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mut limits = Vec::new();
    for line in cgroup_text.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let (mount_point, limit_file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            controller_list if controller_list.split(',').any(|c| c == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        // in a container this may be the path on the host, and only the top group exists
        for group in Path::new(path).ancestors() {
            let group_folder = root.join(mount_point).join(group.strip_prefix("/").unwrap_or(group));
            let text = std::fs::read_to_string(group_folder.join(limit_file)).unwrap_or_default();
            let limit: Option<usize> = text.trim().parse().ok();
            limits.extend(limit);
        }
    }
    limits.into_iter().filter(|limit| *limit < MIN_UNLIMITED).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates the files of a fictitious system.
    fn create_system(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    fn limit(files: &[(&str, &str)]) -> Option<usize> {
        available_memory_under(create_system(files).path())
    }

    const GIB: usize = 1 << 30;
    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal:        8388608 kB\nMemFree: 1 kB\n");

    #[test]
    fn version_2_takes_the_tightest_group_above() {
        let group = ("proc/self/cgroup", "0::/user.slice/job\n");
        assert_eq!(limit(&[MEMINFO, group]), Some(8 * GIB));
        let own_limit = ("sys/fs/cgroup/user.slice/job/memory.max", "max\n");
        assert_eq!(limit(&[MEMINFO, group, own_limit]), Some(8 * GIB));
        let parent_limit = ("sys/fs/cgroup/user.slice/memory.max", "2147483648\n");
        assert_eq!(limit(&[MEMINFO, group, own_limit, parent_limit]), Some(2 * GIB));
        let own_limit = ("sys/fs/cgroup/user.slice/job/memory.max", "1073741824\n");
        assert_eq!(limit(&[MEMINFO, group, own_limit, parent_limit]), Some(GIB));
        // the limit of another group
        let sibling_limit = ("sys/fs/cgroup/user.slice/other/memory.max", "1024\n");
        assert_eq!(limit(&[MEMINFO, group, sibling_limit]), Some(8 * GIB));
        // a limit above the memory of the machine
        let own_limit = ("sys/fs/cgroup/user.slice/job/memory.max", "1099511627776\n");
        assert_eq!(limit(&[MEMINFO, group, own_limit]), Some(8 * GIB));
    }

    #[test]
    fn version_1_has_a_hierarchy_of_its_own() {
        let group = ("proc/self/cgroup", "12:cpu,cpuacct:/a\n5:memory:/docker/3f\n1:name=systemd:/a\n");
        let unlimited = ("sys/fs/cgroup/memory/docker/3f/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(limit(&[MEMINFO, group, unlimited]), Some(8 * GIB));
        let own_limit = ("sys/fs/cgroup/memory/docker/3f/memory.limit_in_bytes", "3221225472\n");
        assert_eq!(limit(&[MEMINFO, group, own_limit]), Some(3 * GIB));
        // inside the container the group is the root of the mounted hierarchy
        let container_root_limit = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
        assert_eq!(limit(&[MEMINFO, group, container_root_limit]), Some(GIB / 2));
        // the files of version 2 are not read for a group of version 1
        let version_2_limit = ("sys/fs/cgroup/docker/3f/memory.max", "1024\n");
        assert_eq!(limit(&[MEMINFO, group, version_2_limit]), Some(8 * GIB));
    }

    #[test]
    fn limits_of_the_process_are_respected() {
        let limits = |space: &str, data: &str| {
            let lines = [("cpu time", "unlimited"), ("data size", data), ("address space", space)];
            let line = |(name, soft)| format!("{:<26}{soft:<21}unlimited            bytes\n", format!("Max {name}"));
            format!(
                "Limit                     Soft Limit           Hard Limit           Units\n{}",
                lines.map(line).concat()
            )
        };
        let limit_with = |space, data| limit(&[MEMINFO, ("proc/self/limits", &limits(space, data))]);
        assert_eq!(limit_with("unlimited", "unlimited"), Some(8 * GIB));
        assert_eq!(limit_with("1073741824", "unlimited"), Some(GIB));
        assert_eq!(limit_with("1073741824", "536870912"), Some(GIB / 2));
        assert_eq!(limit_with("1099511627776", "unlimited"), Some(8 * GIB));
    }

    #[test]
    fn missing_and_invalid_system_files_are_ignored() {
        assert_eq!(limit(&[]), None);
        assert_eq!(limit(&[("proc/meminfo", "MemTotal: many kB\n")]), None);
        let group = ("proc/self/cgroup", "nonsense\n0::/a\n");
        assert_eq!(limit(&[group, ("sys/fs/cgroup/a/memory.max", "4096")]), Some(4096));
        assert_eq!(limit(&[MEMINFO, ("proc/self/cgroup", "")]), Some(8 * GIB));
    }

    #[test]
    fn this_process_has_a_peak_and_a_limit() {
        if cfg!(target_os = "linux") {
            assert!(peak_rss().unwrap() > 1 << 20);
            assert!(available_memory().unwrap() > peak_rss().unwrap());
        }
    }
}
