"""Markdown of the repository, fitted into the site: links lead to the site's pages, and comments are left out.

A file of the repository that a page links to, or names as code, becomes a page that shows it; a folder becomes a list
of its files. Nothing inside fenced blocks is touched.
"""

import dataclasses
import pathlib
import posixpath
import re

START_PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
FOLDER_OF_FILES = "files"
SHOWN_WHEN_NAMED = re.compile(r"(configs|examples|launch)/[\w.-]+\.\w+")
LANGUAGES = {".cpp": "cpp", ".hpp": "cpp", ".h": "c", ".c": "c", ".py": "python", ".sh": "sh", ".yaml": "yaml"}
FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
COMMENT = re.compile(r"^\s*<!--.*-->\s*$")
CODE = re.compile(r"(`+(?:[^`]|\n)+?`+)")
TARGET = re.compile(r"\]\(([^)\s]+)\)")
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)-light\.(\w+)\)")


class PageError(Exception):
    """A page that cannot be part of the site."""


@dataclasses.dataclass
class Pages:
    """Which page of the site shows which file of the repository, and which files are still to be shown."""

    root: pathlib.Path
    files: set[str] = dataclasses.field(default_factory=set)  # of the repository, that a page is to be made of
    pictures: set[str] = dataclasses.field(default_factory=set)
    shown: dict[str, str] = dataclasses.field(default_factory=dict)  # file -> the page that shows it anyway
    code_links: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)  # site page -> code -> site target

    def place_of(self, path: str) -> str:
        """The site's page for a file or folder of the repository; records what must be generated for it."""
        if path in START_PAGES or path in self.shown:
            return START_PAGES.get(path) or self.shown[path]
        folder, name = posixpath.split(path)
        if folder == "docs" and name.endswith(".md"):
            return name
        if folder == "docs" and not (self.root / path).is_dir():
            self.pictures.add(path)
            return name
        if path == "docs":
            return "index.md#where-to-read-on"
        self.files.add(path)
        return page_of_file(self.root, path)


def page_of_file(root: pathlib.Path, path: str) -> str:
    return posixpath.join(FOLDER_OF_FILES, path, "index.md") if (root / path).is_dir() else f"{FOLDER_OF_FILES}/{path}.md"


def fit(pages: Pages, source: str) -> str:
    """The text of a page of the repository, as the site has it."""
    text = (pages.root / source).read_text(encoding="utf-8")
    return fit_text(pages, source, pages.place_of(source), text)


def fit_text(pages: Pages, source: str, place: str, text: str) -> str:
    """`text` of the file `source`, as the site's page `place` has it."""
    fitted = []
    prose: list[str] = []
    fence = ""
    for line in text.splitlines():
        opening = FENCE.match(line)
        if not fence and not opening:
            if not COMMENT.match(line):
                prose.append(line)
            continue
        if not fence:
            fitted += [_fit_prose(pages, source, place, "\n".join(prose)), line]
            prose, fence = [], opening.group(1)
        else:
            fitted.append(line)
            if line.strip().startswith(fence):
                fence = ""
    fitted.append(_fit_prose(pages, source, place, "\n".join(prose)))
    return "\n".join(fitted) + "\n"


def _fit_prose(pages: Pages, source: str, place: str, text: str) -> str:
    text = _both_colours(pages, source, text)
    parts = CODE.split(text)
    for number, part in enumerate(parts):
        if number % 2 == 0:
            if "<!--" in part:
                raise PageError(f"{source}: a comment that is not a line of its own, which the site cannot leave out")
            parts[number] = TARGET.sub(lambda found: f"]({_fit_target(pages, source, place, found.group(1))})", part)
        else:
            parts[number] = _linked_code(pages, place, "".join(parts[:number]), part)
    return "".join(parts)


def _both_colours(pages: Pages, source: str, text: str) -> str:
    """A picture that the repository has in light and dark is shown as the reader likes, unless the page shows both."""

    def both(found: re.Match[str]) -> str:
        words, stem, ending = found.groups()
        dark = f"{stem}-dark.{ending}"
        if dark in text or not (pages.root / source).parent.joinpath(dark).exists():
            return found.group(0)
        return f"![{words}]({stem}-light.{ending}#only-light)\n![{words}]({dark}#only-dark)"

    return PICTURE.sub(both, text)


def _fit_target(pages: Pages, source: str, place: str, target: str) -> str:
    name, sign, anchor = target.partition("#")
    if re.match(r"[a-z]+:", target) or not name:
        return target
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), name))
    if path.startswith("..") or not (pages.root / path).exists():
        raise PageError(f"{source}: the link {target} leads nowhere")
    to = pages.place_of(path)
    return _relative(place, to) + sign + anchor


def _linked_code(pages: Pages, place: str, before: str, code: str) -> str:
    """Code that names a file that readers will want to see, or something that another page describes, is a link to it."""
    inside_link = before.rfind("[") > before.rfind("]")
    inside_heading = before.rpartition("\n")[2].startswith("#")
    if inside_link or inside_heading:
        return code
    words = code.strip("`")
    to = pages.code_links.get(place, {}).get(words)
    if to is None and SHOWN_WHEN_NAMED.fullmatch(words) and (pages.root / words).is_file():
        to = pages.place_of(words)
    return f"[{code}]({_relative(place, to)})" if to else code


def _relative(place: str, to: str) -> str:
    return posixpath.relpath(to, posixpath.dirname(place) or ".")


def page_with_file(root: pathlib.Path, path: str) -> str:
    """A page that shows a file of the repository, or lists a folder's."""
    if (root / path).is_dir():
        names = sorted(entry.name for entry in (root / path).iterdir() if entry.is_file())
        lines = [f"- [`{name}`]({name}.md){_first_words(root / path / name)}" for name in names]
        return f"# `{path}`\n\n" + "\n".join(lines) + "\n"
    language = LANGUAGES.get(pathlib.Path(path).suffix, "text")
    text = (root / path).read_text(encoding="utf-8")
    fence = "~" * max(4, 1 + max((len(run) for run in re.findall("~+", text)), default=0))
    return f"# `{path}`\n\n{fence}{language}\n{text.rstrip()}\n{fence}\n"


def _first_words(path: pathlib.Path) -> str:
    """The first paragraph of a configuration's comment."""
    comment = re.match(r"(?:# [^\n]*\n)+", path.read_text(encoding="utf-8"))
    if path.suffix != ".yaml" or comment is None:
        return ""
    words = " ".join(line.lstrip("# ") for line in comment.group(0).splitlines())
    return ": " + re.sub(r"docs/([\w-]+\.md)", r"[\g<0>](../../\1)", words)
