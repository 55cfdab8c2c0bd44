"""What is no plain text is told as what it looks to be, by everything that reads files."""

import gzip
import io
import zipfile

import pytest

from rheostat.calibrate.recorded import read_profiles, read_recordings
from rheostat.config.loading import read_document, read_token
from rheostat.errors import InputError
from rheostat.files import kind_of, read_text
from rheostat.journal.store import read_journal
from rheostat.judge.cases import load_job
from rheostat.load.files import read_trace, read_variation
from rheostat.load.trips import file_trips
from rheostat.research.bench.harness import require_page
from rheostat.research.bench.training import read_recorded
from rheostat.research.papers import s2

TEXT = "second,events_per_second\n0,1\n1,2\n"


def workbook():
    """The beginning of what Excel writes: the parts of a workbook in a zip."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as parts:
        parts.writestr("[Content_Types].xml", "<Types/>")
        parts.writestr("xl/workbook.xml", "<workbook/>")
    return held.getvalue()


def archive():
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as parts:
        parts.writestr("trace.csv", TEXT)
    return held.getvalue()


KINDS = [
    pytest.param(gzip.compress(TEXT.encode()), "it is compressed (gzip): unpack it first", id="gzip"),
    pytest.param(archive(), "it is an archive (zip): unpack it first", id="zip"),
    pytest.param(workbook(), "it is a workbook or another Office document (in a zip): save it as CSV", id="Excel"),
    pytest.param(b"PAR1\x15\x04", "it is Parquet", id="Parquet"),
    pytest.param(TEXT.encode("utf-16"), "it is UTF-16: save it as UTF-8", id="UTF-16"),
    pytest.param(b"<!DOCTYPE html><html>404</html>", "it is a web page", id="a page instead of a download"),
]
"""Kinds that their first bytes tell."""

READERS = [
    pytest.param(read_trace, id="traces"),
    pytest.param(lambda path: read_variation([path], 1.0), id="variation files"),
    pytest.param(lambda path: file_trips([path]), id="trips"),
    pytest.param(read_profiles, id="profiles to fit to"),
    pytest.param(s2.read_profiles, id="profiles to predict"),
    pytest.param(read_recordings, id="recorded runs"),
    pytest.param(read_recorded, id="recorded runs to train on"),
    pytest.param(read_document, id="settings"),
    pytest.param(lambda path: load_job(str(path)), id="jobs"),
    pytest.param(lambda path: list(read_journal(path)), id="journals"),
    pytest.param(lambda path: read_token(path, "token_file", {}), id="tokens"),
    pytest.param(require_page, id="pages of figures"),
]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(("data", "words"), KINDS)
def test_every_reader_says_what_a_file_looks_to_be(tmp_path, read, data, words):
    path = tmp_path / "file.yaml"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        read(path)
    [fault] = caught.value.faults
    assert words in fault.message


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (TEXT.encode("utf-16-le"), "it holds null characters: it is UTF-16, to be saved as UTF-8, or no text"),
        ("rate: é\n".encode("latin-1"), r"it is no text in UTF-8 \(byte 0xe9 at 6\): save it as UTF-8"),
    ],
    ids=["UTF-16 without a mark", "Latin-1"],
)
def test_what_no_mark_tells_is_told_by_what_is_in_it(tmp_path, data, words):
    path = tmp_path / "file.csv"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=words):
        read_text(path, 1000)


def test_a_binary_header_is_no_row_of_columns(tmp_path):
    path = tmp_path / "trips.csv"
    path.write_bytes(bytes(range(256)) * 40)
    with pytest.raises(InputError, match="it holds null characters"):
        file_trips([path])


def test_a_large_workbook_is_a_workbook_and_not_too_large(tmp_path):
    path = tmp_path / "settings.yaml"
    path.write_bytes(workbook() + b"\0" * 2**21)
    with pytest.raises(InputError, match="it is a workbook"):
        read_document(path)


@pytest.mark.parametrize(
    "start",
    [b"", b"#", b"second,events_per_second", b"P,K\n", b"\xef\xbb\xbfobjective: lag < 30s", b'{"type":"session"'],
)
def test_text_is_not_taken_for_anything_else(start):
    assert kind_of(start) is None


def test_a_mark_before_the_header_is_no_part_of_it(tmp_path):
    path = tmp_path / "profiles.csv"
    path.write_text("\ufeffscaleOut,avgThr,isBckPres\n1,100,1\n2,190,1\n", encoding="utf-8")
    assert read_profiles(path) == [(1, 100.0), (2, 190.0)]
