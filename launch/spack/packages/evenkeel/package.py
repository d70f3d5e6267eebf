"""Evenkeel for Spack, built from the repository that this file lies in: docs/installing.md says how."""

import pathlib

from spack.package import *

REPOSITORY = pathlib.Path(__file__).resolve().parents[4]


class Evenkeel(CMakePackage):
    """Balances, packs and exchanges variable-length samples for LLM training."""

    homepage = f"file://{REPOSITORY}"
    git = f"file://{REPOSITORY}"

    license("Apache-2.0")

    version("main", branch="main")

    variant("mpi", default=True, description="The service, and the commands that need MPI")
    variant("python", default=False, description="The Python package")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")
    generator("ninja")

    depends_on("cli11")
    depends_on("cpp-httplib@0.11:")  # compiled: its headers alone are not enough
    depends_on("fmt@9:")
    depends_on("hiredis")
    depends_on("lmdb")
    depends_on("nlohmann-json")
    depends_on("openssl")
    depends_on("simdjson@3:")
    depends_on("yaml-cpp@0.7:")
    depends_on("zlib-api")
    depends_on("zstd")
    with when("+mpi"):
        depends_on("mpi")
        depends_on("boost@1.74: +mpi +serialization")
        depends_on("prometheus-cpp")
        depends_on("spdlog +fmt_external")
    with when("+python"):
        extends("python@3.9:")
        depends_on("py-numpy@1.23:", type=("build", "run"))

    def cmake_args(self):
        return [
            self.define("CMAKE_UNITY_BUILD", True),
            self.define_from_variant("EVENKEEL_MPI", "mpi"),
            self.define_from_variant("EVENKEEL_BUILD_PYTHON", "python"),
            self.define("EVENKEEL_BUILD_TESTS", False),
            self.define("EVENKEEL_BUILD_BENCHMARKS", False),
            self.define("EVENKEEL_BUILD_EXAMPLES", False),
            self.define("EVENKEEL_TORCH", False),
        ]

    @run_after("install", when="+python")
    def install_python(self):
        """CMake leaves the package in its build folder, whose Python files are links."""
        install_tree(join_path(self.build_directory, "python", "evenkeel"), join_path(python_platlib, "evenkeel"), symlinks=False)
