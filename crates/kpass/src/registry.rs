//! Registries of named entries: the built-in entries of a crate, and entries that a program
//! registers when it starts.

use crate::{Error, Result};
use std::sync::{PoisonError, RwLock};

/// An entry of a [`Registry`].
pub trait RegistryEntry: Sync + 'static {
    /// Kind of the entries, in messages.
    const KIND: &'static str;
    /// Returns the name.
    fn name(&self) -> &'static str;
}

/// Entries by name.
///
/// Registered entries belong to the process, not to a value that is passed around: a model file
/// names its kernel, and every reader must find the same kernel by that name.
pub struct Registry<E: 'static> {
    builtin: &'static [E],
    registered_entries: RwLock<Vec<&'static E>>,
}

impl<E: RegistryEntry> std::fmt::Debug for Registry<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.entries().iter().map(|entry| entry.name())).finish()
    }
}

impl<E: RegistryEntry> Registry<E> {
    /// Returns a registry with these built-in entries.
    pub const fn new(builtin: &'static [E]) -> Self {
        Self { builtin, registered_entries: RwLock::new(Vec::new()) }
    }

    /// Returns the built-in entries.
    pub fn builtin(&self) -> &'static [E] {
        self.builtin
    }

    /// Returns all entries: first the built-in entries, then the registered entries, in the order
    /// of registration.
    pub fn entries(&self) -> Vec<&'static E> {
        let registered = self.registered_entries.read().unwrap_or_else(PoisonError::into_inner);
        self.builtin.iter().chain(registered.iter().copied()).collect()
    }

    /// Returns the entry with this name.
    pub fn by_name(&self, name: &str) -> Option<&'static E> {
        self.entries().into_iter().find(|entry| entry.name() == name)
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// [`Error::Register`] if the name is taken or not valid.
    pub fn register(&self, entry: &'static E) -> Result<()> {
        let name = entry.name();
        let register_error = |why| Err(Error::Register { what: E::KIND, name, why });
        if !is_identifier(name) {
            return register_error("a name consists of lower-case letters, digits and _, and begins with a letter");
        }
        let mut registered = self.registered_entries.write().unwrap_or_else(PoisonError::into_inner);
        if self.builtin.iter().chain(registered.iter().copied()).any(|other| other.name() == name) {
            return register_error("the name is already registered; choose another");
        }
        registered.push(entry);
        Ok(())
    }
}

/// Returns whether a name can be used unquoted in expressions and options.
fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}
