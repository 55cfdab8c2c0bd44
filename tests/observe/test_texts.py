"""What the JVM says as text."""

import pytest
from tests.observe import recorded

from rheostat.spark import jvm as texts
from rheostat.spark import kafka_admin
from rheostat.spark.jvm import Run, Trigger, deploy_of
from rheostat.spark.kafka_admin import TopicPartition


def test_active_queries_are_those_that_start_and_those_that_run():
    assert texts.runs(recorded.ACTIVE_QUERIES) == (
        Run(recorded.SLOW_ID, "4b57f9e8-99ea-484d-a404-079d914bf3e9"),
        Run(recorded.RATE_ID, "1b3cc3f9-7a58-4c1c-8c8a-28bfbdcb8724"),
    )


def test_a_terminated_query_that_is_still_listed_is_not_active():
    text = recorded.ACTIVE_QUERIES.replace("ACTIVE", "TERMINATED")
    assert [run.query_id for run in texts.runs(text)] == [recorded.SLOW_ID]


@pytest.mark.parametrize(
    "text",
    ["java.util.HashMap@1f", recorded.ACTIVE_QUERIES.replace("runId", "run")],
    ids=["an object without a text of its own", "ids under other names"],
)
def test_a_list_of_queries_that_is_not_understood_is_not_taken_for_an_empty_one(text):
    with pytest.raises(ValueError, match="not understood as a map of queries"):
        texts.runs(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ProcessingTimeTrigger(0)", Trigger("processing", 0.0)),
        ("ProcessingTimeTrigger(1500)", Trigger("processing", 1.5)),
        ("OneTimeTrigger", Trigger("once", None)),
        ("AvailableNowTrigger", Trigger("available-now", None)),
        ("ContinuousTrigger(1000)", Trigger("continuous", None)),
        ("RealTimeTrigger(5000)", Trigger("real-time", None)),
        ("SomethingElse", Trigger("unknown", None)),
    ],
)
def test_triggers(text, expected):
    assert texts.trigger(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[]", ()),
        ("[-]", (None,)),
        ("[2, -]", (2, None)),
        ('[{"log": {"0": 15, "1": 5}}]', ({"log": {"0": 15, "1": 5}},)),
        ('[-3, {"logOffset":0}, "a, b"]', (-3, {"logOffset": 0}, "a, b")),
    ],
    ids=["no source", "nothing read yet", "two sources", "in the shape of Kafka's", "a negative number and a string"],
)
def test_offsets_of_all_sources_in_one_text(text, expected):
    assert texts.offset_seq(text) == expected


@pytest.mark.parametrize("text", ["OffsetSeq(1)", "[RateStreamOffset(5)]", ""])
def test_offsets_that_are_not_understood_are_an_error(text):
    with pytest.raises(ValueError, match=r".+"):
        texts.offset_seq(text)


def test_listed_offsets_of_topics_with_dots_and_dashes():
    assert kafka_admin.listed_offsets(recorded.LISTED, 3) == {
        ("clicks.a-b", 9): 10,
        ("clicks.a-b", 10): 11,
        ("other", 0): 0,
    }


def test_an_answer_about_fewer_partitions_than_asked_for_is_an_error():
    with pytest.raises(ValueError, match="offsets of 4 partitions were asked for, 3 were understood"):
        kafka_admin.listed_offsets(recorded.LISTED, 4)


def test_partitions_of_described_topics():
    assert kafka_admin.topic_partitions(recorded.DESCRIBED) == (
        TopicPartition("a", 0),
        TopicPartition("clicks.a-b", 0),
        TopicPartition("clicks.a-b", 1),
    )


@pytest.mark.parametrize(("text", "expected"), [("[]", ()), ("[clicks.a-b, b]", ("b", "clicks.a-b"))])
def test_names_of_topics(text, expected):
    assert kafka_admin.topics_listed(text) == expected


def test_cleanup_policies_of_topics():
    assert kafka_admin.cleanup_policies(recorded.CONFIGS) == {"clicks.a-b": "delete", "users": "compact,delete"}


def test_a_failure_is_told_in_a_line_without_traceback_and_plan():
    assert texts.failure_text(recorded.FAILURE) == (
        "[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in foreach batch sink. "
        "Reason: ValueError: boom"
    )


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local[2]", "local"),
        ("local", "local"),
        ("local-cluster[2,1,512]", "local-cluster"),
        ("spark://host:7077", "standalone"),
        ("yarn", "yarn"),
        ("k8s://https://api:6443", "kubernetes"),
        ("mesos://host", "other"),
    ],
)
def test_kinds_of_clusters(master, expected):
    assert deploy_of(master) == expected
