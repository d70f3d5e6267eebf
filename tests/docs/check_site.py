#!/usr/bin/env python3
"""Builds the documentation site, and checks links, anchors, pictures and visible text.

    check_site.py --build SITE     builds the site in the folder SITE, and checks it
    check_site.py SITE             checks an existing site

Requires that every link and anchor has a target, every page is linked to, no page loads anything from a network, and no
Markdown is left. Exit status: 0 if all is right, 1 if something is not, 77 if the site cannot be built.
"""

import argparse
import html.parser
import pathlib
import re
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOT_MARKDOWN = "cpp"  # folder of pages that Doxygen makes
LEFT_AS_IT_IS = re.compile(r"```|\]\(|(?<!\w)\*\*\w|^\s*[-*] \w|^\s*\|.*\|\s*$|^#+ \w", re.MULTILINE)
LOADED = {"script": "src", "img": "src", "source": "src", "iframe": "src", "link": "href"}
BLOCKS = {"p", "li", "td", "th", "h1", "h2", "h3", "h4", "div"}


class Page(html.parser.HTMLParser):
    """Collects the links, loaded files and text of one page."""

    def __init__(self, text: str):
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.comments: list[str] = []
        self.words: list[str] = []  # visible text, without code
        self._quiet = 0  # number of enclosing elements that are code, scripts or styles
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given and (name == "id" or tag == "a")}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif LOADED.get(tag) in given and given.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(given[LOADED[tag]])
        if tag in ("code", "pre", "script", "style"):
            self._quiet += 1
        elif tag in BLOCKS:
            self.words.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("code", "pre", "script", "style"):
            self._quiet -= 1
            self.words.append("code")

    def handle_data(self, data: str) -> None:
        if not self._quiet:
            self.words.append(data)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


class Site:
    def __init__(self, folder: pathlib.Path):
        self._folder = folder.resolve()
        files = sorted(self._folder.rglob("*.html"))
        self._pages = {path: Page(path.read_text(encoding="utf-8", errors="replace")) for path in files}
        self._linked: set[pathlib.Path] = set()

    def __len__(self) -> int:
        return len(self._pages)

    def problems(self) -> list[str]:
        found = [f"{self._folder} has no index.html"] if self._folder / "index.html" not in self._pages else []
        for path, page in self._pages.items():
            found += [f"{self._name(path)}: {problem}" for problem in self._problems_of(path, page)]
        for path in self._pages:
            if path not in self._linked and self._name(path) not in ("index.html", "404.html") and self._is_ours(path):
                found.append(f"{self._name(path)}: no page links to it")
        for path in sorted(self._folder.rglob("*.css")):
            if re.search(r"url\([\"']?https?:|@import", path.read_text(encoding="utf-8")):
                found.append(f"{self._name(path)}: loads something from a network")
        return found

    def _problems_of(self, path: pathlib.Path, page: Page) -> list[str]:
        found = [problem for link in sorted(set(page.links)) if (problem := self._wrong_link(path, link))]
        for loaded in sorted(set(page.loaded)):
            if re.match(r"(https?:)?//", loaded):
                found.append(f"loads {loaded} from a network")
            elif problem := self._wrong_link(path, loaded.partition("#")[0]):
                found.append(problem)
        if self._is_ours(path):
            found += [f"shows a comment: {comment}" for comment in page.comments if "check:" in comment]
            left = LEFT_AS_IT_IS.search("".join(page.words))
            if left:
                found.append(f"has Markdown that was not understood: {left.group(0).strip()}")
        return found

    def _wrong_link(self, path: pathlib.Path, link: str) -> str:
        """Returns an error about a link, or an empty string."""
        if re.match(r"(https?|mailto|javascript|data):", link):
            return ""
        name, _, anchor = link.partition("#")
        target = self._target(path, urllib.parse.unquote(name.partition("?")[0]))
        if not target.is_file():
            return f"the link {link} leads nowhere"
        if target != path:
            self._linked.add(target)
        page = self._pages.get(target)
        if anchor and page and urllib.parse.unquote(anchor) not in page.anchors:
            return f"the link {link} names no place of its page"
        return ""

    def _target(self, path: pathlib.Path, name: str) -> pathlib.Path:
        if not name:
            return path
        target = self._folder / name.lstrip("/") if name.startswith("/") else path.parent / name
        target = target.resolve()
        return target / "index.html" if target.is_dir() else target

    def _is_ours(self, path: pathlib.Path) -> bool:
        return path.relative_to(self._folder).parts[0] != NOT_MARKDOWN

    def _name(self, path: pathlib.Path) -> str:
        return str(path.relative_to(self._folder))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", action="store_true")
    parser.add_argument("site", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.build:
        made = subprocess.run([ROOT / "launch/site.sh", arguments.site], check=False)
        if made.returncode != 0:
            return made.returncode
    site = Site(arguments.site)
    found = site.problems()
    print("\n".join(found) or f"{len(site)} pages, every link leads somewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
