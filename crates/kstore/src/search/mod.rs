//! Passes that learn how the columns of a selection become features: the values of categories, the
//! effects of values on the target, and the words of texts.

mod blank;
mod column_search;
mod column_values;
mod effect_search;
mod entry_search;
mod integer_forms;
mod note;

pub use column_search::{ColumnSearch, ColumnSearchState, ColumnSummary, Search};
pub use column_values::{DistinctCount, Resemblance};
pub use effect_search::{EffectSearch, EffectSums};
pub use entry_search::{EntryCounts, EntrySearch};
pub use note::ColumnNote;
