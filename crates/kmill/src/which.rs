//! `kmill help which`: a solver for the task, by five questions at most.

use std::io::{self, BufRead, IsTerminal, Write};

/// A question with its two answers, or the solver that the answers lead to.
enum Node {
    Ask { question: &'static str, yes: &'static Node, no: &'static Node },
    Use { solver: &'static str, why: &'static str, line: &'static str },
}

static START: Node = Node::Ask { question: "Is there a column to be predicted?", yes: &TARGET, no: &NO_TARGET };

static TARGET: Node = Node::Ask { question: "Does it hold numbers, such as prices?", yes: &NUMBERS, no: &CLASSES };

static NUMBERS: Node = Node::Ask {
    question: "Are some of the numbers far off, so that they must not count too much?",
    yes: &Node::Use {
        solver: "svr",
        why: "large errors count by their size, not by its square",
        line: "kmill fit svr train.parquet --target y --epsilon 0.1 -o model.safetensors",
    },
    no: &Node::Ask {
        question: "Should a few coordinates explain the prediction?",
        yes: &Node::Use {
            solver: "pls",
            why: "components of the rows that vary with the target",
            line: "kmill fit pls train.parquet --target y --components 5 -o model.safetensors",
        },
        no: &Node::Use {
            solver: "ridge",
            why: "the usual choice: penalties and ranks are compared in one pass",
            line: "kmill fit ridge train.parquet --target y -o model.safetensors",
        },
    },
};

static CLASSES: Node = Node::Ask {
    question: "Is the probability of each class wanted?",
    yes: &Node::Use {
        solver: "logistic",
        why: "probabilities for two or more classes",
        line: "kmill fit logistic train.parquet --target label -o model.safetensors",
    },
    no: &Node::Ask {
        question: "Should a few coordinates show how classes lie, for a picture?",
        yes: &Node::Use {
            solver: "fisher",
            why: "the directions that tell classes apart",
            line: "kmill fit fisher train.parquet --target label --components 2 -o model.safetensors",
        },
        no: &Node::Use {
            solver: "svm",
            why: "the widest margin; for many classes ridge --task classification is faster",
            line: "kmill fit svm train.parquet --target label -o model.safetensors",
        },
    },
};

static NO_TARGET: Node = Node::Ask {
    question: "Are unusual rows looked for?",
    yes: &Node::Use {
        solver: "oneclass",
        why: "a score that is negative for the most unusual rows; nu is their share",
        line: "kmill fit oneclass train.parquet --nu 0.01 -o model.safetensors",
    },
    no: &Node::Ask {
        question: "Are groups of similar rows looked for?",
        yes: &Node::Ask {
            question: "May groups be long or bent, such as two moons?",
            yes: &Node::Use {
                solver: "spectral",
                why: "groups of rows that the kernel connects",
                line: "kmill fit spectral train.parquet --clusters 5 -o model.safetensors",
            },
            no: &Node::Use {
                solver: "kmeans",
                why: "groups of rows around their means",
                line: "kmill fit kmeans train.parquet --clusters 5 -o model.safetensors",
            },
        },
        no: &Node::Use {
            solver: "kpca",
            why: "a few coordinates that keep most of what the rows differ in",
            line: "kmill fit kpca train.parquet --components 5 -o model.safetensors",
        },
    },
};

/// Where nobody knows: the verb that tries.
const OR: &str = "Or let kmill try: kmill tune any train.parquet --target y --time 5min -o model.safetensors\n";

/// Asks the questions on a terminal; prints them all with their answers elsewhere.
pub(crate) fn ask() -> io::Result<()> {
    let mut out = io::stdout();
    if !(io::stdin().is_terminal() && out.is_terminal()) {
        return write!(out, "Which solver?\n\n{}\n{OR}", tree(&START, 0));
    }
    let (mut node, mut input) = (&START, io::stdin().lock());
    loop {
        match node {
            Node::Use { .. } => return write!(out, "\n{}\n{OR}", tree(node, 0)),
            Node::Ask { question, yes, no } => {
                write!(out, "{question} [y/n] ")?;
                out.flush()?;
                let mut answer = String::new();
                // the end of the input is no answer
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

/// The questions from a node on, those that follow an answer below it.
fn tree(node: &Node, depth: usize) -> String {
    let indent = "  ".repeat(depth);
    match node {
        Node::Use { solver, why, line } => format!("{indent}{solver}: {why}\n{indent}  {line}\n"),
        Node::Ask { question, yes, no } => {
            let (yes, no) = (tree(yes, depth + 2), tree(no, depth + 2));
            format!("{indent}{question}\n{indent}  yes:\n{yes}{indent}  no:\n{no}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    /// Calls `on` with every leaf, and the number of questions before it.
    fn leaves(node: &Node, asked: usize, on: &mut dyn FnMut(&str, &str, usize)) {
        match node {
            Node::Use { solver, line, .. } => on(solver, line, asked),
            Node::Ask { yes, no, .. } => [yes, no].into_iter().for_each(|next| leaves(next, asked + 1, on)),
        }
    }

    #[test]
    fn five_questions_lead_to_a_line_that_is_understood() {
        let mut seen = Vec::new();
        leaves(&START, 0, &mut |solver, line, asked| {
            let Command::Fit(fit) = Cli::try_parse_from(line.split(' ')).unwrap().command else { panic!("{line}") };
            assert_eq!(fit.job.solver, solver);
            crate::fit::FitOptions::new(&fit.job).unwrap();
            assert!(asked <= 5 && !seen.contains(&solver.to_string()), "{solver}");
            seen.push(solver.to_string());
        });
        assert_eq!(seen.len(), 10);
    }
}
