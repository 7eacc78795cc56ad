//! Ridge on files of any size, with a memory budget, progress, a cancel token and the peak memory.
//!
//! `cargo run --release -p ksolve --example parquet -- TARGET FILES...`

use ksolve::job::StageObserver;
use ksolve::job::{CancelToken, Fit, Run};
use kstore::pass::{NoObserver, Observer};
use kstore::{Table, budget};

/// Prints the name of each stage.
struct Say;

impl StageObserver for Say {
    fn start_stage<'a>(&'a self, name: &str, rows: Option<u64>) -> Box<dyn Observer + 'a> {
        eprintln!("{name}{}", rows.map_or(String::new(), |rows| format!(": {rows} rows")));
        Box::new(NoObserver)
    }
    fn warn(&self, text: String) {
        eprintln!("warning: {text}");
    }
}

fn main() -> ksolve::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (target, files) = words.split_first().expect("a target and files");
    let cancel = CancelToken::new(); // another thread may call cancel.cancel()
    let run = Run::new().memory(512 << 20).observer(&Say).cancel_token(cancel);
    let fit = Fit::ridge().rank(500).set("folds", "blocks:5");
    let fitted = fit.fit_table(&Table::open(files)?, &[target.as_str()], &run)?;
    println!("rank {}, lambda {:?}, {:?}", fitted.report.rank, fitted.report.lambda, fitted.report.certificate);
    println!("peak {}", budget::peak_rss().map_or("unknown".to_string(), budget::format_bytes));
    Ok(())
}
