//! Names of options, subcommands, solvers and kernels in other programs, and their names here.

use super::is_among;
use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use kstore::display;
use std::ffi::{OsStr, OsString};

/// Options of other programs, separated by spaces, and the reply that names the option here.
const FOREIGN_OPTIONS: [(&str, &str); 21] = [
    ("alpha", "the regularisation parameter is --lambda; it is per row, so that scikit-learn's alpha is lambda * n"),
    (
        "gamma sigma bandwidth length-scale",
        "the width is part of the kernel: --kernel 'gaussian(sigma=2)'; scikit-learn's gamma is 1/(2 sigma^2)",
    ),
    ("cv", "folds are --folds, such as --folds 5 or --folds column:subject"),
    (
        "test-size test-split validation-split holdout",
        "test rows are --test, such as --test 20% or --test last:15%:date (fit, tune)",
    ),
    ("stratify", "test rows are stratified by classes, or by a column: --test 20%:COLUMN (fit, tune)"),
    ("n-components", "components are --components, such as --components 10; the number of landmarks is --rank"),
    ("n-clusters k", "the number of clusters is --clusters, such as --clusters 5"),
    ("centers", "the number of landmarks is --rank, such as --rank 2000"),
    ("label labels", "the column to predict is --target, such as --target label"),
    ("drop", "columns are excluded by --features, such as --features '*,!id'"),
    ("random-state", "the seed is --seed, such as --seed 1"),
    ("n-jobs", "threads are --threads, such as --threads 4"),
    ("max-iter", "the maximum number of iterations is --steps, such as --steps 500 (iterative solvers)"),
    ("degree", "the degree is part of the kernel: --kernel 'polynomial(degree=3)'"),
    ("tol", "the SVM solvers stop at --gap, a relative duality gap, such as --gap 1e-4 (svm, svr, quantile, oneclass)"),
    ("n-init", "the number of random starts is --starts, such as --starts 10"),
    ("contamination", "the fraction of outliers is --nu, such as --nu 0.01 (oneclass, mean)"),
    ("probability", "probabilities are --probabilities, of fit svm and of predict; logistic always has them"),
    ("return-std", "standard deviations are --std, of fit ridge and of predict"),
    (
        "sample-weight",
        "a column of weights is --weights, such as --weights w (ridge, svm, svr, quantile, logistic, glm, oneclass, kmeans, kpca)",
    ),
    ("out", "the output is -o, such as -o model.safetensors"),
];

/// Subcommands, options that they lack although related subcommands have them, and the reason.
const ABSENT_OPTIONS: [(&str, &str, &str); 5] = [
    (
        "coordinates",
        "kernel scale metric map candidates precision categories hash times text",
        "the matrix contains the distances or kernel values, in f64; --of selects which",
    ),
    ("features herd test", "target weights folds task lambda combine", "it uses no target; kmill fit does"),
    (
        "predict",
        "test",
        "evaluate MODEL DATA --test same scores the test rows, and convert --split writes them as a file to predict",
    ),
    ("plan", "output report resume checkpoint-every states", "it runs nothing and writes nothing"),
    ("tune", "combine", "it chooses among kernels; kmill fit --combine learns the weights of a sum"),
];

/// Subcommand names of other programs, and the name here.
const FOREIGN_SUBCOMMANDS: [(&str, &str); 6] = [
    ("train learn", "fit"),
    ("score", "evaluate"),
    ("show info", "inspect"),
    ("compare", "curve"),
    ("draw", "plot"),
    ("search", "tune"),
];

/// Returns the name here of a subcommand of another program. Returns any other word unchanged.
pub(crate) fn own_subcommand(word: &OsStr) -> OsString {
    word.to_str()
        .and_then(|word| find_own(&FOREIGN_SUBCOMMANDS, word))
        .map_or_else(|| word.to_os_string(), OsString::from)
}

/// Solver names of other programs, and the name here.
const FOREIGN_SOLVERS: [(&str, &str); 5] = [
    ("krr kernelridge regression gp", "ridge"),
    ("svc classification", "svm"),
    ("pca", "kpca"),
    ("lda", "fisher"),
    ("ocsvm anomaly", "oneclass"),
];

/// Kernel names of other programs, and the end of the reply, which names the kernel here.
const FOREIGN_KERNELS: [(&str, &str); 6] = [
    ("rbf", "gaussian here, with sigma instead of gamma = 1/(2 sigma^2): gaussian(sigma=2)"),
    ("se", "gaussian here: gaussian(sigma=2)"),
    ("squared_exponential", "gaussian here: gaussian(sigma=2)"),
    ("poly", "polynomial here: polynomial(degree=3)"),
    ("rq", "rational_quadratic here: rational_quadratic(alpha=1)"),
    ("chi2", "chi_squared here: chi_squared()"),
];

fn find_own(table: &[(&str, &'static str)], word: &str) -> Option<&'static str> {
    table.iter().find(|(names, _)| is_among(names, word)).map(|(_, name)| *name)
}

/// Returns the message about an unknown option or solver. Returns `None` for other errors.
pub(crate) fn reply_to(error: &clap::Error, command: &Command, subcommand: Option<&str>) -> Option<String> {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let option = context(ContextKind::InvalidArg).filter(|option| option.starts_with('-'))?;
            let word = option.trim_start_matches('-').replace('_', "-").to_ascii_lowercase();
            if let Some(answer) = find_own(&FOREIGN_OPTIONS, &word) {
                return Some(format!("unknown option {option}: {answer}"));
            }
            let reason = ABSENT_OPTIONS.iter().find(|(verbs, options, _)| {
                subcommand.is_some_and(|verb| is_among(verbs, verb)) && is_among(options, &word)
            });
            let command_name = subcommand.map_or_else(|| "kmill".to_string(), |verb| format!("kmill {verb}"));
            if let Some((_, _, reason)) = reason {
                return Some(format!("{command_name} has no option {}: {reason}", display::truncate(option)));
            }
            let subcommand_names = subcommands_with(command, &word).join(", ");
            let option = display::truncate(option);
            Some(match context(ContextKind::SuggestedArg) {
                _ if !subcommand_names.is_empty() => {
                    format!(
                        "{command_name} has no option {option} (an option of {subcommand_names}); see {command_name} --help"
                    )
                }
                Some(near) => format!("{command_name} has no option {option}; did you mean {near}?"),
                None => format!("{command_name} has no option {option}; see {command_name} --help"),
            })
        }
        ErrorKind::InvalidValue if context(ContextKind::InvalidArg)? == "<SOLVER>" => {
            let typed = context(ContextKind::InvalidValue)?;
            let normalised = typed.to_ascii_lowercase().replace(['-', '_'], "");
            let own_name = find_own(&FOREIGN_SOLVERS, &normalised)?;
            Some(format!(
                "unknown solver {typed}: it is called {own_name} here (kmill help which helps to choose a solver)"
            ))
        }
        _ => None,
    }
}

/// Returns the subcommands that have this option.
fn subcommands_with<'c>(command: &'c Command, option: &str) -> Vec<&'c str> {
    let has_option = |verb: &&Command| {
        verb.get_arguments().any(|arg| arg.get_long().is_some_and(|long| long.eq_ignore_ascii_case(option)))
    };
    command.get_subcommands().filter(has_option).map(Command::get_name).collect()
}

/// Returns the message about a kernel that has another name here. Returns `None` if no name in the
/// expression is in the table.
pub(crate) fn kernel_reply(expression: &str) -> Option<String> {
    let mut words = expression.split(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
    let entry = words.find_map(|word| FOREIGN_KERNELS.iter().find(|(name, _)| word.eq_ignore_ascii_case(name)));
    entry.map(|(foreign, name)| format!("{foreign} is {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;
    use kapprox::Kernel;

    #[test]
    fn what_is_named_here_is_there() {
        let words = ["kmill", "fit"].map(OsString::from);
        let command = args::command(&words);
        let fit = command.find_subcommand("fit").unwrap();
        let options: Vec<String> =
            fit.get_arguments().filter_map(|arg| arg.get_long()).map(|long| format!("--{long}")).collect();
        for (words, answer) in FOREIGN_OPTIONS {
            let taken = words.split(' ').find(|word| options.contains(&format!("--{word}")));
            assert_eq!(taken, None, "an option");
            let named = answer.split([' ', ';', ',']).find(|part| part.starts_with("--")).unwrap_or("--output");
            assert!(options.iter().any(|option| option == named), "{words}: {named}");
        }
        for (words, solver) in FOREIGN_SOLVERS {
            assert!(kfit::solver::registry().into_iter().any(|family| family.name == solver), "{solver}");
            assert!(kfit::solver::registry().into_iter().all(|family| !is_among(words, family.name)), "{words}");
        }
    }

    #[test]
    fn an_option_of_another_verb_is_answered_with_that_verb_or_a_reason() {
        let command = args::command(&[]);
        let long = |verb: &Command| -> Vec<String> {
            verb.get_arguments().filter_map(|arg| arg.get_long()).map(str::to_string).collect()
        };
        let all: std::collections::BTreeSet<String> = command.get_subcommands().flat_map(long).collect();
        assert!(all.len() > 80, "{all:?}");
        for verb in command.get_subcommands() {
            let name = verb.get_name();
            for option in all.iter().filter(|option| !long(verb).contains(option)) {
                // a value may follow, so an option with the same prefix is not meant
                let line = ["kmill", name, &format!("--{option}")];
                let Err(error) = command.clone().try_get_matches_from(line) else { continue };
                if error.kind() != ErrorKind::UnknownArgument {
                    // an alias such as --ranks, which requires a value
                    continue;
                }
                let text = reply_to(&error, &command, Some(name)).unwrap();
                let entry = ABSENT_OPTIONS.iter().find(|(v, o, _)| is_among(v, name) && is_among(o, option));
                match entry {
                    Some((_, _, reason)) => assert!(text.contains(reason), "{line:?}: {text}"),
                    None => {
                        assert!(text.contains(" (an option of ") || text.contains("unknown option"), "{line:?}: {text}")
                    }
                }
            }
        }
    }

    #[test]
    fn verbs_by_other_names_are_ours() {
        let command = args::command(&[]);
        for (others, subcommand) in FOREIGN_SUBCOMMANDS {
            assert!(command.find_subcommand(subcommand).is_some(), "{subcommand}");
            for other in others.split(' ') {
                assert!(command.find_subcommand(other).is_none(), "{other}");
                assert_eq!(own_subcommand(OsStr::new(other)), subcommand);
            }
        }
        assert_eq!(own_subcommand(OsStr::new("fit")), "fit");
    }

    #[test]
    fn kernels_by_other_names_are_answered_with_ours() {
        for (other, answer) in FOREIGN_KERNELS {
            assert!(Kernel::parse(other).is_err(), "{other}");
            let example = answer.rsplit(": ").next().unwrap();
            Kernel::parse(example).unwrap();
            assert!(kernel_reply(&format!("1 + {other}(gamma=1)")).unwrap().contains(example));
        }
        assert_eq!(kernel_reply("gausian(sigma=1)"), None);
    }
}
