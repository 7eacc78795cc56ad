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
