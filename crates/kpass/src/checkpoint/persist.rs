//! States that can be written down: their arrays by name, and back.

use super::file::{Arrays, Stored};
use crate::Result;

/// A state that can be merged with the state of later rows.
///
/// The law: for any split of the rows, merging the parts' states in row order gives the state of all rows, up to
/// rounding; for the same split, the same bits.
pub trait Merge: Send {
    /// Adds the state of rows that come after this state's rows.
    fn merge(&mut self, later: &Self);
}

impl<A: Merge + Sync, B: Merge + Sync> Merge for (A, B) {
    fn merge(&mut self, later: &Self) {
        self.0.merge(&later.0);
        self.1.merge(&later.1);
    }
}

/// A state whose arrays can be saved and loaded, so that a pass can go on where it was stopped.
///
/// The law: a state made by [`crate::Fold::init`] that has loaded what another saved behaves as that other does, bit
/// for bit, under `step`, `merge` and whatever is computed from it.
///
/// ```
/// use kpass::checkpoint::{Arrays, Persist, Stored};
/// struct Sums { rows: u64, sums: Vec<f64> }
/// impl Persist for Sums {
///     fn save<'a>(&'a self, out: &mut Arrays<'a>) {
///         out.one("rows", self.rows);
///         out.put("sums", &self.sums);
///     }
///     fn load(&mut self, from: &mut Stored<'_>) -> kpass::Result<()> {
///         self.rows = from.one("rows")?;
///         from.fill("sums", &mut self.sums)
///     }
/// }
/// ```
pub trait Persist {
    /// Names the arrays of the state. Large ones are borrowed: nothing is copied.
    fn save<'a>(&'a self, out: &mut Arrays<'a>);
    /// Reads what was saved into the arrays that are there. After an error the state is of no use.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`] for arrays that are missing, of another length or type, or changed.
    fn load(&mut self, from: &mut Stored<'_>) -> Result<()>;
}

/// Implements [`Persist`] from a list of fields, each with its name in the file and how it is kept: `one` number; an array, whose length
/// is known (`fill`) or not (`read`); a `part`, which is a state itself; and a part that `some` states have, known beforehand.
///
/// ```
/// struct Sums { rows: u64, sums: Vec<f64> }
/// kpass::persist!(Sums { one "rows": rows, fill "sums": sums });
/// ```
#[macro_export]
macro_rules! persist {
    (@save one, $out:ident, $name:literal, $field:expr) => { $out.one($name, *$field) };
    (@save fill, $out:ident, $name:literal, $field:expr) => { $out.put($name, $field) };
    (@save read, $out:ident, $name:literal, $field:expr) => { $out.put($name, $field) };
    (@save part, $out:ident, $name:literal, $field:expr) => {
        $out.within($name, |out| $crate::checkpoint::Persist::save($field, out))
    };
    (@save some, $out:ident, $name:literal, $field:expr) => {
        if let Some(part) = $field { $crate::persist!(@save part, $out, $name, part) }
    };
    (@load one, $from:ident, $name:literal, $field:expr) => { *$field = $from.one($name)? };
    (@load fill, $from:ident, $name:literal, $field:expr) => { $from.fill($name, $field)? };
    (@load read, $from:ident, $name:literal, $field:expr) => { *$field = $from.read($name)? };
    (@load part, $from:ident, $name:literal, $field:expr) => {
        $from.within($name, |from| $crate::checkpoint::Persist::load($field, from))?
    };
    (@load some, $from:ident, $name:literal, $field:expr) => {
        if let Some(part) = $field { $crate::persist!(@load part, $from, $name, part) }
    };
    ($(where [$($generic:tt)*])? $type:ty { $($how:ident $name:literal: $($field:tt).+),+ $(,)? }) => {
        impl$(<$($generic)*>)? $crate::checkpoint::Persist for $type {
            fn save<'a>(&'a self, out: &mut $crate::checkpoint::Arrays<'a>) {
                $($crate::persist!(@save $how, out, $name, &self.$($field).+);)+
            }

            fn load(&mut self, from: &mut $crate::checkpoint::Stored<'_>) -> $crate::Result<()> {
                $($crate::persist!(@load $how, from, $name, &mut self.$($field).+);)+
                Ok(())
            }
        }
    };
}

/// Implements [`Persist`] as [`persist!`](crate::persist) does, and [`Merge`](crate::Merge) of a state that is a sum: numbers, and
/// arrays of a known length, are added; other arrays are appended.
#[macro_export]
macro_rules! summed {
    (@merge one, $mine:expr, $later:expr) => { *$mine += *$later };
    (@merge fill, $mine:expr, $later:expr) => { $mine.iter_mut().zip($later).for_each(|(sum, later)| *sum += later) };
    (@merge read, $mine:expr, $later:expr) => { $mine.extend_from_slice($later) };
    (@merge part, $mine:expr, $later:expr) => { $crate::Merge::merge($mine, $later) };
    (@merge some, $mine:expr, $later:expr) => {
        if let (Some(mine), Some(later)) = ($mine, $later) { $crate::Merge::merge(mine, later) }
    };
    ($(where [$($generic:tt)*])? $type:ty { $($how:ident $name:literal: $($field:tt).+),+ $(,)? }) => {
        $crate::persist!($(where [$($generic)*])? $type { $($how $name: $($field).+),+ });

        impl$(<$($generic)*>)? $crate::Merge for $type {
            fn merge(&mut self, later: &Self) {
                $($crate::summed!(@merge $how, &mut self.$($field).+, &later.$($field).+);)+
            }
        }
    };
}

persist!(where [A: Persist, B: Persist] (A, B) { part "0": 0, part "1": 1 });
