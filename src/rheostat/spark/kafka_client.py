"""The ``kafka.`` options of a source, which are settings of Java's client, as settings of librdkafka.

What librdkafka cannot do is refused by name, with what to use instead; a setting that only tunes Java's client is left
out. No Kafka here: the names are those of https://kafka.apache.org/documentation/#consumerconfigs and of librdkafka's
CONFIGURATION.md.
"""

from __future__ import annotations

import re
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
        "sasl.oauthbearer.sub.claim.name",
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
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "internal.leave.group.on.close",
        "internal.throw.on.fetch.stable.offset.unsupported",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.recovery.strategy",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.header.urlencode",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.scope.claim.name",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "ssl.enabled.protocols",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.trustmanager.algorithm",
    }
)
"""Left out. TLS: librdkafka agrees with the broker on the newest version that both know. Tokens: brokers check them."""

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
    "sasl.kerberos.kinit.cmd": "SCRAM, or OAUTHBEARER with a token endpoint",
    "sasl.kerberos.min.time.before.relogin": "SCRAM, or OAUTHBEARER with a token endpoint",
    "sasl.kerberos.service.name": "SCRAM, or OAUTHBEARER with a token endpoint",
    "sasl.kerberos.ticket.renew.jitter": "SCRAM, or OAUTHBEARER with a token endpoint",
    "sasl.kerberos.ticket.renew.window.factor": "SCRAM, or OAUTHBEARER with a token endpoint",
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
        "sasl.login.callback.handler.class",
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
_ORIGINS = {
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.location",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.location",
    "ssl.key.pem": "ssl.keystore.key",
    **{new: old for old, new in _RENAMED.items()},
}
"""The settings of Java's client that those of librdkafka come from; others have the same name, or are of the login."""
_SECRET = frozenset({"sasl.jaas.config", "ssl.key.password", "ssl.keystore.key", "ssl.keystore.password"})
_HIDDEN = "(hidden)"
_LONGEST_SHOWN = 100
_PEM = "kafka.ssl.truststore.type=PEM with kafka.ssl.truststore.location or …certificates"
_PEM_KEY = "kafka.ssl.keystore.type=PEM with kafka.ssl.keystore.location, or with …key and …certificate.chain"


_TOKEN_HANDLERS = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
)
"""Kafka's own, which ask a token endpoint."""


def option_of(setting: str) -> str:
    """The option of the source that a setting of librdkafka comes from.

    >>> option_of("ssl.ca.pem"), option_of("sasl.password"), option_of("fetch.min.bytes")
    ('kafka.ssl.truststore.certificates', 'kafka.sasl.jaas.config', 'kafka.fetch.min.bytes')
    """
    name = _ORIGINS.get(setting, setting)
    return f"kafka.{name if name in _KNOWN else 'sasl.jaas.config'}"


def show(option: str, value: str) -> str:
    """A value as a fault repeats it: no secrets, and no whole certificates."""
    if option.removeprefix("kafka.") in _SECRET:
        return _HIDDEN
    return value if len(value) <= _LONGEST_SHOWN else f"{value[:_LONGEST_SHOWN]}…"


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
    for translate in (_check_handler, _translate_login, _translate_trust, _translate_key):
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
            message = "the source does not take this setting"
            yield Fault(f"kafka.{key}", show(key, value), f"use instead: {instead}", message)
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


def _check_handler(given: Mapping[str, str]) -> dict[str, str]:
    """A token comes from an endpoint only; Java's client is told so by the name of a class, ours needs none."""
    handler = given.get("sasl.login.callback.handler.class")
    if handler is None or (handler in _TOKEN_HANDLERS and given.get("sasl.mechanism", "").upper() == "OAUTHBEARER"):
        return {}
    message = "the source runs no class of Java; use SCRAM, or OAUTHBEARER with a token endpoint"
    raise InputError([Fault("kafka.sasl.login.callback.handler.class", handler, _TOKEN_HANDLERS[0], message)])


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


_EXTENSION = "extension_"
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
    extensions = {name: value for name, value in login.options.items() if name.startswith(_EXTENSION)}
    needed = ("clientId", "clientSecret")
    faults = _check_login(login, "OAuthBearerLoginModule", needed, ("scope", *extensions))
    if not given.get("sasl.oauthbearer.token.endpoint.url"):
        message = "tokens come from the endpoint of an OpenID provider"
        faults.append(Fault("kafka.sasl.oauthbearer.token.endpoint.url", "nothing", "an https URL", message))
    if faults:
        raise InputError(faults)
    found = {"sasl.oauthbearer.scope": login.options["scope"]} if "scope" in login.options else {}
    if extensions:
        pairs = (f"{name.removeprefix(_EXTENSION)}={value}" for name, value in extensions.items())
        found["sasl.oauthbearer.extensions"] = ",".join(pairs)
    return {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": login.options["clientId"],
        "sasl.oauthbearer.client.secret": login.options["clientSecret"],
        **found,
    }


def _check_login(login: _Login, module: str, needed: tuple[str, ...], more: tuple[str, ...] = ()) -> list[Fault]:
    field, allowed = "kafka.sasl.jaas.config", ", ".join((*needed, *more))
    if login.module != module:
        return [Fault(field, login.module, module, "the class does not fit kafka.sasl.mechanism")]
    missing = [name for name in needed if not login.options.get(name)]
    unknown = sorted(set(login.options) - {*needed, *more})
    faults = [Fault(field, f"no {name}", allowed, f"{name} is missing") for name in missing]
    return faults + [Fault(field, name, allowed, "librdkafka has no such option: leave it out") for name in unknown]


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
    return {"ssl.ca.pem": _wrap_pem(inline)} if inline is not None else {"ssl.ca.location": str(location)}


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
    return {"ssl.key.pem": _wrap_pem(key), "ssl.certificate.pem": _wrap_pem(chain)}


_PEM_BLOCK = re.compile(r"(?P<begin>-----BEGIN [^-]+-----)(?P<body>[^-]*)(?P<end>-----END [^-]+-----)")


def _wrap_pem(text: str) -> str:
    """PEM with line breaks, which Java can do without."""
    if "\n" in text:
        return text
    lines = []
    for block in _PEM_BLOCK.finditer(text):
        body = "".join(block["body"].split())
        lines += [block["begin"], *re.findall(".{1,64}", body), block["end"]]
    return "".join(f"{line}\n" for line in lines) or text
