#!/usr/bin/env python3
"""What the crates offer to other programs: every public item on a line, as it is declared, in tests/golden/api/CRATE.txt.

    scripts/api.py           compares, and ends with 1 where something differs
    scripts/api.py --write   writes the lists anew

A line that is gone or that reads differently breaks programs of others: CHANGELOG.md names it. rustdoc tells what is public, and needs what the
lints have compiled. Its JSON is not stable, so the lists are compared where its format is the known one; otherwise the comparison is skipped,
and said. A link of the documentation that leads nowhere is an error, too.
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
CRATES = ["kpass", "kstore", "kapprox", "kmodel", "kfit", "ksolve", "kcloud", "kmill"]
# of Rust 1.95
FORMAT = 57
# rustdoc as itself, but for its output
RUSTDOC = """#!/bin/sh
case "$*" in *--crate-name*) set -- "$@" -Zunstable-options --output-format json ;; esac
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
"""


def documented():
    """The folder with a JSON file of each crate."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "api"
    target.mkdir(parents=True, exist_ok=True)
    wrapper = target / "rustdoc"
    wrapper.write_text(RUSTDOC)
    wrapper.chmod(0o755)
    packages = [word for crate in CRATES for word in ("-p", crate)]
    line = ["cargo", "doc", "--quiet", "--no-deps", "--lib", *packages]
    subprocess.run(line, cwd=ROOT, env={**os.environ, "RUSTDOC": str(wrapper), "RUSTDOCFLAGS": "-D warnings"}, check=True)
    return target.parent / "doc"


class Listing:
    """The lines of a crate."""

    def __init__(self, path):
        self.crate = json.loads(path.read_text())
        self.index, self.lines, self.sources = self.crate["index"], [], {}
        self.module(self.crate["root"], path.stem)

    def declared(self, item):
        """How an item stands in its source, up to its body; its name, where a macro made it."""
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
        # however its lines are broken
        text = re.sub(r"([(\[<]) | (?=[)\]>])", r"\1", re.sub(r",(?= ?([)\]>]|$))", "", re.sub(r"^pub(\([a-z]+\))? ", "", text.strip())))
        return text if re.search(rf"\b{re.escape(item['name'])}\b", text) else item["name"]

    def module(self, id, path):
        for child in self.index[str(id)]["inner"]["module"]["items"]:
            item = self.index[str(child)]
            self.item(item, f"{path}::{item['name']}", path)

    def item(self, item, path, parent):
        kind, inner = next(iter(item["inner"].items()))
        if kind == "use":
            target = self.index.get(str(inner["id"]))
            if inner["is_glob"] and target and "module" in target["inner"]:
                self.module(inner["id"], parent)
            elif target and not inner["is_glob"]:
                self.item(target, f"{parent}::{inner['name']}", parent)
            else:
                self.lines.append(f"{parent}: use {inner['source']}")
            return
        if kind == "module":
            self.lines.append(f"{path}: mod")
            self.module(item["id"], path)
            return
        self.lines.append(f"{path}: {self.declared(item)}")
        members = inner if isinstance(inner, dict) else {}
        shape = members.get("kind", {})
        if kind == "variant":
            return
        fields = shape.get("plain", {}).get("fields", []) + shape.get("tuple", []) if isinstance(shape, dict) else []
        for child in members.get("variants", []) + fields + (members["items"] if kind == "trait" else []):
            if child is not None:
                self.member(child, path)
        traits = set()
        for id in members.get("impls", []):
            impl = self.index[str(id)]["inner"]["impl"]
            if impl["trait"] is None:
                for child in impl["items"]:
                    self.member(child, path)
            elif not impl["is_synthetic"] and impl["blanket_impl"] is None:
                traits.add(impl["trait"]["path"].split("::")[-1])
        if traits:
            self.lines.append(f"{path}: impl {', '.join(sorted(traits))}")

    def member(self, id, path):
        if member := self.index.get(str(id)):
            self.item(member, f"{path}::{member['name']}", path)


def main():
    write, folder, differ = "--write" in sys.argv, documented(), False
    LISTS.mkdir(exist_ok=True)
    for crate in CRATES:
        version = json.loads((folder / f"{crate}.json").read_text())["format_version"]
        if version != FORMAT:
            print(f"scripts/api.py: skipped: the public items are listed with format {FORMAT} of rustdoc, and this one has {version}")
            return 0
        path, lines = LISTS / f"{crate}.txt", sorted(set(Listing(folder / f"{crate}.json").lines))
        known = path.read_text().splitlines() if path.exists() else []
        if write:
            path.write_text("".join(f"{line}\n" for line in lines))
        for line in difflib.unified_diff(known, lines, str(path.relative_to(ROOT)), "what there is", lineterm="", n=0):
            differ = True
            print(line)
    if differ and not write:
        print("scripts/api.py: public items have changed; if that is meant, scripts/api.py --write lists them")
    return int(differ and not write)


if __name__ == "__main__":
    sys.exit(main())
