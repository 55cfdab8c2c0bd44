"""The ``kafka.`` options of a source, which are settings of Java's client, as settings of librdkafka.

What librdkafka cannot do is refused by name, with what to use instead; a setting that only tunes Java's client is left
out. No Kafka here: the names are those of https://kafka.apache.org/documentation/#consumerconfigs and of librdkafka's
CONFIGURATION.md.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rheostat.errors import Fault, InputError, attempt, did_you_mean

_SAME = frozenset(
    {
        "allow.auto.create.topics",
        "bootstrap.servers",
        "check.crcs",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "connections.max.idle.ms",
        "fetch.max.bytes",
        "fetch.min.bytes",
        "group.id",
        "isolation.level",
        "max.partition.fetch.bytes",
        "metadata.max.age.ms",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "sasl.mechanism",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
        "security.protocol",
        "socket.connection.setup.timeout.ms",
        "ssl.key.password",
    }
)
_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}
_TUNES_JAVA = frozenset(
    {
        "auto.commit.interval.ms",
        "auto.include.jmx.reporter",
        "default.api.timeout.ms",
        "enable.metrics.push",
        "exclude.internal.topics",
        "group.instance.id",
        "group.protocol",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.recovery.strategy",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "ssl.enabled.protocols",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.trustmanager.algorithm",
    }
)
"""Left out. TLS: librdkafka agrees with the broker on the newest version that both know."""

_SET_BY_THE_SOURCE = {
    "auto.offset.reset": "startingOffsets",
    "enable.auto.commit": "the checkpoint, which holds the offsets",
    "interceptor.classes": "nothing: records are read as they are",
    "key.deserializer": "a cast of the column key",
    "partition.assignment.strategy": "nothing: Spark assigns partitions to tasks",
    "value.deserializer": "a cast of the column value",
}
_REFUSED = {
    "metric.reporters": "the metrics of Rheostat",
    "sasl.client.callback.handler.class": "SCRAM, or OAUTHBEARER with a token endpoint",
    "sasl.login.callback.handler.class": "SCRAM, or OAUTHBEARER with a token endpoint",
    "sasl.kerberos.service.name": "SCRAM, or OAUTHBEARER with a token endpoint",
    "sasl.login.class": "SCRAM, or OAUTHBEARER with a token endpoint",
    "security.providers": "TLS by PEM",
    "ssl.cipher.suites": "the suites that both sides agree on: OpenSSL has other names for them",
    "ssl.engine.factory.class": "TLS by PEM",
    "ssl.provider": "TLS by PEM",
    "ssl.secure.random.implementation": "TLS by PEM",
}
_TRANSLATED = frozenset(
    {
        "sasl.jaas.config",
        "ssl.endpoint.identification.algorithm",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
_KNOWN = _SAME | set(_RENAMED) | _TUNES_JAVA | set(_SET_BY_THE_SOURCE) | set(_REFUSED) | _TRANSLATED

_ENDLESS = frozenset({"connections.max.idle.ms", "socket.receive.buffer.bytes", "socket.send.buffer.bytes"})
"""Where Java writes −1 for no limit, or that of the system, librdkafka writes 0."""
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_SECRET = frozenset({"sasl.jaas.config", "ssl.key.password", "ssl.keystore.key", "ssl.keystore.password"})
_HIDDEN = "(hidden)"
_PEM = "kafka.ssl.truststore.type=PEM with kafka.ssl.truststore.location or …certificates"
_PEM_KEY = "kafka.ssl.keystore.type=PEM with kafka.ssl.keystore.location, or with …key and …certificate.chain"


def client_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Settings of a librdkafka client for the options of a source whose names begin with ``kafka.``.

    Raises:
        InputError: every option that is unknown, refused or faulty. Secrets are not repeated.

    >>> client_settings({"kafka.bootstrap.servers": "b:9092", "kafka.fetch.max.wait.ms": "50", "subscribe": "clicks"})
    {'bootstrap.servers': 'b:9092', 'fetch.wait.max.ms': '50'}
    """
    given = {
        key[len("kafka.") :]: str(value).strip()
        for key, value in sorted((key.lower(), value) for key, value in options.items())
        if key.startswith("kafka.")
    }
    faults = list(_find_faults(given))
    settings = {_RENAMED.get(key, key): value for key, value in given.items() if key in _SAME or key in _RENAMED}
    for key in _ENDLESS & set(settings):
        settings[key] = "0" if settings[key] == "-1" else settings[key]
    if "security.protocol" in settings:
        settings["security.protocol"] = settings["security.protocol"].lower()
    for translate in (_translate_login, _translate_trust, _translate_key):
        settings |= attempt(translate, {}, faults, given)
    algorithm = given.get("ssl.endpoint.identification.algorithm")
    if algorithm is not None:
        settings["ssl.endpoint.identification.algorithm"] = algorithm.lower() or "none"
    if faults:
        raise InputError(faults)
    return settings


def _find_faults(given: Mapping[str, str]) -> Iterator[Fault]:
    for key, value in given.items():
        instead = _SET_BY_THE_SOURCE.get(key) or _REFUSED.get(key)
        if instead is not None:
            shown = _HIDDEN if key in _SECRET else value
            yield Fault(f"kafka.{key}", shown, f"use instead: {instead}", "the source does not take this setting")
        elif key not in _KNOWN:
            message = f"no such setting of a consumer{did_you_mean(key, sorted(_KNOWN))}"
            yield Fault("kafka", f"kafka.{key}", "the settings of Kafka's consumer", message)
    if not given.get("bootstrap.servers"):
        yield Fault("kafka.bootstrap.servers", "nothing", "host:port, …", "say where the brokers are")
    protocol = given.get("security.protocol", "PLAINTEXT")
    if protocol.upper() not in _PROTOCOLS:
        yield Fault("kafka.security.protocol", protocol, ", ".join(_PROTOCOLS), "no such protocol")
    level = given.get("isolation.level", "read_uncommitted")
    if level not in ("read_committed", "read_uncommitted"):
        yield Fault("kafka.isolation.level", level, "read_committed, read_uncommitted", "no such level")


# Logging in


class _Login(NamedTuple):
    """The entry of a JAAS configuration: its class without the package, and its options."""

    module: str
    options: Mapping[str, str]


def _translate_login(given: Mapping[str, str]) -> dict[str, str]:
    if not given.get("security.protocol", "").upper().startswith("SASL"):
        return {}
    mechanism = given.get("sasl.mechanism", "GSSAPI").upper()
    if mechanism not in _MECHANISMS:
        message = "librdkafka cannot log in this way; use SCRAM, or OAUTHBEARER with a token endpoint"
        raise InputError([Fault("kafka.sasl.mechanism", mechanism, ", ".join(_MECHANISMS), message)])
    text = given.get("sasl.jaas.config")
    if text is None:
        message = "who logs in is read from here only: a JAAS file of the JVM is not seen by Python"
        allowed = "org.apache.kafka.common.security.…LoginModule required username=… password=…;"
        raise InputError([Fault("kafka.sasl.jaas.config", "nothing", allowed, message)])
    login = _read_jaas(text)
    return _translate_token(login, given) if mechanism == "OAUTHBEARER" else _translate_password(login, mechanism)


_FLAGS = ("required", "requisite", "sufficient", "optional")


def _read_jaas(text: str) -> _Login:
    """An entry ``CLASS required NAME="VALUE" …;``."""
    try:
        name, flag, *words = shlex.split(text.strip().removesuffix(";"))
        login = _Login(name.rsplit(".", 1)[-1], dict([word.split("=", 1) for word in words]))
    except ValueError:
        login, flag = _Login("", {}), ""
    if flag not in _FLAGS:
        allowed = 'one entry: CLASS required NAME="VALUE" …;'
        raise InputError([Fault("kafka.sasl.jaas.config", _HIDDEN, allowed, "the entry is not understood")])
    return login


def _translate_password(login: _Login, mechanism: str) -> dict[str, str]:
    module = "PlainLoginModule" if mechanism == "PLAIN" else "ScramLoginModule"
    faults = _check_login(login, module, ("username", "password"))
    if faults:
        raise InputError(faults)
    return {"sasl.username": login.options["username"], "sasl.password": login.options["password"]}


def _translate_token(login: _Login, given: Mapping[str, str]) -> dict[str, str]:
    faults = _check_login(login, "OAuthBearerLoginModule", ("clientId", "clientSecret"))
    if not given.get("sasl.oauthbearer.token.endpoint.url"):
        message = "tokens come from the endpoint of an OpenID provider"
        faults.append(Fault("kafka.sasl.oauthbearer.token.endpoint.url", "nothing", "an https URL", message))
    if faults:
        raise InputError(faults)
    scope = {"sasl.oauthbearer.scope": login.options["scope"]} if "scope" in login.options else {}
    return {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": login.options["clientId"],
        "sasl.oauthbearer.client.secret": login.options["clientSecret"],
        **scope,
    }


def _check_login(login: _Login, module: str, needed: tuple[str, ...]) -> list[Fault]:
    field = "kafka.sasl.jaas.config"
    if login.module != module:
        return [Fault(field, login.module, module, "the class does not fit kafka.sasl.mechanism")]
    missing = [name for name in needed if not login.options.get(name)]
    return [Fault(field, f"no {name}", ", ".join(needed), f"{name} is missing") for name in missing]


# Certificates


def _translate_trust(given: Mapping[str, str]) -> dict[str, str]:
    """Who is trusted: the certificates of authorities; without any, those of the machine."""
    inline, location = given.get("ssl.truststore.certificates"), given.get("ssl.truststore.location")
    if inline is None and location is None:
        return {}
    kind = given.get("ssl.truststore.type", "JKS").upper()
    if kind != "PEM":
        message = "a truststore of Java is not readable: export its certificates as PEM"
        raise InputError([Fault("kafka.ssl.truststore.type", kind, _PEM, message)])
    return {"ssl.ca.pem": inline} if inline is not None else {"ssl.ca.location": str(location)}


def _translate_key(given: Mapping[str, str]) -> dict[str, str]:
    """The client's own key and certificate."""
    key, chain = given.get("ssl.keystore.key"), given.get("ssl.keystore.certificate.chain")
    location = given.get("ssl.keystore.location")
    if key is None and chain is None and location is None:
        return {}
    kind = given.get("ssl.keystore.type", "JKS").upper()
    if kind == "PKCS12" and location is not None:
        password = given.get("ssl.keystore.password", "")
        return {"ssl.keystore.location": location, "ssl.keystore.password": password}
    if kind != "PEM":
        message = "a keystore of Java is not readable: export it as PEM, or as PKCS12"
        raise InputError([Fault("kafka.ssl.keystore.type", kind, f"{_PEM_KEY}; PKCS12", message)])
    if location is not None:
        return {"ssl.key.location": location, "ssl.certificate.location": location}
    if key is None or chain is None:
        missing = "kafka.ssl.keystore.key" if key is None else "kafka.ssl.keystore.certificate.chain"
        raise InputError(
            [Fault(missing, "nothing", _PEM_KEY, "a key needs its certificate, and a certificate its key")]
        )
    return {"ssl.key.pem": key, "ssl.certificate.pem": chain}
