#!/usr/bin/env python3
"""The packages that a program is made of, as a CycloneDX document: names, versions, licences, checksums, who needs whom.

    cargo metadata --format-version 1 --filter-platform TRIPLE | scripts/sbom.py PACKAGE >kmill.cdx.json

What only builds or tests is left out. The document has no time and no random number, so that it is the same each time.
"""

import json
import sys
import tomllib
from pathlib import Path


def kept(node):
    """The packages that are linked into a package: no build scripts, no tests."""
    return sorted(d["pkg"] for d in node["deps"] if any(kind["kind"] is None for kind in d["dep_kinds"]))


def component(package, checksums):
    """What the document says of a package."""
    name, version = package["name"], package["version"]
    said = {"type": "library", "bom-ref": f"pkg:cargo/{name}@{version}", "name": name, "version": version}
    if package["description"]:
        said["description"] = " ".join(package["description"].split())
    if checksum := checksums.get((name, version)):
        said["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package["license"]:
        # an older way to write OR
        said["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    return {**said, "purl": said["bom-ref"]}


def main(name):
    metadata = json.load(sys.stdin)
    lock = tomllib.loads((Path(metadata["workspace_root"]) / "Cargo.lock").read_text())
    checksums = {(p["name"], p["version"]): p.get("checksum") for p in lock["package"]}
    packages = {p["id"]: p for p in metadata["packages"]}
    nodes = {n["id"]: n for n in metadata["resolve"]["nodes"]}
    root = next(p["id"] for p in metadata["packages"] if p["name"] == name and p["id"] in metadata["workspace_members"])
    found, ahead = set(), [root]
    while ahead:
        here = ahead.pop()
        if here not in found:
            found.add(here)
            ahead += kept(nodes[here])
    said = {id: component(packages[id], checksums) for id in found}
    order = sorted(found, key=lambda id: said[id]["bom-ref"])
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {**said[root], "type": "application"}},
        "components": [said[id] for id in order if id != root],
        "dependencies": [
            {"ref": said[id]["bom-ref"], "dependsOn": [said[d]["bom-ref"] for d in kept(nodes[id])]} for id in order
        ],
    }
    json.dump(document, sys.stdout, indent=1, ensure_ascii=False)
    print()


if __name__ == "__main__":
    main(*sys.argv[1:])
