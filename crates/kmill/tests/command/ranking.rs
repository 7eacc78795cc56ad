//! Rankings on the command line: fits, searches, scores and groups.

use crate::run::{kmill, ok};
use std::path::Path;

fn refused(folder: &Path, line: &str, message: &str) {
    let (code, _, stderr) = kmill(folder, line);
    assert!(code != 0 && stderr.contains(message), "{line}: exit {code}, {stderr}");
    assert!(!folder.join("refused").exists(), "{line} left a model");
}

/// A ranking orders rows within groups, and `evaluate` scores the order for any single output.
#[test]
fn rows_are_ranked_in_groups_and_scored_in_them() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut text = "group,x,z,y,c\n".to_string();
    for i in 0..1500u32 {
        let (group, x, z) = ((i * 7) % 50, f64::from(i % 37) / 9.0, f64::from(i % 23) / 5.0);
        let grade = (2.0 + 1.5 * (2.0 * x).sin() + 0.2 * z).round();
        text += &format!("g{group},{x},{},{grade},{}\n", z + 10.0 * f64::from(group % 7), i % 2);
    }
    std::fs::write(at.join("t.csv"), text).unwrap();
    let fit = ok(at, "fit ranking t.csv --target y --features x,z --group group --rank 200 -o m --json");
    let figure = |name: &str| {
        let figures = fit["figures"].as_array().unwrap();
        figures.iter().find(|figure| figure["name"].as_str().unwrap().starts_with(name)).unwrap()["values"].clone()
    };
    let held_out: Vec<f64> = serde_json::from_value(figure("held-out share of pairs")).unwrap();
    assert_eq!(
        (held_out.len(), figure("cv share of pairs")[0].as_f64()),
        (4, held_out.iter().copied().reduce(f64::min))
    );
    let scores = ok(at, "evaluate m t.csv --json");
    let wrong = scores["wrong_pairs"].as_f64().unwrap();
    assert!(
        (wrong - figure("train share of pairs")[0].as_f64().unwrap()).abs() < 1e-3 && wrong < 0.05,
        "{scores} {fit}"
    );
    assert!(scores["groups"] == 50 && scores["rows"] == 1500 && scores["top"] == 10, "{scores}");
    assert!(scores["ndcg"].as_f64().unwrap() > 0.97, "{scores}");
    ok(at, "fit ridge t.csv --target y --features x,z --rank 50 --folds groups:5:group -o r --json");
    let ridge = ok(at, "evaluate r t.csv --group group --json");
    assert!(ridge["wrong_pairs"].as_f64().unwrap() > wrong && ridge.get("mse").is_none(), "{ridge}");
    let top = ok(at, "evaluate r t.csv --group group --top 3 --json");
    assert!(top["top"] == 3 && top["ndcg"] == ridge["ndcg"] && top["ndcg_at"] != ridge["ndcg_at"], "{top} {ridge}");
    assert!(ok(at, "evaluate r t.csv --json").get("mse").is_some());
    ok(at, "evaluate m t.csv --report page.html --json");
    assert!(std::fs::read_to_string(at.join("page.html")).unwrap().contains("wrong pairs"));
    refused(at, "evaluate r t.csv --top 5", "--group");
    ok(at, "fit svm t.csv --target c --features x,z --rank 50 --C 1 -o s --json");
    refused(at, "evaluate s t.csv --group group", "one number");
    refused(at, "fit ranking t.csv --target y --features x,z --group nowhere -o refused", "nowhere");
    refused(at, "fit ranking t.csv --target y --group group --folds blocks:3 -o refused", "held out together");
    refused(at, "fit ridge t.csv --target y --folds groups:group -o refused", "groups:5:subject");
}

/// Whole groups are held out to choose a ranking; svmlight files contain groups, possibly many.
#[test]
fn a_ranking_is_chosen_by_pairs_of_groups_held_out() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut text = "x0,x1,qid,y\n".to_string();
    for i in 0..1200u32 {
        let (group, x, z) = ((i * 7) % 60, f64::from(i % 37) / 9.0, f64::from(i % 23) / 5.0);
        let grade = (2.0 + 1.5 * (2.0 * x).sin() + 0.2 * z).round();
        text += &format!("{x},{},{group},{grade}\n", z + 0.5 * f64::from(group % 7));
    }
    std::fs::write(at.join("t.csv"), text).unwrap();
    let search = "--group qid --kernels gaussian() --work 2,6 --rank 60 --json";
    let line = format!("tune ranking t.csv --target y --features x* {search}");
    let found = ok(at, &format!("{line} -o m --threads 2"));
    assert_eq!((found["solver"].as_str(), found["folds"].as_str()), (Some("ranking"), Some("groups:5:qid")), "{found}");
    let wrong = found["test"]["error"].as_f64().unwrap();
    assert!(wrong < 0.1 && found["contenders"][0]["errors"][0].as_f64().unwrap() < 0.3, "{found}");
    ok(at, &format!("{line} -o one --threads 1"));
    let bytes = |name: &str| std::fs::read(at.join(name)).unwrap();
    assert!(bytes("m") == bytes("one"));
    let (_, _, stderr) = kmill(at, &format!("{line} -o m --report page.html"));
    let page = std::fs::read_to_string(at.join("page.html")).unwrap();
    assert!(page.contains("pairs in the wrong order") && !stderr.contains("integer values"), "{stderr}");
    refused(at, &format!("{line} --measure auc -o refused"), "auc");
    // groups in svmlight lines
    ok(at, "convert t.csv --target y -o t.svm --json");
    assert!(std::fs::read_to_string(at.join("t.svm")).unwrap().lines().nth(1).unwrap().contains(" qid:7 "));
    for table in ["t.csv", "t.svm"] {
        let fit = format!("fit ranking {table} --target y --features x* --group qid --lambda 1e-3 --rank 40 --json -o");
        ok(at, &format!("{fit} of-{}", &table[2..]));
    }
    assert_eq!(ok(at, "evaluate of-csv t.csv --json"), ok(at, "evaluate of-svm t.svm --json"));
    let mut text = "x,qid,y\n".to_string();
    (0..24_000).for_each(|i| text += &format!("{},{},{}\n", i % 97, i / 2, i * 7 % 3));
    std::fs::write(at.join("many.csv"), text).unwrap();
    let fit = "fit ranking many.csv --target y --features x --group qid --rank 5";
    assert!(ok(at, &format!("{fit} --lambda 1e-3 -o many --json"))["rows"] == 24_000);
    // the sample consists of whole groups: few random rows would have a pair
    let few = fit.replace("fit", "tune") + " --kernels gaussian() --work 1,2 --sample 1000 -o many --json";
    let pairs = ok(at, &few)["test"]["pairs"].as_u64().unwrap();
    assert!((60..=120).contains(&pairs), "{pairs}");
    refused(at, "fit ridge many.csv --target y --features x --folds column:qid -o refused", "at most 1000");
}
