"""Click-fraud records."""

import json
import uuid
from collections import Counter
from itertools import pairwise

import pytest

from rheostat.load.payload import Payloads, PayloadSpec


def records(spec=None, count=10_000, **options):
    return Payloads(spec or PayloadSpec(**options)).make(0, count, 1_700_000_000.25)


def test_a_record_has_the_agreed_fields():
    payloads = Payloads(PayloadSpec(seed=7), first_id=100)
    record = json.loads(payloads.make(3, 1, 1_700_000_000.25).values[0])
    assert list(record) == ["id", "ip", "userID", "timestamp", "eventType"]
    assert (record["id"], record["timestamp"]) == (103, 1_700_000_000.25)
    assert record["eventType"] in ("display", "click")
    assert record["ip"].startswith("10.")
    assert str(uuid.UUID(record["userID"])) == record["userID"]


def test_what_a_record_says_does_not_depend_on_the_batches():
    whole = records(count=9_000).values
    payloads = Payloads(PayloadSpec())
    cuts = [0, 1, 4_095, 4_097, 8_000, 9_000]
    parts = [payloads.make(a, b - a, 1_700_000_000.25).values for a, b in pairwise(cuts)]
    assert [value for part in parts for value in part] == list(whole)


def test_an_earlier_record_can_be_made_again():
    payloads = Payloads(PayloadSpec())
    first = payloads.make(10, 5, 1.0)
    payloads.make(50_000, 5, 1.0)
    assert payloads.make(10, 5, 1.0) == first


def test_the_seed_decides():
    assert records(seed=1).values == records(seed=1).values
    assert records(seed=1).values != records(seed=2).values


def test_skew_follows_the_power_law():
    users = Counter(json.loads(value)["userID"] for value in records(users=100, skew=1.0, count=40_000).values)
    counts = [count for _, count in users.most_common()]
    harmonic = sum(1 / rank for rank in range(1, 101))
    assert len(users) == 100
    assert counts[0] / 40_000 == pytest.approx(1 / harmonic, rel=0.1)
    assert counts[9] / counts[0] == pytest.approx(1 / 10, rel=0.25)


def test_without_skew_all_are_alike():
    ips = Counter(json.loads(value)["ip"] for value in records(ips=10, skew=0.0, count=20_000).values)
    assert len(ips) == 10
    assert max(ips.values()) / min(ips.values()) < 1.25


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_share_of_clicks_is_as_asked(share):
    clicks = sum('"click"' in value for value in records(click_share=share, count=20_000).values)
    assert clicks / 20_000 == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize(("key", "field"), [("user", "userID"), ("ip", "ip")])
def test_the_key_is_the_field(key, field):
    made = records(key=key, count=100)
    assert list(made.keys) == [json.loads(value)[field] for value in made.values]


def test_records_may_have_no_key():
    assert records(key="none", count=5).keys is None


def test_addresses_are_all_different():
    assert len({json.loads(value)["ip"] for value in records(ips=2_000, skew=0.0, count=40_000).values}) == 2_000
