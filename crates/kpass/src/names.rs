//! Searches for columns by name.

/// Returns the position of `name` among the names.
pub fn position(names: &[impl AsRef<str>], name: &str) -> Option<usize> {
    names.iter().position(|column| column.as_ref() == name)
}

/// Returns the positions of `name[0]`, `name[1]`, …, the columns of a list column, in their order;
/// empty if there are none.
pub fn list_columns(names: &[impl AsRef<str>], name: &str) -> Vec<usize> {
    let match_list_item = |column: &str| {
        let index_text = column.strip_prefix(name)?.strip_prefix('[')?.strip_suffix(']')?;
        index_text.bytes().all(|digit| digit.is_ascii_digit()).then_some(())
    };
    positions_where(names, |column| match_list_item(column).is_some())
}

/// Returns the positions of `name=…`, the inputs of a categorical column; empty if there are none.
pub fn category_columns(names: &[impl AsRef<str>], name: &str) -> Vec<usize> {
    positions_where(names, |column| column.strip_prefix(name).is_some_and(|suffix| suffix.starts_with('=')))
}

fn positions_where(names: &[impl AsRef<str>], is_match: impl Fn(&str) -> bool) -> Vec<usize> {
    (0..names.len()).filter(|index| is_match(names[*index].as_ref())).collect()
}

/// Returns the end of a message about a missing column: the most similar name, or the names that
/// exist.
pub fn hint(names: &[impl AsRef<str>], name: &str) -> String {
    let all_names = || names.iter().map(AsRef::as_ref);
    match nearest(name, all_names()) {
        Some(near) => format!("; did you mean {near:?}?"),
        None => format!("; it has {}", join_names(all_names())),
    }
}

/// Maximum number of names in a list, which then fits about one line.
const MAX_NAMES: usize = 12;

fn join_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.collect();
    let mut text = names.iter().take(MAX_NAMES).copied().collect::<Vec<_>>().join(", ");
    if names.len() > MAX_NAMES {
        text.push_str(&format!(", … ({} columns)", names.len()));
    }
    if names.is_empty() { "no columns".to_string() } else { text }
}

/// Returns the candidate with the smallest edit distance from `name`, ignoring case; `None` if the
/// distance exceeds a third of the letters, rounded up.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lowercase_name = name.to_lowercase();
    let max_edits = name.chars().count().div_ceil(3);
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(&lowercase_name, &candidate.to_lowercase()), candidate))
        .filter(|(edits, _)| *edits <= max_edits)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Computes Levenshtein's edit distance.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a_char) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b_char) in b.iter().enumerate() {
            let substitution_cost = diagonal + usize::from(a_char != *b_char);
            diagonal = row[j + 1];
            row[j + 1] = substitution_cost.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
