#!/usr/bin/env python3
"""Writes the bill of materials of a wheel from launch/build-wheel.sh, in CycloneDX's JSON: the libraries that are inside or compiled in,
with their versions, licenses and notices.

    sbom.py WHEEL > FILE

A library in the wheel that its list evenkeel/licenses/packages.txt lacks is an error.
"""
import email
import json
import pathlib
import re
import sys
import urllib.parse
import zipfile

LICENSES = "evenkeel/licenses/"


def main_license(copyright_file: str, name: str) -> str:
    """Returns the license that a copyright file of Debian states for files without a stanza of their own."""
    for stanza in re.split(r"\n\s*\n", copyright_file):
        fields = email.message_from_string(stanza.strip())
        if fields.get("Files", "").split() == ["*"] and "License" in fields:
            return fields["License"].splitlines()[0].strip()
    sys.exit(f"sbom: {name} states no license for 'Files: *'")


def component(line: str, wheel: zipfile.ZipFile) -> dict:
    file, package, version, source = line.split()
    notices = f"{LICENSES}{source}.txt"
    return {
        "type": "library", "name": package, "version": version, "purl": f"pkg:deb/debian/{package}@{urllib.parse.quote(version)}",
        "licenses": [{"license": {"name": main_license(wheel.read(notices).decode(), notices)}}],
        "properties": [{"name": "evenkeel:file", "value": pathlib.PurePath(file).name},
                       {"name": "evenkeel:notices", "value": notices}],
    }


def bill(path: pathlib.Path) -> dict:
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        about = email.message_from_bytes(wheel.read(metadata))
        components = [component(line, wheel) for line in wheel.read(LICENSES + "packages.txt").decode().splitlines()]
    # auditwheel adds a hash to the name of each library that it copies.
    copied = {re.sub(r"-[0-9a-f]{8}(?=\.so)", "", pathlib.PurePath(name).name) for name in names if ".libs/lib" in name}
    missing = copied - {entry["properties"][0]["value"] for entry in components}
    if missing:
        sys.exit(f"sbom: {LICENSES}packages.txt has no line for {', '.join(sorted(missing))}")
    name, version = about["Name"], about["Version"]
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": {"type": "library", "name": name, "version": version, "purl": f"pkg:pypi/{name}@{version}",
                                   "licenses": [{"license": {"id": about["License"]}}]}},
        "components": components,
    }


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(json.dumps(bill(pathlib.Path(sys.argv[1])), indent=1))
