"""The site's navigation: the groups of README's "Where to read on", which name every page once."""

import re
from collections.abc import Callable, Iterable

SECTION = "\n## Where to read on\n"
GROUP = re.compile(r"^### (.+)$")
PAGE = re.compile(r"^- \[([^\]]+)\]\(([^)#]+\.md)\)")


class NavigationError(Exception):
    """Pages that README does not name, names twice, or names though they are not there."""


def groups_of(readme: str) -> dict[str, list[tuple[str, str]]]:
    """The headings below "Where to read on", each with the titles and files of its pages: the first link of each line."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for line in readme.partition(SECTION)[2].partition("\n## ")[0].splitlines():
        if group := GROUP.match(line):
            groups[group[1]] = []
        elif page := PAGE.match(line):
            groups[next(reversed(groups))].append((page[1], page[2]))
    return groups


def of_readme(readme: str, files: Iterable[str], place_of: Callable[[str], str], below: dict[str, dict]) -> list:
    """The navigation as mkdocs wants it. `files` are the pages of the repository, each of which must be in one group, and
    README, which comes first; `place_of` says where a file is on the site; `below` are entries that follow a file's."""
    groups = groups_of(readme)
    named = [file for pages in groups.values() for _, file in pages]
    files = set(files) - {"README.md"}
    for wrong, files_of in (
        ("does not name", files - set(named)),
        ("names twice", {file for file in named if named.count(file) > 1}),
        ("names what is not there:", set(named) - files),
    ):
        if files_of:
            raise NavigationError(f"README's \"Where to read on\" {wrong} {', '.join(sorted(files_of))}")
    entries: list = [{"Evenkeel": place_of("README.md")}]
    for title, pages in groups.items():
        entries.append({title: []})
        for name, file in pages:
            entries[-1][title] += [{name: place_of(file)}, *([below[file]] if file in below else [])]
    return entries
