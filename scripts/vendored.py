#!/usr/bin/env python3
"""Writes a folder with the third-party crates of the command and the Python package on Linux, for builds without a network.

    scripts/vendored.py FOLDER
    CARGO_HOME=FOLDER cargo build --offline

`cargo vendor` fetches every crate of Cargo.lock, and most of the bytes are for other systems. Cargo reads only the manifests of those crates, so
this script replaces their sources with an empty library: 126 MB instead of 525 MB.
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


def compiled_crates():
    """Returns name and version of the crates that are compiled on Linux."""
    packages = [word for package in PACKAGES for word in ("-p", package)]
    targets = [word for triple in TRIPLES for word in ("--target", triple)]
    tree = cargo("tree", "--locked", *packages, *targets, "-e", "normal,build", "--prefix", "none", "-f", "{p}")
    return {tuple(line.split()[:2]) for line in tree.splitlines() if line}


def remove_sources(crate):
    """Replaces the sources of a crate with an empty library; keeps the manifest."""
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
    folder, compiled = Path(sys.argv[1]).resolve(), compiled_crates()
    cargo("vendor", "--quiet", "--locked", "--versioned-dirs", str(folder / "crates"))
    for crate in sorted((folder / "crates").iterdir()):
        package = tomllib.loads((crate / "Cargo.toml").read_text())["package"]
        if (package["name"], f"v{package['version']}") not in compiled:
            remove_sources(crate)
    # cargo resolves the path relative to the parent of this folder
    source = {"source.crates-io": 'replace-with = "vendored"', "source.vendored": f'directory = "{folder.name}/crates"'}
    (folder / "config.toml").write_text("\n".join(f"[{table}]\n{line}\n" for table, line in source.items()))


if __name__ == "__main__":
    main()
