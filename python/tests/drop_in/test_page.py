"""The sessions on pages about drop-in functions print the output that the pages show."""

import doctest
import pathlib
import re

import pytest

DOCS = pathlib.Path(__file__).resolve().parents[3] / "docs"


@pytest.mark.parametrize("page", ["verl.md", "roll.md", "mindspeed-rl.md", "prefix-sharing.md"])
def test_every_session_prints_the_output_on_the_page(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    sessions = [session for session in re.findall(r"^```pycon\n(.*?)^```$", text, re.MULTILINE | re.DOTALL) if "drop_in" in session]
    assert len(sessions) == 1
    test = doctest.DocTestParser().get_doctest(sessions[0], {}, page, page, 0)
    shown = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=shown.append)
    assert not shown, "".join(shown)
