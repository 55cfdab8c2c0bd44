"""The example: what a job that knows nothing of us needs to become elastic."""

import ast
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def statements(name: str) -> list[str]:
    """Every statement of a script in its order, without its docstring; those that hold others by their first line."""
    tree = ast.parse((EXAMPLES / name).read_text())
    return [ast.unparse(node).splitlines()[0] for node in ast.walk(tree) if isinstance(node, ast.stmt)][1:]


def test_the_elastic_example_differs_by_one_line_and_its_import():
    plain, elastic = statements("word_lengths.py"), statements("elastic_word_lengths.py")
    added = [statement for statement in elastic if statement not in plain]
    assert added == ["import rheostat", "rheostat.attach(spark, objective='lag < 30s', executors=(1, 8))"]
    assert [statement for statement in elastic if statement in plain] == plain
