#!/usr/bin/env python3
"""Compares the public API of the crates with the lists in tests/golden/api/CRATE.txt: one line per public item, as declared.

    scripts/api.py           compares; exit code 1 if anything differs
    scripts/api.py --write   rewrites the lists

A removed or changed line breaks dependent programs, so CHANGELOG.md must name it. rustdoc determines which items are public; it reuses what the
lints have compiled. Its JSON format is unstable, so the comparison runs only with the format version below; otherwise the script reports that
it is skipped. A broken link in the documentation is also an error.
"""

import difflib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LISTS = ROOT / "tests/golden/api"
# the crates that programs depend on, and the crates whose items these re-export
PUBLIC = ["kstore", "kapprox", "ksolve", "kcloud", "kmill"]
CRATES = ["kpass", "kmodel", "kfit", "kreport", *PUBLIC]
# format version of the JSON of rustdoc, in Rust 1.95
FORMAT = 57
# a wrapper of rustdoc that selects JSON as output
RUSTDOC = """#!/bin/sh
case "$*" in *--crate-name*) set -- "$@" -Zunstable-options --output-format json ;; esac
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
"""


def run_rustdoc():
    """Runs rustdoc, and returns the folder with a JSON file for each crate."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "api"
    target.mkdir(parents=True, exist_ok=True)
    wrapper = target / "rustdoc"
    wrapper.write_text(RUSTDOC)
    wrapper.chmod(0o755)
    packages = [word for crate in CRATES for word in ("-p", crate)]
    line = ["cargo", "doc", "--quiet", "--no-deps", "--lib", *packages]
    subprocess.run(line, cwd=ROOT, env={**os.environ, "RUSTDOC": str(wrapper), "RUSTDOCFLAGS": "-D warnings"}, check=True)
    return target.parent / "doc"


class Crate:
    """The items of a crate, and the location of each definition."""

    def __init__(self, path):
        self.name, crate = path.stem, json.loads(path.read_text())
        self.version, self.root, self.index, self.paths = (crate[key] for key in ("format_version", "root", "index", "paths"))
        self.ids = {tuple(of["path"]): id for id, of in self.paths.items() if of["crate_id"] == 0}
        self.sources = {}

    def declared(self, item):
        """Returns the declaration of an item in its source, up to its body; its name if a macro generated it."""
        span = item["span"]
        if not span:
            return item["name"]
        if span["filename"] not in self.sources:
            self.sources[span["filename"]] = (ROOT / span["filename"]).read_text().split("\n")
        lines = self.sources[span["filename"]][span["begin"][0] - 1 : span["end"][0]]
        lines[-1] = lines[-1][: span["end"][1]]
        lines[0] = lines[0][span["begin"][1] - 1 :]
        text = " ".join(line.strip() for line in lines if not re.match(r"\s*(//|#\[)", line))
        depth, field = 0, "variant" in item["inner"] or "struct_field" in item["inner"]
        for at, letter in enumerate(text):
            depth += (letter in "([") - (letter in ")]")
            if depth == 0 and not field and letter in "{;":
                text = text[:at]
                break
        # normalise line breaks
        text = re.sub(r"([(\[<]) | (?=[)\]>])", r"\1", re.sub(r",(?= ?([)\]>]|$))", "", re.sub(r"^pub(\([a-z]+\))? ", "", text.strip())))
        return text if re.search(rf"\b{re.escape(item['name'])}\b", text) else item["name"]


class Listing:
    """The lines of a crate: every item once, at its shortest path; other paths as one line per module."""

    def __init__(self, crate, crates):
        self.crates, self.lines = crates, []
        # paths of each item, by (crate, id)
        self.item_paths = {}
        self.module(crate, crate.root, crate.name, set())
        aliases = {}
        for (name, id), paths in self.item_paths.items():
            path, *others = sorted(set(paths), key=lambda path: (path.count("::"), path))
            self.item(crates[name], id, path)
            for other in others:
                parent, _, last = other.rpartition("::")
                aliases.setdefault(parent, []).append(last)
        self.lines += [f"{parent}: use {', '.join(sorted(names))}" for parent, names in aliases.items()]

    def resolve(self, crate, id):
        """Returns the crate and the id of an item; `None` if it is in a crate that is not listed."""
        if str(id) in crate.index:
            return crate, str(id)
        path = crate.paths.get(str(id), {}).get("path")
        other = self.crates.get(path[0]) if path else None
        return (other, other.ids[tuple(path)]) if other and tuple(path) in other.ids else None

    def module(self, crate, id, path, outer):
        for child in crate.index[str(id)]["inner"]["module"]["items"]:
            item = crate.index[str(child)]
            kind, inner = next(iter(item["inner"].items()))
            if kind == "use":
                target = self.resolve(crate, inner["id"])
                name = f"{path}::{inner['name']}"
                other = target and target[0].name in PUBLIC and target[0] is not crate and crate.name in PUBLIC
                if target is None or other or target[0].index[target[1]]["name"] == target[0].name:
                    self.lines.append(f"{name}: use {inner['source']}")
                elif "module" in target[0].index[target[1]]["inner"]:
                    below = path if inner["is_glob"] else name
                    if (below, target[1]) not in outer:
                        self.module(*target, below, outer | {(below, target[1])})
                else:
                    self.item_paths.setdefault((target[0].name, target[1]), []).append(name)
            elif kind == "module":
                self.lines.append(f"{path}::{item['name']}: mod")
                self.module(crate, child, f"{path}::{item['name']}", outer)
            else:
                self.item_paths.setdefault((crate.name, str(child)), []).append(f"{path}::{item['name']}")

    def item(self, crate, id, path):
        item = crate.index[str(id)]
        kind, inner = next(iter(item["inner"].items()))
        self.lines.append(f"{path}: {crate.declared(item)}")
        members = inner if isinstance(inner, dict) else {}
        shape = members.get("kind", {})
        if kind == "variant":
            return
        fields = shape.get("plain", {}).get("fields", []) + shape.get("tuple", []) if isinstance(shape, dict) else []
        for child in members.get("variants", []) + fields + (members["items"] if kind == "trait" else []):
            if child is not None:
                self.member(crate, child, path)
        traits = set()
        for id in members.get("impls", []):
            impl = crate.index[str(id)]["inner"]["impl"]
            if impl["trait"] is None:
                for child in impl["items"]:
                    self.member(crate, child, path)
            elif not impl["is_synthetic"] and impl["blanket_impl"] is None:
                traits.add(impl["trait"]["path"].split("::")[-1])
        if traits:
            self.lines.append(f"{path}: impl {', '.join(sorted(traits))}")

    def member(self, crate, id, path):
        if member := crate.index.get(str(id)):
            self.item(crate, id, f"{path}::{member['name']}")


def main():
    write, folder, differ = "--write" in sys.argv, run_rustdoc(), False
    LISTS.mkdir(exist_ok=True)
    crates = {name: Crate(folder / f"{name}.json") for name in CRATES}
    for crate in crates.values():
        if crate.version != FORMAT:
            print(f"scripts/api.py: skipped: the lists need format {FORMAT} of rustdoc's JSON, and this rustdoc writes {crate.version}")
            return 0
    for name in PUBLIC:
        path, lines = LISTS / f"{name}.txt", sorted(set(Listing(crates[name], crates).lines))
        expected = path.read_text().splitlines() if path.exists() else []
        if write:
            path.write_text("".join(f"{line}\n" for line in lines))
        for line in difflib.unified_diff(expected, lines, str(path.relative_to(ROOT)), "current API", lineterm="", n=0):
            differ = True
            print(line)
    if differ and not write:
        print("scripts/api.py: the public API differs from the lists; if the change is intended, run scripts/api.py --write")
    return int(differ and not write)


if __name__ == "__main__":
    sys.exit(main())
