#!/usr/bin/env python3
"""Writes the dependencies of a program as a CycloneDX document: names, versions, licences, checksums, dependency graph.

    cargo metadata --format-version 1 --filter-platform TRIPLE | scripts/sbom.py PACKAGE >kmill.cdx.json

Build scripts and tests are excluded. The document has no timestamp and no random number, so it is reproducible.
"""

import json
import sys
import tomllib
from pathlib import Path


def linked_by(node):
    """Returns the packages that are linked into a package, without build and test dependencies."""
    return sorted(d["pkg"] for d in node["deps"] if any(kind["kind"] is None for kind in d["dep_kinds"]))


def component(package, checksums):
    """Returns the component entry of a package."""
    name, version = package["name"], package["version"]
    entry = {"type": "library", "bom-ref": f"pkg:cargo/{name}@{version}", "name": name, "version": version}
    if package["description"]:
        entry["description"] = " ".join(package["description"].split())
    if checksum := checksums.get((name, version)):
        entry["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package["license"]:
        # an older syntax for OR
        entry["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    return {**entry, "purl": entry["bom-ref"]}


def main(name):
    metadata = json.load(sys.stdin)
    lock = tomllib.loads((Path(metadata["workspace_root"]) / "Cargo.lock").read_text())
    checksums = {(p["name"], p["version"]): p.get("checksum") for p in lock["package"]}
    packages = {p["id"]: p for p in metadata["packages"]}
    nodes = {n["id"]: n for n in metadata["resolve"]["nodes"]}
    root = next(p["id"] for p in metadata["packages"] if p["name"] == name and p["id"] in metadata["workspace_members"])
    linked, pending = set(), [root]
    while pending:
        id = pending.pop()
        if id not in linked:
            linked.add(id)
            pending += linked_by(nodes[id])
    components = {id: component(packages[id], checksums) for id in linked}
    order = sorted(linked, key=lambda id: components[id]["bom-ref"])
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {**components[root], "type": "application"}},
        "components": [components[id] for id in order if id != root],
        "dependencies": [
            {"ref": components[id]["bom-ref"], "dependsOn": [components[d]["bom-ref"] for d in linked_by(nodes[id])]} for id in order
        ],
    }
    json.dump(document, sys.stdout, indent=1, ensure_ascii=False)
    print()


if __name__ == "__main__":
    main(*sys.argv[1:])
