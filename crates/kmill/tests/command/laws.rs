//! Laws for every verb that writes: no output overwrites an input, a replaced file keeps its mode,
//! a stopped run leaves old or new files, and threads do not change the bytes.

use crate::foreign::{LINES, inputs};
use crate::run::{kmill, ok};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Lines that write, to be run in a folder next to their inputs.
fn writers() -> impl Iterator<Item = (String, &'static [&'static str])> {
    LINES.iter().filter(|(_, made)| !made.is_empty()).map(|(line, made)| ((*line).to_string(), *made))
}

fn place(at: &Path, name: &str) -> std::path::PathBuf {
    let place = at.join(name);
    std::fs::create_dir_all(&place).unwrap();
    place
}

#[test]
fn no_output_leads_to_an_input_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    inputs(at);
    for (line, made) in writers() {
        let read: Vec<&str> = line.split(' ').filter(|word| word.starts_with("../")).collect();
        for (output, input) in made.iter().flat_map(|output| read.iter().map(move |input| (output, input))) {
            // update replaces the model that it continues, as its help says
            if *input == "../std" {
                continue;
            }
            let place = place(at, "place");
            symlink(input, place.join(output)).unwrap();
            let before = std::fs::read(place.join(input)).unwrap();
            let (code, _, stderr) = kmill(&place, &line);
            assert!(code == 1 && stderr.contains("it is also an input"), "{line}: {output} to {input}: {stderr}");
            assert!(std::fs::read(place.join(input)).unwrap() == before, "{line}: {input} was lost");
            std::fs::remove_dir_all(&place).unwrap();
        }
    }
}

#[test]
fn outputs_keep_the_mode_of_the_files_that_they_replace() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    inputs(at);
    for (line, made) in writers() {
        let place = place(at, "place");
        for name in made {
            std::fs::write(place.join(name), "old").unwrap();
            std::fs::set_permissions(place.join(name), std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        ok(&place, &line);
        for name in made {
            let mode = std::fs::metadata(place.join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{line}: {name}");
            assert!(std::fs::read(place.join(name)).unwrap() != b"old", "{line}: {name}");
        }
        std::fs::remove_dir_all(&place).unwrap();
    }
}

/// Signals each verb at 60 % and at 85 % of its run time, in some runs with two signals.
#[test]
fn a_verb_that_is_stopped_leaves_old_files_or_new_ones_and_says_which() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    inputs(at);
    let mut stopped = 0;
    for (i, (line, made)) in writers().enumerate() {
        let begun = Instant::now();
        ok(&place(at, "whole"), &line);
        let whole = begun.elapsed();
        for (k, share) in [0.6, 0.85].into_iter().enumerate() {
            let place = place(at, &format!("{i}-{k}"));
            made.iter().for_each(|name| std::fs::write(place.join(name), "old").unwrap());
            let mut child = Command::new(env!("CARGO_BIN_EXE_kmill"));
            child.current_dir(&place).args(line.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::piped());
            let child = child.spawn().unwrap();
            std::thread::sleep(whole.mul_f64(share));
            for signal in if i % 5 == k { &["TERM", "INT"][..] } else { &["HUP"] } {
                let _ =
                    Command::new("kill").args(["-s", signal, &child.id().to_string()]).stderr(Stdio::null()).status();
            }
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            let fresh = |name: &str| std::fs::read(place.join(name)).unwrap() != b"old";
            for name in made {
                let told = match output.status.code() {
                    Some(0) => true,
                    // stopped before the signal handler was installed
                    None => false,
                    Some(_) => said.lines().any(|line| {
                        let files = line.strip_prefix("error: interrupted: only ");
                        let files = files.and_then(|line| line.strip_suffix(" was written"));
                        files.is_some_and(|files| files.split(", ").any(|file| file.ends_with(&format!("/{name}"))))
                    }),
                };
                assert_eq!(fresh(name), told, "{line}: {name}, {:?}: {said}", output.status);
                // a new file equals the file of another run, except for times in reports
                let expected = std::fs::read(at.join("whole").join(name)).unwrap();
                let timed = ["html", "json", "csv"].iter().any(|kind| name.ends_with(kind));
                assert!(timed || !told || std::fs::read(place.join(name)).unwrap() == expected, "{line}: {name}");
            }
            assert!(matches!(output.status.code(), None | Some(0 | 130)), "{line}: {said}");
            let left = std::fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().file_name());
            let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with(".kmill")).collect();
            assert!(left.is_empty(), "{line}: {left:?}");
            stopped += usize::from(output.status.code() == Some(130));
        }
        std::fs::remove_dir_all(at.join("whole")).unwrap();
    }
    assert!(stopped > 0, "every run ended before it was stopped");
}

/// Within limits of the shell, a line succeeds or fails in a sentence, without temporary files.
fn bounded(at: &Path, limit: &str, program: &str, line: &str) -> bool {
    let script = format!("ulimit -c 0; ulimit {limit}; exec {program} {line}");
    let output =
        Command::new("bash").current_dir(at).args(["-c", &script]).env_remove("RUST_BACKTRACE").output().unwrap();
    let (said, code) = (String::from_utf8_lossy(&output.stderr), output.status.code());
    let told = said.lines().last().is_some_and(|line| line.starts_with("error: "));
    assert!(code == Some(0) || code == Some(1) && told, "ulimit {limit}: {line}: {:?}: {said}", output.status);
    assert!(!said.contains("panicked"), "ulimit {limit}: {line}: {said}");
    let left = std::fs::read_dir(at).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with(".kmill")).collect();
    assert!(left.is_empty(), "ulimit {limit}: {line}: {left:?}");
    code == Some(0)
}

#[cfg(target_os = "linux")]
#[test]
fn limits_of_the_shell_are_heeded_or_told() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    inputs(at);
    let program = format!("'{}'", env!("CARGO_BIN_EXE_kmill"));
    for (line, _) in LINES {
        let line = line.replace('>', "\\>");
        for limit in ["-s 64", "-v 150000", "-d 60000"] {
            let place = place(at, "place");
            let done = bounded(&place, limit, &program, &line);
            assert!(done || limit != "-s 64", "{line}: the stack is one of its own");
            std::fs::remove_dir_all(&place).unwrap();
        }
    }
    let fit = "fit ridge t.parquet --target y --rank 9 --lambda 1e-3 -o n";
    // 64 threads would reserve 4 GiB
    for more in ["", "--threads 64", "--memory 64MiB"] {
        assert!(bounded(at, "-v 600000", &program, &format!("{fit} {more}")), "{more}");
    }
    // the limit on processes does not apply to root
    let nobody = format!("setpriv --reuid 65534 --clear-groups {program}");
    if Command::new("setpriv").args(["--reuid", "65534", "--clear-groups", "true"]).status().is_ok_and(|s| s.success())
    {
        std::fs::set_permissions(at, std::fs::Permissions::from_mode(0o777)).unwrap();
        for limit in ["-u 1", "-u 3", "-u 6"] {
            for line in [fit, "update std t.parquet -o o", "predict m t.parquet -o p.csv", "inspect t.parquet --stats"]
            {
                let _ = std::fs::remove_file(at.join("n"));
                assert!(bounded(at, limit, &nobody, &format!("{line} --threads 4")), "{limit}: {line}");
            }
        }
        // on a terminal, a thread of its own moves the progress bar
        let terminal = format!("script -qec \"ulimit -u 1; {nobody} {fit}\" /dev/null");
        if let Ok(shown) = Command::new("sh")
            .arg("-c")
            .arg(format!("rm -f n; exec {terminal}"))
            .env("SHELL", "/bin/bash")
            .current_dir(at)
            .output()
        {
            let said = String::from_utf8_lossy(&shown.stdout);
            assert!(
                !said.contains("panicked") && (at.join("n").exists() || shown.status.code() == Some(127)),
                "{said}"
            );
        }
    }
}

/// Reports contain times, and a checkpoint or a search exists next to its output only during a run.
#[test]
fn every_verb_gives_the_same_bytes_for_any_number_of_threads_past_a_segment() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    inputs(at);
    // two segments of a pass, and a part of a third
    ok(at, "generate friedman1 --rows 140000 -q -o t.parquet");
    for (line, made) in LINES {
        let mut first: Vec<Vec<u8>> = Vec::new();
        for threads in [1, 3] {
            let place = place(at, "place");
            let begun = Instant::now();
            let mut child = Command::new(env!("CARGO_BIN_EXE_kmill"));
            child.current_dir(&place).args(line.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::null());
            let verb = line.split(' ').next().unwrap();
            if !["generate", "export", "merge"].contains(&verb) {
                child.args(["--threads", &threads.to_string()]);
            }
            let mut child = child.spawn().unwrap();
            while child.try_wait().unwrap().is_none() {
                if begun.elapsed() > Duration::from_secs(120) {
                    child.kill().unwrap();
                    panic!("{line} --threads {threads} does not end");
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            assert!(child.wait().unwrap().success(), "{line} --threads {threads}");
            let timed = |name: &&&str| [".html", ".json"].iter().any(|kind| name.ends_with(kind));
            let bytes = made.iter().filter(|name| !timed(name)).map(|name| std::fs::read(place.join(name)).unwrap());
            let bytes: Vec<Vec<u8>> = bytes.collect();
            if first.is_empty() {
                first = bytes;
            } else {
                assert!(first == bytes, "{line} --threads {threads}");
            }
            std::fs::remove_dir_all(&place).unwrap();
        }
    }
}
