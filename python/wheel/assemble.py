#!/usr/bin/env python3
"""assemble.py BASE MODULES ABSENT_MPI TAG OUT: makes a wheel in the folder OUT, for the Python of TAG (cp311), from the Python
files of the wheel BASE and the extension modules of the folder MODULES. Libraries that the modules need go into the wheel, under
names of its own, with their licenses; but for those that every Linux has, and MPI's, which must be that of the job. The service
goes in once more with the library ABSENT_MPI in place of MPI's, as evenkeel._without_mpi._service. The wheel is for the glibc of
this machine and later ones. auditwheel, which Debian does not have, does the most of this."""

import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

# Of the C and C++ compilers' own, as manylinux has it, and MPI.
OUTSIDE = re.compile(r"(ld-linux-.*|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|mpi))\.so\.\d+")
# Headers and static libraries that are compiled in.
COMPILED_IN = ("/usr/include/boost/version.hpp", "/usr/include/nlohmann/json.hpp", "/usr/include/pybind11/pybind11.h")


def output(*command):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True).stdout


def needed(library):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "--dynamic", library))


def places(module):
    """Where the loader finds what a module needs, and what that needs."""
    return dict(re.findall(r"^\s*(\S+) => (/\S+)", output("ldd", module), re.MULTILINE))


def symbols(library, which):
    return {name for name in re.findall(r"(\S+)$", output("nm", "--dynamic", which, library), re.MULTILINE)}


def bundle(modules, folder):
    """Copies the libraries of the modules into the folder, and has all of them look there. Returns where they were."""
    where, renamed, todo = {}, {}, list(modules)
    for module in modules:
        where.update(places(module))
    while todo:
        file = todo.pop()
        for name in needed(file):
            if OUTSIDE.fullmatch(name):
                continue
            if name.startswith(("libmpi", "libopen-")):
                raise SystemExit(f"assemble: {file.name} needs {name}, which is a part of MPI: the preset wheel does without")
            if name not in where:
                raise SystemExit(f"assemble: {file.name} needs {name}, which is not on this machine")
            if name not in renamed:
                # A name that no other library of the process has.
                digest = hashlib.sha256(pathlib.Path(where[name]).read_bytes()).hexdigest()[:8]
                renamed[name] = name.replace(".so", f"-{digest}.so", 1)
                folder.mkdir(exist_ok=True)
                copy = folder / renamed[name]
                shutil.copy(where[name], copy)
                copy.chmod(0o755)
                output("patchelf", "--set-soname", renamed[name], copy)
                todo.append(copy)
            output("patchelf", "--replace-needed", name, renamed[name], file)
        here = os.path.relpath(folder, file.parent)
        output("patchelf", "--set-rpath", "$ORIGIN" if here == "." else f"$ORIGIN/{here}", file)
    return [where[name] for name in renamed]


def add_service_without_mpi(service, absent, folder):
    """A copy of the module that looks for another library than MPI's, and so does its copy of Boost.MPI."""
    (mpi,) = [name for name in needed(service) if OUTSIDE.fullmatch(name) and name.startswith("libmpi.")]
    (boost,) = [name for name in needed(service) if name.startswith("libboost_mpi")]
    alone = boost.replace("libboost_mpi", "libboost_without_mpi")
    module = service.parent / "_without_mpi" / service.name
    module.parent.mkdir()
    for source, copy in ((absent, folder / absent.name), (folder / boost, folder / alone), (service, module)):
        shutil.copy(source, copy)
    output("patchelf", "--set-soname", alone, folder / alone)
    output("patchelf", "--replace-needed", mpi, absent.name, folder / alone)
    output("patchelf", "--replace-needed", mpi, absent.name, "--replace-needed", boost, alone, module)
    output("patchelf", "--set-rpath", f"$ORIGIN/{os.path.relpath(folder, module.parent)}", module)
    asked = symbols(module, "--undefined-only") | symbols(folder / alone, "--undefined-only")
    lacking = {name for name in asked if re.match("O?MPI_|ompi_", name)} - symbols(absent, "--defined-only")
    if lacking:
        raise SystemExit(f"assemble: {absent.name} lacks {', '.join(sorted(lacking))}")


def package_of(file):
    path = os.path.realpath(file)
    for name in (path, path.removeprefix("/usr")):  # dpkg knows either
        found = subprocess.run(["dpkg-query", "--search", name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if found.returncode == 0:
            return found.stdout.split(":")[0]
    raise SystemExit(f"assemble: no package of Debian has {path}, so its license is not known")


def keep_licenses(files, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        package = package_of(file)
        shutil.copy(f"/usr/share/doc/{package}/copyright", folder / f"{package}.txt")


def main():
    base, modules, absent, out = (pathlib.Path(sys.argv[i]).resolve() for i in (1, 2, 3, 5))
    tag = sys.argv[4]
    platform_tag = f"manylinux_{platform.libc_ver()[1].replace('.', '_')}_{platform.machine()}"
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([sys.executable, "-m", "wheel", "unpack", "--dest", work, base], check=True, stdout=subprocess.DEVNULL)
        (tree,) = pathlib.Path(work).iterdir()
        for file in tree.rglob("*.so"):
            file.unlink()
        copies = []
        for file in sorted(modules.glob("*.so")):
            copies.append(pathlib.Path(shutil.copy(file, tree / "evenkeel")))
            output("strip", "--strip-unneeded", copies[-1])
        folder = tree / "evenkeel" / "_libraries"
        libraries = bundle(copies, folder)
        (service,) = [copy for copy in copies if copy.name.startswith("_service.")]
        add_service_without_mpi(service, absent, folder)
        (info,) = tree.glob("*.dist-info")
        keep_licenses([*libraries, *COMPILED_IN], info / "licenses")
        text = re.sub(r"^Tag: .*\n+", "", (info / "WHEEL").read_text(), flags=re.MULTILINE).rstrip("\n")
        (info / "WHEEL").write_text(f"{text}\nTag: {tag}-{tag}-{platform_tag}\n")
        out.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "wheel", "pack", "--dest-dir", out, tree], check=True)


main()
