"""From outside, on a stand-in for Spark's REST interface and folders on disk; no Java."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.observe import contract, recorded

from rheostat.errors import UnavailableError
from rheostat.model import Gap
from rheostat.observe.rest import OutsideQuery, RestSource
from rheostat.spark.kafka_admin import Subscription
from rheostat.spark.kafka_topics import KafkaTopics

APPS = "/api/v1/applications"
LISTED = [recorded.EXECUTOR | {"id": "driver"}, recorded.EXECUTOR | {"addTime": "2026-11-28T02:53:06.046GMT"}]


@contextmanager
def ui(pages: dict[str, object]) -> Iterator[str]:
    """A server that answers these paths with JSON, or with the text given; 404 for others."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path)
            body = (page if isinstance(page, str) else json.dumps(page)).encode()
            self.send_response(404 if page is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def query(tmp_path):
    """A query on the embedded log: 300 records, of which 100 are committed and 50 in flight."""
    log, checkpoint = tmp_path / "log", tmp_path / "checkpoint"
    (log / "partition=0").mkdir(parents=True)
    (log / "log.json").write_text('{"schema": "rheostat.log/1", "partitions": 1}')
    (log / "partition=0" / f"{0:020d}-{300:09d}.arrow").touch()
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True)
    (checkpoint / "metadata").write_text(recorded.METADATA)
    (checkpoint / "offsets" / "7").write_text('v1\n{}\n{"log": {"0": 100}}')
    (checkpoint / "offsets" / "8").write_text('v1\n{}\n{"log": {"0": 150}}')
    (checkpoint / "commits" / "7").write_text(recorded.COMMIT_LOG)
    return OutsideQuery(checkpoint, "clicks", 2.0, log=log)


def test_executors_and_backlog_from_outside(query):
    with ui({APPS: [{"id": "app-1"}], f"{APPS}/app-1/executors": LISTED}) as url:
        source = RestSource(url, queries=[query], requested=lambda: 3)
        seen = contract.looks(source, 100.0)
        contract.closes(source)

    assert seen.cluster is not None
    assert [(found.executor_id, found.cores) for found in seen.cluster.executors] == [("2", 1)]
    assert seen.cluster.requested == 3
    (reading,) = seen.queries
    assert reading.offsets is not None
    (partition,) = reading.offsets.partitions
    assert (partition.latest, partition.planned, partition.committed) == (300, 150, 100)
    assert reading.running is not None
    assert (reading.running.active, reading.running.batch_id) == (True, 8)
    assert [(found.kind, found.partitions) for found in reading.sources] == [("log", 1)]
    assert [gap.section for gap in seen.gaps] == ["batch"]


def test_with_the_ui_off_the_backlog_is_still_seen(query):
    with ui({}) as url:
        pass
    source = RestSource(url, queries=[query], timeout_s=0.5)
    seen = contract.looks(source, 100.0)
    source.close()

    assert seen.cluster is None
    assert seen.queries[0].offsets is not None
    (why,) = [gap.why for gap in seen.gaps if gap.section == "cluster"]
    assert "is the UI off (spark.ui.enabled=false)" in why


@pytest.mark.parametrize(
    ("pages", "words"),
    [
        ({APPS: []}, "no application is listed"),
        ({APPS: [{"id": "app-1"}]}, "404"),
        ({APPS: "<html>Spark</html>"}, "gave no answer"),
        ({APPS: {"error": "x"}}, "not understood"),
        ({APPS: [{"id": "app-1"}], f"{APPS}/app-1/executors": [{"id": "1"}]}, "an executor that is not understood"),
    ],
    ids=["no application", "application ended", "a page", "an object", "another form"],
)
def test_what_rest_does_not_tell_is_a_gap(pages, words):
    with ui(pages) as url:
        source = RestSource(url)
        seen = contract.looks(source, 100.0)
        source.close()

    assert [gap.section for gap in seen.gaps] == ["cluster"]
    assert words in seen.gaps[0].why


def test_topics_without_a_kafka_to_ask_are_a_gap(query):
    seen = RestSource("http://127.0.0.1:1", queries=[OutsideQuery(query.checkpoint)]).observe(1.0)
    assert Gap("offsets", "nothing was given that tells the latest offsets of log", recorded.SLOW_ID) in seen.gaps


def test_a_missing_checkpoint_is_a_gap(tmp_path):
    seen = RestSource("http://127.0.0.1:1", queries=[OutsideQuery(tmp_path / "none")]).observe(1.0)
    assert seen.queries == ()
    assert [gap.section for gap in seen.gaps] == ["queries", "cluster"]


def test_an_unreachable_broker_is_unavailable_in_time():
    kafka = KafkaTopics({"bootstrap.servers": "127.0.0.1:1"}, timeout_s=0.3)
    with pytest.raises(UnavailableError, match="asking Kafka for its topics"):
        kafka.partitions(Subscription(topics=("orders",)))


def test_looking_from_inside_imports_nothing_heavy():
    heavy = "{'numpy', 'scipy', 'httpx', 'confluent_kafka', 'rich', 'typer', 'pyspark', 'pandas', 'pyarrow'}"
    code = f"import sys, rheostat.observe.driver; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
