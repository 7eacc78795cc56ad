//! `kmill help TOPIC`: short texts on what several subcommands have in common.

use kstore::names;
use std::io::{self, Write};

/// A topic: its name, its title, its text, and the page of the guide.
pub(crate) struct Topic {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    text: &'static str,
    page: &'static str,
}

const fn topic(name: &'static str, title: &'static str, text: &'static str, page: &'static str) -> Topic {
    Topic { name, title, text, page }
}

/// All topics, apart from `which`, which asks questions.
pub(crate) static TOPICS: [Topic; 10] = [
    topic(
        "memory",
        "the budget, and tables larger than memory",
        "A table of any size needs no option: every pass reads the rows in blocks.

  --memory 2GiB       memory of the whole process [default: half of the machine]
  --scratch DIR       stores decoded rows and features for further passes
  kmill plan ridge …  reports the memory of each stage, without running it

A run that does not fit is rejected before work starts; the message names the
largest term and what to change. The memory grows with the square of the rank,
not with the number of rows. The budget does not change the numbers of a model.",
        "larger-than-memory.md",
    ),
    topic(
        "kernels",
        "which kernel to use, and its length scale",
        "A kernel is the similarity of two rows after scaling.

  gaussian(sigma=auto)   smooth relations; the default
  matern(nu=1.5)         less smooth relations
  laplacian(), exponential()   rough relations, jumps along single columns
  linear(), polynomial(degree=2)   linear relations, products of columns

sigma is the length scale: rows that are much farther apart do not influence each
other. auto measures it on a sample. Kernels of columns can be added and
multiplied: --kernel 'gaussian(on=area) + linear(on=rooms)'. kmill tune compares
kernels; kmill fit --help lists all of them.",
        "choosing.md#a-kernel",
    ),
    topic(
        "missing",
        "missing values of features and of the target",
        "  --missing error      stops at the first missing value [default of fit]
  --missing drop       drops the row
  --missing mean       uses the mean of the column over the rows of the fit
  --missing indicator  uses the mean, and adds a feature that is 1 for missing values
                       [default of tune]

The model stores the setting, so predict and evaluate need no option. In CSV an
empty field is missing, and NA, null, NaN and ? in columns of numbers;
--missing-words adds words. Rows without a target are dropped and counted;
--missing-target error rejects them.",
        "categories.md#missing-values",
    ),
    topic(
        "classes",
        "targets with labels: solvers, rare classes, thresholds",
        "A target of texts or truth values has classes. Integers need --task classification,
except in kmill tune any, which recognises few distinct integers.

  fit logistic        probabilities
  fit svm             the widest margin; --probabilities adds probabilities
  fit ridge --task classification   many classes, in one pass

Rare classes: tune any --measure auc. For two classes,
evaluate has --positive, --threshold, --cost 1:20 and --top 50.",
        "classification.md",
    ),
    topic(
        "folds",
        "cross-validation, which chooses rank, lambda and kernel",
        "  --folds 5               random folds [default, if there is something to choose]
  --folds blocks:6        contiguous blocks, if neighbouring rows are alike
  --folds blocks:6:NAME   blocks in the order of a column, such as a date
  --folds groups:5:NAME   all rows of a value, such as a subject, in one fold
  --folds forward:5:NAME  each block is predicted from the rows before it (ridge, tune)
  --folds column:NAME     one fold per value of a column
  --folds none            no folds

Choose the folds by the rows that the model will meet. With --test last: or
groups:, and with --lags, the folds follow the test rows. The error of the chosen
cell is the lowest of many, and slightly too small: see kmill help test-rows.",
        "ranks.md",
    ),
    topic(
        "test-rows",
        "rows that a fit does not read, for its error",
        "  --test 20%              random rows; for classes, 20 % of each class
  --test last:15%:NAME    the rows with the largest values of a column, such as a date
  --test groups:20%:NAME  all rows of a fifth of the values of a column
  --test 'where fold == 9'   rows that satisfy a condition

fit and tune choose these rows before anything is learned, and evaluate the model
on them at the end. kmill evaluate MODEL DATA --test same selects them again, and
kmill convert --split TRAIN,TEST writes both parts as files.",
        "test-rows.md",
    ),
    topic(
        "formats",
        "files that kmill reads and writes",
        "  read and written   Parquet, Arrow IPC, NumPy .npy, CSV and TSV, svmlight
  only read          SciPy .npz, JSON lines, files compressed by gzip or zstd

DATA is one or more files, folders or patterns, read as one table; - is standard
input. The extension of an output is its format. kmill inspect shows the columns,
and kmill convert DATA -o OUT.parquet rewrites a table. CSV files with other
conventions: --delimiter, --decimal, --no-header, --skip-lines, --types.",
        "tables.md#formats",
    ),
    topic(
        "scaling",
        "the scale of the features before the kernel",
        "Kernels compare columns by their distances, so columns are scaled first.

  --scale standard    subtracts the mean, divides by the standard deviation [default]
  --scale asinh, --scale quantile   columns with long tails
  --scale none        values as they are, such as pixels

0/1 features of categories are not scaled. kmill tune tries standard, asinh and
quantile. --metric learn finds how fast the target changes along each column,
and scales by it.",
        "tables.md#scaling",
    ),
    topic(
        "reproducibility",
        "the same model again, after stops and on other machines",
        "The same rows and options give a bit-identical model on one binary and instruction
set, whatever the threads, the memory, the file format and interruptions. --seed
changes the random choices.

A long run saves a checkpoint next to its output every 30 seconds; after a stop the
same command continues from it. --fresh restarts, --resume rejects a run whose
command or table has changed. tune --time does what the machine finishes in this
time; its report names options that repeat the same work without a limit.",
        "larger-than-memory.md#bitwise-reproducibility",
    ),
    topic(
        "errors",
        "bad results, messages and exit codes",
        "A message says what is wrong, what was expected, and what to do. Warnings are in the
report, in --json and at the top of every page of --report.

  exit code 0    success
  exit code 1    a failure, with one sentence on standard error
  exit code 2    a wrong command line
  exit code 130  stopped by Ctrl-C or SIGTERM; the same command continues

If the error of a model is large: kmill inspect DATA --target y shows what stands out,
kmill tune any compares kernels and solvers, and evaluate --report page.html shows
where the model is wrong.",
        "bad-results.md",
    ),
];

/// Returns the names of the topics, for the help of the command.
pub(crate) fn list() -> String {
    let names: Vec<&str> = TOPICS.iter().map(|topic| topic.name).collect();
    format!("Topics (kmill help TOPIC): {}; which helps to choose a solver, by a few questions.", names.join(", "))
}

pub(crate) fn by_name(name: &str) -> Option<&'static Topic> {
    TOPICS.iter().find(|topic| topic.name == name)
}

impl Topic {
    pub(crate) fn print(&self) -> io::Result<()> {
        let Self { name, title, text, page } = self;
        write!(io::stdout(), "{name}: {title}\n\n{text}\n\nMore in the guide: docs/{page}\n")
    }
}

/// Returns the answer to an unknown word after `help`: the nearest topic or subcommand.
pub(crate) fn suggest<'a>(word: &str, subcommands: impl IntoIterator<Item = &'a str>) -> String {
    let topics = TOPICS.iter().map(|topic| topic.name).chain(["which"]);
    let nearest = names::nearest(word, topics.chain(subcommands));
    let hint = nearest.map_or(String::new(), |name| format!("; did you mean kmill help {name}?"));
    format!("no subcommand and no topic has the name '{word}'{hint}\n\nkmill help lists both.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_topic_ends_in_a_page_of_the_guide_and_fits_a_terminal() {
        let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        for Topic { name, title, text, page } in &TOPICS {
            let (file, anchor) = page.split_once('#').unwrap_or((page, ""));
            let contents = std::fs::read_to_string(guide.join(file)).unwrap_or_else(|_| panic!("{name}: {page}"));
            let heading = |line: &str| line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
            assert!(
                anchor.is_empty() || contents.lines().any(|line| line.starts_with("##") && heading(line) == anchor)
            );
            assert!(text.lines().all(|line| line.chars().count() <= 90) && !text.ends_with('\n'), "{name}");
            assert!((6..=20).contains(&text.lines().count()) && title.len() < 60, "{name}");
        }
    }

    #[test]
    fn a_misspelt_topic_has_a_suggestion() {
        assert!(suggest("memmory", ["fit"]).contains("did you mean kmill help memory?"));
        assert!(suggest("evalute", ["evaluate"]).contains("did you mean kmill help evaluate?"));
        assert!(!suggest("zzz", ["fit"]).contains("did you mean"));
    }
}
