"""Damaged journals: which file, which line, and what is wrong with it."""

from __future__ import annotations

import gzip
import json
import os
import re

import pytest
from tests.journal.test_journal import SESSION, cycles, decisions, write

from rheostat.cli import main
from rheostat.errors import InputError
from rheostat.journal.store import read_journal


@pytest.mark.parametrize(
    ("line", "text", "says"),
    [
        (2, b"{broken", "this is no JSON: Expecting property name enclosed in double quotes at character 2"),
        (
            2,
            '{"at":"é"}'.encode("latin-1"),
            "this is no JSON: it is no text in UTF-8 (byte 0xe9 at 7): save it as UTF-8",
        ),
        (2, b'{"at":1}', "the record has no type"),
        (2, b"[1]", "the record has no type"),
        (2, b'{"type":"decision"}', "the record lacks 'at'"),
        (2, b'{"type":"outcome","at":"noon"}', "the record cannot be read: TypeError: 'at' is no number: 'noon'"),
        (2, b'{"type":"poem"}', "a record of an unknown type: 'poem'"),
        (2, b"half a\rline", "this is no JSON: Expecting value at character 1"),
        (2, b"[" * 100_000, "this is no JSON: RecursionError"),
        (1, b'{"type":"decision"}', "a journal file starts with a session record"),
        (
            1,
            SESSION.strip().replace(b"journal/1", b"journal/9"),
            "the journal has the schema 'rheostat.journal/9'; this version reads 'rheostat.journal/1'",
        ),
        (1, re.sub(b'"states":.*,"note"', b'"states":7,"note"', SESSION.strip()), "TypeError: 'states' has no keys: 7"),
    ],
    ids=[
        "no JSON",
        "Latin-1",
        "no type",
        "no record",
        "a field is missing",
        "a time that is none",
        "an unknown record",
        "a carriage return",
        "too deep",
        "no session",
        "another schema",
        "no states",
    ],
)
def test_a_broken_line_is_named(tmp_path, line, text, says):
    write(tmp_path, cycles(3))
    file = next(tmp_path.glob("*.jsonl"))
    lines = file.read_bytes().splitlines()
    lines[line - 1] = text
    file.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(InputError) as caught:
        list(read_journal(tmp_path))
    [fault] = caught.value.faults
    assert (fault.field, fault.given) == ("journal", f"{file}:{line}")
    assert fault.allowed == "a line of a journal (rheostat.journal/1)"
    assert says in fault.message


@pytest.mark.parametrize(
    ("make", "says"),
    [
        pytest.param(
            lambda file: file.write_bytes(gzip.compress(SESSION)),
            "it cannot be read: it is compressed (gzip)",
            id="compressed",
        ),
        pytest.param(os.mkfifo, "it cannot be read: it is a pipe", id="a pipe"),
        pytest.param(lambda file: file.mkdir(), "it cannot be read: it is a folder", id="a folder"),
        pytest.param(lambda file: file.symlink_to("/dev/zero"), "it cannot be read: it is a device", id="a device"),
        pytest.param(lambda file: sparse(file, 2**40), "it cannot be read: it is larger than 1024 MiB", id="huge"),
    ],
)
def test_what_is_no_journal_file_is_refused_at_once(tmp_path, make, says):
    file = tmp_path / "journal-2025-11-27.jsonl"
    make(file)
    with pytest.raises(InputError) as caught:
        list(read_journal(tmp_path))
    [fault] = caught.value.faults
    assert (fault.field, fault.given) == ("journal", str(file))
    assert fault.message.startswith(says)


def sparse(file, size):
    with file.open("wb") as handle:
        handle.truncate(size)


def test_a_reason_code_of_a_later_version_is_an_error_of_its_line(tmp_path):
    write(tmp_path, cycles(1))
    file = next(tmp_path.glob("*.jsonl"))
    file.write_bytes(file.read_bytes().replace(b'"SLA_VIOLATED"', b'"TOMORROWS"'))
    record = decisions(tmp_path)[0]
    with pytest.raises(InputError, match=r"TOMORROWS.*jsonl:3;"):
        _ = record.decision


def test_a_line_that_is_missing_is_suspected_where_the_next_one_builds_on_it(tmp_path):
    write(tmp_path, cycles(3))
    file = next(tmp_path.glob("*.jsonl"))
    session, _, *after = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(session + b"".join(after))
    with pytest.raises(InputError, match="builds on what neither it nor a line before it holds; is a line missing"):
        list(read_journal(tmp_path))


@pytest.mark.parametrize(
    ("path", "given", "field", "allowed"),
    [
        (("assessment", "arrival_rate"), "soon", "assessment.arrival_rate", "a number, or null"),
        (("assessment", "executors"), 2.5, "assessment.executors", "a whole number, or null"),
        (("decision", "target"), [1], "decision.target", "a whole number, or null"),
        (("decision", "policy", 1), None, "decision.recommendation.reason.text", "text"),
        (("decision", "policy", 2), 7, "decision.recommendation.reason.figures", "keys with values"),
        (("observation", "q", 0, "b", 1), "0", "observation.queries[0].batch.batch_id", "a whole number"),
        (("observation", "q", 0, "b", 2), True, "observation.queries[0].batch.duration_s", "a number"),
        (("observation", "c", 0), "now", "observation.cluster.at", "a number"),
    ],
)
def test_a_value_of_another_type_is_named_with_its_line_and_field(tmp_path, path, given, field, allowed):
    write(tmp_path, cycles(1))
    file = next(tmp_path.glob("*.jsonl"))
    *before, line = file.read_text().splitlines()
    data = json.loads(line)
    inside = data
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = given
    file.write_text("\n".join([*before, json.dumps(data)]) + "\n")

    [record] = decisions(tmp_path)
    with pytest.raises(InputError) as caught:
        _ = record.assessment, record.decision, record.observation
    [fault] = caught.value.faults
    assert fault.message == f"{file}:{len(before) + 1}, {field}: the value is of another type"
    assert (fault.given, fault.allowed) == (repr(given), allowed)


@pytest.mark.slow
def test_every_value_edited_to_another_type_is_a_fault_of_the_file_or_still_one_of_its_type(tmp_path, capsys):
    write(tmp_path, cycles(2))
    file = next(tmp_path.glob("*.jsonl"))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    tried = 0
    for data in lines:
        for inside, key in list(leaves({name: data[name] for name in data if name not in ("states", "settings")})):
            kept, inside[key] = inside[key], {"another": "type"}
            file.write_text("".join(json.dumps(line) + "\n" for line in lines))
            inside[key] = kept
            assert main(["explain", str(tmp_path), "--since", "1h"]) in (0, 2), (key, kept)
            tried += 1
    assert tried > 100
    assert "fault of Rheostat" not in capsys.readouterr().err


def leaves(value):
    """Each list or mapping inside, with each of its keys that holds neither."""
    for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
        if isinstance(inner, dict | list):
            yield from leaves(inner)
        else:
            yield value, key
