//! What is told: errors of the operating system in words, and names that are near.

use kstore::Error;
use kstore::schema::nearest;
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

#[test]
fn near_names_are_suggested_and_far_names_are_not() {
    assert_eq!(nearest("temperatur", ["time", "temperature"]), Some("temperature"));
    assert_eq!(nearest("Y", ["x0", "y"]), Some("y"));
    assert_eq!(nearest("target", ["x0", "y"]), None);
    // two and three edits of four and seven letters, of which a third may differ
    assert_eq!(nearest("flod", ["fold", "kitten"]), Some("fold"));
    assert_eq!(nearest("sitting", ["kitten"]), Some("kitten"));
    assert_eq!(nearest("abc", [""]), None);
}
