//! Files that appear completely or not at all.

use kstore::AtomicFile;
use std::io::Write;
use std::path::Path;
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_committed_file_replaces_the_old_one_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    std::fs::write(&path, "old").unwrap();
    let mut file = AtomicFile::create(&path).unwrap();
    file.write_all(b"new").unwrap();
    file.flush().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    assert_eq!(names(folder.path()).len(), 2);
    file.commit().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"new");
    assert_eq!(names(folder.path()), ["a"]);
}

#[test]
fn a_dropped_file_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = AtomicFile::create(&folder.path().join("a")).unwrap();
    file.write_all(&vec![7; 1 << 20]).unwrap();
    assert_eq!(names(folder.path()).len(), 1);
    drop(file);
    assert!(names(folder.path()).is_empty());
}

#[test]
fn folders_and_missing_parents_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let error = AtomicFile::create(folder.path()).unwrap_err().to_string();
    assert!(error.contains("this is a folder"), "{error}");
    let error = AtomicFile::create(&folder.path().join("new/")).unwrap_err().to_string();
    assert!(error.contains("name a file in it"), "{error}");
    let error = AtomicFile::create(&folder.path().join("no/where")).unwrap_err().to_string();
    assert!(error.contains("create it first"), "{error}");
}

#[cfg(unix)]
#[test]
fn links_are_followed_whether_their_file_is_there_or_not() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    let (link, second, file) = (folder.path().join("link"), folder.path().join("sub/l"), folder.path().join("f"));
    std::os::unix::fs::symlink("sub/l", &link).unwrap();
    std::os::unix::fs::symlink("../f", &second).unwrap();
    for text in ["dangling", "live"] {
        let mut out = AtomicFile::create(&link).unwrap();
        out.write_all(text.as_bytes()).unwrap();
        out.commit().unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), text.as_bytes());
        assert!(link.is_symlink() && second.is_symlink() && !file.is_symlink());
    }
    assert_eq!(names(&folder.path().join("sub")), ["l"]);
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_refused_and_stays() {
    use std::os::unix::fs::FileTypeExt;
    let folder = tempfile::tempdir().unwrap();
    let (pipe, socket, turning) = (folder.path().join("p"), folder.path().join("s"), folder.path().join("t"));
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    std::os::unix::fs::symlink("t", &turning).unwrap();
    for (path, part) in [
        (Path::new("/dev/null"), "this is a device"),
        (&pipe, "this is a pipe"),
        (&socket, "this is a socket"),
        (&turning, "a symbolic link that leads back to itself"),
    ] {
        let error = AtomicFile::create(path).unwrap_err().to_string();
        assert!(error.contains(part) && !error.contains("os error"), "{error}");
    }
    let kind = std::fs::metadata("/dev/null").unwrap().file_type();
    assert!(kind.is_char_device() && std::fs::metadata(&pipe).unwrap().file_type().is_fifo());
    assert_eq!(names(folder.path()), ["p", "s", "t"]);
}

#[cfg(unix)]
#[test]
fn files_are_as_readable_as_any_other() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (ours, plain) = (folder.path().join("ours"), folder.path().join("plain"));
    AtomicFile::create(&ours).unwrap().commit().unwrap();
    std::fs::write(&plain, "").unwrap();
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(ours), mode(plain));
}

#[cfg(unix)]
#[test]
fn a_file_keeps_the_mode_of_the_one_that_it_replaces() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    for mode in [0o600, 0o640, 0o444, 0o755] {
        std::fs::write(folder.path().join("old"), "").unwrap();
        std::fs::rename(folder.path().join("old"), &path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let mut file = AtomicFile::create(&path).unwrap();
        let temporary = names(folder.path()).into_iter().find(|name| name.starts_with(".kmill-")).unwrap();
        let seen = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(seen(&folder.path().join(temporary)), mode, "private from the beginning");
        file.write_all(b"new").unwrap();
        file.commit().unwrap();
        assert_eq!((seen(&path), std::fs::read(&path).unwrap()), (mode, b"new".to_vec()));
    }
}
