"""The examples of the guides pass the linter where they are pasted into this repository."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("page", "name", "place"),
    [
        pytest.param("docs/policies.md", "class NightPolicy", "src/rheostat/policies/night.py", id="policy"),
        pytest.param("CONTRIBUTING.md", "class StaticCluster", "src/rheostat/observe/static.py", id="source"),
        pytest.param("CONTRIBUTING.md", "class PrintedCommands", "src/rheostat/execute/printed.py", id="actuator"),
    ],
)
def test_an_example_passes_the_linter(page, name, place):
    blocks = re.findall(r"   ```python\n(.*?)   ```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    example = textwrap.dedent(next(block for block in blocks if name in block))
    for arguments in (["check"], ["format", "--diff"]):
        command = [sys.executable, "-m", "ruff", *arguments, "--no-cache", "--stdin-filename", place, "-"]
        done = subprocess.run(command, input=example, capture_output=True, text=True, cwd=ROOT, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
