//! Folds of cross-validation: which rows are held out together.

use crate::{Error, Result};
use kstore::Label;
use kstore::key::{Purpose, Stream};
use std::ops::Range;

const FOLDS_HELP: &str = "give a number of folds (5), contiguous blocks (blocks:6; in the order of a column, blocks:6:date), a column (column:subject), a number of \
    folds of whole groups (groups:5:subject), or forward tests on later rows (forward:5; with a gap of one block, forward:5+1; in the order of a column, \
    forward:5:date)";

/// Maximum number of folds. A larger number is probably a typing error, and would exceed the memory
/// later, because every fold has its own Gram matrix.
const MAX_FOLDS: usize = 1_000;

/// Desired fraction of the rows in the test fold, if folds have different sizes.
const TEST_FRACTION: f64 = 0.2;

/// Folds as specified on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FoldSpec {
    /// No cross-validation.
    None,
    /// Random K-fold: a hash of its row number assigns each row to one of this many folds: `5`.
    Random(usize),
    /// Contiguous K-fold: this many blocks of rows: `blocks:6`.
    Blocks(usize),
    /// Contiguous K-fold in the order of a column: the sorted values of the column are divided into
    /// this many blocks, about the same number of values each: `blocks:6:date`.
    #[doc(hidden)]
    ColumnBlocks(usize, String),
    /// One fold per value of a column: `column:subject`.
    Column(String),
    /// Group K-fold: the values of a column are assigned at random to this many folds, about the
    /// same number of values to each: `groups:5:subject`.
    Groups(usize, String),
    /// Forward validation: the last `test_count` of several blocks of rows are held out in turn.
    /// The fit for a block uses the blocks before it: `forward:5`.
    Forward {
        /// Number of blocks that are held out.
        test_count: usize,
        /// Number of unused blocks directly before the held-out block: `forward:5+1`.
        gap_blocks: usize,
        /// Column that orders the rows, such as a date: `forward:5:date`; `None` for the order of
        /// the table.
        column: Option<String>,
    },
}

impl FoldSpec {
    /// The default if hyperparameters must be chosen and no folds are specified.
    #[doc(hidden)]
    pub const DEFAULT: Self = Self::Random(5);

    /// Parses `5`, `blocks:6`, `blocks:6:date`, `column:subject`, `groups:5:subject`,
    /// `forward:5+1:date` or `none`.
    ///
    /// # Errors
    /// [`Error::Option`] for any other text, and for fewer than two folds.
    pub fn parse(text: &str) -> Result<Self> {
        let parse_count = |digits: &str| match digits.trim().parse::<usize>() {
            Ok(k) if (2..=MAX_FOLDS).contains(&k) => Ok(k),
            Ok(1) => Err(Error::option("folds", text, "one fold leaves no rows to train on; use 2 or more, or none")),
            Ok(_) => Err(Error::option("folds", text, format!("the number of folds must be 2 to {MAX_FOLDS}"))),
            Err(_) => Err(Error::option("folds", format!("{text:?}"), FOLDS_HELP)),
        };
        match text.trim().split_once(':') {
            None if text.trim() == "none" => Ok(Self::None),
            None => Ok(Self::Random(parse_count(text)?)),
            Some(("blocks", arguments)) => match arguments.split_once(':') {
                None => Ok(Self::Blocks(parse_count(arguments)?)),
                Some((k, name)) if !name.trim().is_empty() => {
                    Ok(Self::ColumnBlocks(parse_count(k)?, name.trim().to_string()))
                }
                Some(_) => Err(Error::option("folds", format!("{text:?}"), FOLDS_HELP)),
            },
            Some(("column", name)) if !name.trim().is_empty() => Ok(Self::Column(name.trim().to_string())),
            Some(("groups", arguments)) => match arguments.split_once(':') {
                Some((k, name)) if !name.trim().is_empty() => {
                    Ok(Self::Groups(parse_count(k)?, name.trim().to_string()))
                }
                _ => Err(Error::option("folds", format!("{text:?}"), FOLDS_HELP)),
            },
            Some(("forward", arguments)) => {
                let syntax_error = || Error::option("folds", format!("{text:?}"), FOLDS_HELP);
                let (counts, column) =
                    arguments.split_once(':').map_or((arguments, None), |(counts, name)| (counts, Some(name)));
                let (tests, gap) = counts.split_once('+').unwrap_or((counts, "0"));
                let (tests, gap) = tests.trim().parse().ok().zip(gap.trim().parse().ok()).ok_or_else(syntax_error)?;
                let column =
                    column.map(|name| Some(name.trim()).filter(|name| !name.is_empty()).ok_or_else(syntax_error));
                let column = column.transpose()?.map(str::to_string);
                match (1..MAX_FOLDS / 2).contains(&tests) && gap < MAX_FOLDS / 2 {
                    true => Ok(Self::Forward { test_count: tests, gap_blocks: gap, column }),
                    false => Err(syntax_error()),
                }
            }
            Some(_) => Err(Error::option("folds", format!("{text:?}"), FOLDS_HELP)),
        }
    }

    /// Returns the column that defines the folds; `None` if there is none.
    #[doc(hidden)]
    pub fn column(&self) -> Option<&str> {
        match self {
            Self::Column(name)
            | Self::ColumnBlocks(_, name)
            | Self::Groups(_, name)
            | Self::Forward { column: Some(name), .. } => Some(name),
            Self::None | Self::Random(_) | Self::Blocks(_) | Self::Forward { column: None, .. } => None,
        }
    }
}

impl std::fmt::Display for FoldSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Random(k) => write!(f, "{k}"),
            Self::Blocks(k) => write!(f, "blocks:{k}"),
            Self::ColumnBlocks(k, name) => write!(f, "blocks:{k}:{name}"),
            Self::Column(name) => write!(f, "column:{name}"),
            Self::Groups(k, name) => write!(f, "groups:{k}:{name}"),
            Self::Forward { test_count: tests, gap_blocks: gap, column } => {
                write!(f, "forward:{tests}")?;
                if *gap > 0 {
                    write!(f, "+{gap}")?;
                }
                column.iter().try_for_each(|name| write!(f, ":{name}"))
            }
        }
    }
}

/// Which folds are held out, and which folds are then used for training.
///
/// By default each fold is held out once, and all other folds are used for training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoldRule {
    /// If this is a number g, only folds before the held-out fold are used for training, without
    /// the g folds directly before it.
    forward_gap: Option<usize>,
    /// A fold that is neither held out nor used for training.
    excluded_fold: Option<usize>,
    /// If set, the only fold that is held out.
    only_held_out: Option<usize>,
}

impl FoldRule {
    /// Returns true if the fold is held out.
    pub fn is_held_out(self, fold: usize) -> bool {
        let first = self.forward_gap.map_or(0, |gap| gap + 1);
        fold >= first && self.excluded_fold != Some(fold) && self.only_held_out.is_none_or(|only| only == fold)
    }

    /// Returns true if `fold` is used for training while the fold `held_out_fold` is held out. If
    /// `held_out_fold` is `None`, returns true if `fold` is used in the final fit.
    pub fn is_training(self, held_out_fold: Option<usize>, fold: usize) -> bool {
        let is_early_enough = |held_out: usize| self.forward_gap.is_none_or(|gap| fold + gap < held_out);
        self.excluded_fold != Some(fold)
            && held_out_fold.is_none_or(|held_fold| held_fold != fold && is_early_enough(held_fold))
    }
}

/// The fold of every row: a function of the row alone, never of the reading order.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Folds {
    /// All rows are in fold 0.
    None,
    /// Random K-fold: a hash of the stored row number determines the fold.
    Random {
        /// Number of folds.
        k: usize,
        /// Random keys of the rows.
        stream: Stream,
    },
    /// Contiguous K-fold: blocks of equal length.
    Blocks {
        /// Number of folds.
        k: usize,
        /// Range of the stored rows that can be selected.
        row_range: Range<u64>,
    },
    /// One fold per label of a column.
    Column {
        /// Labels; the code of a label is its fold.
        labels: Vec<Label>,
    },
    /// Contiguous K-fold in the order of a column: blocks of sorted labels, about the same number
    /// of labels each.
    LabelBlocks {
        /// Number of folds.
        k: usize,
        /// Number of labels.
        label_count: usize,
    },
    /// Group K-fold: each label belongs to one fold.
    Groups {
        /// Number of folds.
        k: usize,
        /// Fold of each label, by its code.
        label_folds: Vec<usize>,
    },
    /// Folds with a rule that decides which are held out and which are used for training.
    WithRule {
        /// The folds.
        folds: Box<Folds>,
        /// The rule.
        rule: FoldRule,
    },
}

impl Folds {
    /// Returns the folds of a table. `row_range` is the range of the stored rows that can be
    /// selected. `groups` contains the sorted labels of the fold column, if `spec` has one.
    ///
    /// # Errors
    /// [`Error::UnsuitableFolds`] for more folds than rows or groups, and for a fold column with a
    /// single value or with more than 1,000 values.
    pub fn new(spec: &FoldSpec, seed: u64, row_range: Range<u64>, groups: &[Label]) -> Result<Self> {
        let stored_rows = row_range.end.saturating_sub(row_range.start);
        let folds = match spec {
            FoldSpec::None => Self::None,
            FoldSpec::Random(k) => Self::Random { k: *k, stream: Stream::new(seed, Purpose::Folds, 0) },
            FoldSpec::Blocks(k) => Self::Blocks { k: *k, row_range },
            FoldSpec::ColumnBlocks(k, _) => Self::LabelBlocks { k: *k, label_count: groups.len() },
            FoldSpec::Column(_) => Self::Column { labels: groups.to_vec() },
            FoldSpec::Forward { test_count: tests, gap_blocks: gap, column } => {
                let k = tests + gap + 1;
                let folds = match column {
                    None => Self::Blocks { k, row_range },
                    Some(_) => Self::LabelBlocks { k, label_count: groups.len() },
                };
                Self::WithRule {
                    folds: Box::new(folds),
                    rule: FoldRule { forward_gap: Some(*gap), ..FoldRule::default() },
                }
            }
            FoldSpec::Groups(k, _) => {
                let (stream, mut order) = (Stream::new(seed, Purpose::Folds, 0), Vec::from_iter(0..groups.len()));
                order.sort_by_key(|group| stream.word(*group as u64));
                let mut label_folds = vec![0; groups.len()];
                order.into_iter().enumerate().for_each(|(position, group)| label_folds[group] = position % k);
                Self::Groups { k: *k, label_folds }
            }
        };
        let unsuitable_error = |why| Err(Error::UnsuitableFolds { folds: spec.to_string(), why });
        if matches!(folds, Self::Column { .. }) && folds.count() < 2 {
            return unsuitable_error(format!("the column has {} value; expected 2 or more", folds.count()));
        }
        let is_by_label = matches!(folds.without_rule(), Self::Groups { .. } | Self::LabelBlocks { .. });
        if is_by_label && groups.len() < folds.count() {
            return unsuitable_error(format!("the column has {} values; use at most this many folds", groups.len()));
        }
        if folds.count() > MAX_FOLDS && stored_rows > MAX_FOLDS as u64 {
            let value_count = folds.count();
            return unsuitable_error(format!(
                "the column has {value_count} values, and each would be a fold; use at most {MAX_FOLDS}"
            ));
        }
        if !matches!(folds, Self::None) && folds.count() as u64 > stored_rows {
            return unsuitable_error(format!("{} folds exceed the {stored_rows} rows; use fewer folds", folds.count()));
        }
        Ok(folds)
    }

    /// Returns the number of folds; 1 without cross-validation.
    pub fn count(&self) -> usize {
        match self {
            Self::None => 1,
            Self::Random { k, .. } | Self::Blocks { k, .. } | Self::LabelBlocks { k, .. } | Self::Groups { k, .. } => {
                *k
            }
            Self::Column { labels } => labels.len(),
            Self::WithRule { folds, .. } => folds.count(),
        }
    }

    /// Returns true if each fold is a block of consecutive rows, or of consecutive values of a
    /// column, and no rule applies.
    #[doc(hidden)]
    pub fn are_blocks(&self) -> bool {
        matches!(self, Self::Blocks { .. } | Self::LabelBlocks { .. })
    }

    /// Returns the rule that decides which folds are held out.
    pub fn rule(&self) -> FoldRule {
        if let Self::WithRule { rule, .. } = self { *rule } else { FoldRule::default() }
    }

    /// Returns the test fold, which is reserved for the final estimate. If the folds are the values
    /// of a column, the test fold is the fold whose fraction of the rows is nearest to a fifth.
    /// Otherwise it is the last fold that the rule holds out. Returns `None` if there are fewer
    /// than three folds, or if the rule holds out fewer than two.
    pub fn test_fold(&self, fold_sizes: &[usize]) -> Option<usize> {
        let held_out = || (0..fold_sizes.len()).filter(|fold| self.rule().is_held_out(*fold));
        let row_count: usize = fold_sizes.iter().sum();
        let fraction_difference =
            |fold: &usize| (fold_sizes[*fold] as f64 / row_count.max(1) as f64 - TEST_FRACTION).abs();
        let test_fold = match self {
            Self::Column { .. } => held_out().min_by(|a, b| fraction_difference(a).total_cmp(&fraction_difference(b))),
            _ => held_out().next_back(),
        };
        test_fold.filter(|_| fold_sizes.len() > 2 && held_out().count() > 1)
    }

    fn without_rule(&self) -> &Self {
        if let Self::WithRule { folds, .. } = self { folds } else { self }
    }

    /// Returns these folds with a rule that excludes `fold`: it is neither held out nor used for
    /// training.
    pub fn without_fold(&self, fold: usize) -> Self {
        let rule = FoldRule { excluded_fold: Some(fold), ..self.rule() };
        Self::WithRule { folds: Box::new(self.without_rule().clone()), rule }
    }

    /// Returns these folds with a rule that holds out only `fold`.
    pub fn holding_out(&self, fold: usize) -> Self {
        let rule = FoldRule { only_held_out: Some(fold), ..self.rule() };
        Self::WithRule { folds: Box::new(self.without_rule().clone()), rule }
    }

    /// Returns the fold of a row. `group` is the row's code in the fold column, or
    /// [`kstore::LabelCodes::UNKNOWN`] without a fold column.
    ///
    /// # Errors
    /// [`Error::UnknownGroup`] for a code without a label.
    pub fn fold_of(&self, row: u64, group: u32) -> Result<usize> {
        match self {
            Self::None => Ok(0),
            Self::Random { k, stream } => Ok(stream.uniform_below(row, *k as u64) as usize),
            Self::Blocks { k, row_range } => Ok(block_of(row, *k, row_range)),
            Self::Column { labels } => {
                Some(group as usize).filter(|g| *g < labels.len()).ok_or(Error::UnknownGroup { row })
            }
            Self::LabelBlocks { k, label_count } => Some(group as usize)
                .filter(|label| label < label_count)
                .map(|label| label * k / label_count)
                .ok_or(Error::UnknownGroup { row }),
            Self::Groups { label_folds, .. } => {
                label_folds.get(group as usize).copied().ok_or(Error::UnknownGroup { row })
            }
            Self::WithRule { folds, .. } => folds.fold_of(row, group),
        }
    }
}

/// Returns the block of a row. Of n rows, block i contains the rows from ⌈i·n/k⌉ to ⌈(i+1)·n/k⌉ −
/// 1, counted from the first row that can be selected.
fn block_of(row: u64, k: usize, row_range: &Range<u64>) -> usize {
    let row_count = u128::from(row_range.end.saturating_sub(row_range.start).max(1));
    let block = u128::from(row.saturating_sub(row_range.start)) * k as u128 / row_count;
    (block as usize).min(k - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_read_and_print() {
        for text in ["5", "blocks:6", "blocks:6:date", "column:subject", "none"] {
            assert_eq!(FoldSpec::parse(text).unwrap().to_string(), text);
        }
        for wrong in [
            "1",
            "0",
            "-2",
            "x",
            "blocks:",
            "blocks:1",
            "blocks:3:",
            "blocks:x:date",
            "column:",
            "rows:3",
            "",
            "1000000",
        ] {
            let message = FoldSpec::parse(wrong).unwrap_err().to_string();
            assert!(message.starts_with("`folds`"), "{wrong}: {message}");
        }
    }

    #[test]
    fn hash_folds_belong_to_the_row_and_the_seed() {
        let folds = |seed| Folds::new(&FoldSpec::Random(5), seed, 0..1000, &[]).unwrap();
        let list = |folds: Folds| (0..1000).map(|row| folds.fold_of(row, 0).unwrap()).collect::<Vec<_>>();
        let first = list(folds(1));
        assert_eq!(first, list(folds(1)));
        assert_ne!(first, list(folds(2)));
        for fold in 0..5 {
            let count = first.iter().filter(|f| **f == fold).count();
            assert!((140..260).contains(&count), "fold {fold} has {count} of 1000 rows");
        }
    }

    #[test]
    fn blocks_are_contiguous_and_even() {
        let folds = Folds::new(&FoldSpec::Blocks(3), 0, 100..110, &[]).unwrap();
        let list: Vec<usize> = (100..110).map(|row| folds.fold_of(row, 0).unwrap()).collect();
        assert_eq!(list, [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]);
        let far = Folds::new(&FoldSpec::Blocks(7), 0, 0..u64::MAX, &[]).unwrap();
        assert_eq!(far.fold_of(u64::MAX - 1, 0).unwrap(), 6);
    }

    #[test]
    fn groups_are_whole_and_evenly_assigned() {
        let labels: Vec<Label> = (0..13).map(Label::Int).collect();
        let spec = FoldSpec::parse("groups:5:subject").unwrap();
        assert_eq!((spec.to_string().as_str(), spec.column()), ("groups:5:subject", Some("subject")));
        let folds = Folds::new(&spec, 3, 0..100, &labels).unwrap();
        let fold_of_group: Vec<usize> =
            (0..13).map(|group| folds.fold_of(u64::from(group) * 7, group).unwrap()).collect();
        assert_eq!((folds.fold_of(99, 4).unwrap(), folds.count()), (fold_of_group[4], 5), "the row does not matter");
        let sizes: Vec<usize> =
            (0..5).map(|fold| fold_of_group.iter().filter(|other| **other == fold).count()).collect();
        assert!(
            sizes.iter().all(|size| (2..=3).contains(size)) && fold_of_group[..5] != [0, 1, 2, 3, 4],
            "{fold_of_group:?}"
        );
        assert!(matches!(folds.fold_of(7, 13), Err(Error::UnknownGroup { row: 7 })));
        let few = Folds::new(&spec, 3, 0..100, &labels[..4]).unwrap_err().to_string();
        assert!(few.contains("4 values"), "{few}");
        assert!(FoldSpec::parse("groups:subject").is_err() && FoldSpec::parse("groups:1:subject").is_err());
    }

    #[test]
    fn forward_trains_on_earlier_blocks_with_a_gap() {
        for text in ["forward:3", "forward:3+1", "forward:2:day", "forward:2+1:day"] {
            assert_eq!(FoldSpec::parse(text).unwrap().to_string(), text);
        }
        for wrong in ["forward:", "forward:0", "forward:x", "forward:3+", "forward:3:", "forward:600"] {
            assert!(FoldSpec::parse(wrong).is_err(), "{wrong}");
        }
        // scikit-learn 1.9, TimeSeriesSplit(n_splits=3, gap=2) of ten rows in blocks of two
        let folds = Folds::new(&FoldSpec::parse("forward:3+1").unwrap(), 0, 0..10, &[]).unwrap();
        let (rule, fold_of_row) = (folds.rule(), |row| folds.fold_of(row, 0).unwrap());
        let training_rows =
            |held_out: usize| Vec::from_iter((0..10).filter(|row| rule.is_training(Some(held_out), fold_of_row(*row))));
        assert_eq!(Vec::from_iter((0..folds.count()).filter(|fold| rule.is_held_out(*fold))), [2, 3, 4]);
        assert_eq!([2, 3, 4].map(training_rows), [vec![0, 1], vec![0, 1, 2, 3], vec![0, 1, 2, 3, 4, 5]]);
        assert!((0..5).all(|fold| rule.is_training(None, fold)));
        // with a column, labels are sorted, wherever their rows are
        let labels: Vec<Label> = (0..9).map(Label::Int).collect();
        for text in ["forward:2:day", "blocks:3:day"] {
            let days = Folds::new(&FoldSpec::parse(text).unwrap(), 0, 0..100, &labels).unwrap();
            assert_eq!(Vec::from_iter((0..9).map(|day| days.fold_of(99, day).unwrap())), [0, 0, 0, 1, 1, 1, 2, 2, 2]);
            assert!(days.fold_of(99, 9).is_err() && days.are_blocks() == text.starts_with("blocks"));
        }
        let few = Folds::new(&FoldSpec::parse("blocks:3:day").unwrap(), 0, 0..100, &labels[..2]).unwrap_err();
        assert!(few.to_string().contains("2 values"), "{few}");
        // a test fold is never used for training, and is the only one held out for the final
        // estimate
        let (selection_rule, test_rule) = (folds.without_fold(4).rule(), folds.holding_out(4).rule());
        assert!(
            !selection_rule.is_held_out(4)
                && !selection_rule.is_training(None, 4)
                && selection_rule.is_held_out(3)
                && selection_rule.is_training(Some(3), 1)
        );
        assert!(
            test_rule.is_held_out(4)
                && !test_rule.is_held_out(3)
                && test_rule.is_training(Some(4), 2)
                && !test_rule.is_training(Some(4), 3)
        );
    }

    #[test]
    fn columns_give_a_fold_per_label() {
        let labels = [Label::Int(3), Label::Text("a".into())];
        let spec = FoldSpec::Column("subject".into());
        let folds = Folds::new(&spec, 0, 0..10, &labels).unwrap();
        assert_eq!((folds.count(), folds.fold_of(7, 1).unwrap()), (2, 1));
        assert!(matches!(folds.fold_of(7, kstore::LabelCodes::UNKNOWN), Err(Error::UnknownGroup { row: 7 })));
        assert!(matches!(Folds::new(&spec, 0, 0..10, &labels[..1]), Err(Error::UnsuitableFolds { .. })));
    }

    #[test]
    fn more_folds_than_rows_are_rejected() {
        assert!(matches!(Folds::new(&FoldSpec::Random(5), 0, 0..4, &[]), Err(Error::UnsuitableFolds { .. })));
        assert!(matches!(Folds::new(&FoldSpec::Blocks(5), 0, 6..10, &[]), Err(Error::UnsuitableFolds { .. })));
        assert!(Folds::new(&FoldSpec::Random(5), 0, 0..5, &[]).is_ok());
    }
}
