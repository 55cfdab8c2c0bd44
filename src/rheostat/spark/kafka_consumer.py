"""Clients of librdkafka for the source ``rheostat-kafka``: what it says of their settings, and of their connections."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rheostat.errors import Fault, InputError, RheostatError
from rheostat.spark.kafka_client import option_of, show

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError

_QUEUE: Mapping[str, str | int | bool] = {
    "queued.min.messages": 100_000,
    "queued.max.messages.kbytes": 32_768,
    "fetch.queue.backoff.ms": 10,
    "fetch.wait.max.ms": 50,
}
"""With librdkafka's defaults a consumer waits for up to a second when its queue was full."""
_OWN: Mapping[str, str | int | bool] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "log_level": 2,
}
"""No log of connections: they become errors, and while a broker is away there would be 20 lines a second."""


_NOT_GIVEN = "Failed to acquire SASL OAUTHBEARER token"


class Connections:
    """What a client says of its connections.

    A login or certificate that is refused is final if no broker has ever answered and none is left to try. Otherwise it
    may pass: a broker that starts does not know the logins yet, a token endpoint is away for a while.

    Attributes:
        trouble: the last error.
        has_answer: whether a broker has answered.
    """

    def __init__(self) -> None:
        self.trouble = ""
        self.has_answer = False
        self._advice = ""
        self._is_final = False

    def note(self, error: KafkaError) -> None:
        """For librdkafka's ``error_cb``."""
        from confluent_kafka import KafkaError

        text = error.str()
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 (the only name it has)
            self.trouble = self.trouble or f"{text}; is kafka.security.protocol that of this listener?"
            self._is_final = True
            return
        self.trouble = text
        if error.code() == KafkaError._AUTHENTICATION:  # noqa: SLF001
            self._advice = "check kafka.sasl.mechanism and kafka.sasl.jaas.config"
            self._is_final = self._is_final or text.startswith(_NOT_GIVEN)
        elif error.code() == KafkaError._SSL:  # noqa: SLF001
            self._advice = "check kafka.ssl.truststore, and the host name in kafka.bootstrap.servers"
        elif "SSL alert" in text:
            self._advice = "check kafka.ssl.keystore: the broker refuses the client's certificate"

    def require_accepted(self, doing: str) -> None:
        """Raise RheostatError if login or certificate are refused."""
        if self._advice and self._is_final and not self.has_answer:
            message = f"{doing}: {self.trouble}; {self._advice}"
            raise RheostatError(message)


def make_consumer(client: Mapping[str, str], group: str, connections: Connections) -> Consumer:
    """A consumer that commits nothing.

    Raises:
        InputError: librdkafka does not take a setting; a file may be missing on this machine.
    """
    from confluent_kafka import Consumer, KafkaException

    config: dict[str, Any] = {"group.id": group, **_QUEUE, **client, **_OWN, "error_cb": connections.note}
    try:
        return Consumer(config)
    except KafkaException as error:
        text = error.args[0].str()
        raise InputError([_fault_of(text, _find_setting(text, client), client)]) from error


def check_client(client: Mapping[str, str]) -> None:
    """Let librdkafka check values and certificates, without a connection. Nothing is checked where it is not installed.

    Raises:
        InputError: every value that it does not take.
    """
    if faults := list(_find_faults(client)):
        raise InputError(faults)


_CONNECTING = ("bootstrap.servers", "sasl.oauthbearer.method")
"""With these a client connects as soon as it is made."""
_RANGE = re.compile(r"allowed range (?P<range>\S+)")
_MAKING = "Failed to create consumer: "


def _find_faults(client: Mapping[str, str]) -> Iterator[Fault]:
    """Those of single values, one after another; at last the first of values that do not go together."""
    try:
        from confluent_kafka import Consumer, KafkaException
    except ImportError:
        return
    left = {setting: value for setting, value in client.items() if setting not in _CONNECTING}
    while True:
        try:
            Consumer({"group.id": "none", **_QUEUE, **left, **_OWN}).close()
        except KafkaException as error:
            text = error.args[0].str()
        else:
            return
        setting = _find_setting(text, left)
        yield _fault_of(text, setting, left)
        if setting is None or text.startswith(_MAKING):
            return
        del left[setting]


def _find_setting(text: str, client: Mapping[str, str]) -> str | None:
    """The first setting that librdkafka names."""
    words = re.findall(r"[\w.]+", text.replace("fetch.message.max.bytes", "max.partition.fetch.bytes"))
    return next((word for word in words if word in client), None)


def _fault_of(text: str, setting: str | None, client: Mapping[str, str]) -> Fault:
    message = text.removeprefix(_MAKING).strip()
    if setting is None:
        return Fault("kafka", "the settings as a whole", "what librdkafka can do", message)
    within = _RANGE.search(text)
    allowed = within["range"] if within else "what librdkafka's CONFIGURATION.md says"
    option = option_of(setting)
    return Fault(option, show(option, client[setting]), allowed, message)
