"""Builds the extension modules of evenkeel with CMake, from the repository that this folder is part of."""

import os
import pathlib
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = pathlib.Path(__file__).resolve().parent


def repository() -> pathlib.Path:
    """The folder with Evenkeel's CMakeLists.txt: the one above, or what EVENKEEL_SOURCE names."""
    named = os.environ.get("EVENKEEL_SOURCE")
    root = pathlib.Path(named).resolve() if named else HERE.parent
    if not (root / "include" / "evenkeel").is_dir() or not (root / "VERSION").is_file():
        raise SystemExit(
            f"evenkeel: {root} has no sources of Evenkeel. The package is built from its repository: run pip on the "
            "folder python/ inside it, or name the repository in the environment variable EVENKEEL_SOURCE."
        )
    return root


class CMakeExtension(Extension):
    """An extension module that the CMake target `target` makes."""

    def __init__(self, name: str, target: str) -> None:
        super().__init__(name, sources=[])
        self.target = target


class BuildWithCMake(build_ext):
    def build_extension(self, ext: CMakeExtension) -> None:
        folder = pathlib.Path(self.get_ext_fullpath(ext.name)).resolve().parent
        if os.environ.get("EVENKEEL_BUILD"):
            self.take_from(pathlib.Path(os.environ["EVENKEEL_BUILD"]), ext, folder)
            return
        build = pathlib.Path(self.build_temp).resolve() / "cmake"  # one tree for all extensions
        settings = {
            "CMAKE_UNITY_BUILD": "ON",  # several sources at once: less than half the time
            "CMAKE_BUILD_TYPE": os.environ.get("CMAKE_BUILD_TYPE") or ("Debug" if self.debug else "Release"),
            "EVENKEEL_BUILD_PYTHON": "ON",
            "EVENKEEL_PYTHON_FOLDER": folder,
            "Python3_EXECUTABLE": sys.executable,
            "EVENKEEL_MPI": "ON" if WITH_MPI else "OFF",
            "EVENKEEL_TORCH": "OFF",
            "EVENKEEL_INSTALL": "OFF",
        }
        for part in ("TESTS", "PROGRAM", "EXAMPLES", "BENCHMARKS"):
            settings[f"EVENKEEL_BUILD_{part}"] = "OFF"
        configure = ["cmake", "-S", repository(), "-B", build, *(f"-D{key}={value}" for key, value in settings.items())]
        if not (build / "CMakeCache.txt").exists() and self.has_ninja():
            configure += ["-G", "Ninja"]
        self.run_cmake(configure)
        jobs = str(self.parallel or os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or os.cpu_count() or 1)
        self.run_cmake(["cmake", "--build", build, "--target", ext.target, "--parallel", jobs])

    def take_from(self, build: pathlib.Path, ext: CMakeExtension, folder: pathlib.Path) -> None:
        """Copies the module that a build of Evenkeel in `build` has made for this interpreter."""
        made = build / "python" / pathlib.Path(self.get_ext_filename(ext.name))
        if not made.is_file():
            raise SystemExit(
                f"evenkeel: EVENKEEL_BUILD names {build}, which has no {made.relative_to(build)}. Build the target "
                f"{ext.target} there with this Python, or leave EVENKEEL_BUILD unset to have it built here."
            )
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy2(made, folder)

    @staticmethod
    def has_ninja() -> bool:
        try:
            return subprocess.run(["ninja", "--version"], capture_output=True, check=False).returncode == 0
        except OSError:
            return False

    @staticmethod
    def run_cmake(command: list) -> None:
        try:
            subprocess.run([str(word) for word in command], check=True)
        except FileNotFoundError:
            raise SystemExit("evenkeel: cmake is missing; launch/install-packages.sh --python installs it") from None
        except subprocess.CalledProcessError as error:
            raise SystemExit(
                "evenkeel: the extension could not be built; what is missing stands above. On Debian 12, "
                "launch/install-packages.sh --python installs all that is needed."
            ) from error


# The service needs MPI's headers and library, also where jobs run without MPI. EVENKEEL_MPI=OFF leaves it out.
WITH_MPI = os.environ.get("EVENKEEL_MPI", "ON" if shutil.which("mpicxx") else "OFF").upper() != "OFF"
extensions = [CMakeExtension("evenkeel._core", target="evenkeel_python_core")]
if WITH_MPI:
    extensions.append(CMakeExtension("evenkeel._service", target="evenkeel_python_service"))
else:
    print("evenkeel: without MPI (no mpicxx, or EVENKEEL_MPI=OFF) DataService is left out", file=sys.stderr)

setup(
    version=(repository() / "VERSION").read_text(encoding="utf-8").strip(),
    ext_modules=extensions,
    cmdclass={"build_ext": BuildWithCMake},
)
