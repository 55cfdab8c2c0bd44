from __future__ import annotations

import errno
import json
import os

import pytest

from rheostat.errors import InputError, JournalError
from rheostat.journal.store import JournalWriter, StateStore


def test_a_state_comes_back(tmp_path):
    StateStore(tmp_path / "deep" / "state.json", "reactive").save({"target": 3})
    assert StateStore(tmp_path / "deep" / "state.json", "reactive").load() == ({"target": 3}, None)
    assert [file.name for file in (tmp_path / "deep").iterdir()] == ["state.json"]


def test_no_file_is_no_problem(tmp_path):
    assert StateStore(tmp_path / "state.json", "reactive").load() == (None, None)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"schema": "rheostat.state/1", "ki', "cannot be read"),
        ("[]", "cannot be read"),
        ('{"schema": "rheostat.state/9", "kind": "reactive", "state": {}}', "rheostat.state/9"),
        ('{"schema": "rheostat.state/1", "kind": "static", "state": {}}', "belongs to static"),
        ('{"schema": "rheostat.state/1", "kind": "reactive", "state": []}', "holds no state"),
    ],
    ids=["half a file", "another shape", "another schema", "another policy", "an empty state"],
)
def test_what_cannot_be_taken_over_is_said(tmp_path, text, says):
    (tmp_path / "state.json").write_text(text)
    state, problem = StateStore(tmp_path / "state.json", "reactive").load()
    assert state is None
    assert says in (problem or "")


def test_a_failed_save_keeps_the_old_state(tmp_path):
    store = StateStore(tmp_path / "state.json", "reactive")
    store.save({"target": 3})
    with pytest.raises(JournalError, match="cannot be written"):
        store.save({"target": float("nan")})
    assert json.loads((tmp_path / "state.json").read_text())["state"] == {"target": 3}
    assert [file.name for file in tmp_path.iterdir()] == ["state.json"]


def test_a_state_that_is_not_utf_8_is_not_taken_over(tmp_path):
    path = tmp_path / "state.json"
    path.write_bytes("é".encode("latin-1"))
    message = f"{path} cannot be read (it is no text in UTF-8 (byte 0xe9 at 0): save it as UTF-8)"
    assert StateStore(path, "reactive").load() == (None, message)


def test_a_state_has_one_writer(tmp_path):
    first, second = (StateStore(tmp_path / "state.json", "reactive") for _ in range(2))
    first.lock()
    with pytest.raises(InputError, match="writes this state; end it, or give this application a folder of its own"):
        second.lock()
    first.close()
    first.close()
    second.lock()
    second.close()


@pytest.mark.parametrize("open_it", [StateStore.lock, lambda store: JournalWriter(store.path.parent)])
@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_refused_by_name(tmp_path, monkeypatch, open_it, code):
    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("rheostat.files.fcntl.flock", refuse)
    with pytest.raises(InputError) as caught:
        open_it(StateStore(tmp_path / "state.json", "reactive"))
    (fault,) = caught.value.faults
    assert fault.given == str(tmp_path)
    assert fault.allowed == "a folder on a file system that locks files"
    assert os.strerror(code) in fault.message
