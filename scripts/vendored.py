#!/usr/bin/env python3
"""The crates of others that the command and the Python package need on Linux, as a folder that a build without a network takes them from.

    scripts/vendored.py FOLDER
    CARGO_HOME=FOLDER cargo build --offline

`cargo vendor` fetches every crate of Cargo.lock, most of the bytes for other systems. Cargo reads the manifests of those and nothing else, so an
empty library stands in their place: 126 MB are left of 525.
"""

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ["kmill", "kmill-python"]
TRIPLES = ["x86_64-unknown-linux-gnu", "x86_64-unknown-linux-musl", "aarch64-unknown-linux-gnu", "aarch64-unknown-linux-musl"]


def cargo(*words):
    return subprocess.run(["cargo", *words], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def needed():
    """Name and version of the crates that are compiled on Linux."""
    packages = [word for package in PACKAGES for word in ("-p", package)]
    targets = [word for triple in TRIPLES for word in ("--target", triple)]
    tree = cargo("tree", "--locked", *packages, *targets, "-e", "normal,build", "--prefix", "none", "-f", "{p}")
    return {tuple(line.split()[:2]) for line in tree.splitlines() if line}


def emptied(crate):
    """Leaves the manifest of a crate, and a library without a line."""
    for entry in crate.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry.name not in ("Cargo.toml", ".cargo-checksum.json"):
            entry.unlink()
    (crate / "src").mkdir()
    (crate / "src" / "lib.rs").touch()
    sums = crate / ".cargo-checksum.json"
    sums.write_text(json.dumps(json.loads(sums.read_text()) | {"files": {}}))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder, wanted = Path(sys.argv[1]).resolve(), needed()
    cargo("vendor", "--quiet", "--locked", "--versioned-dirs", str(folder / "crates"))
    for crate in sorted((folder / "crates").iterdir()):
        package = tomllib.loads((crate / "Cargo.toml").read_text())["package"]
        if (package["name"], f"v{package['version']}") not in wanted:
            emptied(crate)
    # cargo takes the path from the folder that this one lies in
    source = {"source.crates-io": 'replace-with = "vendored"', "source.vendored": f'directory = "{folder.name}/crates"'}
    (folder / "config.toml").write_text("\n".join(f"[{table}]\n{line}\n" for table, line in source.items()))


if __name__ == "__main__":
    main()
