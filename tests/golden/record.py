"""Records the golden files anew: ``python -m tests.golden.record``. A changed file is a deliberate act.

With ``--dump DIR`` it writes no golden file, but every decision and every sentence of the runs and commands in full,
for the folders of two trees to be compared by ``diff -r``. ``--only TEXT`` takes those whose name has it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from tests.golden.cases import ALL_HOURS, FAST_HOURS, GoldenCase, distinct_presets, golden_cases
from tests.golden.commands import COMMANDS, figures_and_sentences, fill_folder, golden_command
from tests.golden.files import write_golden
from tests.golden.runs import golden_figures, golden_sentences, play
from tests.golden.surface import COMMANDS as HELPED
from tests.golden.surface import help_of, public_names


def main() -> None:
    """Record, or dump."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden.record", description=__doc__)
    parser.add_argument("--dump", type=Path, metavar="DIR", help="write decisions and sentences there, in full")
    parser.add_argument("--only", default="", metavar="TEXT", help="with --dump: those whose name has it")
    parser.add_argument("--commands", action="store_true", help="record only the commands, their help and public names")
    given = parser.parse_args()
    if given.dump:
        given.dump.mkdir(parents=True, exist_ok=True)
        dump_runs(given.dump, given.only)
        dump_commands(given.dump, given.only)
        return
    if not given.commands:
        record_runs()
    record_commands()


def record_runs() -> None:
    """Figures and sentences of every simulated run."""
    figures: dict[str, Any] = {"same presets": distinct_presets()[1]}
    sentences: dict[str, Any] = {}
    cases = list(golden_cases())
    with ProcessPoolExecutor() as pool:
        for case, (of_figures, of_sentences) in zip(cases, pool.map(record_run, cases), strict=True):
            figures[case.id], sentences[case.id] = of_figures, of_sentences
    write_golden("decisions", figures)
    write_golden("sentences", sentences)


def record_run(case: GoldenCase) -> tuple[dict[str, Any], dict[str, Any]]:
    """Figures and sentences of one simulated run, after each number of hours that is kept."""
    played, kept = play(case, ALL_HOURS), (FAST_HOURS, ALL_HOURS)
    figures = {f"{hours} h": golden_figures(played, hours) for hours in kept}
    return figures, {f"{hours} h": golden_sentences(played, hours) for hours in kept}


def record_commands() -> None:
    """Output and help of every command, and the public names."""
    figures, sentences, helps = {}, {}, {}
    for name, arguments in COMMANDS.items():
        with tempfile.TemporaryDirectory() as folder:
            fill_folder(Path(folder))
            figures[name], sentences[name] = golden_command(arguments, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        for command in HELPED:
            helps[command] = help_of(command, Path(folder)).splitlines()
    write_golden("commands", figures)
    write_golden("command-sentences", sentences)
    write_golden("help", helps)
    write_golden("public", public_names())


def dump_runs(folder: Path, only: str) -> None:
    """Every decision, outcome and sentence of the runs, a file for each."""
    for case in golden_cases():
        if only in case.id:
            played = play(case, ALL_HOURS)
            for kind in ("figures", "sentences"):
                lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in played[kind]]
                (folder / f"{case.id}.{kind}.jsonl").write_text("".join(lines), encoding="utf-8")


def dump_commands(folder: Path, only: str) -> None:
    """What every command prints, its figures and its sentences in a file each."""
    for name, arguments in COMMANDS.items():
        if only in name:
            with tempfile.TemporaryDirectory() as own:
                fill_folder(Path(own))
                code, figures, sentences = figures_and_sentences(arguments, Path(own))
            text = json.dumps({"exit": code, "json": figures}, ensure_ascii=False, indent=1)
            (folder / f"{name}.figures.json").write_text(text + "\n", encoding="utf-8")
            (folder / f"{name}.sentences.txt").write_text("\n".join(sentences) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
