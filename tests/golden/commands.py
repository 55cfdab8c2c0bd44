"""Every command that needs no Java, run in this process; its output with figures apart from sentences."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.golden.cases import JOBS
from tests.golden.files import FOLDER
from tests.golden.runs import digest

from rheostat import __version__
from rheostat.cli import main

JOURNALS = FOLDER / "journal-0.1"
"""Journals as version 0.1 wrote them. They are never recorded again: what was written once stays readable."""

WRITTEN_BY: Mapping[str, list[str]] = {
    "reactive": ["--policy", "reactive", "--job", "faults.yaml", "--shape", "pulses:20..100@2700,on=450,off=450"],
    "mst": ["--policy", "mst", "--job", "nodes.yaml", "--shape", "daily:15..100@2700,period=2700"],
    "proactive": ["--policy", "proactive:demo", "--job", "base.yaml", "--shape", "daily:15..100@2700,period=1350"],
}
"""The options of ``rheostat simulate --seed 7 --journal`` that they were written with."""

_LONG = 3000
"""Of longer output only a digest and the beginning are kept."""

_FILES: Mapping[str, str] = {
    "settings.yaml": "objective: lag < 30s\nexecutors: [1, 6]\npolicy: hpa:s4\nworkers: {backup: 3}\n",
    "wrong.yaml": "objective: soon\npolicy: hpa:quick\npolicy_options: {tolerance: -1}\nsample_s: 0\nexecuters: []\n",
    "guards.yaml": "guard: {cooldown_down_s: 30, tolerance: 0.1}\n",
    "wrong-job.yaml": "schema: rheostat.job/1\nname: wrong\nobjective: lag < 60s\nexecuters: [1, 6]\ntrigger_s: -1\n",
    "trace.csv": "second,events_per_second\n" + "".join(f"{60 * n},{100 + 40 * (n % 7) + 10 * n}\n" for n in range(20)),
    "profiles.csv": "scaleOut,avgThr,isBckPres\n1,100,1\n2,190,1\n3,270,1\n4,340,1\n2,120,0\n6,470,1\n",
    "recorded.csv": "run,second,throughput,consumer_lag,task_managers\n"
    + "".join(f"a,{30 * n},{150 + n},{20 * n},{1 + n // 6}\n" for n in range(24)),
}

_SHORT = "ramp:200..2000@900+ramp:2000..200@900"

COMMANDS: Mapping[str, list[str]] = {
    "simulate": ["simulate", "--policy", "reactive", "--shape", _SHORT, "--seed", "3"],
    "simulate, record at a time on nodes": [
        *("simulate", "--job", "gesscale", "--policy", "mst:faithful", "--shape", "daily:1..10@7200,period=7200")
    ],
    "simulate, own files": [
        *("simulate", "--job", "base.yaml", "--config", "guards.yaml", "--trace", "trace.csv", "--policy", "keda"),
        *("--set", "guard.warm_up_s=30", "--longest", "15m"),
    ],
    "compare": [
        *("compare", "--policy", "reactive,hpa:faithful,static", "--shape", _SHORT, "--shape"),
        *("spike:100..900@600", "--jobs", "1", "--sort", "changes"),
    ],
    "compare --matrix": [
        *("compare", "--matrix", "--policy", "threshold", "--shape", "step:100..900@300,steps=3", "--jobs", "1")
    ],
    "compare --worst-case": [
        *("compare", "--worst-case", "--tries", "3", "--policy", "threshold", "--seconds", "900", "--jobs", "1")
    ],
    "tune": ["tune", "--shape", _SHORT, "--grid", "0.5,1", "--jobs", "1"],
    "tune from a journal": ["tune", "--journal", "proactive", "--last", "30m", "--grid", "1", "--jobs", "1"],
    "config check": ["config", "check", "settings.yaml"],
    "config check, a job": ["config", "check", "faults.yaml"],
    "calibrate": ["calibrate", "proactive", "--out", "job.yaml"],
    "calibrate from profiles": [
        *("calibrate", "--profiles", "profiles.csv", "--recorded", "recorded.csv", "--trace", "trace.csv")
    ],
    "fleet collect": ["fleet", "collect", "proactive", "reactive", "--history", "history"],
    **{f"explain {name}": ["explain", name] for name in WRITTEN_BY},
    "explain --decision": ["explain", "mst", "--decision", "77"],
    "explain --at": ["explain", "reactive", "--at", "12m"],
    "explain --since": ["explain", "proactive", "--since", "10m"],
    "replay": ["replay", "proactive"],
    "replay, another policy": ["replay", "reactive", "--policy", "hpa"],
    "replay, another setting": ["replay", "proactive", "--set", "guard.cooldown_down_s=300"],
    "wrong: simulate": ["simulate", "--policy", "reactiv", "--shape", "ramp:1..@x", "--job", "wrong-job.yaml"],
    "wrong: simulate without a load": ["simulate", "--policy", "hpa", "--journal", "reactive"],
    "wrong: compare": [
        "compare",
        "--policy",
        "hpa:quick",
        "--shape",
        "sine:1..2@60",
        "--sort",
        "beauty",
        "--jobs",
        "0",
    ],
    "wrong: tune": ["tune", "--policy", "hpa", "--grid", "0,2", "--shape", "constant:5@60", "--last", "1d"],
    "wrong: calibrate": ["calibrate", "none", "--out", "job.txt", "--warm-up", "soon", "--scale", "-1"],
    "wrong: explain": ["explain", "none", "--at", "noon", "--since", "then", "--decision", "1"],
    "wrong: explain a decision": ["explain", "mst", "--decision", "99999"],
    "wrong: replay": ["replay", "reactive", "--policy", "nobody", "--set", "guard.cooldown_down_s=-1"],
    "wrong: config check": ["config", "check", "wrong.yaml"],
    "wrong: config check, a job": ["config", "check", "wrong-job.yaml"],
    "wrong: config reference": ["config", "reference", "--jobs", "--figures"],
    "wrong: load": ["load", "--shape", "ramp:1..2", "--rate", "fast", "--partitions", "0", "--trips", "none.csv"],
    "wrong: load of nothing": ["load", "--topic", "t", "--log", "folder"],
    "wrong: experiment": ["experiment", "s9", "--seed", "x"],
    "wrong: experiment part": ["experiment", "s1", "--part", "9.9", "--jobs", "none"],
    "wrong: bench": ["bench", "decison"],
    "wrong: demo": ["demo", "--rate", "fast", "--seed", "x", "--policy", "reactiv", "--executors", "5,2"],
    "wrong: run": ["run", "missing.py", "--objective", "soon", "--conf", "novalue"],
    "wrong: fleet collect": ["fleet", "collect", "a", "b", "--history", "settings.yaml", "--job", "x"],
    "wrong: fleet train": [
        "fleet",
        "train",
        "--history",
        "none",
        "--out",
        "trace.csv",
        "--jobs",
        "0",
        "--set",
        "degree=3",
    ],
    "wrong: lab up": ["lab", "up", "--name", ""],
    "wrong: lab status": ["lab", "status", "--name", "no-such-lab"],
    "wrong: node": ["node", "--master", "spark://here", "--port", "-1", "--peer", "b"],
    "wrong: option": ["simulate", "--polcy", "hpa"],
    "wrong: command": ["simulat"],
}
"""Each gets ``--json`` at its end. The files and journals that it names are in its folder."""


def fill_folder(folder: Path) -> None:
    """Put there what the commands read."""
    for name, text in _FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    for name, job in JOBS.items():
        (folder / f"{name}.yaml").write_text(json.dumps({"schema": "rheostat.job/1", **job}), encoding="utf-8")
    for name in WRITTEN_BY:
        unpack_journal(name, folder / name)


def unpack_journal(name: str, folder: Path) -> Path:
    """A journal of version 0.1 as it lay in its folder."""
    shutil.copytree(JOURNALS / name, folder, dirs_exist_ok=True)
    for packed in folder.glob("*.gz"):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
    return folder


def run_command(arguments: list[str], folder: Path, columns: int = 200) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command in a folder."""
    out, err = StringIO(), StringIO()
    plain = {"COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "dumb"}
    surroundings = (chdir(folder), patch.dict(os.environ, plain), patch.object(sys, "argv", ["rheostat"]))
    with surroundings[0], surroundings[1], surroundings[2], redirect_stdout(out), redirect_stderr(err):
        code = main(arguments)
    shown, told = (
        text.getvalue().replace(str(folder), "FOLDER").replace(__version__, "VERSION") for text in (out, err)
    )
    return code, shown, told


def figures_and_sentences(arguments: list[str], folder: Path) -> tuple[int, Any, list[str]]:
    """Exit code, JSON without its sentences, and these after what was told on standard error."""
    code, out, err = run_command([*arguments, "--json"], folder)
    sentences = [line.rstrip() for line in err.splitlines() if line.strip()]
    return code, _without_sentences(json.loads(out.splitlines()[-1]), sentences), sentences


def golden_command(arguments: list[str], folder: Path) -> tuple[dict[str, Any], list[str] | str]:
    """What the golden files keep of a command: exit code and figures; and all sentences, or their digest."""
    code, figures, sentences = figures_and_sentences(arguments, folder)
    text = json.dumps(figures, ensure_ascii=False)
    kept = figures if len(text) <= _LONG else {"digest": digest([figures]), "beginning": text[:300]}
    long = len("".join(sentences)) > _LONG
    return {"exit": code, "json": kept}, digest(sentences) if long else sentences


def _without_sentences(value: Any, sentences: list[str]) -> Any:
    """JSON with each text of several words moved to the sentences."""
    if isinstance(value, str) and " " in value:
        sentences.append(value)
        return "…"
    if isinstance(value, dict):
        return {key: _without_sentences(item, sentences) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_sentences(item, sentences) for item in value]
    return value
