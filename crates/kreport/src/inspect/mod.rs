//! What an analyst asks first about a table: columns that identify rows, that are constant, that
//! repeat another column or give the target away, missing values, and the order of the rows.
//!
//! The answers come from a sample of the rows, in memory.

mod association;
mod findings;
mod giveaway;
mod group_features;
mod identifier;
mod page;
mod row_order;
mod sample;

pub use findings::{Finding, Topic, findings};
pub use group_features::warn_of_group_features;
pub use identifier::{Identifier, IdentifierProbe};
pub use page::TablePage;
pub use sample::{ColumnSample, TableSample, draw_sample};
