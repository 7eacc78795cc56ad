//! Messages for errors of the operating system.

/// Returns the cause of an operating-system error, and what to do.
pub(crate) fn cause_and_remedy(error: &std::io::Error) -> (String, &'static str) {
    use std::io::ErrorKind;
    let (why, remedy) = match error.kind() {
        ErrorKind::StorageFull => {
            ("the disk is full", "free some space or write to another disk (no unfinished file was left)")
        }
        ErrorKind::QuotaExceeded => ("the quota of the disk is used up", "free some space or write to another disk"),
        ErrorKind::FileTooLarge => {
            ("the file would exceed the size limit", "raise the limit (ulimit -f) or write to another disk")
        }
        ErrorKind::PermissionDenied => ("permission denied", "check the permissions of the file and of its folder"),
        ErrorKind::ReadOnlyFilesystem => ("the disk is read-only", "choose a folder on another disk"),
        ErrorKind::NotADirectory => ("a part of its path is a file instead of a folder", "check the path"),
        ErrorKind::IsADirectory => ("it is a folder", "name a file"),
        ErrorKind::NotFound => ("it does not exist", "check the path"),
        ErrorKind::InvalidFilename => ("the name is too long or has an invalid character", "choose another name"),
        ErrorKind::UnexpectedEof => ("the file ends too early", "copy or write it again"),
        ErrorKind::OutOfMemory => ("there is not enough memory", "close other programs or lower `memory`"),
        _ if is_loop(error) => {
            ("it is a symbolic link that leads back to itself", "name the file that the link should lead to")
        }
        _ => return (strip_error_number(&error.to_string()), "check the path and the disk"),
    };
    (why.to_string(), remedy)
}

fn is_loop(error: &std::io::Error) -> bool {
    #[cfg(unix)]
    return error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    #[cfg(not(unix))]
    false
}

/// Returns the text without its error number, beginning with a lower-case letter:
/// `Too many open files (os error 24)` becomes `too many open files`.
fn strip_error_number(text: &str) -> String {
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_lowercase().chain(chars).collect())
}
