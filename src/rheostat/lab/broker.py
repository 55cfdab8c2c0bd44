"""One Kafka broker, which is its own KRaft controller."""

from __future__ import annotations

import base64
import logging
import shutil
import signal
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rheostat.errors import Fault, InputError, PartFailedError, UnavailableError
from rheostat.host.java import Java
from rheostat.host.processes import Launch, Part, Processes, clean_environment
from rheostat.host.spark_daemons import HOST, answers, free_ports, require_free, start_on_free_ports

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


JVM_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
"""A small heap, one collector thread, the quick compiler only: for a machine that is shared."""

_START_TIMEOUT_S = 60.0
_REQUEST_TIMEOUT_S = 10.0

_LOG4J = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
logger.quiet.name = org.apache.kafka.common.config
logger.quiet.level = warn
logger.configs.name = kafka.server.KafkaConfig
logger.configs.level = warn
"""


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """What a broker has beside the usual.

    Attributes:
        listeners: more of them; the security protocol of each by its name, which is in capitals.
        properties: more of them, or other values.
    """

    listeners: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)


def broker_properties(data: Path, ports: Mapping[str, int], options: BrokerOptions) -> str:
    """The broker's configuration.

    Topics are never created automatically; system topics have one replica and few partitions; a group rebalances at
    once; buffers are small. Records are kept for a day, longer than any lab lives. ``ports``: of each listener,
    ``PLAINTEXT`` and ``CONTROLLER`` among them.
    """
    listeners = {name: f"{name}://{HOST}:{port}" for name, port in ports.items()}
    protocols = {name: options.listeners.get(name, "PLAINTEXT") for name in ports}
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{ports['CONTROLLER']}",
        "listeners": ",".join(listeners.values()),
        "advertised.listeners": ",".join(url for name, url in listeners.items() if name != "CONTROLLER"),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "log.dirs": str(data),
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
        "log.retention.hours": "24",
        "log.index.size.max.bytes": "1048576",
        "log.cleaner.dedupe.buffer.size": "8388608",
        "num.network.threads": "2",
        "num.io.threads": "2",
        "background.threads": "2",
        **options.properties,
    }
    return "".join(f"{key}={value}\n" for key, value in properties.items())


def quiet_client(bootstrap: str) -> AdminClient:
    """A client that does not log refused connections and reconnects quickly."""
    from confluent_kafka.admin import AdminClient

    logger = logging.Logger("rheostat.lab.broker", logging.CRITICAL)
    logger.addHandler(logging.NullHandler())
    settings: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 200}
    return AdminClient(settings, logger=logger)


def ask_broker(client: AdminClient, timeout_s: float) -> bool:
    from confluent_kafka import KafkaException

    try:
        client.list_topics(timeout=timeout_s)
    except KafkaException:
        return False
    return True


class Broker:
    """A broker that can be stopped and started again on the same data and port (None: a free one)."""

    def __init__(
        self,
        folder: Path,
        log: Path,
        *,
        java: Java,
        jars: Sequence[Path],
        processes: Processes,
        port: int | None = None,
        options: BrokerOptions | None = None,
    ) -> None:
        self._folder = folder
        self._log = log
        self._java = java
        self._jars = jars
        self._processes = processes
        self._fixed_port = port
        self._options = options or BrokerOptions()
        self._ports: dict[str, int] | None = None
        self._part: Part | None = None
        self._client: AdminClient | None = None

    @property
    def bootstrap(self) -> str:
        """Address for clients, ``host:port``. Raises UnavailableError if it has never been started."""
        return self.address("PLAINTEXT")

    def address(self, listener: str) -> str:
        """As :attr:`bootstrap`, of any listener."""
        if self._ports is None:
            raise UnavailableError("the broker has not been started")
        return f"{HOST}:{self._ports[listener]}"

    @property
    def part(self) -> Part | None:
        """Its process; None unless it was started."""
        return self._part

    def start(self) -> None:
        """Start and wait until it answers a request. Does nothing if it runs.

        Raises:
            InputError: its port is in use.
            PartFailedError: it did not start.
        """
        if self._part is not None:
            return
        if self._ports is not None:
            self._launch()
            return
        if self._fixed_port is not None:
            require_free(self._fixed_port, "kafka_port")
        start_on_free_ports(self._first_start)

    def _first_start(self) -> None:
        names = ("PLAINTEXT", "CONTROLLER", *self._options.listeners)
        self._ports = dict(zip(names, free_ports(len(names)), strict=True))
        self._ports["PLAINTEXT"] = self._fixed_port or self._ports["PLAINTEXT"]
        try:
            self._format(self._ports)
            self._launch()
        except PartFailedError:
            self._ports = None
            raise

    def stop(self, grace_s: float = 10.0) -> None:
        """Stop it; keeps data and port. Does nothing if it does not run."""
        part, self._part, self._client = self._part, None, None
        if part is not None:
            self._processes.release(part, grace_s)

    def kill(self) -> None:
        """End it at once, as a crash does; keeps data and port. Does nothing if it does not run."""
        if self._part is not None:
            self._part.expect_end()
            self._part.signal(signal.SIGKILL)
        self.stop(0.0)

    def pause(self) -> None:
        """Freeze it: it keeps its connections but does not answer."""
        if self._part is not None:
            self._part.signal(signal.SIGSTOP)

    def resume(self) -> None:
        if self._part is not None:
            self._part.signal(signal.SIGCONT)

    def answers(self, timeout_s: float = 1.0) -> bool:
        """Whether it answers a metadata request now."""
        return self._ports is not None and answers(self._ports["PLAINTEXT"]) and ask_broker(self._admin(), timeout_s)

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic and wait until every partition has a leader.

        Raises:
            InputError: the topic exists already, or its name or number of partitions is invalid.
            UnavailableError: the broker did not answer.
        """
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.cimpl import NewTopic

        topic = NewTopic(name, num_partitions=partitions, replication_factor=1)
        try:
            futures = self._admin().create_topics([topic], operation_timeout=_REQUEST_TIMEOUT_S)
            futures[name].result(_REQUEST_TIMEOUT_S)
        except KafkaException as error:
            code = error.args[0].code()
            refused = {KafkaError.TOPIC_ALREADY_EXISTS, KafkaError.TOPIC_EXCEPTION, KafkaError.INVALID_PARTITIONS}
            if code in refused or code == KafkaError._INVALID_ARG:  # noqa: SLF001
                given = f"{name} with {partitions} partitions"
                fault = Fault("topic", given, "a new name, at least one partition", error.args[0].str())
                raise InputError([fault]) from error
            message = f"the broker did not create topic {name}: {error.args[0].str()}"
            raise UnavailableError(message) from error
        self._require_part().wait_ready(lambda: self._has_leaders(name, partitions), _REQUEST_TIMEOUT_S)

    def _has_leaders(self, name: str, partitions: int) -> bool:
        metadata = self._admin().list_topics(name, timeout=_REQUEST_TIMEOUT_S).topics[name].partitions
        return len(metadata) == partitions and all(one.leader >= 0 for one in metadata.values())

    def _format(self, ports: Mapping[str, int]) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        (self._folder / "tmp").mkdir(parents=True)
        (self._folder / "log4j2.properties").write_text(_LOG4J)
        properties = broker_properties(self._folder / "data", ports, self._options)
        (self._folder / "server.properties").write_text(properties)
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
        tool = self._run("broker format", "kafka.tools.StorageTool", "format", "-t", cluster, "-c")
        try:
            tool.wait_exit(_START_TIMEOUT_S)
        finally:
            self._processes.release(tool)

    def _launch(self) -> None:
        self._part = self._run("broker", "kafka.Kafka")
        try:
            self._part.wait_ready(self.answers, _START_TIMEOUT_S)
        except BaseException:
            self.stop(grace_s=0.0)
            raise

    def _run(self, name: str, main: str, *arguments: str) -> Part:
        command = [str(self._java.executable), *JVM_OPTIONS, f"-Djava.io.tmpdir={self._folder / 'tmp'}"]
        command += [f"-Dlog4j2.configurationFile={self._folder / 'log4j2.properties'}"]
        command += ["-cp", ":".join(str(jar) for jar in self._jars), main, *arguments]
        command += [str(self._folder / "server.properties")]
        launch = Launch(command, clean_environment(self._java.home), self._folder)
        return self._processes.start(name, launch, self._log)

    def _admin(self) -> AdminClient:
        """One client per start, so that it does not wait out an old back-off."""
        if self._client is None:
            self._client = quiet_client(self.bootstrap)
        return self._client

    def _require_part(self) -> Part:
        if self._part is None:
            raise UnavailableError("the broker does not run")
        return self._part
