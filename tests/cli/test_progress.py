"""Plain lines where there is no terminal."""

import io

from rich.console import Console

from rheostat.cli.common import PlainLines


def test_a_line_comes_when_the_words_change_or_half_a_minute_has_passed():
    out, seconds = io.StringIO(), iter([0.0, 29.9, 30.0, 31.0, 60.9])
    lines = PlainLines("bench x", Console(file=out, width=20), lambda: next(seconds))
    for done, total, words in [(0, 9, "blocks"), (1, 9, "blocks"), (2, 9, "blocks"), (0, 0, "[end]"), (1, 0, "[end]")]:
        lines(done, total, words)

    assert out.getvalue() == "bench x: blocks 0 of 9\nbench x: blocks 2 of 9\nbench x: [end]\n"
