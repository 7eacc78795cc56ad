//! `kmill plot`: regions of the classes, contour lines of the scores, and refusals.

use super::run::{kmill, ok};

#[test]
fn a_picture_has_regions_a_border_and_the_rows() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate moons --rows 3000 -o t.parquet -q");
    ok(
        at,
        "fit ridge t.parquet --target y --task classification --kernel gaussian(sigma=0.5) --rank 80 --lambda 1e-6 -o m -q",
    );
    let report = ok(at, "plot m t.parquet -o m.svg -q --json");
    let svg = std::fs::read_to_string(at.join("m.svg")).unwrap();
    assert_eq!((&report["rows"], &report["drawn"]), (&3000.into(), &2000.into()));
    assert_eq!(svg.matches("<circle class=\"row c").count(), 2000);
    assert!(svg.contains("region c0") && svg.contains("region c1") && svg.contains("class=\"border\""));
    // contour lines at several levels, each with its number
    assert!(svg.matches("class=\"contour\"").count() > 2, "few levels");
    assert!(!svg.contains("NaN") && svg.starts_with("<svg xmlns="));
    // the first moon is above the second at the same x, and so is its region
    let scores = report["scores"][0].as_array().unwrap();
    assert!(scores[0].as_f64().unwrap() < -0.5 && scores[1].as_f64().unwrap() > 0.5, "{scores:?}");
    ok(at, "plot m t.parquet --x x1 --y x0 -o m.html -q --json");
    let page = std::fs::read_to_string(at.join("m.html")).unwrap();
    assert!(page.contains("id=\"picture\"") && page.contains("x0 against x1"));
    // colours and regions have names
    assert!(svg.contains(">y over x1 against x0</text>") && svg.matches(">0</text>").count() >= 2, "{svg}");
    assert!(svg.matches("class=\"label\"").count() == 2, "a name in each region");
    // the same drawing as pixels: the same bytes for any number of threads
    ok(at, "plot m t.parquet -o m.png -q --json");
    ok(at, "plot m t.parquet -o n.png -q --json --threads 1");
    let png = std::fs::read(at.join("m.png")).unwrap();
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n") && png.len() > 20_000, "{} bytes", png.len());
    assert_eq!(png, std::fs::read(at.join("n.png")).unwrap());
}

#[test]
fn a_picture_has_the_requested_size_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate moons --rows 200 -o t.parquet -q");
    ok(at, "fit ridge t.parquet --target y --task classification --rank 40 --lambda 1e-4 -o m -q");
    for extension in ["svg", "pdf", "png"] {
        ok(at, &format!("plot m t.parquet --size 480x320 -o a.{extension} -q --json"));
    }
    let svg = std::fs::read_to_string(at.join("a.svg")).unwrap();
    // the corners of the picture are far from every row
    assert!(svg.contains("viewBox=\"0 0 480 320\"") && svg.contains("class=\"veil\""), "{svg}");
    let pdf = std::fs::read(at.join("a.pdf")).unwrap();
    let text = String::from_utf8_lossy(&pdf);
    assert!(
        text.starts_with("%PDF-1.7") && text.contains("/MediaBox [0 0 360.00 240.00]") && text.ends_with("%%EOF\n")
    );
    let png = std::fs::read(at.join("a.png")).unwrap();
    let side = |offset: usize| u32::from_be_bytes(png[offset..offset + 4].try_into().unwrap());
    assert_eq!((side(16), side(20)), (960, 640));
    for (size, code, text) in [("10x10", 1, "from 240 to 5000"), ("800", 2, "such as 800x500"), ("axb", 2, "800x500")] {
        let (got, _, stderr) = kmill(at, &format!("plot m t.parquet --size {size} -o b.pdf"));
        assert!(got == code && stderr.contains(text), "{size}: {stderr}");
    }
    assert!(!at.join("b.pdf").exists());
    ok(at, "curve t.parquet --features x* --ranks 5,10 --methods uniform,rpcholesky --repeats 1 -o c.pdf -q --json");
    assert!(std::fs::read(at.join("c.pdf")).unwrap().starts_with(b"%PDF-1.7"));
}

#[test]
fn numbers_and_components_are_shades_with_lines() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 2000 -o t.parquet -q");
    ok(at, "fit ridge t.parquet --target y --kernel gaussian(sigma=3) --rank 100 --lambda 1e-6 -o r -q");
    ok(at, "fit kpca t.parquet --features x0,x1 --kernel gaussian(sigma=1) --rank 50 --components 3 -o k -q");
    for line in ["plot r t.parquet --x x3 --y x4 -o a.svg", "plot k t.parquet --component 2 -o b.svg"] {
        ok(at, &format!("{line} -q --json"));
        let svg = std::fs::read_to_string(at.join(&line[line.len() - 5..])).unwrap();
        assert!(svg.contains("shade h0") && svg.contains("shade h11") && svg.contains("class=\"contour\""), "{line}");
        let title = if line.starts_with("plot r") {
            "y over x4 against x3"
        } else {
            "kpca: component 2 of 3 over x1 against x0"
        };
        assert!(svg.contains(title), "{title}: {svg}");
    }
    for (line, why) in [
        ("plot r t.parquet -o a.svg", "name one of them"),
        ("plot r t.parquet --x x3 --y x3 -o a.svg", "this feature is already --x"),
        ("plot r t.parquet --x x3 --y nope -o a.svg", "no such feature"),
        ("plot r t.parquet --x x3 --y x4 -o a.gif", "choose a name that ends with .png, .svg, .pdf or .html"),
        ("plot k t.parquet --component 4 -o a.svg", "choose a number from 1 to"),
    ] {
        let (code, _, text) = kmill(at, line);
        assert!(code == 1 && text.contains(why), "{line}: {text}");
    }
}

#[test]
fn twenty_classes_have_colours_and_names_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // a grid of five by four clusters
    let group = |k: usize| ((k % 5) as f64 * 3.0, (k / 5) as f64 * 3.0);
    let row = |i: usize| {
        let ((x, y), k) = (group(i % 20), i % 20);
        format!("{},{},kind{k}\n", x + (i * 37 % 100) as f64 / 100.0, y + (i * 53 % 97) as f64 / 97.0)
    };
    std::fs::write(at.join("t.csv"), format!("a,b,kind\n{}", (0..2000).map(row).collect::<String>())).unwrap();
    ok(
        at,
        "fit ridge t.csv --target kind --task classification --kernel gaussian(sigma=0.4) --rank 200 --lambda 1e-6 -o m -q --json",
    );
    ok(at, "plot m t.csv -o m.svg -q --json");
    let svg = std::fs::read_to_string(at.join("m.svg")).unwrap();
    for k in 0..20 {
        assert!(svg.contains(&format!("region c{k}\"")) && svg.contains(&format!("class=\"row c{k}\"")), "{k}");
        // in the legend, and in the region
        assert_eq!(svg.matches(&format!(">kind{k}</text>")).count(), 2, "{k}");
    }
    let rule = |k: usize| svg.split(&format!(".c{k} {{ color: ")).nth(1).unwrap()[..7].to_string();
    let colours: std::collections::HashSet<String> = (0..24).map(rule).collect();
    assert_eq!(colours.len(), 24);
}

#[test]
fn a_model_with_one_feature_is_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // y = x² on 0 to 1, and labels of the three thirds
    let row = |i: usize| {
        let x = (i * 37 % 500) as f64 / 500.0;
        format!("{x},{},{}\n", x * x, ["low", "middle", "high"][(3.0 * x) as usize])
    };
    std::fs::write(at.join("t.csv"), format!("x,y,label\n{}", (0..500).map(row).collect::<String>())).unwrap();
    ok(
        at,
        "fit ridge t.csv --target y --features x --kernel gaussian(sigma=1) --rank 20 --lambda 1e-9 -o values -q --json",
    );
    let report = ok(at, "plot values t.csv -o values.svg -q --json");
    assert_eq!((&report["x"], &report["y"], &report["drawn"]), (&"x".into(), &"y".into(), &500.into()));
    let svg = std::fs::read_to_string(at.join("values.svg")).unwrap();
    // the line passes within one drawing unit of every row
    let number = |part: &str, name: &str| {
        part.split(&format!(" {name}=\"")).nth(1).and_then(|rest| rest.split('"').next()?.parse::<f64>().ok())
    };
    let line = svg.split("<path class=\"line c0\" d=\"M").nth(1).unwrap().split('"').next().unwrap();
    let number_of = |word: &str| word.parse::<f64>().unwrap();
    let point = |words: &str| words.split_once(' ').map(|(x, y)| (number_of(x), number_of(y))).unwrap();
    let points: Vec<(f64, f64)> = line.split('L').map(point).collect();
    assert_eq!(points.len(), 300);
    let rows: Vec<(f64, f64)> = svg
        .split("<circle class=\"row\"")
        .skip(1)
        .map(|part| (number(part, "cx").unwrap(), number(part, "cy").unwrap()))
        .collect();
    assert_eq!(rows.len(), 500);
    for (x, y) in rows {
        let near = points.iter().min_by(|a, b| (a.0 - x).abs().total_cmp(&(b.0 - x).abs())).unwrap();
        assert!((near.1 - y).abs() < 3.0, "{x} {y} {near:?}");
    }
    assert!(svg.contains("<title>x 0.0") && svg.contains(">y against x</text>"), "{svg}");
    // classes by their probabilities, one line each, and the rows on the axis
    ok(at, "fit logistic t.csv --target label --features x --rank 20 --lambda 1e-6 -o labels -q --json");
    ok(at, "plot labels t.csv -o labels.html -q --json");
    let page = std::fs::read_to_string(at.join("labels.html")).unwrap();
    for k in 0..3 {
        assert!(page.contains(&format!("<path class=\"line c{k}\"")), "{k}");
    }
    assert!(page.contains("label: probability against x") && page.matches("<title>middle: x 0.").count() > 100);
    ok(at, "plot labels t.csv -o labels.png -q --json");
    ok(at, "fit oneclass t.csv --features x --nu 0.1 --rank 20 -o strange -q --json");
    ok(at, "plot strange t.csv -o strange.svg -q --json");
    assert!(std::fs::read_to_string(at.join("strange.svg")).unwrap().contains("class=\"floor\""), "the border");
}

#[test]
fn the_border_of_novelty_is_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate moons --rows 1000 -o t.parquet -q");
    ok(at, "fit oneclass t.parquet --features x* --nu 0.1 --kernel gaussian(sigma=0.5) --rank 50 -o m -q --json");
    ok(at, "plot m t.parquet -o m.svg -q --json");
    let svg = std::fs::read_to_string(at.join("m.svg")).unwrap();
    assert_eq!(svg.matches("class=\"border\"").count(), 1, "{svg}");
    assert!(svg.contains(">oneclass: score over x1 against x0</text>"), "{svg}");
}

/// Writes three distant clusters in four columns, the name of the cluster, and a unique number.
fn groups(at: &std::path::Path) {
    let row = |i: usize| {
        let (k, u) = (i % 3, |n: usize| (i * n % 101) as f64 / 101.0);
        let centre = [(0.0, 0.0), (6.0, 0.0), (0.0, 6.0)][k];
        format!(
            "{},{},{},{},kind{k},{}\n",
            centre.0 + u(37),
            centre.1 + u(53),
            centre.0 + u(7),
            u(11),
            0.5 + 1.25 * i as f64
        )
    };
    std::fs::write(at.join("t.csv"), format!("a,b,c,d,kind,size\n{}", (0..300).map(row).collect::<String>())).unwrap();
}

/// Counts the rows of a picture with this colour class.
fn rows(svg: &str, colour: &str) -> usize {
    svg.matches(&format!("<circle class=\"row {colour}\"")).count()
}

#[test]
fn groups_are_the_colours_of_the_rows_and_predictions_are_drawn_alike() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    groups(at);
    let picture = |line: &str| {
        let report = ok(at, &format!("{line} -o p.svg -q --json"));
        (report, std::fs::read_to_string(at.join("p.svg")).unwrap())
    };
    ok(at, "fit kmeans t.csv --features a,b,c,d --clusters 3 --starts 5 --rank 50 -o four -q --json");
    // without axes the picture shows two columns that separate the clusters: b, and a or its copy c
    let (report, svg) = picture("plot four t.csv");
    let axes = [&report["x"], &report["y"]].map(|axis| axis.as_str().unwrap());
    assert!(axes.contains(&"b") && (axes.contains(&"a") || axes.contains(&"c")), "{report}");
    assert!((0..3).all(|k| rows(&svg, &format!("c{k}")) == 100), "{svg}");
    let (report, _) = picture("plot four t.csv --y d");
    assert!(axes.contains(&report["x"].as_str().unwrap()) && report["y"] == "d", "{report}");
    let (report, svg) = picture("plot four t.csv --x a --y b");
    assert_eq!((&report["drawn"], &report["rows"]), (&300.into(), &300.into()));
    // all four columns determine the cluster, and no plane through a mean is shaded
    assert!((0..3).all(|k| rows(&svg, &format!("c{k}")) == 100) && !svg.contains("class=\"region"), "{svg}");
    assert!(
        (0..3).all(|k| svg.contains(&format!(">cluster {k}</text>")))
            && svg.contains("b against a, coloured by clusters of kmeans")
    );
    // with two columns the plane has regions, with names and boundary lines
    ok(at, "fit kmeans t.csv --features a,b --clusters 3 --starts 5 --rank 50 -o two -q --json");
    let (_, svg) = picture("plot two t.csv");
    assert!(
        (0..3).all(|k| svg.contains(&format!("class=\"region c{k}\"")) && rows(&svg, &format!("c{k}")) == 100),
        "{svg}"
    );
    assert!(
        (0..3).all(|k| svg.matches(&format!(">cluster {k}</text>")).count() == 2) && svg.contains("class=\"contour\"")
    );
    // a table of predictions: the same colours without the model
    ok(at, "predict four t.csv --keep * -o g.csv -q --json");
    let (report, svg) = picture("plot g.csv");
    assert_eq!((&report["x"], &report["y"]), (&"a".into(), &"b".into()));
    assert!(
        (0..3).all(|k| rows(&svg, &format!("c{k}")) == 100) && svg.contains("b against a, coloured by prediction"),
        "{svg}"
    );
    // text is named by its values, a number is shaded, and the colour is optional
    let (_, svg) = picture("plot g.csv --x c --y d --colour kind");
    assert!(
        svg.contains(">kind0</text>") && rows(&svg, "c2") == 100 && svg.contains("d against c, coloured by kind"),
        "{svg}"
    );
    let (_, svg) = picture("plot g.csv --x c --y d --color size");
    assert!(rows(&svg, "v0") >= 20 && rows(&svg, "v11") >= 20 && svg.contains("class=\"key v11\""), "{svg}");
    let (_, svg) = picture("plot t.csv");
    assert!(svg.contains(">b against a</text>") && rows(&svg, "c0") == 0, "{svg}");
    for (line, why) in [
        ("plot g.csv --colour kinds -o p.svg", "did you mean \"kind\"?"),
        ("plot g.csv --x kind --y a -o p.svg", "--x kind: this column is not numeric; choose a numeric column"),
        ("plot four -o p.svg", "name a table after the model"),
        ("plot two t.csv --colour kind -o p.svg", "kmill predict --keep"),
        ("plot missing.csv -o p.svg", "no such file"),
    ] {
        let (code, _, text) = kmill(at, line);
        assert!(code == 1 && text.contains(why) && text.lines().count() == 1, "{line}: {text}");
    }
}

#[test]
fn a_range_of_clusters_is_compared_and_each_cluster_is_described() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    groups(at);
    let line = "fit kmeans t.csv --features a,b,c,d,kind --clusters 2..5 --starts 5 --rank 50";
    let fit = ok(at, &format!("{line} -o m --report m.html --json"));
    let counts = &fit["cluster_counts"];
    assert_eq!((&counts["clusters"], &counts["chosen"]), (&serde_json::json!([2, 3, 4, 5]), &3.into()), "{fit}");
    let clusters = fit["clusters"].as_array().unwrap();
    assert_eq!(clusters.len(), 3, "{fit}");
    for cluster in clusters {
        assert_eq!((&cluster["rows"], cluster["typical_rows"].as_array().unwrap().len()), (&100.into(), 3), "{fit}");
        // every cluster has one kind, and a third of all rows have it
        let columns = cluster["columns"].as_array().unwrap();
        let kind = columns.iter().find(|column| column["column"].as_str().unwrap().starts_with("kind=")).unwrap();
        let number = |name: &str| kind[name].as_f64().unwrap();
        assert!((number("lift") - 3.0).abs() < 1e-9 && (number("mean") - 1.0).abs() < 1e-12, "{kind}");
    }
    let page = std::fs::read_to_string(at.join("m.html")).unwrap();
    assert!(page.contains("id=\"clusters\"") && page.contains("<h2>Clusters</h2>") && page.contains("kind=kind1"));
    // the model has the same description, which threads and budget do not change
    let model = ok(at, "inspect m --json");
    assert_eq!(model["clusters"], fit["clusters"]);
    let again = ok(at, &format!("{line} --threads 1 --memory 200MiB -o n --json"));
    assert_eq!((&again["clusters"], &again["cluster_counts"]), (&fit["clusters"], &fit["cluster_counts"]));
    let spectral =
        ok(at, "fit spectral t.csv --features a,b --clusters 2,3,4 --kernel gaussian(sigma=1) --rank 50 -o s --json");
    assert_eq!((&spectral["cluster_counts"]["chosen"], &spectral["clusters"][0]["rows"]), (&3.into(), &100.into()));
    for wrong in ["1..4", "4..2", "2..400"] {
        let (code, _, text) = kmill(at, &format!("fit kmeans t.csv --features a,b --clusters {wrong} -o x"));
        assert!(code != 0 && text.contains("a range (2..8)"), "{wrong}: {text}");
    }
}

#[test]
fn two_components_are_drawn_against_each_other_in_the_colours_of_a_column() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    groups(at);
    ok(at, "fit kpca t.csv --features a,b,c,d --components 3 --rank 50 -o k -q --json");
    let report = ok(at, "plot k t.csv --colour kind -o k.svg -q --json");
    assert_eq!(
        (&report["x"], &report["y"], &report["drawn"]),
        (&"component_0".into(), &"component_1".into(), &300.into())
    );
    let svg = std::fs::read_to_string(at.join("k.svg")).unwrap();
    assert!((0..3).all(|k| rows(&svg, &format!("c{k}")) == 100) && svg.contains(">kind2</text>"), "{svg}");
    assert!(svg.contains("component_1 against component_0, coloured by kind"), "{svg}");
    // a table of predictions gives the same picture, row by row
    ok(at, "predict k t.csv --keep kind -o k.csv -q --json");
    ok(at, "plot k.csv --colour kind -o p.svg -q --json");
    let places = |svg: &str| {
        svg.split("<circle").skip(1).map(|rest| rest.split('>').next().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(places(&svg), places(&std::fs::read_to_string(at.join("p.svg")).unwrap()));
    ok(at, "plot k t.csv --x component_2 --y component_0 -o q.svg -q --json");
    assert!(std::fs::read_to_string(at.join("q.svg")).unwrap().contains("component_0 against component_2"));
    ok(at, "plot k t.csv --x a --y b --component 2 -o s.svg -q --json");
    assert!(std::fs::read_to_string(at.join("s.svg")).unwrap().contains("shade h11"));
}
