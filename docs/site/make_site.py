#!/usr/bin/env python3
"""Builds the documentation site of README and docs: launch/site.sh says how to call it.

    make_site.py OUT

What is made on the way is kept in OUT-work. Exit status: 0, or 1 when something is wrong with the pages, which warnings count as.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import xml.etree.ElementTree

import fit_pages
import navigation
import python_reference
import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PYTHON_PAGES = "python-api"
# What pages say on the site alone, below the headings of HEADINGS, or below their first heading.
ADDED = {
    "installing.md": "**Reference:** [classes](cpp/annotated.html), [functions and types](cpp/namespacemembers.html) and "
    "[files](cpp/files.html), made of the headers' comments.",
    "python.md": f"**Reference:** [all modules]({PYTHON_PAGES}/evenkeel.md), made of the package's docstrings.",
}
HEADINGS = {"installing.md": "## Public headers"}


def pages_of_docs(root: pathlib.Path) -> list[str]:
    return sorted(f"docs/{path.name}" for path in (root / "docs").glob("*.md"))


def make_cpp(work: pathlib.Path, out: pathlib.Path) -> dict[str, str]:
    """Doxygen's pages in `out`, and where in them headers, classes and functions are, by the names that pages use."""
    tags = work / "cpp.tags"
    settings = {
        "INPUT": f'"{ROOT / "include/evenkeel"}" "{HERE / "cpp.md"}"',
        "USE_MDFILE_AS_MAINPAGE": f'"{HERE / "cpp.md"}"',
        "STRIP_FROM_PATH": f'"{ROOT / "include"}" "{HERE}"',
        "STRIP_FROM_INC_PATH": f'"{ROOT / "include"}"',
        "PROJECT_NUMBER": (ROOT / "VERSION").read_text(encoding="utf-8").strip(),
        "LAYOUT_FILE": f'"{HERE / "cpp-layout.xml"}"',
        "HTML_EXTRA_STYLESHEET": f'"{HERE / "cpp.css"}"',
        "OUTPUT_DIRECTORY": f'"{out.parent}"',
        "HTML_OUTPUT": out.name,
        "GENERATE_TAGFILE": f'"{tags}"',
    }
    text = (HERE / "Doxyfile").read_text(encoding="utf-8")
    text += "".join(f"{name} = {value}\n" for name, value in settings.items())
    subprocess.run(["doxygen", "-"], input=text, text=True, check=True)
    return places_of_tags(tags, out.name)


def places_of_tags(tags: pathlib.Path, folder: str) -> dict[str, str]:
    places: dict[str, str] = {}
    for compound in xml.etree.ElementTree.parse(tags).getroot():
        kind, name, page = compound.get("kind"), compound.findtext("name", ""), compound.findtext("filename", "")
        if kind == "file":
            header = compound.findtext("path", "").partition("evenkeel/")[2] + name
            places[f"evenkeel/{header}"] = f"{folder}/{page}" + ("" if page.endswith(".html") else ".html")
        elif kind in ("class", "struct"):
            places[name.removeprefix("evenkeel::")] = f"{folder}/{page}"
        elif kind == "namespace" and name == "evenkeel":
            for member in compound.iter("member"):
                target = f"{folder}/{member.findtext('anchorfile')}#{member.findtext('anchor')}"
                places.setdefault(member.findtext("name", ""), target)
    return places


def make_python(package: pathlib.Path, folder: pathlib.Path) -> python_reference.Reference:
    reference = python_reference.Reference(package)
    folder.mkdir(parents=True)
    for name, text in reference.pages().items():
        (folder / name).write_text(text, encoding="utf-8")
    return reference


def assemble(work: pathlib.Path) -> pathlib.Path:
    """Everything that mkdocs reads, in `work`; its configuration."""
    content = work / "pages"
    content.mkdir(parents=True)
    pages = fit_pages.Pages(ROOT)
    pages.code_links["installing.md"] = make_cpp(work, content / "cpp")
    pages.shown = {f"include/{name}": place for name, place in pages.code_links["installing.md"].items() if "/" in name}
    reference = make_python(ROOT / "python/src/evenkeel", content / PYTHON_PAGES)
    pages.code_links["python.md"] = {module.name: f"{PYTHON_PAGES}/{module.page}" for module in reference.modules}
    sources = [*fit_pages.START_PAGES, *pages_of_docs(ROOT)]
    for source in sources:
        place = pages.place_of(source)
        text = fit_pages.fit(pages, source)
        if place in ADDED:
            before, heading, after = text.partition(HEADINGS[place]) if place in HEADINGS else ("", "", text)
            text = before + heading + after.replace("\n\n", f"\n\n{ADDED[place]}\n\n", 1)
        (content / place).write_text(text, encoding="utf-8")
    add_files(pages, content)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = [{module.name.removeprefix("evenkeel."): f"{PYTHON_PAGES}/{module.page}"} for module in reference.modules]
    settings = {
        "INHERIT": str(HERE / "mkdocs.yml"),
        "docs_dir": str(content),
        "nav": navigation.of_readme(readme, sources, pages.place_of, {"docs/python.md": {"Python API": shown}}),
    }
    (work / "mkdocs.yml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    return work / "mkdocs.yml"


def add_files(pages: fit_pages.Pages, content: pathlib.Path) -> None:
    """Pictures, and pages for files that pages link to."""
    for path in [path for path in pages.files if (ROOT / path).is_dir()]:
        pages.files |= {f"{path}/{entry.name}" for entry in (ROOT / path).iterdir() if entry.is_file()}
    for path in sorted(pages.files):
        target = content / fit_pages.page_of_file(ROOT, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(fit_pages.page_with_file(ROOT, path), encoding="utf-8")
    for path in sorted(pages.pictures):
        shutil.copyfile(ROOT / path, content / pathlib.Path(path).name)
    (content / "site").mkdir()
    for name in ("site.css", "favicon.svg"):
        shutil.copyfile(HERE / name, content / "site" / name)


def build_site(configuration: pathlib.Path, out: pathlib.Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--clean"]
    subprocess.run([*command, "--config-file", configuration, "--site-dir", out], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    work = out.with_name(out.name + "-work")
    shutil.rmtree(work, ignore_errors=True)
    try:
        build_site(assemble(work), out)
    except (navigation.NavigationError, fit_pages.PageError) as error:
        print(f"site: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"site: {error.cmd[0]} ends with status {error.returncode}", file=sys.stderr)
        return 1
    print(f"{out}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
