//! Every parser of the command line on arbitrary text: no panic, and printable messages.

use clap::{CommandFactory, Parser};
use kfit::solver::{parameter, ridge};
use kmill::{Cli, args::parse};
use ksolve::job::Candidates;
use ksolve::job::LandmarkSource;
use proptest::prelude::*;

/// A parser that returns only the error message, if any.
type Refusal = fn(&str) -> Option<String>;

/// Returns what a solver's parameter expects instead of a text.
fn refused(parameter: &parameter::Parameter, text: &str) -> Option<String> {
    parameter.parse(text).err().map(|error| match error {
        ksolve::Error::Option { expected, .. } => expected,
        other => panic!("{other}"),
    })
}

/// Every parser, and a text that it accepts.
const PARSERS: &[(&str, Refusal, &str)] = &[
    ("kernel", |text| parse::kernel(text).err(), "0.5*gaussian(sigma=[1, 2], on=[x0, \"a b\"..x3]) + exp(linear())"),
    ("kernels", |text| parse::kernels(text).err(), "gaussian(), matern(nu=1.5)"),
    ("map", |text| parse::map(text).err(), "additive(steps=3, interval=0.5)"),
    ("methods", |text| parse::methods(text).err(), "uniform,additive(steps=3,interval=0.5),greedy"),
    ("landmarks", |text| parse::word::<LandmarkSource>(text).err(), "rpcholesky"),
    ("scheme", |text| parse::scheme(text).err(), "uniform"),
    ("candidates", |text| parse::word::<Candidates>(text).err(), "1e5"),
    ("rank", |text| parse::positive_integer(text).err(), "1_000"),
    ("ranks", |text| parse::ranks(text).err(), "50..2000"),
    ("lambda", |text| parse::lambda(text).err(), "1e-6"),
    ("several lambdas", |text| refused(&parameter::LAMBDA_GRID, text), "1e-9..1e-3"),
    ("C", |text| refused(&parameter::C_GRID, text), "0.1,1,10"),
    ("folds", |text| refused(&parameter::FOLDS, text), "column:subject"),
    ("gap", |text| refused(&parameter::GAP, text), "1e-3"),
    ("nu", |text| refused(&parameter::NU, text), "0.5"),
    ("residual", |text| refused(&ridge::RESIDUAL, text), "1e-6"),
    ("starts", |text| refused(&parameter::STARTS, text), "10"),
    ("interval", |text| refused(&parameter::INTERVAL, text), "0.5,0.9"),
    ("intercept", |text| refused(&parameter::INTERCEPT, text), "penalised"),
    ("weights", |text| refused(&parameter::WEIGHTS, text), "w"),
    ("factors", |text| parse::factors(text).err(), "0.25..4"),
    ("rows", |text| parse::rows(text).err(), "0..463715"),
    ("condition", |text| parse::condition(text).err(), "'my column' != 'New York'"),
    ("bytes", |text| parse::bytes(text).err(), "1.5GiB"),
    ("duration", |text| parse::duration(text).err(), "10min"),
    ("threads", |text| parse::threads(text).err(), "8"),
    ("whole", |text| parse::parse_integer(text).err(), "1e6"),
    ("number", |text| parse::number(text).err(), "-1e-3"),
    ("repeats", |text| parse::repeats(text).err(), "10"),
    ("permutations", |text| parse::permutations(text).err(), "1e3"),
    ("features", |text| parse::features(text).err(), "5"),
    ("name", |text| parse::name(text).err(), "x0"),
    ("delimiter", |text| parse::delimiter(text).err(), "tab"),
    ("infer rows", |text| parse::infer_rows(text).err(), "all"),
];

/// Fragments of every option's syntax, and others.
const PIECES: &[&str] = &[
    "gaussian",
    "matern",
    "exp",
    "power",
    "mean",
    "linear",
    "sigma",
    "nu",
    "degree",
    "on",
    "median",
    "(",
    ")",
    "[",
    "]",
    "=",
    "==",
    "!=",
    "<=",
    ">",
    ",",
    "..",
    ".",
    "*",
    "+",
    "-",
    "/",
    "_",
    "\"",
    "'",
    " ",
    "0",
    "1",
    "7",
    "99999999999999999999",
    "e",
    "e9",
    "1e308",
    "1e-320",
    "nan",
    "inf",
    "NaN",
    "x0",
    "x9",
    "größe",
    "日本",
    "\u{1b}[31m",
    "\n",
    "\r",
    "\t",
    "\0",
    "\u{202e}",
    "\u{85}",
    "\u{feff}",
    "GiB",
    "kb",
    "t",
    "s",
    "min",
    "h",
    "all",
    "none",
    "blocks:",
    "column:",
    "nystrom",
    "additive",
    "ensemble",
    "parts",
    "steps",
    "uniform",
    "greedy",
    "%",
    "\\",
    "{}",
    "--",
    "#",
];

/// Generates a text of such fragments.
fn pieces() -> impl Strategy<Value = String> {
    proptest::collection::vec(prop_oneof![8 => proptest::sample::select(PIECES).prop_map(String::from), 1 => any::<char>().prop_map(String::from)], 0..12)
        .prop_map(|pieces| pieces.concat())
}

/// Generates a valid text with a fragment inserted or characters removed.
fn near(right: &'static str) -> impl Strategy<Value = String> {
    (any::<proptest::sample::Index>(), 0usize..6, pieces()).prop_map(|(at, drop, piece)| {
        let letters: Vec<char> = right.chars().collect();
        let at = at.index(letters.len() + 1);
        let rest = &letters[(at + drop).min(letters.len())..];
        letters[..at].iter().copied().chain(piece.chars().take(6)).chain(rest.iter().copied()).collect()
    })
}

/// Returns true if a message has no control characters except line ends.
fn can_be_printed(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter == '\n' || !letter.is_control())
}

#[test]
fn right_texts_are_taken_and_lines_of_drawings_are_known() {
    for (name, parser, right) in PARSERS {
        assert_eq!(parser(right), None, "{name}");
        let (text, drawn) = (parser("\u{1b}\n"), matches!(*name, "kernel" | "kernels" | "map"));
        let lines = text.as_deref().map_or(1, |text| text.lines().count());
        assert!(lines == if drawn { 3 } else { 1 }, "{name}: {text:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_a_parser_panic(text in pieces()) {
        for (name, parser, _) in PARSERS {
            let refusal = parser(&text);
            prop_assert!(refusal.as_deref().is_none_or(can_be_printed), "{} {:?}: {:?}", name, text, refusal);
        }
    }

    #[test]
    fn no_slip_of_the_pen_makes_a_parser_panic(
        (name, parser, text) in (0..PARSERS.len()).prop_flat_map(|i| near(PARSERS[i].2).prop_map(move |text| (PARSERS[i].0, PARSERS[i].1, text)))
    ) {
        let refusal = parser(&text);
        prop_assert!(refusal.as_deref().is_none_or(can_be_printed), "{} {:?}: {:?}", name, text, refusal);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Complete lines: any value for any option of any verb.
    #[test]
    fn no_line_makes_the_command_line_panic(verb in any::<proptest::sample::Index>(), option in any::<proptest::sample::Index>(), text in pieces()) {
        let command = Cli::command();
        let optional = |verb: &&clap::Command| verb.get_arguments().any(|arg| arg.get_long().is_some());
        let verbs: Vec<_> = command.get_subcommands().filter(optional).collect();
        let verb = verb.get(&verbs);
        let options: Vec<_> = verb.get_arguments().filter_map(clap::Arg::get_long).collect();
        let line = ["kmill".to_string(), verb.get_name().to_string(), format!("--{}={text}", option.get(&options))];
        let _ = Cli::try_parse_from(line);
    }
}
