#!/usr/bin/env python3
"""The site's pages are converted correctly, and the check of the site finds errors."""

import pathlib
import sys
import tempfile
import unittest

import check_site

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs" / "site"))
import fit_pages  # noqa: E402
import navigation  # noqa: E402
import python_reference  # noqa: E402


class InFolder(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def file(self, name: str, text: str = "") -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text, encoding="utf-8")


class Check(InFolder):
    def problems(self, body: str, **others: str) -> list[str]:
        for name, text in {"index": body, **others}.items():
            self.file(f"{name}.html", text)
        return check_site.Site(self.root).problems()

    def test_a_site_with_valid_links_has_no_problems(self) -> None:
        self.file("a.svg", "<svg/>")
        page = '<h2 id="x">a</h2><a href="index.html">b</a><a href="https://example.org">c</a>'
        self.assertEqual(self.problems('<a href="two.html#x">a</a><img src="a.svg#only-light">', two=page), [])

    def test_dead_links_anchors_and_pictures_are_found(self) -> None:
        page = '<a href="no.html">a</a><a href="#no">b</a><img src="no.png"><a href="two.html#no">c</a>'
        self.assertEqual(len(self.problems(page, two="")), 4)

    def test_resources_loaded_from_a_network_are_found(self) -> None:
        page = '<script src="https://example.org/a.js"></script><link rel="stylesheet" href="//example.org/a.css">'
        self.assertEqual(len(self.problems(page)), 2)
        self.file("a.css", "a { background: url(https://example.org/a.png) }")
        self.assertEqual(len(self.problems("")), 1)

    def test_a_page_without_incoming_links_is_found(self) -> None:
        self.assertEqual(self.problems("", two=""), ["two.html: no page links to it"])

    def test_comments_and_markdown_that_was_not_understood_are_found(self) -> None:
        for wrong in ("<!-- check: setup -->", "<p>a\n- b</p>", "<p>[a](b)</p>", "<p>**a b**</p>", "<p>| a | b |</p>"):
            self.assertEqual(len(self.problems(wrong)), 1, wrong)
        for right in ("<!-- a theme's own -->", "<pre>- [a](b)</pre>", "<ul><li>a</li></ul>", "<p>2**32 and 2**31</p>"):
            self.assertEqual(self.problems(right), [], right)

    def test_the_cpp_pages_need_no_incoming_links_but_have_no_dead_links(self) -> None:
        self.file("cpp/a.html", "<p>- a</p>")
        self.assertEqual(self.problems(""), [])
        self.file("cpp/a.html", '<a href="no.html">a</a>')
        self.assertEqual(len(self.problems("")), 1)


class Fit(InFolder):
    def setUp(self) -> None:
        super().setUp()
        for name in ("README.md", "docs/a.md", "docs/b-light.png", "docs/b-dark.png", "configs/c.yaml", "src/d.cpp"):
            self.file(name, "# What it is; see docs/a.md.\n#\n# More.\n")
        self.pages = fit_pages.Pages(self.root)

    def fit(self, text: str, source: str = "docs/a.md") -> str:
        return fit_pages.fit_text(self.pages, source, self.pages.place_of(source), text + "\n").rstrip("\n")

    def test_links_point_to_the_sites_pages(self) -> None:
        self.assertEqual(self.fit("[a](../README.md#x) [b](#y) [c](https://example.org)"),
                         "[a](index.md#x) [b](#y) [c](https://example.org)")
        self.assertEqual(self.fit("[a](docs/a.md) [b](docs)", "README.md"), "[a](a.md) [b](index.md#where-to-read-on)")

    def test_files_and_folders_become_pages(self) -> None:
        self.assertEqual(self.fit("[`d`](../src/d.cpp) [c](../configs)"),
                         "[`d`](files/src/d.cpp.md) [c](files/configs/index.md)")
        self.assertEqual(self.pages.files, {"src/d.cpp", "configs"})
        self.pages.shown = {"src/d.cpp": "cpp/d.html"}
        self.assertEqual(self.fit("[d](../src/d.cpp)"), "[d](cpp/d.html)")
        self.assertIn("~~~~cpp\n# What", fit_pages.page_with_file(self.root, "src/d.cpp"))
        self.assertIn("- [`c.yaml`](c.yaml.md): What it is; see [docs/a.md](../../a.md).\n", fit_pages.page_with_file(self.root, "configs"))

    def test_code_that_names_a_configuration_links_to_it_but_not_in_links_and_headings(self) -> None:
        self.assertEqual(self.fit("See `configs/c.yaml`."), "See [`configs/c.yaml`](files/configs/c.yaml.md).")
        for kept in ("## `configs/c.yaml`", "`configs/no.yaml`", "`evenkeel run configs/c.yaml`"):
            self.assertEqual(self.fit(kept), kept)
        self.assertEqual(self.fit("[`configs/c.yaml`\nand](a.md)"), "[`configs/c.yaml`\nand](a.md)")

    def test_comments_are_removed_and_blocks_are_unchanged(self) -> None:
        block = "```cpp\n<!-- check: x -->\n[](const T& x) [a](no.md)\n```"
        self.assertEqual(self.fit(f"<!-- check: setup -->\n{block}\na"), f"\n{block}\na")
        with self.assertRaises(fit_pages.PageError):
            self.fit("a <!-- b -->")

    def test_a_picture_in_light_and_dark_is_shown_as_the_reader_likes(self) -> None:
        self.assertEqual(self.fit("![p](b-light.png)"), "![p](b-light.png#only-light)\n![p](b-dark.png#only-dark)")
        both = "![p](b-light.png)\n\n![q](b-dark.png)"
        self.assertEqual(self.fit(both), both)

    def test_a_link_without_a_target_is_an_error(self) -> None:
        for link in ("no.md", "../../outside.md"):
            with self.assertRaises(fit_pages.PageError):
                self.fit(f"[a]({link})")


class Navigation(unittest.TestCase):
    README = "# A\n- [C](c.md)\n\n## Where to read on\n\n### One\n\n- [A](docs/a.md): b, [d](d.md)\n\n### Two\n- [B](docs/b.md)\n\n## E\n"
    FILES = ("README.md", "docs/a.md", "docs/b.md")

    def test_groups_become_headings_and_generated_pages_are_below_their_page(self) -> None:
        found = navigation.of_readme(self.README, self.FILES, str.upper, {"docs/a.md": {"M": "m.md"}})
        self.assertEqual(found, [{"Evenkeel": "README.MD"}, {"One": [{"A": "DOCS/A.MD"}, {"M": "m.md"}]}, {"Two": [{"B": "DOCS/B.MD"}]}])

    def test_a_page_that_is_not_in_exactly_one_group_is_an_error(self) -> None:
        twice = self.README.replace("docs/b.md", "docs/a.md")
        for readme, files in ((self.README, (*self.FILES, "docs/c.md")), (self.README, self.FILES[:2]), (twice, self.FILES)):
            with self.assertRaises(navigation.NavigationError):
                navigation.of_readme(readme, files, str, {})

    def test_readme_has_every_page_in_one_of_five_groups_and_fits_200_lines(self) -> None:
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        pages = [str(page.relative_to(ROOT)) for page in [*(ROOT / "docs").glob("*.md"), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]]
        self.assertEqual(len(navigation.of_readme(readme, pages, str, {})), 1 + 5)
        self.assertLessEqual(len(readme.splitlines()), 200)


class PythonReference(InFolder):
    def test_docstrings_become_markdown(self) -> None:
        self.assertEqual(python_reference.prose("a_b < c (docs/a-b.md)"), "a\\_b &lt; c ([docs/a-b.md](../a-b.md))")
        self.assertEqual(python_reference.prose("Takes ``a_b`` and a*b.\n\n    >>> f(1)\n    2"),
                         "Takes `a_b` and a\\*b.\n\n```pycon\n>>> f(1)\n2\n```")
        self.assertEqual(python_reference.prose("groups   the prompt of\n         each sample\nstep     its number"),
                         "- `groups`: the prompt of\n  each sample\n- `step`: its number")

    def test_a_page_has_public_names_with_signatures(self) -> None:
        self.file("evenkeel/__init__.py", '"""All."""\nfrom evenkeel.a import f\n__all__ = ["a", "f"]\n')
        self.file("evenkeel/a.py", '"""Mod."""\n__all__ = ["C", "f"]\n'
                                   'class C:\n    """Counts."""\n    def __init__(self, n: int) -> None: ...\n'
                                   '    @property\n    def size(self) -> int:\n        """In rows."""\n'
                                   'def f(x: int, /, *, y: str = "z") -> int:\n    """Does."""\ndef _g(): ...\n')
        pages = python_reference.Reference(self.root / "evenkeel").pages()
        self.assertEqual(set(pages), {"evenkeel.md", "evenkeel.a.md"})
        self.assertIn("| [`f`](evenkeel.a.md#f) | Does. |", pages["evenkeel.md"])
        for part in ("f(x: int, /, *, y: str = 'z') -> int", "C(n: int)", "Counts.", "- `size: int` – In rows."):
            self.assertIn(part, pages["evenkeel.a.md"])
        self.assertNotIn("_g", pages["evenkeel.a.md"])


if __name__ == "__main__":
    unittest.main()
