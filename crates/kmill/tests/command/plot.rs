//! `kmill plot`: regions where the classes are, lines where scores are equal, words that are refused.

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
    // lines of equal score at several levels, each with its number
    assert!(svg.matches("class=\"contour\"").count() > 2, "few levels");
    assert!(!svg.contains("NaN") && svg.starts_with("<svg xmlns="));
    // rows of the first moon are above those of the second at the same x: the region above the border is the first
    let scores = report["scores"][0].as_array().unwrap();
    assert!(scores[0].as_f64().unwrap() < -0.5 && scores[1].as_f64().unwrap() > 0.5, "{scores:?}");
    ok(at, "plot m t.parquet --x x1 --y x0 -o m.html -q --json");
    let page = std::fs::read_to_string(at.join("m.html")).unwrap();
    assert!(page.contains("id=\"picture\"") && page.contains("x0 against x1"));
    // colours have names, and regions too
    assert!(svg.contains(">y over x1 against x0</text>") && svg.matches(">0</text>").count() >= 2, "{svg}");
    assert!(svg.matches("class=\"label\"").count() == 2, "a name in each region");
    // the same drawing as pixels: the same bytes whoever draws it, and the colours of both classes
    ok(at, "plot m t.parquet -o m.png -q --json");
    ok(at, "plot m t.parquet -o n.png -q --json --threads 1");
    let png = std::fs::read(at.join("m.png")).unwrap();
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n") && png.len() > 20_000, "{} bytes", png.len());
    assert_eq!(png, std::fs::read(at.join("n.png")).unwrap());
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
        ("plot r t.parquet --x x3 --y x3 -o a.svg", "this is --x already"),
        ("plot r t.parquet --x x3 --y nope -o a.svg", "no such feature"),
        ("plot r t.parquet --x x3 --y x4 -o a.pdf", "end it with .png, .svg or .html"),
        ("plot k t.parquet --component 4 -o a.svg", "give a smaller number"),
    ] {
        let (code, _, text) = kmill(at, line);
        assert!(code == 1 && text.contains(why), "{line}: {text}");
    }
}

#[test]
fn twenty_classes_have_colours_and_names_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // a grid of five by four groups
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
    // y = x² on 0 to 1, and a label of three thirds
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
    // the line goes through the rows: every row is within a unit of the drawing of it
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
