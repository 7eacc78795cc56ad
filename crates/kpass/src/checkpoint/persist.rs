//! States that can be saved as named arrays and loaded again.

use super::file::{Arrays, StoredArrays};
use crate::Result;

/// A state that can be merged with the state of later rows.
///
/// Contract: if the rows are split into parts, merging the states of the parts in row order gives
/// the state of all rows, up to rounding. The same split always gives the same bits.
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

/// A state whose arrays can be saved and loaded, so that a stopped pass can continue.
///
/// Contract: a state made by [`crate::Reduction::init`] into which the arrays of another state were
/// loaded is equivalent to that state, bit for bit, in `step`, in `merge` and in all results.
///
/// ```
/// use kpass::checkpoint::{Arrays, Persist, StoredArrays};
/// struct Sums { rows: u64, sums: Vec<f64> }
/// impl Persist for Sums {
///     fn save<'a>(&'a self, out: &mut Arrays<'a>) {
///         out.put_number("rows", self.rows);
///         out.put("sums", &self.sums);
///     }
///     fn load(&mut self, arrays: &mut StoredArrays<'_>) -> kpass::Result<()> {
///         self.rows = arrays.read_number("rows")?;
///         arrays.fill("sums", &mut self.sums)
///     }
/// }
/// ```
pub trait Persist {
    /// Saves the arrays of the state by name. Large arrays are borrowed, not copied.
    fn save<'a>(&'a self, out: &mut Arrays<'a>);
    /// Loads saved arrays into this state. After an error the state is unusable.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`] if arrays are missing, have another length or type, or were
    /// changed.
    fn load(&mut self, arrays: &mut StoredArrays<'_>) -> Result<()>;
}

/// Implements [`Persist`] from a list of fields, each with its kind and its name in the file. `one`
/// is a number, `fill` an array of known length, `read` an array of any length, `part` a field that
/// is itself a state, and `some` an optional part. Before loading, an optional part must be present
/// if it was present when it was saved, and absent otherwise.
///
/// ```
/// struct Sums { rows: u64, sums: Vec<f64> }
/// kpass::persist!(Sums { one "rows": rows, fill "sums": sums });
/// ```
#[macro_export]
macro_rules! persist {
    (@save one, $out:ident, $name:literal, $field:expr) => { $out.put_number($name, *$field) };
    (@save fill, $out:ident, $name:literal, $field:expr) => { $out.put($name, $field) };
    (@save read, $out:ident, $name:literal, $field:expr) => { $out.put($name, $field) };
    (@save part, $out:ident, $name:literal, $field:expr) => {
        $out.put_part($name, |out| $crate::checkpoint::Persist::save($field, out))
    };
    (@save some, $out:ident, $name:literal, $field:expr) => {
        if let Some(part) = $field { $crate::persist!(@save part, $out, $name, part) }
    };
    (@load one, $arrays:ident, $name:literal, $field:expr) => { *$field = $arrays.read_number($name)? };
    (@load fill, $arrays:ident, $name:literal, $field:expr) => { $arrays.fill($name, $field)? };
    (@load read, $arrays:ident, $name:literal, $field:expr) => { *$field = $arrays.read($name)? };
    (@load part, $arrays:ident, $name:literal, $field:expr) => {
        $arrays.read_part($name, |arrays| $crate::checkpoint::Persist::load($field, arrays))?
    };
    (@load some, $arrays:ident, $name:literal, $field:expr) => {
        if let Some(part) = $field { $crate::persist!(@load part, $arrays, $name, part) }
    };
    ($(where [$($generic:tt)*])? $type:ty { $($how:ident $name:literal: $($field:tt).+),+ $(,)? }) => {
        impl$(<$($generic)*>)? $crate::checkpoint::Persist for $type {
            fn save<'a>(&'a self, out: &mut $crate::checkpoint::Arrays<'a>) {
                $($crate::persist!(@save $how, out, $name, &self.$($field).+);)+
            }

            fn load(&mut self, arrays: &mut $crate::checkpoint::StoredArrays<'_>) -> $crate::Result<()> {
                $($crate::persist!(@load $how, arrays, $name, &mut self.$($field).+);)+
                Ok(())
            }
        }
    };
}

/// Implements [`Persist`] as [`persist!`](crate::persist) does, and [`Merge`](crate::Merge) for a
/// state that is a sum: numbers and arrays of known length are added, other arrays are appended.
#[macro_export]
macro_rules! summed {
    (@merge one, $mine:expr, $later:expr) => { *$mine += *$later };
    (@merge fill, $mine:expr, $later:expr) => { $mine.iter_mut().zip($later).for_each(|(sum, later)| *sum += later) };
    (@merge read, $mine:expr, $later:expr) => { $mine.extend_from_slice($later) };
    (@merge part, $mine:expr, $later:expr) => { $crate::checkpoint::Merge::merge($mine, $later) };
    (@merge some, $mine:expr, $later:expr) => {
        if let (Some(mine), Some(later)) = ($mine, $later) { $crate::checkpoint::Merge::merge(mine, later) }
    };
    ($(where [$($generic:tt)*])? $type:ty { $($how:ident $name:literal: $($field:tt).+),+ $(,)? }) => {
        $crate::persist!($(where [$($generic)*])? $type { $($how $name: $($field).+),+ });

        impl$(<$($generic)*>)? $crate::checkpoint::Merge for $type {
            fn merge(&mut self, later: &Self) {
                $($crate::summed!(@merge $how, &mut self.$($field).+, &later.$($field).+);)+
            }
        }
    };
}

persist!(where [A: Persist, B: Persist] (A, B) { part "0": 0, part "1": 1 });
