//! Rules on the imports in the sources of the crates: the modules of a crate form no circle, and
//! solvers do not name each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A module: its path from the root of its crate, and the paths that its code names, without tests.
struct Module {
    path: Vec<String>,
    names: Vec<Vec<String>>,
}

impl Module {
    fn parse(path: Vec<String>, source: &str) -> Self {
        let (tokens, mut names, mut at) = (tokens(source), Vec::new(), 0);
        while let Some(token) = tokens.get(at) {
            if tokens[at..].starts_with(&["#", "[", "cfg", "(", "test", ")", "]"]) {
                at = end_of_item(&tokens, at + 7);
                continue;
            }
            let start = match *token {
                "crate" => Some(Vec::new()),
                "self" | "super" => Some(path.clone()),
                _ if at > 0 && tokens[at - 1] == "use" => Some(path.clone()),
                // a path from an imported module
                name if tokens.get(at + 1) == Some(&"::") => {
                    let import = names.iter().find(|path: &&Vec<String>| path.last().is_some_and(|last| last == name));
                    import.map(|path| path[..path.len() - 1].to_vec())
                }
                _ => None,
            };
            at = start.map_or(at + 1, |start| expand(&tokens, at, start, &mut names));
        }
        Self { path, names }
    }
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates")
}

/// Returns the modules of a crate, except modules of tests.
fn modules(name: &str) -> Vec<Module> {
    let mut modules = Vec::new();
    collect(&crates().join(name).join("src"), &[], &mut modules);
    modules
}

fn collect(folder: &Path, path: &[String], modules: &mut Vec<Module>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = entry.file_stem().unwrap().to_str().unwrap().to_string();
        let module_path = match &*name {
            "tests" => continue,
            "lib" | "main" | "mod" => path.to_vec(),
            _ => [path, &[name]].concat(),
        };
        match entry.is_dir() {
            true => collect(&entry, &module_path, modules),
            false => modules.push(Module::parse(module_path, &fs::read_to_string(&entry).unwrap())),
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

/// Returns the index after an item: after its `;`, or after the brace that closes it.
fn end_of_item(tokens: &[&str], start: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(start) {
        depth += i32::from(*token == "{") - i32::from(*token == "}");
        if depth == 0 && ["}", ";"].contains(token) {
            return at + 1;
        }
    }
    tokens.len()
}

/// Collects the paths of an import tree such as `super::{a::b, c as d}`, resolved from the crate
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
            // a comma after the last item
            "}" => return at,
            "self" => {}
            "crate" => path.clear(),
            "super" => drop(path.pop()),
            name => path.push(name.to_string()),
        }
        if tokens.get(at + 1) != Some(&"::") {
            paths.push(path);
            return if tokens.get(at + 1) == Some(&"as") { at + 3 } else { at + 1 };
        }
        at += 2;
    }
}

/// For each top-level module of a crate, the top-level modules that it names, each with the module
/// that does so. A name that the crate root re-exports is a name of its own module.
fn dependencies(modules: &[Module]) -> BTreeMap<&str, BTreeMap<&str, String>> {
    let tops: BTreeSet<&str> = modules.iter().filter_map(|module| Some(&**module.path.first()?)).collect();
    let root = modules.iter().filter(|module| module.path.is_empty()).flat_map(|root| &root.names);
    let exports = root.filter(|path| path.len() > 1 && tops.contains(&*path[0]));
    let owners: BTreeMap<&str, &str> = exports.map(|path| (&**path.last().unwrap(), &*path[0])).collect();
    let mut graph = BTreeMap::<&str, BTreeMap<&str, String>>::new();
    for module in modules.iter().filter(|module| !module.path.is_empty()) {
        let top = &*module.path[0];
        let first_names = module.names.iter().filter_map(|path| path.first());
        let owner = |name: &String| tops.get(&**name).or_else(|| owners.get(&**name)).copied();
        for used in first_names.filter_map(owner).filter(|used| *used != top) {
            graph.entry(top).or_default().entry(used).or_insert_with(|| module.path.join("::"));
        }
    }
    graph
}

/// Returns a circle of modules as text; `None` if their dependencies have one direction.
fn circle(modules: &[Module]) -> Option<String> {
    let mut graph = dependencies(modules);
    // removes modules that name no other module, until each module that is left names another
    loop {
        let mut left: BTreeSet<&str> = graph.keys().copied().collect();
        graph.values_mut().for_each(|used| used.retain(|name, _| left.contains(name)));
        graph.retain(|_, used| !used.is_empty());
        if left.len() == graph.len() {
            let (mut at, mut steps) = (left.pop_first()?, Vec::new());
            let mut order = vec![at];
            loop {
                let (used, by) = graph[at].first_key_value().unwrap();
                steps.push(format!("{by} imports {used}"));
                if let Some(start) = order.iter().position(|seen| seen == used) {
                    return Some(steps[start..].join(", "));
                }
                order.push(used);
                at = used;
            }
        }
    }
}

#[test]
fn the_modules_of_a_crate_form_no_circle() {
    let mut circles = Vec::new();
    let names = fs::read_dir(crates()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: BTreeSet<String> = names.filter(|name| crates().join(name).join("src/lib.rs").exists()).collect();
    for name in &names {
        circles.extend(circle(&modules(name)).map(|circle| format!("{name}: {circle}")));
    }
    assert!(circles.is_empty(), "{}", circles.join("\n"));
    assert!(names.contains("kstore") && dependencies(&modules("kstore"))["table"].contains_key("source"));
}

#[test]
fn a_circle_is_found_through_imports_paths_and_exports_and_not_through_tests() {
    let check = |sources: [&str; 4]| {
        let paths = [vec![], vec!["a".to_string()], vec!["b".to_string()], vec!["b".to_string(), "c".to_string()]];
        circle(&paths.into_iter().zip(sources).map(|(path, text)| Module::parse(path, text)).collect::<Vec<_>>())
    };
    let root = "mod a; mod b; pub use {a::First, b::c::Last};";
    assert_eq!(check([root, "use crate::b::{self, X as Y, Z,};", "mod c;", "pub struct Last;"]), None);
    let expected = Some("a imports b, b::c imports a".to_string());
    assert_eq!(check([root, "use crate::Last;", "mod c;", "fn f() { super::super::a::g() }"]), expected);
    assert_eq!(check([root, "use super::{b as other};", "mod c;", "use {crate::{X as Y, First}};"]), expected);
    let test = "#[cfg(test)]\nmod tests { use crate::a::First; fn f() {} }\n#[cfg(test)] use crate::a;";
    assert_eq!(check([root, "use crate::b;", "mod c;", test]), None);
    assert_eq!(check([root, "use crate::b;", "mod c;", "// use crate::a;\npub(super) fn f(&self) {}"]), None);
}

/// Returns the names of solver modules in the modules that `accepts` selects, except names of a
/// solver in its own module. The modules are those of kfit and, in ksolve, those that fit any
/// solver.
fn solver_names(accepts: impl Fn(&Module) -> bool) -> Vec<String> {
    let registry = fs::read_to_string(crates().join("kfit/src/solver/mod.rs")).unwrap();
    let families = registry.split("Registry::new(&[").nth(1).and_then(|rest| rest.split("]);").next()).unwrap();
    let solvers: Vec<&str> = families.split(',').filter_map(|family| Some(family.trim().split_once("::")?.0)).collect();
    assert!(solvers.len() > 20, "{solvers:?}");
    let is_solver = |path: &[String]| path[0] == "solver" && solvers.contains(&&*path[1]);
    let mut found = Vec::new();
    let fits_any =
        |module: &Module| module.path.first().is_some_and(|top| ["metric", "train", "job"].contains(&&**top));
    let modules = modules("kfit").into_iter().chain(modules("ksolve").into_iter().filter(fits_any));
    for module in modules.filter(accepts) {
        let own = |path: &[String]| module.path.starts_with(path);
        let names = module.names.iter().filter(|path| path.windows(2).any(|pair| is_solver(pair) && !own(pair)));
        found.extend(names.map(|path| format!("{}: {}", module.path.join("::"), path.join("::"))));
    }
    found
}

fn is_in_solver(module: &Module) -> bool {
    module.path.first().is_some_and(|top| top == "solver")
}

/// Solvers share code only through modules that are not solvers, so that each solver can be read,
/// changed and removed alone.
#[test]
fn no_solver_names_the_module_of_another() {
    let names = solver_names(is_in_solver);
    assert!(names.is_empty(), "{}", names.join("\n"));
}

/// A job reads every property of a solver from its `SolverFamily` or `SolverProperties`, so that
/// solvers of other crates can provide it too.
#[test]
fn no_other_module_names_a_solver_module() {
    let names = solver_names(|module| !is_in_solver(module));
    assert!(names.is_empty(), "{}", names.join("\n"));
}
