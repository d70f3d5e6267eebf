#!/usr/bin/env python3
"""Checks what the scripts of launch/ and .ci/ install, configure and start, using stand-ins for apt-get, cmake, ctest and
mpirun that record their calls."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOR_PYTHON = {"python3-setuptools", "python3-wheel", "python3-pip"}
FOR_DOCS = {"mkdocs", "mkdocs-material", "doxygen"}
FOR_TESTS = {"libgtest-dev", "libgmock-dev", "librapidcheck-dev", "libbenchmark-dev", "iproute2", "spin", "valgrind",
             "python3-numpy", "python3-pytest", "python3-torch", "libtorch-dev", "slurmctld", "slurmd",
             "munge"} | FOR_PYTHON | FOR_DOCS


class Scripts(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name) / "evenkeel"
        self.called = pathlib.Path(folder.name) / "called"
        self.stand_ins = pathlib.Path(folder.name) / "bin"
        for part in ("launch", ".ci"):
            shutil.copytree(ROOT / part, self.root / part)
        self.stand_ins.mkdir()
        for name in ("apt-get", "cmake", "ctest", "mpirun", "dpkg-query", "sudo", "cpack"):
            # sudo runs the command that follows -n.
            script = 'shift; exec "$@"' if name == "sudo" else f'echo "{name} $*" >>"{self.called}"'
            self.stand_in(name, script)
        # No package is installed, and dpkg-query fails, as for packages that it has never seen.
        self.stand_in("dpkg-query", f'echo "dpkg-query $*" >>"{self.called}"; exit 1')
        self.environment = {"PATH": f"{self.stand_ins}:{os.environ['PATH']}"}

    def stand_in(self, name: str, script: str) -> None:
        (self.stand_ins / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (self.stand_ins / name).chmod(0o755)

    def commits(self, count: int) -> None:
        """Sets the number of commits, which decides what continuous integration runs. Stand-ins replace the compilation of
        single sources, the checks of style, tests of two frameworks and tests of the wheel."""
        self.stand_in("git", f"echo {count}")
        alone = self.root / "tests/modules/check_sources_alone.py"
        alone.parent.mkdir(parents=True, exist_ok=True)
        alone.write_text(f'#!/bin/sh\necho "alone $3" >>"{self.called}"\n', encoding="utf-8")
        alone.chmod(0o755)
        for name in ("one", "two"):
            folder = self.root / "tests/frameworks" / name
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "requirements.txt").touch()
        for name in ("lint", "test-frameworks", "build-wheel", "test-wheel"):
            script = self.root / f"launch/{name}.sh"
            script.write_text(f'#!/bin/sh\necho "{name} $*" >>"{self.called}"\necho "3 passed"\n', encoding="utf-8")

    def run_script(self, *command: str) -> list[list[str]]:
        """Returns the calls of the stand-ins, each as a list of words."""
        self.called.write_text("", encoding="utf-8")
        run = subprocess.run([self.root / command[0], *command[1:]], env=self.environment, capture_output=True,
                             text=True, check=False, cwd="/")
        self.assertEqual(run.returncode, 0, run.stderr)
        return [line.split() for line in self.called.read_text(encoding="utf-8").splitlines()]

    @staticmethod
    def installed(calls: list[list[str]]) -> set[str]:
        return {word for call in calls if call[0] == "apt-get" and "install" in call for word in call}

    @staticmethod
    def configured(calls: list[list[str]]) -> list[str]:
        return next(call for call in calls if call[0] == "cmake" and "--preset" in call)

    def test_running_needs_no_package_of_the_tests(self) -> None:
        packages = self.installed(self.run_script("launch/install-packages.sh"))
        self.assertIn("libopenmpi-dev", packages)
        self.assertEqual(packages & FOR_TESTS, set())
        self.assertLessEqual(FOR_TESTS, self.installed(self.run_script("launch/install-packages.sh", "--tests")))
        self.assertIn("libtorch-dev", self.installed(self.run_script("launch/install-packages.sh", "--torch")))
        fuzz = self.installed(self.run_script("launch/install-packages.sh", "--fuzz"))
        later = "-16" if 'VERSION_CODENAME=bookworm' in pathlib.Path("/etc/os-release").read_text(encoding="utf-8") else ""
        self.assertLessEqual({f"clang{later}", f"libclang-rt{later}-dev"}, fuzz)
        self.assertLessEqual(FOR_PYTHON, self.installed(self.run_script("launch/install-packages.sh", "--python")))
        self.assertLessEqual(FOR_DOCS, self.installed(self.run_script("launch/install-packages.sh", "--docs")))

    def test_an_unknown_argument_installs_nothing(self) -> None:
        run = subprocess.run([self.root / "launch/install-packages.sh", "--test"], env=self.environment,
                             capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 2)
        self.assertIn("--tests", run.stderr)
        self.assertFalse(self.called.exists())

    def test_the_quickstart_builds_the_program_without_tests_and_runs_it_on_8_ranks(self) -> None:
        calls = self.run_script("launch/quickstart.sh", "--set", "source.seed=2")
        self.assertEqual(self.installed(calls) & FOR_TESTS, set())
        self.assertIn("-DEVENKEEL_BUILD_TESTS=OFF", self.configured(calls))
        self.assertIn(["cmake", "--build", f"{self.root}/build/release", "--target", "evenkeel"], calls)
        self.assertEqual(calls[-1][:3], ["mpirun", "-n", "8"])
        self.assertEqual(calls[-1][-2:], ["--set", "source.seed=2"])

    def test_packages_of_debian_are_built_for_themselves(self) -> None:
        (self.root / "build" / "debs").mkdir(parents=True)
        calls = self.run_script("launch/build-debs.sh")
        self.assertIn("dpkg-dev", self.installed(calls))
        self.assertEqual(self.installed(calls) & FOR_TESTS, set())
        self.assertIn("debs", self.configured(calls))
        self.assertEqual(calls[-1], ["cpack", "-G", "DEB"])

    def test_packages_are_tested_if_they_exist(self) -> None:
        run = subprocess.run([self.root / "launch/test-debs.sh"], env=self.environment, capture_output=True,
                             text=True, check=False)
        self.assertEqual(run.returncode, 1)
        self.assertIn("launch/build-debs.sh", run.stderr)

    def test_the_image_is_made_by_the_scripts(self) -> None:
        lines = (ROOT / "Dockerfile").read_text(encoding="utf-8")
        called = re.findall(r"/evenkeel/(launch/\S+)", lines)
        self.assertEqual(called, ["launch/build-debs.sh"])
        script = (ROOT / called[0]).read_text(encoding="utf-8")
        packages = re.search(r"COPY --from=build /evenkeel/(\S+)/evenkeel_\*\.deb ", lines).group(1)
        folder = pathlib.PurePath(packages)
        self.assertIn(f'cd "$root/{folder.parent}"\nrm -rf {folder.name}\n', script)
        for name in ("build", ".git"):  # must not be copied into an image
            self.assertIn(name, (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines())

    def test_the_tests_are_built_with_their_packages_and_run(self) -> None:
        calls = self.run_script("launch/test.sh", "-L", "serial")
        self.assertLessEqual(FOR_TESTS, self.installed(calls))
        self.assertIn("-DEVENKEEL_BUILD_TESTS=ON", self.configured(calls))
        self.assertIn(["cmake", "--build", f"{self.root}/build/release", "--target", "quick_tests"], calls)
        tested = [call for call in calls if call[0] == "ctest"]
        self.assertEqual(tested, [["ctest", "--preset", "release", "-L", "quick", "--no-tests=error", "-L", "serial"],
                                  ["ctest", "--preset", "release", "-C", "nightly", "-N", "-LE", "quick"]])

    def test_option_all_builds_and_runs_all_tests_except_nightly_ones(self) -> None:
        calls = self.run_script("launch/test.sh", "--all", "--preset", "ci")
        self.assertIn(["cmake", "--build", f"{self.root}/build/ci", "--target", "all"], calls)
        self.assertIn(["ctest", "--preset", "ci", "-L", "quick|full", "--no-tests=error"], calls)

    def test_optional_parts_that_are_left_out_are_named_at_the_end(self) -> None:
        listed = "".join(f"  Test  #{n}: {name}\n" for n, name in enumerate(["docs.site", "docs.pages", "nodes.n2-2"], 1))
        self.stand_in("ctest", f"case \"$*\" in *-N*) printf '{listed}';; esac")
        run = subprocess.run([self.root / "launch/test.sh"], env=self.environment, capture_output=True, text=True,
                             check=False)
        self.assertIn("Left out, and run by launch/test.sh --all but for those that take hours: docs (2), nodes (1).",
                      run.stdout)

    def test_a_folder_that_has_tests_keeps_them(self) -> None:
        (self.root / "build" / "release").mkdir(parents=True)
        (self.root / "build" / "release" / "CMakeCache.txt").touch()
        words = " ".join(self.configured(self.run_script("launch/build.sh", "release", "evenkeel")))
        self.assertNotIn("EVENKEEL_BUILD_TESTS", words)

    def test_continuous_integration_tests_a_release_build_and_one_with_sanitizers_that_checks_contracts(self) -> None:
        self.commits(24)
        known = " ".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests").glob("*/CMakeLists.txt"))
        calls = self.run_script(".ci/run", "-L", "serial")
        self.assertIn(["cmake", "--build", f"{self.root}/build/ci", "--target", "all"], calls)
        tested = [call for call in calls if call[0] == "ctest" and "-N" not in call]
        self.assertEqual([call[:3] for call in tested], [["ctest", "--preset", p] for p in ("ci", "ci", "asan")])
        for call in tested:
            self.assertIn("-L serial", " ".join(call))
        self.assertIn("-L quick ", " ".join(tested[0]))
        self.assertIn("-L full -I 1,,4", " ".join(tested[1]))
        # The build with sanitizers builds exactly the programs that it runs.
        built = next(call for call in calls if call[:3] == ["cmake", "--build", f"{self.root}/build/asan"])
        self.assertIn(f"^({'|'.join(built[4:])})(\\.|$)", tested[2])
        for name in built[4:]:
            self.assertRegex(known, rf"evenkeel_add_(mpi_)?(test|test_program)\(\s*{name}\s")
        self.assertIn(["alone", "12/14"], calls)

    def test_every_full_test_has_its_turn(self) -> None:
        begins = set()
        for commits in (4, 6, 8, 10):
            self.commits(commits)
            calls = self.run_script(".ci/run")
            begins |= {call[call.index("-I") + 1] for call in calls if call[0] == "ctest" and "-I" in call}
        self.assertEqual(begins, {"1,,4", "2,,4", "3,,4", "4,,4"})

    def test_the_wheel_and_every_framework_have_their_turn(self) -> None:
        tested = []
        for commits in (7, 9, 11):
            self.commits(commits)
            tested += [call for call in self.run_script(".ci/run") if call[0] in ("test-frameworks", "build-wheel", "test-wheel")]
        self.assertEqual(tested, [["test-frameworks", "--preset", "ci", "one"], ["test-frameworks", "--preset", "ci", "two"],
                                  ["build-wheel"], ["test-wheel"]])

    def test_every_program_that_takes_turns_has_its_turn(self) -> None:
        script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
        turns = re.findall(r'"([^"]*)"', re.search(r"^turns=\((.*?)\)$", script, re.MULTILINE | re.DOTALL).group(1))
        self.assertGreater(len(turns), 1)
        built = set()
        for commits in range(0, 2 * len(turns), 2):
            self.commits(commits)
            calls = self.run_script(".ci/run")
            built |= set(next(call for call in calls if call[:3] == ["cmake", "--build", f"{self.root}/build/asan"])[4:])
        self.assertLessEqual(set(" ".join(turns).split()), built)

    def test_continuous_integration_ends_with_all_totals_and_fails_when_any_part_does(self) -> None:
        for failing, commits in (("none", 0), ("ci", 0), ("asan", 0), ("none", 1), ("ci", 1)):
            self.commits(commits)
            passed = {preset: 99 if preset == failing else 100 for preset in ("ci", "asan")}
            cases = "".join(f'*"{p} "*) echo "{n}% tests passed"; exit {100 - n};; ' for p, n in passed.items())
            self.stand_in("ctest", f'case "$*" in {cases}esac')
            run = subprocess.run([self.root / ".ci/run"], env=self.environment, capture_output=True, text=True,
                                 check=False)
            self.assertEqual(run.returncode, 0 if failing == "none" else 1, run.stderr)
            in_turn = "3 passed (frameworks" if commits else f"{passed['asan']}% tests passed (checked"
            self.assertEqual(run.stdout.splitlines()[-4:],
                             ["3 passed (lint, 0 minutes after the start)",
                              f"{passed['ci']}% tests passed (quick, 0 minutes after the start)",
                              f"{passed['ci']}% tests passed (full, 0 minutes after the start)",
                              f"{in_turn}, 0 minutes after the start)"])

    def test_continuous_integration_ends_with_the_output_of_failed_tests_of_each_part(self) -> None:
        printed = ["          Start   1: first", "  1/3 Test   #1: first ......   Passed    0.1 sec",
                   "          Start   2: second", "  2/3 Test   #2: second .....***Failed    0.1 sec", "Expected: 4",
                   *[f"line {n}" for n in range(100)], "", "          Start   3: third",
                   "  3/3 Test   #3: third ......***Skipped   0.1 sec", "50% tests passed, 1 tests failed out of 3"]
        (self.root / "printed").write_text("\n".join(printed) + "\n", encoding="utf-8")
        self.commits(0)
        self.stand_in("ctest", f'case "$*" in *"asan "*) echo "100% tests passed";; *) cat {self.root}/printed; exit 8;; esac')
        run = subprocess.run([self.root / ".ci/run"], env=self.environment, capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 1, run.stderr)
        end = run.stdout[run.stdout.index("100% tests passed\n"):].splitlines()[1:]
        self.assertEqual(end[:2], ["  2/3 Test   #2: second .....***Failed    0.1 sec", "  [...]"])
        self.assertEqual(end[-6:],
                         ["line 99", "", "3 passed (lint, 0 minutes after the start)",
                          "50% tests passed, 1 tests failed out of 3 (quick, 0 minutes after the start)",
                          "50% tests passed, 1 tests failed out of 3 (full, 0 minutes after the start)",
                          "100% tests passed (checked, 0 minutes after the start)"])
        self.assertNotIn("third", "".join(end))

    def test_warnings_are_errors_for_developers_only(self) -> None:
        presets = json.loads((ROOT / "CMakePresets.json").read_text(encoding="utf-8"))
        self.assertLessEqual(presets["version"], 3, "what CMake 3.22 reads")
        named = {preset["name"]: preset for preset in presets["configurePresets"]}

        def strict(preset: dict) -> bool:
            own = preset.get("cacheVariables", {}).get("EVENKEEL_WARNINGS_AS_ERRORS")
            return own == "ON" if own else "inherits" in preset and strict(named[preset["inherits"]])

        visible = [preset for preset in named.values() if not preset.get("hidden")]
        self.assertEqual({p["name"] for p in visible if strict(p)}, {"ci", "debug", "asan", "fuzz", "tsan"})
        self.assertEqual({p["name"] for p in visible if not strict(p)}, {"release", "debs", "wheel"})

    def test_a_page_lists_the_versions_of_frameworks_that_are_installed(self) -> None:
        page = (ROOT / "docs/installing.md").read_text(encoding="utf-8").partition("## Frameworks")[2]
        listed = {row[0]: set(row[1].split(", ")) for row in re.findall(r"^\| `([a-z-]+)` \| ([^|]+) \|", page, re.MULTILINE)}
        for folder in sorted((ROOT / "tests/frameworks").glob("*/requirements.txt")):
            pins = "".join(file.read_text(encoding="utf-8") for file in folder.parent.glob("*.txt"))
            installed = {pin.replace("==", " ") for pin in re.findall(r"^[\w-]+==[\w.]+$", pins, re.MULTILINE)}
            self.assertLessEqual(listed.pop(folder.parent.name), installed)
            self.assertIn("torch 2.13.0", installed)
        self.assertEqual(listed, {})


if __name__ == "__main__":
    unittest.main()
