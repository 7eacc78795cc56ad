//! Solvers: the methods that learn functions of the features.
//!
//! A solver sees rows as features `phi` (and targets `y`), in as many passes as it likes, and leaves t linear functions of
//! the features: wᵀphi(x) + c. What they mean is its [`crate::Task`]: values, scores of classes, coordinates, or nearness to
//! centres. Saving, predicting and evaluating know nothing else of it. One that needs no features may combine kernel functions
//! of landmarks, or of all rows, instead ([`crate::request::RowAccess`]).
//! To add a solver: one file here with its `FAMILY`, one line in [`registry()`].

mod centred;
mod class_weight;
mod embedding;
mod family;
mod features;
mod fisher;
mod found;
mod gradients;
mod held_out;
mod hessian_blocks;
mod isomap;
mod kdr;
mod kmeans;
mod kpca;
mod kpca_l1;
mod laplacian;
mod lle;
mod lloyd;
mod logistic;
mod mds;
mod mean;
pub(crate) mod mistakes;
mod mvu;
mod neighbour_graph;
mod newton;
pub(crate) mod normal_equations;
mod normalised_moments;
mod online;
pub(crate) mod outer_products;
pub mod parameter;
mod perceptron;
mod pls;
mod ranking;
pub mod ridge;
mod spca;
mod spectral;
pub mod svm;
mod sweeps;
mod target;
mod views;

pub use class_weight::ClassWeight;
pub use family::{AnySolver, Solver, SolverFacts, SolverFamily};
use family::{heed, refuse};
pub use found::explained;
pub use found::{Figure, Found, Projection, Solved};
pub use held_out::AT_EACH;
pub use parameter::{Options, Parameter, Penalty, Settings, Value};

use crate::{Error, Result};
use kstore::named::Registry;

static SOLVERS: Registry<SolverFamily> = Registry::new(&[
    ridge::FAMILY,
    kpca::FAMILY,
    kpca_l1::FAMILY,
    fisher::FAMILY,
    logistic::FAMILY,
    svm::SVM,
    svm::SVR,
    svm::ONE_CLASS,
    mean::FAMILY,
    kmeans::FAMILY,
    spectral::FAMILY,
    laplacian::FAMILY,
    mds::FAMILY,
    isomap::FAMILY,
    lle::FAMILY,
    mvu::FAMILY,
    perceptron::FAMILY,
    online::FAMILY,
    ranking::FAMILY,
    pls::FAMILY,
    spca::FAMILY,
    kdr::FAMILY,
    views::CCA,
    views::COVARIANCE,
    features::FAMILY,
]);

/// The default solver.
impl Default for &SolverFamily {
    fn default() -> Self {
        &ridge::FAMILY
    }
}

/// Every solver: those of this crate, then those that were registered.
pub fn registry() -> Vec<&'static SolverFamily> {
    SOLVERS.all()
}

/// The solver of a name; `None` where there is none.
pub fn by_name(name: &str) -> Option<&'static SolverFamily> {
    SOLVERS.by_name(name)
}

/// The solver of a name.
///
/// # Errors
/// [`Error::Option`] for a name that no solver has.
pub fn named(name: &str) -> Result<&'static SolverFamily> {
    let known = || registry().iter().map(|family| family.name).collect::<Vec<_>>().join(", ");
    by_name(name).ok_or_else(|| Error::option("solver", name, format!("give one of {}", known())))
}

/// Makes a solver of another crate known by its name, in this process and from now on: jobs, model files, and the options and
/// help of a command that is built with it.
///
/// # Errors
/// [`kstore::Error::Register`] for a name that is taken or is no word.
pub fn register(family: &'static SolverFamily) -> Result<()> {
    Ok(SOLVERS.register(family)?)
}

/// The parameters of all solvers; one that several solvers read comes several times.
pub fn parameters() -> impl Iterator<Item = &'static Parameter> {
    registry().into_iter().flat_map(|family| family.parameters)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// The modules of the sources below a folder, each with its path from the root of the crate and
    /// its text.
    fn modules(folder: &Path, path: &[String], found: &mut Vec<(Vec<String>, String)>) {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = entry.file_stem().unwrap().to_str().unwrap().to_string();
            let own = match &*name {
                "lib" | "mod" => path.to_vec(),
                _ => [path, &[name]].concat(),
            };
            match entry.is_dir() {
                true => modules(&entry, &own, found),
                false => found.push((own, fs::read_to_string(&entry).unwrap())),
            }
        }
    }

    /// Words, `::` and single characters of a source, without its comments.
    fn tokens(source: &str) -> Vec<&str> {
        let in_word = |c: char| c.is_alphanumeric() || c == '_';
        let (mut found, code) = (Vec::new(), source.lines().map(|line| line.split("//").next().unwrap_or_default()));
        for mut rest in code.map(str::trim_start) {
            while let Some(first) = rest.chars().next() {
                let length = match rest.find(|c| !in_word(c)).unwrap_or(rest.len()) {
                    0 if rest.starts_with("::") => 2,
                    0 => first.len_utf8(),
                    word => word,
                };
                found.push(&rest[..length]);
                rest = rest[length..].trim_start();
            }
        }
        found
    }

    /// Adds the paths of a tree such as `super::{a::b, c}` to `found`, from the root of the crate;
    /// returns the place after it.
    fn expand(tokens: &[&str], mut at: usize, mut path: Vec<String>, found: &mut Vec<Vec<String>>) -> usize {
        loop {
            match tokens.get(at).copied().unwrap_or(";") {
                "{" => {
                    while tokens.get(at).is_some_and(|token| ["{", ","].contains(token)) {
                        at = expand(tokens, at + 1, path.clone(), found);
                    }
                    return at + 1;
                }
                "self" | "crate" => {}
                "super" => drop(path.pop()),
                name => path.push(name.to_string()),
            }
            if tokens.get(at + 1) != Some(&"::") {
                found.push(path);
                return at + 1;
            }
            at += 2;
        }
    }

    /// The modules of solvers that sources name, where `reads` is true of their module and the
    /// solver is not their own.
    fn named_solvers(reads: impl Fn(&[String]) -> bool) -> Vec<String> {
        let (registry, mut sources) = (include_str!("mod.rs"), Vec::new());
        let families = registry.split("Registry::new(&[").nth(1).and_then(|rest| rest.split("]);").next()).unwrap();
        let solvers: Vec<&str> =
            families.split(',').filter_map(|family| Some(family.trim().split_once("::")?.0)).collect();
        assert!(solvers.len() > 20, "{solvers:?}");
        modules(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &[], &mut sources);
        let mut named = Vec::new();
        for (module, source) in sources.iter().filter(|(module, _)| reads(module)) {
            let (tokens, mut paths, mut at) = (tokens(source), Vec::new(), 0);
            while let Some(token) = tokens.get(at) {
                let begins = match *token {
                    "crate" | "solver" => Some(Vec::new()),
                    "self" | "super" => Some(module.clone()),
                    _ => (at > 0 && tokens[at - 1] == "use").then(|| module.clone()),
                };
                at = begins.map_or(at + 1, |path| expand(&tokens, at, path, &mut paths));
            }
            let foreign = |path: &&Vec<String>| {
                path.len() > 1 && path[0] == "solver" && solvers.contains(&&*path[1]) && !module.starts_with(&path[..2])
            };
            named
                .extend(paths.iter().filter(foreign).map(|path| format!("{}: {}", module.join("::"), path.join("::"))));
        }
        named
    }

    /// What several solvers need is in a module that is not a solver, so that a solver can be read,
    /// changed and removed alone.
    #[test]
    fn no_solver_names_the_module_of_another() {
        let named = named_solvers(|module| module.first().is_some_and(|first| first == "solver"));
        assert!(named.is_empty(), "{}", named.join("\n"));
    }

    /// What a job has to know of a solver is a fact of its `SolverFamily` or of `SolverFacts`, so
    /// that solvers of other crates have it too.
    #[test]
    fn nothing_outside_of_the_solvers_names_the_module_of_one() {
        let named = named_solvers(|module| module.first().is_none_or(|first| first != "solver"));
        assert!(named.is_empty(), "{}", named.join("\n"));
    }
}
