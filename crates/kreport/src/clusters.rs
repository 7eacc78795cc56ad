//! Clusters, as shown to users: the numbers of clusters that were compared, and the columns that
//! set each cluster apart.

use crate::page::{self, Axis, Chart, DataPoint, Scale, Section, Series};
use crate::table::{Align, AlignedTable, Grid, format_count, join_with_commas, number, optional_number, percent};
use kfit::solver::ClusterCounts;
use ksolve::job::ClusterProfile;
use kstore::display::escape_line;

/// Number of clusters, and of columns of a cluster, that are shown as text.
const SHOWN_CLUSTERS: usize = 12;
const SHOWN_COLUMNS: usize = 3;

/// How the number of clusters is chosen.
const RULE: &str = "the largest mean silhouette is kept";

/// Headings of the table of clusters.
const HEADINGS: [&str; 8] =
    ["cluster", "rows", "fraction", "column", "mean", "mean of all", "difference", "typical rows"];

/// Returns the rows of the table of clusters, with up to `column_count` columns of each cluster.
fn rows(profiles: &[ClusterProfile], column_count: usize) -> Vec<Vec<String>> {
    let rows_of = |(cluster, profile): (usize, &ClusterProfile)| {
        let mut columns = profile.columns.iter().take(column_count).map(|column| {
            let lift = column.lift.map_or(String::new(), |lift| format!(", lift {}", number(lift, 3)));
            let [mean, mean_of_all] = [column.mean, column.mean_of_all].map(|mean| match column.lift {
                Some(_) => percent(mean),
                None => number(mean, 4),
            });
            [column.column.clone(), mean, mean_of_all, format!("{:+.2} sd{lift}", column.difference)]
        });
        let typical_rows = match &profile.typical_names[..] {
            [] => join_with_commas(profile.typical_rows.iter()),
            names => join_with_commas(names),
        };
        let first_column = columns.next().unwrap_or_default();
        let head = [cluster.to_string(), format_count(profile.rows), percent(profile.fraction)];
        let first = head.into_iter().chain(first_column).chain([typical_rows]).collect();
        let further =
            columns.map(|column| vec![String::new(); 3].into_iter().chain(column).chain([String::new()]).collect());
        std::iter::once(first).chain(further).collect::<Vec<Vec<String>>>()
    };
    profiles.iter().enumerate().flat_map(rows_of).collect()
}

/// Returns the clusters with the columns that set them apart, as a text; empty without clusters.
/// `row_name_column` is the column whose values name the typical rows.
pub fn describe_clusters(profiles: &[ClusterProfile], row_name_column: Option<&str>) -> String {
    if profiles.is_empty() {
        return String::new();
    }
    let shown = &profiles[..profiles.len().min(SHOWN_CLUSTERS)];
    let alignment = |name: &str| match name {
        "column" | "typical rows" => Align::Left,
        _ => Align::Right,
    };
    let mut table = AlignedTable::new(HEADINGS.map(|name| (name, alignment(name))));
    rows(shown, SHOWN_COLUMNS).into_iter().for_each(|row| table.push_row(row));
    let omitted = match profiles.len() - shown.len() {
        0 => String::new(),
        count => format!("  and {} more clusters\n", format_count(count as u64)),
    };
    let naming = row_name_column.map_or(String::new(), |column| format!("; typical rows by {}", escape_line(column)));
    format!("what sets each cluster apart{naming}\n{table}{omitted}")
}

/// Returns the figures of each number of clusters.
fn counts_grid(counts: &ClusterCounts) -> Grid {
    let row = |i: usize| {
        let figures = [
            number(counts.mean_squared_distance[i], 4),
            format!("{:.3}", counts.silhouette[i]),
            counts.stability[i].map_or(optional_number(None), |stability| format!("{stability:.3}")),
        ];
        (counts.clusters[i].to_string(), figures.to_vec())
    };
    let chosen = counts.clusters.iter().position(|count| *count == counts.chosen);
    Grid {
        corner: "clusters".to_string(),
        columns: ["mean squared distance", "silhouette", "stability"].map(String::from).to_vec(),
        rows: (0..counts.clusters.len()).map(row).collect(),
        marked_cell: chosen.map(|row| (row, 1)),
    }
}

/// Returns the sentence about the rows on which the numbers of clusters were compared.
fn describe_sample(counts: &ClusterCounts) -> String {
    let (sampled, rows) = (format_count(counts.sampled_rows as u64), format_count(counts.silhouette_rows as u64));
    match counts.silhouette_rows < counts.sampled_rows {
        true => format!("on a sample of {sampled} rows, silhouettes of {rows} of them"),
        false => format!("on a sample of {sampled} rows"),
    }
}

/// Upper limits of the mean silhouette for each verdict about the structure.
///
/// Reference: Kaufman, Rousseeuw, "Finding groups in data", 1990, chapter 2, table 4.
const SILHOUETTE_LIMITS: [(f64, &str); 3] = [
    (0.25, "no substantial structure; do not take the clusters for groups that exist"),
    (0.5, "a weak structure, which may be artificial; try other features, scalings and kernels"),
    (0.7, "a reasonable structure"),
];

/// Returns a sentence about the structure that the chosen number of clusters finds; `None` if its
/// silhouette is unknown.
fn describe_structure(counts: &ClusterCounts) -> Option<String> {
    let position = counts.clusters.iter().position(|count| *count == counts.chosen)?;
    let silhouette = counts.silhouette.get(position).copied().filter(|silhouette| silhouette.is_finite())?;
    let limit = SILHOUETTE_LIMITS.iter().find(|(limit, _)| silhouette <= *limit);
    Some(match limit {
        Some((limit, verdict)) => format!("silhouette {silhouette:.3}, at most {limit}: {verdict}"),
        None => format!("silhouette {silhouette:.3}: a strong structure"),
    })
}

/// Returns the numbers of clusters that were compared, as a text.
pub fn describe_counts(counts: &ClusterCounts) -> String {
    let structure = describe_structure(counts).map_or(String::new(), |text| format!("  {text}\n"));
    format!("numbers of clusters, {} (* {RULE})\n{}{structure}", describe_sample(counts), counts_grid(counts))
}

/// Returns the sections of a page about the clusters.
pub(crate) fn sections(
    counts: Option<&ClusterCounts>,
    profiles: &[ClusterProfile],
    row_name_column: Option<&str>,
) -> Vec<Section> {
    let counts_section = counts.map(|counts| {
        let note = format!(
            "Compared {}; {RULE}. A silhouette is (b - a)/max(a, b): a is the mean distance of a row from the other rows of its \
             cluster, b the smallest mean distance from the rows of another cluster. The stability is the mean adjusted Rand index of \
             the clusterings of two random halves of the sample; 1 means that both halves give the same clusters.",
            describe_sample(counts)
        );
        let structure = describe_structure(counts).map_or(String::new(), |text| {
            page::note(&format!("{text} (limits of Kaufman and Rousseeuw, 1990)."))
        });
        let chart = counts_chart(counts).map_or(String::new(), |chart| page::charts([&chart]));
        Section::new("Number of clusters", chart + &page::grid_table(&counts_grid(counts)) + &structure + &page::note(&note))
    });
    let clusters_section = (!profiles.is_empty()).then(|| {
        let naming = row_name_column
            .map_or("as row numbers of the table from 0".to_string(), |column| format!("by the values of {column}"));
        let note = format!(
            "The columns whose mean in the cluster differs most from the mean of all rows, in standard deviations of the column over \
             all rows. For a level of a category, the means are fractions of the rows, and the lift is their ratio. Typical rows are \
             the rows nearest to the centroid, {naming}."
        );
        Section::new("Clusters", page::html_table(&HEADINGS, &rows(profiles, usize::MAX)) + &page::note(&note))
    });
    counts_section.into_iter().chain(clusters_section).collect()
}

/// Returns a chart of silhouette and stability against the number of clusters.
fn counts_chart(counts: &ClusterCounts) -> Option<Chart> {
    let silhouettes = counts.silhouette.iter().copied().map(Some);
    let lines = [("silhouette", silhouettes.collect()), ("stability", counts.stability.clone())];
    let values = lines.iter().flat_map(|(_, values): &(&str, Vec<Option<f64>>)| values).copied().flatten();
    let numbers: Vec<f64> = counts.clusters.iter().map(|count| *count as f64).collect();
    let x = Axis::new("clusters", Scale::Linear, numbers.iter().copied())?.with_ticks(&numbers);
    let y = Axis::new("silhouette, stability", Scale::Linear, values.chain([0.0, 1.0]))?;
    let series = lines.iter().enumerate().map(|(palette_index, (name, values))| {
        let marks = counts.clusters.iter().zip(values).filter_map(|(count, value)| {
            let tooltip = format!("{count} clusters: {name} {:.3}", (*value)?);
            Some(DataPoint::new((*count as f64, (*value)?), tooltip))
        });
        Series { name: name.to_string(), palette_index, marks: marks.collect(), ..Series::default() }
    });
    Some(Chart {
        series: series.collect(),
        has_legend: true,
        ..Chart::new("clusters", "Silhouette and stability", x, y)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kmodel::model::DistinctiveColumn;

    fn profiles() -> Vec<ClusterProfile> {
        let column = |name: &str, mean, mean_of_all, difference, lift| {
            let column = name.to_string();
            DistinctiveColumn { column, mean, mean_of_all, difference, lift }
        };
        let columns = vec![column("area", 25.0, 236.7, -0.73, None), column("kind=kiosk", 0.9, 0.3, 1.31, Some(3.0))];
        vec![
            ClusterProfile { rows: 1200, fraction: 0.8, columns, typical_rows: vec![12, 5], typical_names: Vec::new() },
            ClusterProfile {
                rows: 300,
                fraction: 0.2,
                columns: Vec::new(),
                typical_rows: vec![7],
                typical_names: Vec::new(),
            },
        ]
    }

    #[test]
    fn each_column_of_a_cluster_has_a_line() {
        let expected = "\
what sets each cluster apart
  cluster   rows  fraction  column       mean  mean of all         difference  typical rows
        0  1,200    80.0 %  area        25.00        236.7           -0.73 sd  12, 5
                            kind=kiosk  90.0 %       30.0 %  +1.31 sd, lift 3.00
        1    300    20.0 %                                                     7
";
        let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeeze(&describe_clusters(&profiles(), None)), squeeze(expected));
        assert_eq!(describe_clusters(&[], None), "");
        let mut named = profiles();
        named[0].typical_names = ["Ann", "Bob"].map(String::from).to_vec();
        let text = describe_clusters(&named, Some("person"));
        assert!(text.starts_with("what sets each cluster apart; typical rows by person\n"), "{text}");
        assert!(text.contains("Ann, Bob\n") && !text.contains("12, 5"), "{text}");
    }

    #[test]
    fn the_chosen_number_is_marked() {
        let counts = ClusterCounts {
            clusters: vec![2, 3],
            mean_squared_distance: vec![0.2, 0.1],
            silhouette: vec![0.4, 0.51],
            stability: vec![Some(0.99), None],
            chosen: 3,
            sampled_rows: 2000,
            silhouette_rows: 2000,
        };
        let text = describe_counts(&counts);
        assert!(text.contains("on a sample of 2,000 rows") && text.contains("0.510*") && text.contains('–'), "{text}");
        assert!(text.ends_with("\n  silhouette 0.510, at most 0.7: a reasonable structure\n"), "{text}");
        let sections = sections(Some(&counts), &profiles(), None);
        assert!(sections[0].body.contains("silhouette 0.510, at most 0.7: a reasonable structure (limits of Kaufman"));
        assert_eq!(
            sections.iter().map(|section| &*section.title).collect::<Vec<_>>(),
            ["Number of clusters", "Clusters"]
        );
        assert!(sections[0].body.contains(">3</text>") && !sections[0].body.contains(">2.2</text>"), "whole numbers");
        assert!(sections[0].body.contains("id=\"clusters\"") && sections[1].body.contains("kind=kiosk"));
    }

    #[test]
    fn weak_clusters_are_called_weak() {
        let counts = |silhouette: f64| ClusterCounts {
            clusters: vec![2, 3],
            mean_squared_distance: vec![0.2, 0.1],
            silhouette: vec![silhouette, -0.5],
            stability: vec![Some(0.89); 2],
            chosen: 2,
            sampled_rows: 100,
            silhouette_rows: 100,
        };
        for (silhouette, verdict) in [
            (0.114, "silhouette 0.114, at most 0.25: no substantial structure"),
            (0.25, "no substantial structure"),
            (0.26, "at most 0.5: a weak structure, which may be artificial"),
            (0.7, "a reasonable structure"),
            (0.71, "silhouette 0.710: a strong structure"),
        ] {
            let text = describe_counts(&counts(silhouette));
            assert!(text.contains(verdict), "{silhouette}: {text}");
        }
        assert!(!describe_counts(&counts(f64::NAN)).contains("structure"));
    }
}
