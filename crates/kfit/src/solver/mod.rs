//! Solvers: methods that learn linear functions of the features.
//!
//! A solver reads rows as features φ(x) (and targets y), in as many passes as it needs. It returns
//! t linear functions of the features, wᵀφ(x) + c. Its [`crate::Task`] defines the meaning of these
//! functions: regression values, class scores, coordinates, or similarities to centres. Saving,
//! predicting and evaluating depend only on the functions and the task. If a solver needs no
//! features, it may return combinations of kernel functions of landmarks or of all rows instead
//! ([`crate::request::RowAccess`]).
//!
//! To add a solver: one file here with its `FAMILY`, one line in [`registry()`].

mod centred_moments;
mod class_weight;
mod cross_validation;
pub(crate) mod cv_error;
mod embedding;
mod family;
mod features;
mod fisher;
#[doc(hidden)]
pub mod gradient_products;
mod gradients;
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
mod mvu;
mod neighbour_graph;
mod newton;
#[doc(hidden)]
pub mod normal_equations;
mod normalised_moments;
mod online;
pub mod parameter;
mod perceptron;
mod pls;
mod ranking;
pub mod ridge;
mod solution;
mod spca;
mod spectral;
pub mod svm;
mod sweeps;
mod target_features;
mod views;

pub use class_weight::ClassWeight;
pub use cross_validation::EACH_PENALTY_SUFFIX;
pub use family::{AnySolver, Solver, SolverFamily, SolverProperties};
use family::{check_stop, reject_if};
pub use parameter::{Options, Parameter, Regularisation, Settings, Value};
pub use solution::mse_and_r2;
pub use solution::{Figure, Projection, Solution, SolveMethod};

use crate::{Error, Result};
use kstore::registry::Registry;

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

/// Returns the default solver, ridge regression.
impl Default for &SolverFamily {
    fn default() -> Self {
        &ridge::FAMILY
    }
}

/// Returns every solver: the solvers of this crate, then the registered solvers.
pub fn registry() -> Vec<&'static SolverFamily> {
    SOLVERS.all()
}

/// Returns the solver with this name; `None` if the name is unknown.
pub fn by_name(name: &str) -> Option<&'static SolverFamily> {
    SOLVERS.by_name(name)
}

/// Returns the solver with this name.
///
/// # Errors
/// [`Error::Option`] if no solver has this name.
pub fn solver_named(name: &str) -> Result<&'static SolverFamily> {
    let names = || registry().iter().map(|family| family.name).collect::<Vec<_>>().join(", ");
    by_name(name).ok_or_else(|| Error::option("solver", name, format!("give one of {}", names())))
}

/// Registers a solver of another crate in this process. Jobs, model files, and the options and help
/// of a command built with it then find the solver by its name.
///
/// # Errors
/// [`kstore::Error::Register`] if the name is taken, or is not made of lower-case letters, digits
/// and `_`.
pub fn register(family: &'static SolverFamily) -> Result<()> {
    Ok(SOLVERS.register(family)?)
}

/// Returns the parameters of all solvers; a parameter that several solvers read appears repeatedly.
pub fn parameters() -> impl Iterator<Item = &'static Parameter> {
    registry().into_iter().flat_map(|family| family.parameters)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// Collects the modules whose source files are below a folder. Each has its path from the crate
    /// root, and its text.
    fn modules(folder: &Path, path: &[String], sources: &mut Vec<(Vec<String>, String)>) {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = entry.file_stem().unwrap().to_str().unwrap().to_string();
            let module_path = match &*name {
                "lib" | "mod" => path.to_vec(),
                _ => [path, &[name]].concat(),
            };
            match entry.is_dir() {
                true => modules(&entry, &module_path, sources),
                false => sources.push((module_path, fs::read_to_string(&entry).unwrap())),
            }
        }
    }

    /// Splits a source without its comments into words, `::` and single characters.
    fn tokens(source: &str) -> Vec<&str> {
        let in_word = |c: char| c.is_alphanumeric() || c == '_';
        let (mut tokens, code) = (Vec::new(), source.lines().map(|line| line.split("//").next().unwrap_or_default()));
        for mut rest in code.map(str::trim_start) {
            while let Some(first) = rest.chars().next() {
                let length = match rest.find(|c| !in_word(c)).unwrap_or(rest.len()) {
                    0 if rest.starts_with("::") => 2,
                    0 => first.len_utf8(),
                    word => word,
                };
                tokens.push(&rest[..length]);
                rest = rest[length..].trim_start();
            }
        }
        tokens
    }

    /// Collects the paths of an import tree such as `super::{a::b, c}`, resolved from the crate
    /// root. Returns the index of the token that follows the tree.
    fn expand(tokens: &[&str], mut at: usize, mut path: Vec<String>, paths: &mut Vec<Vec<String>>) -> usize {
        loop {
            match tokens.get(at).copied().unwrap_or(";") {
                "{" => {
                    while tokens.get(at).is_some_and(|token| ["{", ","].contains(token)) {
                        at = expand(tokens, at + 1, path.clone(), paths);
                    }
                    return at + 1;
                }
                "self" | "crate" => {}
                "super" => drop(path.pop()),
                name => path.push(name.to_string()),
            }
            if tokens.get(at + 1) != Some(&"::") {
                paths.push(path);
                return at + 1;
            }
            at += 2;
        }
    }

    /// Returns all references to solver modules in the sources of the modules that `accepts`
    /// selects. Omits references of a solver to its own module.
    fn solver_references(accepts: impl Fn(&[String]) -> bool) -> Vec<String> {
        let (registry, mut sources) = (include_str!("mod.rs"), Vec::new());
        let families = registry.split("Registry::new(&[").nth(1).and_then(|rest| rest.split("]);").next()).unwrap();
        let solvers: Vec<&str> =
            families.split(',').filter_map(|family| Some(family.trim().split_once("::")?.0)).collect();
        assert!(solvers.len() > 20, "{solvers:?}");
        modules(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &[], &mut sources);
        let mut references = Vec::new();
        for (module, source) in sources.iter().filter(|(module, _)| accepts(module)) {
            let (tokens, mut paths, mut at) = (tokens(source), Vec::new(), 0);
            while let Some(token) = tokens.get(at) {
                let start = match *token {
                    "crate" | "solver" => Some(Vec::new()),
                    "self" | "super" => Some(module.clone()),
                    _ => (at > 0 && tokens[at - 1] == "use").then(|| module.clone()),
                };
                at = start.map_or(at + 1, |path| expand(&tokens, at, path, &mut paths));
            }
            let foreign = |path: &&Vec<String>| {
                path.len() > 1 && path[0] == "solver" && solvers.contains(&&*path[1]) && !module.starts_with(&path[..2])
            };
            references
                .extend(paths.iter().filter(foreign).map(|path| format!("{}: {}", module.join("::"), path.join("::"))));
        }
        references
    }

    /// Solvers share code only through modules that are not solvers, so that each solver can be
    /// read, changed and removed alone.
    #[test]
    fn no_solver_names_the_module_of_another() {
        let references = solver_references(|module| module.first().is_some_and(|first| first == "solver"));
        assert!(references.is_empty(), "{}", references.join("\n"));
    }

    /// A job reads every property of a solver from its `SolverFamily` or `SolverProperties`, so
    /// that solvers of other crates can provide it too.
    #[test]
    fn no_other_module_names_a_solver_module() {
        let references = solver_references(|module| module.first().is_none_or(|first| first != "solver"));
        assert!(references.is_empty(), "{}", references.join("\n"));
    }
}
