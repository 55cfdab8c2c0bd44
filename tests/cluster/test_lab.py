"""A real broker and a real Spark: up, used, broken, gone."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import httpx
import psutil
import pytest

from rheostat.errors import InputError, PartFailedError, UnavailableError
from rheostat.host.processes import module_environment
from rheostat.host.spark_daemons import WorkerSize, free_ports
from rheostat.lab import standing
from rheostat.lab.lab import Lab, LabSpec

pytestmark = pytest.mark.cluster


def until(condition, timeout_s=30.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def produce(bootstrap, topic, *values):
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(20) == 0


def consume(bootstrap, topic, count):
    from confluent_kafka import Consumer

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        messages = consumer.consume(count, timeout=20)
        return sorted(message.value() for message in messages)
    finally:
        consumer.close()


@pytest.fixture(scope="module")
def port():
    return free_ports(1)[0]


@pytest.fixture(scope="module")
def kafka(port):
    with Lab(LabSpec(spark=False, kafka_port=port)) as lab:
        yield lab


@pytest.fixture(scope="module")
def spark():
    with Lab(LabSpec(broker=False, workers=0)) as lab:
        yield lab


def test_a_record_goes_through_the_broker(kafka):
    kafka.broker.create_topic("round", partitions=3)

    produce(kafka.broker.bootstrap, "round", b"a", b"b")

    assert consume(kafka.broker.bootstrap, "round", 2) == [b"a", b"b"]


@pytest.mark.parametrize(
    ("name", "partitions"),
    [
        pytest.param("twice", 1, id="there already"),
        pytest.param("no/name", 1, id="a name that Kafka refuses"),
        pytest.param("none", 0, id="no partition"),
    ],
)
def test_a_topic_that_cannot_be_is_an_input_error(kafka, name, partitions):
    if name == "twice":
        kafka.broker.create_topic("twice", 1)

    with pytest.raises(InputError) as caught:
        kafka.broker.create_topic(name, partitions)

    assert [fault.field for fault in caught.value.faults] == ["topic"]


def test_a_topic_is_not_made_by_asking_for_it(kafka):
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"bootstrap.servers": kafka.broker.bootstrap})
    client.list_topics("never", timeout=10)

    assert "never" not in client.list_topics(timeout=10).topics


def test_a_broker_comes_back_on_its_port_with_its_records(kafka):
    bootstrap = kafka.broker.bootstrap
    kafka.broker.create_topic("kept", partitions=1)
    produce(bootstrap, "kept", b"before")

    kafka.broker.stop()
    assert not kafka.broker.answers()
    kafka.check()
    kafka.broker.start()

    produce(bootstrap, "kept", b"after")
    assert kafka.broker.bootstrap == bootstrap
    assert consume(bootstrap, "kept", 2) == [b"after", b"before"]


def test_a_paused_broker_is_silent_until_it_goes_on(kafka):
    kafka.broker.pause()
    try:
        until(lambda: not kafka.broker.answers(timeout_s=0.5))  # what it had begun to answer may still come
        assert not kafka.broker.answers(timeout_s=0.5)
        kafka.check()
    finally:
        kafka.broker.resume()

    until(kafka.broker.answers)


def test_the_log_of_the_broker_says_what_it_does(kafka):
    assert "Kafka Server started" in kafka.broker.part.log_tail(2000)


def test_a_second_lab_beside_the_first(kafka):
    with Lab(LabSpec(spark=False)) as other:
        assert other.broker.bootstrap != kafka.broker.bootstrap
        assert other.folder != kafka.folder
        other.broker.create_topic("mine", 1)
        assert other.broker.answers()
        assert kafka.broker.answers()

    assert kafka.broker.answers()


def test_a_port_that_was_asked_for_is_used(kafka, port):
    assert kafka.broker.bootstrap == f"127.0.0.1:{port}"


def test_a_port_that_is_taken_meanwhile_is_replaced(monkeypatch):
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        taken = busy.getsockname()[1]
        answers = iter([[taken, *free_ports(1)], free_ports(2)])
        monkeypatch.setattr("rheostat.host.spark_daemons.free_ports", lambda _count: next(answers))
        monkeypatch.setattr("rheostat.host.spark_daemons.answers", lambda port: port != taken)

        with Lab(LabSpec(spark=False)) as lab:
            assert lab.broker.bootstrap != f"127.0.0.1:{taken}"
            assert lab.broker.answers()


def test_a_master_without_workers_gets_one_and_loses_it(spark):
    assert spark.cluster.describe()["workers"] == []

    name = spark.cluster.add_worker(WorkerSize(cores=3, memory_mb=1024))

    (worker,) = httpx.get(f"{spark.cluster.web_url}/json/").json()["workers"]
    assert (worker["id"], worker["state"], worker["cores"], worker["memory"]) == (name, "ALIVE", 3, 1024)

    spark.cluster.remove_worker(name)

    assert spark.cluster.registered() == ()
    spark.check()


def test_a_worker_that_is_not_there_cannot_be_removed(spark):
    with pytest.raises(InputError, match="no Worker of this name"):
        spark.cluster.remove_worker("worker-99")


def test_a_lab_without_a_broker_says_so(spark):
    with pytest.raises(UnavailableError, match="no broker"):
        _ = spark.broker


DRIVER = """
import json, os, sys
conf = json.loads(sys.argv[1])
os.environ.update(json.loads(sys.argv[2]))
from pyspark.sql import SparkSession
builder = SparkSession.builder
for key, value in conf.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
context = spark.sparkContext
scala = context._jsc.sc()
nothing = spark._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap({})
scala.requestTotalExecutors(2, 0, nothing)
print("ready", flush=True)
sys.stdin.readline()
where = context.range(4, numSlices=4).map(lambda n: (n, sys.executable)).collect()
stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:9").option("subscribe", "none")
kafka = stream.load().schema.fieldNames()
print(json.dumps({"where": where, "executors": scala.statusStore().executorList(True).size() - 1, "kafka": kafka}))
spark.stop()
"""


def test_an_application_started_before_the_workers_keeps_to_the_number_it_asked_for(spark, tmp_path):
    from rheostat.host.java import kafka_connector_jars

    conf = json.dumps(spark.cluster.driver_conf(jars=kafka_connector_jars()))
    environment = json.dumps(spark.cluster.driver_environment())
    with (tmp_path / "driver.log").open("w") as log:
        driver = subprocess.Popen(
            [sys.executable, "-c", DRIVER, conf, environment],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert driver.stdout is not None
    assert driver.stdin is not None
    ready = iter(driver.stdout.readline, "ready\n")
    assert list(ready) == [], (tmp_path / "driver.log").read_text()[-2000:]
    name = spark.cluster.add_worker(WorkerSize(cores=8, memory_mb=8 * 512))

    def executors():
        return [app["cores"] for app in spark.cluster.describe()["activeapps"]]

    until(lambda: executors() == [2])
    output, _ = driver.communicate("\n", timeout=90)

    assert driver.returncode == 0, (tmp_path / "driver.log").read_text()[-2000:]
    result = json.loads(output)
    assert result["where"] == [[number, sys.executable] for number in range(4)]
    assert result["executors"] == 2
    assert result["kafka"] == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    spark.cluster.remove_worker(name)


def test_nothing_is_left_at_the_end(tmp_path):
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with Lab(LabSpec(folder=tmp_path)) as lab:
        running = lab.running()
        assert [part.name for part in lab.parts if part.pid in running] == [part.name for part in lab.parts]
        assert len(running) == 3

    assert all(gone(pid) for pid in running)
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before
    assert list(tmp_path.iterdir()) == []


def test_a_part_that_dies_is_named_and_its_log_is_kept(tmp_path):
    said: list[str] = []

    def kill_the_broker():
        with Lab(LabSpec(spark=False, folder=tmp_path), say=said.append) as lab:
            (broker,) = lab.parts
            os.kill(broker.pid, signal.SIGKILL)
            until(lambda: not broker.alive())
            lab.check()

    with pytest.raises(PartFailedError) as caught:
        kill_the_broker()

    assert (caught.value.part, "died (signal 9)" in str(caught.value)) == ("broker", True)
    assert "Kafka Server started" in caught.value.log_tail
    (folder,) = tmp_path.iterdir()
    assert [file.name for file in folder.rglob("*") if file.is_file()] == ["broker.log"]
    assert said == [f"Logs are kept in {folder / 'logs'}"]


def test_a_lab_whose_owner_is_killed_ends(tmp_path):
    program = (
        "import sys, time, pathlib\nfrom rheostat.lab.lab import Lab, LabSpec\n"
        "with Lab(LabSpec(folder=pathlib.Path(sys.argv[1]))) as lab:\n"
        "    print(*lab.running(), flush=True)\n    time.sleep(600)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=module_environment()) as owner:
        assert owner.stdout is not None
        pids = [int(word) for word in owner.stdout.readline().split()]
        assert len(pids) == 3
        owner.kill()

    until(lambda: all(gone(pid) for pid in pids))
    (folder,) = tmp_path.iterdir()
    until(lambda: not (folder / "data").exists())


def test_a_standing_lab_is_up_asked_refused_twice_and_taken_down(tmp_path, monkeypatch):
    monkeypatch.setenv("RHEOSTAT_CACHE", str(tmp_path))
    spec = LabSpec(broker=False, folder=tmp_path)
    state = standing.up("one", spec)
    try:
        assert (state["state"], [part["name"] for part in state["parts"]]) == ("up", ["master", "worker-1"])
        assert [part["answers"] for part in standing.status("one")["parts"]] == [True, True]
        with pytest.raises(InputError, match="lab one is up already"):
            standing.up("one", spec)

        os.kill(state["parts"][1]["pid"], signal.SIGSTOP)
        seen = standing.status("one")
        assert (seen["state"], [part["answers"] for part in seen["parts"]]) == ("ailing", [True, False])
        assert [part["alive"] for part in seen["parts"]] == [True, True]
    finally:
        ended = standing.down("one")

    assert [part["alive"] for part in ended["parts"]] == [False, False]
    assert standing.status("one")["state"] == "down"
    assert [item.name for item in tmp_path.glob("rheostat-lab-*")] == []


def test_a_standing_lab_whose_part_dies_has_failed_and_says_why(tmp_path, monkeypatch):
    monkeypatch.setenv("RHEOSTAT_CACHE", str(tmp_path))
    state = standing.up("one", LabSpec(broker=False, workers=0, folder=tmp_path))

    os.kill(state["parts"][0]["pid"], signal.SIGKILL)
    until(lambda: standing.status("one")["state"] == "failed")

    until(lambda: "master: died (signal 9)" in standing.status("one")["message"])
    assert standing.down("one")["state"] == "down"
