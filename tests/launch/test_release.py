#!/usr/bin/env python3
"""Checks what launch/release.sh makes, compares and refuses, using stand-ins for builds; and the bill of materials of a small
wheel."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = ("release.sh", "pack.sh", "sbom.py", "environment.sh")
WHEEL = "evenkeel-1.2.3-py3-none-any.whl"
STAND_INS = {
    "launch/install-packages.sh": "#!/bin/sh\n",
    "launch/build-wheel.sh": f"#!/bin/sh\nmkdir -p build/wheel/wheels\ncp {WHEEL} build/wheel/wheels\n",
    "launch/build-debs.sh": '#!/bin/sh\nmkdir -p build/debs/packages/_CPack_Packages\necho "$DEB" >build/debs/packages/evenkeel.deb\n',
    "launch/site.sh": '#!/bin/sh\nmkdir "$1"\necho page >"$1/index.html"\n',
    "tests/compatibility/artifacts.py": 'import os, sys\nopen(sys.argv[2], "w").write(os.environ["ARCHIVE"])\n',
    "VERSION": "1.2.3\n",
    "CHANGELOG.md": "## [1.2.3] - 2026-01-31\n",
    "CITATION.cff": "version: 1.2.3\n",
}
ARTIFACTS = {WHEEL, WHEEL.replace(".whl", ".cdx.json"), "evenkeel.deb", "evenkeel-1.2.3-site.tar.gz",
             "evenkeel-1.2.3-compatibility.tar.xz"}
COPYRIGHT = "Format: x\n\nFiles: debian/*\nLicense: GPL-2\n\nFiles: *\nCopyright: somebody\nLicense: BSL-1.0\n as it is\n"


def write_wheel(path: pathlib.Path, *, packages: str) -> None:
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("evenkeel-1.2.3.dist-info/METADATA", "Name: evenkeel\nVersion: 1.2.3\nLicense: Apache-2.0\n")
        wheel.writestr("evenkeel.libs/libfmt-0123abcd.so.9", "")
        wheel.writestr("evenkeel/licenses/packages.txt", packages)
        wheel.writestr("evenkeel/licenses/fmtlib.txt", COPYRIGHT)


class Release(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name) / "evenkeel"
        self.output = pathlib.Path(folder.name) / "artifacts"
        for name in KEPT:
            self.write(f"launch/{name}", (ROOT / "launch" / name).read_text(encoding="utf-8"))
        for name, text in STAND_INS.items():
            self.write(name, text)
        write_wheel(self.root / WHEEL, packages="/lib/libfmt.so.9 libfmt9 9.1.0 fmtlib\n")
        programs = pathlib.Path(folder.name) / "bin"
        programs.mkdir()
        shutil.copy("/bin/true", programs / "cmake")
        self.environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "DEB": "1", "ARCHIVE": "1"}
        self.git("init", "-q")
        self.commit()

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def git(self, *words: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=self.root, check=True)

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "All")

    def release(self, *options: str, status: int = 0, **environment: str) -> str:
        run = subprocess.run([self.root / "launch/release.sh", "--output", self.output, *options], capture_output=True, text=True,
                             env=self.environment | environment, check=False)
        self.assertEqual(run.returncode, status, run.stdout + run.stderr)
        return run.stdout + run.stderr

    def test_it_makes_every_artifact_with_a_checksum_and_a_line_of_the_table(self) -> None:
        printed = self.release()
        self.assertEqual({path.name for path in self.output.iterdir()}, ARTIFACTS | {"SHA256SUMS"})
        subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=self.output, check=True)
        sums = (self.output / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
        self.assertEqual({line.split()[1] for line in sums}, ARTIFACTS)
        for name in ARTIFACTS:
            self.assertIn(f"| `{name}` | ", printed)

    def test_check_names_what_differs_and_accepts_only_the_archive_for_later_versions(self) -> None:
        self.release()
        self.assertNotIn("differ", self.release("--check"))
        self.assertIn("differ from those in", self.release("--check", ARCHIVE="2"))
        self.assertIn("\nevenkeel.deb\n", self.release("--check", DEB="2", status=1))

    def test_files_that_are_not_committed_and_versions_that_differ_are_refused(self) -> None:
        self.write("CITATION.cff", "version: 1.2.2\n")
        self.assertIn("not committed", self.release(status=1))
        self.commit()
        self.assertIn("CITATION.cff has another version than 1.2.3", self.release(status=1))
        self.assertFalse(self.output.exists())

    def bill_of(self, packages: str) -> subprocess.CompletedProcess:
        wheel = self.root / "small.whl"
        write_wheel(wheel, packages=packages)
        return subprocess.run([sys.executable, ROOT / "launch/sbom.py", wheel], capture_output=True, text=True, check=False)

    def test_the_bill_of_materials_has_versions_licenses_and_notices(self) -> None:
        bill = json.loads(self.bill_of("/lib/libfmt.so.9 libfmt9 9.1.0 fmtlib\n").stdout)
        self.assertEqual(bill["metadata"]["component"]["version"], "1.2.3")
        (component,) = bill["components"]
        self.assertEqual((component["name"], component["version"]), ("libfmt9", "9.1.0"))
        self.assertEqual(component["licenses"], [{"license": {"name": "BSL-1.0"}}])
        self.assertIn({"name": "evenkeel:notices", "value": "evenkeel/licenses/fmtlib.txt"}, component["properties"])

    def test_a_library_that_is_not_listed_is_an_error(self) -> None:
        run = self.bill_of("")
        self.assertEqual(run.returncode, 1)
        self.assertIn("no line for libfmt.so.9", run.stderr)


if __name__ == "__main__":
    unittest.main()
