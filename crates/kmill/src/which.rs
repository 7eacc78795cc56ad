//! `kmill help which`: finds a solver for a task with at most four questions.

use std::io::{self, BufRead, IsTerminal, Write};

/// A node of the decision tree: a question with the nodes for the answers yes and no, or a leaf
/// with the suggested solver.
enum Node {
    Ask { question: &'static str, yes: &'static Node, no: &'static Node },
    Use { solver: &'static str, why: &'static str, options: &'static str },
}

const fn question(question: &'static str, yes: &'static Node, no: &'static Node) -> Node {
    Node::Ask { question, yes, no }
}

const fn use_solver(solver: &'static str, why: &'static str, options: &'static str) -> Node {
    Node::Use { solver, why, options }
}

static START: Node = question("Is there a column to be predicted?", &TARGET, &NO_TARGET);
static TARGET: Node = question("Does it hold numbers, such as prices?", &NUMBERS, &CLASSES);
static NUMBERS: Node = question("Are there outliers among them that must not dominate the fit?", &SVR, &EXPLAINED);
static EXPLAINED: Node = question("Should a few components explain the prediction?", &PLS, &RIDGE);
static CLASSES: Node = question("Do you need the probability of each class?", &LOGISTIC, &PROJECTION);
static PROJECTION: Node =
    question("Do you want a few coordinates that show the classes, for a picture?", &FISHER, &SVM);
static NO_TARGET: Node = question("Are you looking for outliers?", &ONECLASS, &CLUSTERS);
static CLUSTERS: Node = question("Are you looking for clusters of similar rows?", &CURVED, &KPCA);
static CURVED: Node = question("May the clusters be long or curved, such as two moons?", &SPECTRAL, &KMEANS);

static SVR: Node = use_solver("svr", "large errors count linearly, not quadratically", "--target y --epsilon 0.1");
static PLS: Node = use_solver("pls", "components of the rows that covary with the target", "--target y --components 5");
static RIDGE: Node = use_solver(
    "ridge",
    "the default choice: cross-validates regularisation parameters and ranks in one pass",
    "--target y",
);
static LOGISTIC: Node = use_solver("logistic", "probabilities for two or more classes", "--target label");
static FISHER: Node = use_solver("fisher", "the directions that separate the classes", "--target label --components 2");
static SVM: Node =
    use_solver("svm", "the largest margin; for many classes ridge --task classification is faster", "--target label");
static ONECLASS: Node =
    use_solver("oneclass", "a score that is negative for outliers; nu is their fraction", "--nu 0.01");
static SPECTRAL: Node = use_solver("spectral", "clusters of rows that the kernel connects", "--clusters 5");
static KMEANS: Node = use_solver("kmeans", "clusters of rows around their means", "--clusters 5");
static KPCA: Node = use_solver("kpca", "a few coordinates that keep most of the variance", "--components 5");

fn fit_command(solver: &str, options: &str) -> String {
    format!("kmill fit {solver} train.parquet {options} -o model.safetensors")
}

/// Suggestion to let `kmill tune` try the solvers.
const TUNE_HINT: &str = "Or let kmill try: kmill tune any train.parquet --target y --time 5min -o model.safetensors\n";

/// Asks the questions on a terminal. Without a terminal, prints the whole tree.
pub(crate) fn ask() -> io::Result<()> {
    let mut out = io::stdout();
    if !(io::stdin().is_terminal() && out.is_terminal()) {
        return write!(
            out,
            "Which solver? Start at the top, and continue below your answer.\n\n{}\n{TUNE_HINT}",
            format_tree(&START, 0)
        );
    }
    let (mut node, mut input) = (&START, io::stdin().lock());
    loop {
        match node {
            Node::Use { .. } => return write!(out, "\n{}\n{TUNE_HINT}", format_tree(node, 0)),
            Node::Ask { question, yes, no } => {
                write!(out, "{question} [y/n] ")?;
                out.flush()?;
                let mut answer = String::new();
                if input.read_line(&mut answer)? == 0 {
                    return writeln!(out);
                }
                match answer.trim().to_ascii_lowercase().as_str() {
                    "y" | "yes" => node = yes,
                    "n" | "no" => node = no,
                    _ => {}
                }
            }
        }
    }
}

fn format_tree(node: &Node, depth: usize) -> String {
    let indent = "  ".repeat(depth);
    match node {
        Node::Use { solver, why, options } => {
            format!("{indent}{solver}: {why}\n{indent}  {}\n", fit_command(solver, options))
        }
        Node::Ask { question, yes, no } => {
            let (yes, no) = (format_tree(yes, depth + 2), format_tree(no, depth + 2));
            format!("{indent}{question}\n{indent}  yes:\n{yes}{indent}  no:\n{no}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cli, Command};
    use clap::Parser;

    /// Calls `on` with every leaf, and the number of questions before it.
    fn leaves(node: &Node, depth: usize, on: &mut dyn FnMut(&str, &str, usize)) {
        match node {
            Node::Use { solver, options, .. } => on(solver, &fit_command(solver, options), depth),
            Node::Ask { yes, no, .. } => [yes, no].into_iter().for_each(|next| leaves(next, depth + 1, on)),
        }
    }

    #[test]
    fn five_questions_lead_to_a_line_that_is_understood() {
        let mut seen = Vec::new();
        leaves(&START, 0, &mut |solver, line, depth| {
            let Command::Fit(fit) = Cli::try_parse_from(line.split(' ')).unwrap().command else { panic!("{line}") };
            assert_eq!(fit.job.solver, solver);
            crate::pipeline::FitOptions::new(&fit.job).unwrap();
            assert!(depth <= 5 && !seen.contains(&solver.to_string()), "{solver}");
            seen.push(solver.to_string());
        });
        assert_eq!(seen.len(), 10);
    }
}
