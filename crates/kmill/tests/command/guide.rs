//! The guide in `docs`: every page is in the summary, every link resolves, the pages of the verbs
//! equal the help, and commands marked `<!-- run -->` print the output shown below them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::process::Command;

/// Returns the root folder of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns all pages below a folder, sorted.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Returns the lines of a page outside code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    text.lines().filter(move |line| {
        let fence = line.starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// Returns the addresses of the links and pictures of a page.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text) {
        // text in backquotes is not a link
        let plain: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for part in plain.split("](").skip(1) {
            found.push(part.split(')').next().unwrap_or_default().to_string());
        }
    }
    found
}

/// Returns the anchors of the headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let name = |heading: &str| {
        let kept = heading
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .collect::<String>();
        kept.trim().replace(' ', "-")
    };
    prose(text).filter(|line| line.starts_with('#')).map(|line| name(line.trim_start_matches('#'))).collect()
}

/// Returns the broken links of a page; a link of the guide must also stay within the guide.
fn broken(page: &Path, guide: &Path) -> Vec<String> {
    let (text, mut wrong) = (read(page), Vec::new());
    for link in links(&text).into_iter().filter(|link| !link.contains("://")) {
        let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
        let target = if file.is_empty() { page.to_path_buf() } else { page.parent().unwrap().join(file) };
        let Ok(target) = target.canonicalize() else {
            wrong.push(format!("{}: {link} is not there", page.display()));
            continue;
        };
        if page.starts_with(guide) && !target.starts_with(guide) {
            wrong.push(format!("{}: {link} leaves the guide", page.display()));
        }
        if !anchor.is_empty() && !anchors(&read(&target)).contains(anchor) {
            wrong.push(format!("{}: {link}: there is no such heading", page.display()));
        }
    }
    wrong
}

#[test]
fn every_page_is_in_the_summary_once_and_every_link_leads_somewhere() {
    let guide = root().join("docs");
    let summary = links(&read(&guide.join("SUMMARY.md")));
    let listed: BTreeSet<PathBuf> = summary.iter().map(|page| guide.join(page)).collect();
    assert_eq!(listed.len(), summary.len(), "a page is in the summary twice");
    let there: BTreeSet<PathBuf> = pages(&guide).into_iter().filter(|page| !page.ends_with("SUMMARY.md")).collect();
    assert_eq!(listed.symmetric_difference(&there).collect::<Vec<_>>(), Vec::<&PathBuf>::new(), "in one of them only");
    let around = [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "benches/README.md",
        "datasets/README.md",
        "crates/python/README.md",
    ];
    let all = pages(&guide).into_iter().chain(around.map(|page| root().join(page)));
    let wrong: Vec<String> = all.flat_map(|page| broken(&page, &guide)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn links_and_headings_are_found_as_readers_of_pages_find_them() {
    let text = "# One: two & three\n[a](b.md#c) `[no](link.md)` ![p](d.svg)\n```\n# no heading\n[no](e.md)\n```\n## `code` here";
    assert_eq!(links(text), ["b.md#c", "d.svg"]);
    assert_eq!(anchors(text).into_iter().collect::<Vec<_>>(), ["code-here", "one-two--three"]);
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.md");
    std::fs::write(&page, "# Here\n[a](#here) [b](#there) [c](gone.md)").unwrap();
    let wrong = broken(&page, folder.path());
    assert!(wrong.len() == 2 && wrong[0].contains("#there") && wrong[1].contains("gone.md"), "{wrong:?}");
}

/// Returns the standard output of the command; standard input is empty.
#[cfg(unix)]
fn said(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_kmill")).args(words).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the long names of the options in a help text.
fn options(help: &str) -> BTreeSet<String> {
    let name = |line: &str| {
        let option = line.strip_prefix("  ")?.trim_start_matches("    ");
        let option = option.split_once(", ").filter(|(short, _)| short.len() == 2).map_or(option, |(_, long)| long);
        let long = option.strip_prefix("--")?;
        Some(long.split([' ', '=']).next()?.to_string())
    };
    help.lines().filter(|line| !line.starts_with("          ")).filter_map(name).collect()
}

#[test]
#[cfg(unix)]
fn the_pages_of_the_verbs_are_what_their_help_says() {
    let written = tempfile::tempdir().unwrap();
    let command: &std::ffi::OsStr = env!("CARGO_BIN_EXE_kmill").as_ref();
    let status = Command::new(root().join("scripts/book"))
        .args(["--pages".as_ref(), written.path().as_os_str(), command])
        .status()
        .unwrap();
    assert!(status.success(), "scripts/book failed");
    let folder = root().join("docs/verbs");
    let verbs = pages(written.path());
    assert!(["fit.md", "predict.md"].iter().all(|verb| verbs.iter().any(|page| page.ends_with(verb))), "{verbs:?}");
    assert_eq!(pages(&folder).len(), verbs.len(), "a page for each verb, and no other");
    let index = read(&root().join("docs/a-to-z.md"));
    for page in verbs {
        let (verb, text) = (page.file_stem().unwrap().to_str().unwrap(), read(&page));
        assert!(
            read(&folder.join(page.file_name().unwrap())) == text,
            "the help of {verb} has changed: run scripts/book"
        );
        for option in options(&said(&[verb, "--help"])).iter().filter(|option| *option != "help") {
            assert!(text.contains(&format!("--{option}")), "the page of {verb} lacks --{option}");
            assert!(index.contains(&format!("- `--{option}`: ")), "docs/a-to-z.md lacks --{option}");
        }
    }
}

#[test]
fn names_of_options_are_found_in_help() {
    let help = "Options:\n  -o, --output <OUT>  File, not --input\n      --no-clip\n          As --clip\n  -h, --help  Help\n  kmill fit --rank 5";
    assert_eq!(options(help).into_iter().collect::<Vec<_>>(), ["help", "no-clip", "output"]);
}

/// Returns the commands of a page that are marked to be run, each with its report, if any.
fn transcript(text: &str) -> Vec<(String, Option<String>)> {
    let mut steps: Vec<(String, Option<String>)> = Vec::new();
    let mut lines = text.lines();
    let block = |lines: &mut std::str::Lines<'_>, kind: &str| {
        assert_eq!(lines.next(), Some(kind), "a block follows its mark");
        lines.take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect::<String>()
    };
    while let Some(line) = lines.next() {
        match line {
            "<!-- run -->" => steps.push((block(&mut lines, "```sh"), None)),
            "<!-- output -->" => {
                let report = block(&mut lines, "```text");
                steps.last_mut().expect("an output without a command").1 = Some(report);
            }
            _ => {}
        }
    }
    steps
}

/// Parses a number of a report, ignoring adjacent marks: `1,234`, `0.1*`, `45.4`.
fn number(word: &str) -> Option<f64> {
    word.trim_end_matches([',', '*', ')', ':']).trim_start_matches('(').replace(',', "").parse().ok()
}

/// Units of quantities that differ between runs.
const UNITS: [&str; 8] = ["ms", "s", "min", "KiB", "MiB", "GiB", "rows/s", "evaluations"];

/// Returns true if two lines have the same words, and numbers within 5 %, except times and bytes.
fn alike(shown: &str, printed: &str) -> bool {
    let (shown, printed): (Vec<&str>, Vec<&str>) =
        (shown.split_whitespace().collect(), printed.split_whitespace().collect());
    let unit = |words: &[&str], at: usize| {
        words.get(at + 1).is_some_and(|word| UNITS.contains(&word.trim_end_matches([',', ')'])))
    };
    shown.len() == printed.len()
        && (0..shown.len()).all(|at| match (number(shown[at]), number(printed[at])) {
            (Some(_), Some(_)) if unit(&shown, at) => unit(&printed, at),
            (Some(a), Some(b)) => (a - b).abs() <= 0.05 * a.abs().max(b.abs()),
            // the size of a file may have another unit
            (None, None) => shown[at] == printed[at] || (at > 0 && unit(&shown, at - 1) && unit(&printed, at - 1)),
            _ => false,
        })
}

/// Returns the first shown line that was not printed in its place; `…` matches any lines.
fn missing<'a>(shown: &'a str, printed: &str) -> Option<&'a str> {
    let (mut printed, mut skip) = (printed.lines(), false);
    for line in shown.lines() {
        if line.trim() == "…" {
            skip = true;
        } else if !(if skip {
            printed.any(|own| alike(line, own))
        } else {
            printed.next().is_some_and(|own| alike(line, own))
        }) {
            return Some(line);
        } else {
            skip = false;
        }
    }
    if skip { None } else { printed.next().map(|_| "the end") }
}

#[test]
fn a_report_is_compared_word_by_word() {
    let printed = "ridge on 1,000 rows\n\n  mse  104.2\n  r2   0.9938\nmodel: m (19.4 KiB), in 13 s\n";
    assert_eq!(missing(printed, printed), None);
    assert_eq!(missing("…\n  mse  101\n…\nmodel: m (1 MiB), in 130 ms\n", printed), None);
    assert_eq!(missing("ridge on 1,000 rows\n…\n  mse  204.2\n…\n", printed), Some("  mse  204.2"));
    assert_eq!(missing("ridge on 1,000 rows\n…\n  mae  104.2\n…\n", printed), Some("  mae  104.2"));
    assert_eq!(missing("ridge on 1,000 rows\n", printed), Some("the end"));
    assert_eq!(missing("…\nmodel: other (19.4 KiB), in 13 s\n", printed), Some("model: other (19.4 KiB), in 13 s"));
}

/// Runs the commands of a page in a folder with the tables of the guide, and compares their output.
#[cfg(unix)]
fn run(page: &str) {
    let steps = transcript(&read(&root().join("docs").join(page)));
    assert!(steps.iter().any(|(_, report)| report.is_some()), "{page} has nothing to run");
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(root().join("docs/tables")).unwrap() {
        let table = entry.unwrap().path();
        std::fs::copy(&table, folder.path().join(table.file_name().unwrap())).unwrap();
    }
    let programs = Path::new(env!("CARGO_BIN_EXE_kmill")).parent().unwrap().to_path_buf();
    let others = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(programs).chain(std::env::split_paths(&others))).unwrap();
    for (commands, report) in steps {
        let output = Command::new("sh")
            .args(["-e", "-c", &commands])
            .env("PATH", &path)
            .current_dir(folder.path())
            .output()
            .unwrap();
        let (printed, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{page}: {commands}{stderr}");
        if let Some(line) = report.as_deref().and_then(|report| missing(report, &printed)) {
            panic!("{page}: {commands}is shown with {line:?}, and prints\n{printed}");
        }
    }
}

#[test]
#[cfg(unix)]
fn a_first_model_is_made_as_the_page_says() {
    run("first-model.md");
}

#[test]
#[cfg(unix)]
fn the_table_of_the_first_pages_is_what_its_script_writes() {
    let script = root().join("docs/tables/flats.awk");
    let output = Command::new("awk").arg("-f").arg(script).output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap() == read(&root().join("datasets/flats.csv")));
}

#[test]
#[cfg(unix)]
fn a_table_is_read_as_the_page_says() {
    run("tables.md");
}

#[test]
#[cfg(unix)]
fn categories_and_missing_values_are_encoded_as_the_page_says() {
    run("categories.md");
}

#[test]
#[cfg(unix)]
fn dates_become_features_as_the_page_says() {
    run("dates.md");
}

#[test]
#[cfg(unix)]
fn classes_are_predicted_as_the_page_says() {
    run("classification.md");
}

#[test]
#[cfg(unix)]
fn quantiles_are_predicted_as_the_page_says() {
    run("quantiles.md");
}

#[test]
#[cfg(unix)]
fn test_rows_are_chosen_as_the_page_says() {
    run("test-rows.md");
}

#[test]
#[cfg(unix)]
fn the_five_tasks_are_done_as_the_page_says() {
    run("tasks.md");
}

#[test]
#[cfg(unix)]
fn groups_and_components_come_to_pictures_as_the_page_says() {
    run("groups.md");
}

#[test]
#[cfg(unix)]
fn a_bad_result_is_looked_into_as_the_page_says() {
    run("bad-results.md");
}

#[test]
#[cfg(unix)]
fn an_order_is_learned_as_the_page_says() {
    run("ranking.md");
}
