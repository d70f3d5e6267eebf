"""Builds the C libraries of evenkeel with CMake, from the repository that contains this folder, and puts them next to the Python files,
which call them through ctypes, so a wheel supports every Python 3."""

import os
import pathlib
import shutil
import subprocess
import sys

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70.1
    from wheel.bdist_wheel import bdist_wheel

HERE = pathlib.Path(__file__).resolve().parent
# What the libraries are built from. An sdist has it in its folder "repository".
SOURCES = ("CMakeLists.txt", "VERSION", "LICENSE", "cmake", "include", "src", "python/CMakeLists.txt", "python/generate_prototypes.py",
           "python/wheel")


def repository() -> pathlib.Path:
    """Returns the folder with Evenkeel's CMakeLists.txt: that of an sdist, the parent folder, or EVENKEEL_SOURCE."""
    named = os.environ.get("EVENKEEL_SOURCE")
    root = pathlib.Path(named).resolve() if named else HERE / "repository"
    if not named and not root.is_dir():
        root = HERE.parent
    if not (root / "include" / "evenkeel").is_dir() or not (root / "VERSION").is_file():
        raise SystemExit(
            f"evenkeel: {root} has no sources of Evenkeel. The package is built from its repository: run pip on the "
            "folder python/ inside it, or name the repository in the environment variable EVENKEEL_SOURCE."
        )
    return root


class BuildWithCMake(build_py):
    def run(self) -> None:
        super().run()
        taken = os.environ.get("EVENKEEL_BUILD")
        build = pathlib.Path(taken) if taken else self.built()
        made = build / "python" / "evenkeel"
        if not (made / "libevenkeel.so").is_file():
            raise SystemExit(f"evenkeel: EVENKEEL_BUILD names {build}, which has no python/evenkeel/libevenkeel.so. Build the target "
                             "evenkeel_python there, or leave EVENKEEL_BUILD unset to have it built here.")
        # The other files there are links to the Python files.
        for file in made.rglob("*"):
            if file.is_file() and not made.joinpath(file.relative_to(made).parts[0]).is_symlink():
                copy = pathlib.Path(self.build_lib, "evenkeel", file.relative_to(made))
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, copy)

    def built(self) -> pathlib.Path:
        """Returns the folder of a build for this package."""
        build = pathlib.Path(self.get_finalized_command("build").build_temp).resolve() / "cmake"
        settings = {
            "CMAKE_UNITY_BUILD": "ON",  # compiles several sources at once, in less than half the time
            "CMAKE_BUILD_TYPE": os.environ.get("CMAKE_BUILD_TYPE") or "Release",
            "EVENKEEL_BUILD_PYTHON": "ON",
            "Python3_EXECUTABLE": sys.executable,
            # The service needs MPI's headers and library, even if jobs run without MPI. EVENKEEL_MPI=OFF leaves it out.
            "EVENKEEL_MPI": os.environ.get("EVENKEEL_MPI", "ON" if shutil.which("mpicxx") else "OFF"),
            "EVENKEEL_TORCH": "OFF",
            "EVENKEEL_INSTALL": "OFF",
        }
        if settings["EVENKEEL_MPI"].upper() == "OFF":
            print("evenkeel: without MPI (no mpicxx, or EVENKEEL_MPI=OFF) DataService is left out", file=sys.stderr)
        for part in ("TESTS", "PROGRAM", "EXAMPLES", "BENCHMARKS"):
            settings[f"EVENKEEL_BUILD_{part}"] = "OFF"
        generator = [] if (build / "CMakeCache.txt").exists() or not shutil.which("ninja") else ["-G", "Ninja"]
        run_cmake("-S", repository(), "-B", build, *generator, *(f"-D{key}={value}" for key, value in settings.items()))
        jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or str(os.cpu_count() or 1)
        run_cmake("--build", build, "--target", "evenkeel_python", "--parallel", jobs)
        return build


def run_cmake(*arguments: object) -> None:
    try:
        subprocess.run(["cmake", *map(str, arguments)], check=True)
    except FileNotFoundError:
        raise SystemExit("evenkeel: cmake is missing; launch/install-packages.sh --python installs it") from None
    except subprocess.CalledProcessError as error:
        raise SystemExit("evenkeel: the libraries could not be built; the messages above say why. On Debian 12, "
                         "launch/install-packages.sh --python installs all that is needed.") from error


class SourcesToo(sdist):
    def make_release_tree(self, base_dir: str, files: list) -> None:
        super().make_release_tree(base_dir, files)
        for name in SOURCES:
            source, copy = repository() / name, pathlib.Path(base_dir, "repository", name)
            if source.is_dir():
                shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, copy)


class ForEveryPython(bdist_wheel):
    def get_tag(self) -> tuple:
        return "py3", "none", super().get_tag()[2]


class WithLibraries(Distribution):
    def has_ext_modules(self) -> bool:
        return True  # the libraries are platform-specific, like extension modules


setup(
    version=(repository() / "VERSION").read_text(encoding="utf-8").strip(),
    cmdclass={"build_py": BuildWithCMake, "sdist": SourcesToo, "bdist_wheel": ForEveryPython},
    distclass=WithLibraries,
)
