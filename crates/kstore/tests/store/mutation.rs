//! Valid files, damaged a few thousand times with a fixed seed, cause no panic, no hang and no
//! allocation of a merely claimed size. The coverage-guided search is `scripts/fuzz`.

use crate::make::*;
use kstore::key::{Purpose, Stream};
use kstore::{Missing, ReadSettings, RowBuf, RowSource, Selection, Table};
use std::path::Path;

/// Number of mutations per file.
const ROUNDS: u64 = 700;
/// Limit of the address space of the reading process, little more than it starts with. A header
/// that claims a billion columns must not cause their allocation.
const ADDRESS_SPACE: usize = 1 << 30;

fn seeds(folder: &Path) -> Vec<(&'static str, Vec<u8>)> {
    let header = |dtype: &str, shape: &str| {
        let path = folder.join("seed.npy");
        crate::files::npy(&path, dtype, shape, &[3; 48]);
        std::fs::read(path).unwrap()
    };
    vec![
        ("npy", header("<f4", "(6, 2)")),
        ("npy", header("<i8", "(6,)")),
        ("csv", b"a,b,\"c d\"\n1,0.5,x\n2,NA,\"y,\n\"\"\"\r\n-3,1e300,\n".to_vec()),
        ("csv", b"\xef\xbb\xbfa;b\ntrue;9007199254740993\nfalse;1\n".to_vec()),
        ("svm", b"# c\n+1 1:0.5 3:2 # d\n\n-1 qid:2 2:1e-3 99:4\r\n".to_vec()),
        ("npz", crate::sparse_files::npz_bytes(folder)),
        ("parquet", std::fs::read(&split(folder, 40, &[], 20)[0]).unwrap()),
    ]
}

/// Changes, inserts, removes or repeats a few bytes.
fn mutate(bytes: &mut Vec<u8>, random: &Stream, round: u64) {
    let draw = |i: u64, n: usize| random.uniform_below(64 * round + i, n as u64) as usize;
    for change in 0..1 + draw(0, 4) as u64 {
        let base = 8 * change + 1;
        if bytes.is_empty() {
            return bytes.push(b'1');
        }
        let at = draw(base, bytes.len());
        let interesting = b"\0\xff\x7f\x80\",;:\n\r-9e#'()[]{}";
        match draw(base + 1, 6) {
            0 => bytes[at] ^= 1 << draw(base + 2, 8),
            1 => bytes[at] = interesting[draw(base + 2, interesting.len())],
            2 => bytes.insert(at, interesting[draw(base + 2, interesting.len())]),
            3 => _ = bytes.remove(at),
            4 => bytes.truncate(at),
            _ => {
                let part = bytes[at..bytes.len().min(at + 1 + draw(base + 2, 20))].to_vec();
                let to = draw(base + 3, bytes.len());
                bytes.splice(to..to, part);
            }
        }
    }
}

fn read_to_its_end(path: &Path) -> kstore::Result<u64> {
    let table = Table::open(&[path])?;
    let keep = table.matching_columns(&[])?;
    let selection = Selection { keep, missing: Missing::Mean, without_features: true, ..Selection::default() };
    let rows = table.select(&selection)?.rows::<f64>(ReadSettings::default())?;
    let (mut buf, mut seen, mut cursor) = (RowBuf::new(7), 0, rows.open(0..u64::MAX)?);
    while cursor.next(&mut buf)? {
        seen += buf.row_numbers.len() as u64;
    }
    assert_eq!(seen, table.stored_rows());
    Ok(seen)
}

fn read_mutated(folder: &Path) {
    let random = Stream::new(7, Purpose::Data, 0);
    let (mut read, mut refused) = (0u64, 0u64);
    for (i, (format, seed)) in seeds(folder).into_iter().enumerate() {
        let path = folder.join(format!("mutated.{format}"));
        std::fs::write(&path, &seed).unwrap();
        read_to_its_end(&path).unwrap();
        for round in 0..ROUNDS {
            let mut bytes = seed.clone();
            mutate(&mut bytes, &random, i as u64 * ROUNDS + round);
            std::fs::write(&path, &bytes).unwrap();
            match read_to_its_end(&path) {
                Ok(_) => read += 1,
                Err(error) => {
                    refused += 1;
                    assert!(error.to_string().len() < 2000, "{error}");
                }
            }
        }
    }
    // both outcomes must be common, or the mutations are too weak or too strong
    assert!(read > ROUNDS / 2 && refused > ROUNDS / 2, "{read} read, {refused} refused");
}

#[test]
fn mutated_files_neither_panic_nor_claim_memory() {
    // in a separate process, because the limit applies to the whole process
    const CHILD: &str = "KSTORE_TEST_MUTATION";
    if let Some(folder) = std::env::var_os(CHILD) {
        return read_mutated(Path::new(&folder));
    }
    let folder = folder();
    let test = std::env::current_exe().unwrap();
    let limited = std::process::Command::new("prlimit").arg("--version").output().is_ok_and(|o| o.status.success());
    let mut command = std::process::Command::new(if limited { Path::new("prlimit") } else { &test });
    if limited {
        command.arg(format!("--as={ADDRESS_SPACE}")).arg(&test);
    } else {
        eprintln!("without prlimit the claims on memory are not tested");
    }
    let name = "mutation::mutated_files_neither_panic_nor_claim_memory";
    let output = command.args(["--exact", name, "--nocapture"]).env(CHILD, folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
