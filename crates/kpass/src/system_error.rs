//! Errors of the operating system in plain words.

/// The operating system's error in plain words, and advice on what to do.
pub(crate) fn plain(error: &std::io::Error) -> (String, &'static str) {
    use std::io::ErrorKind;
    let (why, remedy) = match error.kind() {
        ErrorKind::StorageFull => {
            ("the disk is full", "free some space or write to another disk (no unfinished file was left)")
        }
        ErrorKind::QuotaExceeded => ("the quota of the disk is used up", "free some space or write to another disk"),
        ErrorKind::FileTooLarge => {
            ("the file would be longer than it may be", "raise the limit (ulimit -f) or write to another disk")
        }
        ErrorKind::PermissionDenied => ("permission denied", "check the permissions of the file and of its folder"),
        ErrorKind::ReadOnlyFilesystem => ("the disk is read-only", "choose a folder on another disk"),
        ErrorKind::NotADirectory => ("what should be its folder is a file", "check the path"),
        ErrorKind::IsADirectory => ("it is a folder", "name a file"),
        ErrorKind::NotFound => ("it is not there", "check the path"),
        ErrorKind::InvalidFilename => {
            ("the name is too long or has a character that no name has", "choose another name")
        }
        ErrorKind::UnexpectedEof => ("it ends early", "copy or write it again"),
        ErrorKind::OutOfMemory => ("there is not enough memory", "close other programs or lower `memory`"),
        _ if is_loop(error) => ("it is a link that leads back to itself", "name the file it should lead to"),
        _ => return (without_number(&error.to_string()), "check the path and the disk"),
    };
    (why.to_string(), remedy)
}

/// True for links in a circle, which have no error kind of their own in stable Rust.
fn is_loop(error: &std::io::Error) -> bool {
    #[cfg(unix)]
    return error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    #[cfg(not(unix))]
    false
}

/// The text in lower case without its number: `Too many open files (os error 24)` becomes `too many open files`.
fn without_number(text: &str) -> String {
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_lowercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use crate::Error;
    use std::io;

    #[test]
    fn what_the_system_says_is_told_in_words_with_a_next_step() {
        let said = |error: io::Error| Error::io("write", "a.npy")(error).to_string();
        // as Linux numbers them; others have kinds of their own
        for number in [1, 2, 5, 12, 13, 20, 21, 22, 23, 24, 26, 27, 28, 30, 32, 36, 40, 122] {
            let text = said(io::Error::from_raw_os_error(number));
            assert!(text.starts_with("cannot write a.npy: ") && text.contains("; "), "{text}");
            assert!(!text.contains("os error"), "{text}");
        }
        #[cfg(target_os = "linux")]
        for (number, part) in [
            (13, "permission denied"),
            (20, "what should be its folder is a file"),
            (27, "longer than it may be"),
            (30, "the disk is read-only"),
            (40, "a link that leads back to itself"),
        ] {
            assert!(said(io::Error::from_raw_os_error(number)).contains(part), "{number}");
        }
    }
}
