"""The sessions of docs/drop-ins.md print what the page shows."""

import doctest
import pathlib
import re

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "drop-ins.md"


def test_every_session_prints_what_the_page_shows():
    sessions = re.findall(r"^```pycon\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(sessions) == 4
    test = doctest.DocTestParser().get_doctest("\n".join(sessions), {}, PAGE.name, str(PAGE), 0)
    shown = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=shown.append)
    assert not shown, "".join(shown)
