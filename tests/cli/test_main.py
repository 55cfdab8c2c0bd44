import json
import os
import subprocess
import sys

import pytest

from rheostat.cli import main
from rheostat.cli.common import executors_of, number_of, program, to_json
from rheostat.errors import InputError


def last_json(capsys):
    return json.loads(capsys.readouterr().out.strip().splitlines()[-1])


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        pytest.param(["demo", "--source", "file", "--executors", "5,2"], {"source", "executors"}, id="demo"),
        pytest.param(
            ["demo", "--rate", "fast", "--seed", "x", "--policy", "reactiv"],
            {"rate", "seed", "policy"},
            id="no numbers",
        ),
        pytest.param(["demo", "--objective", "lag < 3s"], {"objective"}, id="an objective under two batches"),
        pytest.param(["demo", "--partitions", "4"], {"partitions"}, id="fewer partitions than executors"),
        pytest.param(
            ["bench", "decison", "--page", "/dev/null"], {"name", "page"}, id="a mistyped benchmark, a device"
        ),
        pytest.param(
            ["explain", "none", "--at", "noon", "--since", "then", "--decision", "1"],
            {"journal", "--at", "--since"},
            id="explain: journal, two times and one too many",
        ),
        pytest.param(["demo", "--fast"], {"--fast"}, id="an unknown option"),
        pytest.param(
            ["run", "--objective", "soon", "--conf", "novalue", "missing.py"],
            {"objective", "conf", "script"},
            id="run: file, objective and setting",
        ),
        pytest.param(
            ["run", "--config", "none.yaml", "--objective", "lag < 30s", "--policy", "reactiv", "missing.py"],
            {"none.yaml", "policy", "script"},
            id="run: settings file, policy and script",
        ),
        pytest.param(["demo", "--rate", "1e300"], {"rate"}, id="a rate beyond any machine"),
        pytest.param(["demo", "--partitions", "99999999"], {"partitions"}, id="partitions beyond any machine"),
        pytest.param(["explain", "x" * 5000], {"path"}, id="a path that no system takes"),
        pytest.param(["lab", "status", "--name", ""], {"--name"}, id="an empty name"),
    ],
)
def test_wrong_input_ends_with_two_and_names_every_fault(arguments, fields, capsys):
    command = 2 if arguments[0] == "lab" else 1
    assert main([*arguments[:command], "--json", *arguments[command:]]) == 2
    shown = last_json(capsys)
    assert shown["schema"] == "rheostat.error/1"
    assert {fault["field"] for fault in shown["faults"]} == fields
    assert all(fault["given"] and fault["allowed"] for fault in shown["faults"])


def test_a_file_that_is_not_ordinary_is_refused_everywhere(tmp_path, capsys):
    pipe, huge = tmp_path / "pipe.yaml", tmp_path / "huge.csv"
    os.mkfifo(pipe)
    with huge.open("wb") as file:
        file.truncate(2**40)
    arguments = ["--trace", f"/dev/zero,{pipe},{huge}", "--job", str(pipe), "--config", "/dev/zero", "--json"]
    assert main(["compare", *arguments]) == 2
    assert {(fault["given"], fault["message"].split(": ")[-1]) for fault in last_json(capsys)["faults"]} == {
        ("/dev/zero", "it is a device"),
        (str(pipe), "it is a pipe"),
        (str(huge), "it is larger than 64 MiB"),
    }
    assert main(["load", "--topic", "t", "--variation", "/dev/zero", "--rate-per-level", "1", "--json"]) == 2
    assert last_json(capsys)["faults"][0]["message"] == "/dev/zero: cannot be read: it is a device"
    assert main(["explain", "/dev/zero", "--json"]) == 2
    assert last_json(capsys)["faults"][0]["message"] == "it cannot be read: it is a device"


@pytest.mark.parametrize("command", ["simulate", "compare", "replay", "run", "demo"])
def test_every_command_with_a_policy_accepts_its_preset(command, capsys):
    rest = {"replay": ["none"], "run": ["none.py", "--objective", "lag < 30s"]}.get(command, [])
    arguments = (
        [command, "--policy", "hpa:quick", "--json", *reversed(rest)] if rest else [command, "--policy", "hpa:quick"]
    )
    main([*arguments, "--json"] if not rest else arguments)
    faults = {fault["field"]: fault for fault in last_json(capsys)["faults"]}
    assert faults["policy_options.preset"]["given"] == "'quick'"
    assert "faithful" in faults["policy_options.preset"]["allowed"]


def test_a_suggested_command_works_in_the_current_folder(tmp_path, monkeypatch):
    script = tmp_path / "a folder" / "rheostat"
    script.parent.mkdir()
    script.touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [str(script), "demo"])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program() == f"'{script}'"
    monkeypatch.setenv("PATH", str(script.parent))
    assert program() == "rheostat"
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "__main__.py")])
    assert program() == f"{sys.executable} -m rheostat"


def test_the_version_is_printed(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == "0.1.0"


def test_json_has_no_nan_and_no_infinity():
    assert to_json({"a": float("nan"), "b": (1.5, float("-inf")), "c": {"d": None}}) == (
        '{"a": null, "b": [1.5, null], "c": {"d": null}}'
    )


@pytest.mark.parametrize(("text", "bounds"), [("1,20", (1, 20)), ("2..3", (2, 3)), (" 4 - 9 ", (4, 9))])
def test_bounds_are_read(text, bounds):
    assert executors_of(text) == bounds


@pytest.mark.parametrize("text", ["", "3", "a,b", "1,2,3"])
def test_text_that_is_no_bounds_is_a_fault(text):
    with pytest.raises(InputError):
        executors_of(text)


@pytest.mark.parametrize("text", ["", "nan", "inf", "12x"])
def test_text_that_is_no_number_is_a_fault(text):
    with pytest.raises(InputError):
        number_of("rate", text, float)


@pytest.mark.parametrize(
    ("script", "code", "message"),
    [
        pytest.param("def x(:", 1, "failed: SyntaxError", id="no Python"),
        pytest.param("raise ValueError('boom')", 1, "failed: ValueError: boom", id="an error of its own"),
        pytest.param("print('hi')", 1, "made no Spark session", id="no session"),
        pytest.param("raise KeyboardInterrupt", 130, "interrupted", id="Ctrl-C"),
    ],
)
def test_the_error_of_a_script_is_shown_without_frames_of_rheostat(script, code, message, tmp_path, capsys):
    file = tmp_path / "app.py"
    file.write_text(script)
    assert main(["run", "--json", "--objective", "lag < 30s", str(file)]) == code
    out, err = capsys.readouterr()
    assert message in json.loads(out.strip().splitlines()[-1])["faults"][0]["message"]
    assert "rheostat" not in err


def test_the_exit_code_is_that_of_the_script(tmp_path, capsys):
    file = tmp_path / "app.py"
    file.write_text("import sys; sys.exit(int(sys.argv[sys.argv.index('--json') + 1]))")
    assert main(["run", "--json", "--objective", "lag < 30s", str(file), "--json", "3"]) == 3
    assert last_json(capsys)["exit_code"] == 3


def test_a_bug_of_rheostat_is_one_line_and_json(monkeypatch, capsys):
    def broken(_name):
        raise LookupError("nobody thought of this")

    monkeypatch.setattr("rheostat.lab.standing.status", broken)
    assert main(["lab", "status", "--json"]) == 1
    out, err = capsys.readouterr()
    message = json.loads(out)["faults"][0]["message"]
    assert message.startswith("a fault of Rheostat, please report it: LookupError: nobody thought of this (test_main")
    assert "Traceback" not in err


def test_a_missing_package_is_named_with_its_extra(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "psutil", None)
    monkeypatch.setattr("rheostat.lab.standing.status", lambda _name: __import__("psutil"))
    assert main(["lab", "status", "--json"]) == 1
    message = json.loads(capsys.readouterr().out)["faults"][0]["message"]
    assert message == "psutil is not installed; in a clone of Rheostat: pip install '.[spark]'"


def test_output_survives_an_ascii_terminal_and_a_pipe_that_is_closed_early():
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "rheostat", "config"]
    wrong = subprocess.run([*command, "check", "none"], capture_output=True, text=True, env=environment, check=False)
    assert (wrong.returncode, wrong.stderr[:12]) == (2, "\\u2717 none:")
    reader, writer = os.pipe()
    os.close(reader)
    cut = subprocess.run([*command, "reference"], stdout=writer, stderr=subprocess.PIPE, env=environment, check=False)
    os.close(writer)
    assert (cut.returncode, cut.stderr) == (1, b"")


@pytest.mark.parametrize("arguments", [[], ["lab"]], ids=["rheostat", "rheostat lab"])
def test_a_missing_command_is_named_as_missing(arguments, capsys):
    assert main([*arguments, "--help"]) == 0
    assert main(arguments) == 2
    assert "a command is missing" in capsys.readouterr().err
