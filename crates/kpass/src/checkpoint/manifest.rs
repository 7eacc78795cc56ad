//! The description of the run that a checkpoint belongs to: its program, options and data.

use crate::{digest::Digest, identity::Identity};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Everything that determines the states of a run's passes. Options for paths, threads, memory and
/// time are not part of it, because they do not change the states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the program.
    pub version: String,
    /// Instruction set of kernels and matrix products: other instructions round differently.
    pub instruction_set: String,
    /// Options that determine the result, as text.
    pub options: BTreeMap<String, String>,
    /// Files, in the order in which they are read.
    pub files: Vec<Identity>,
}

impl Manifest {
    /// Returns a digest of the job. It does not depend on the names and times of the files, so
    /// copies of the files give the same digest.
    pub fn job_digest(&self) -> String {
        let mut without_paths = self.clone();
        without_paths.files.iter_mut().for_each(|file| (file.path, file.modified) = (PathBuf::new(), 0));
        Digest::hex_of(serde_json::to_string(&without_paths).unwrap_or_default().as_bytes())
    }

    /// Returns, as the end of a sentence, the first difference from the run of another process,
    /// which may read copies of the files; `None` if both run the same job.
    pub(crate) fn job_difference(&self, other: &Self) -> Option<String> {
        let mut other = other.clone();
        for (other_file, own_file) in other.files.iter_mut().zip(&self.files) {
            other_file.path.clone_from(&own_file.path);
            other_file.modified = own_file.modified;
        }
        self.difference(&other)
    }

    /// Returns, as the end of a sentence, the first difference between this run and the saved run;
    /// `None` if they are the same run.
    pub fn difference(&self, saved: &Self) -> Option<String> {
        if self.version != saved.version {
            return Some(format!("it was written by version {}, but this is version {}", saved.version, self.version));
        }
        if self.instruction_set != saved.instruction_set {
            let (saved_set, machine_set) = (&saved.instruction_set, &self.instruction_set);
            return Some(format!(
                "it was written with {saved_set} instructions, which round differently from the {machine_set} of this machine"
            ));
        }
        self.option_difference(saved).or_else(|| self.file_difference(saved))
    }

    fn option_difference(&self, saved: &Self) -> Option<String> {
        let names: BTreeSet<&String> = self.options.keys().chain(saved.options.keys()).collect();
        let differs = |name: &&&String| self.options.get(**name) != saved.options.get(**name);
        let name = names.iter().find(differs)?;
        let value =
            |options: &BTreeMap<String, String>| options.get(*name).map_or("not set".to_string(), String::clone);
        Some(format!("{name} was {}, now it is {}", value(&saved.options), value(&self.options)))
    }

    fn file_difference(&self, saved: &Self) -> Option<String> {
        if self.files.len() != saved.files.len() {
            return Some(format!("its table has {} files, but this one has {}", saved.files.len(), self.files.len()));
        }
        self.files.iter().zip(&saved.files).find_map(|(current_file, saved_file)| {
            let change = saved_file.difference(current_file)?;
            Some(format!("{} has changed: {change}", current_file.path.display()))
        })
    }
}
