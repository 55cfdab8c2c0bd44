"""One lab for the tests that scale applications."""

from collections.abc import Iterator

import pytest

from rheostat.lab import Lab, LabSpec


@pytest.fixture(scope="session")
def field() -> Iterator[Lab]:
    """A broker and a master without Workers: each test brings those that it needs."""
    with Lab(LabSpec(workers=0)) as lab:
        yield lab
