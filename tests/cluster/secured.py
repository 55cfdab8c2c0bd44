"""A broker that asks for logins and certificates: what it is configured with, and what its clients give."""

from __future__ import annotations

import base64
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined] # it forgot to export them
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from tests.cluster.support import TIMEOUT_S

from rheostat.host.spark_daemons import HOST
from rheostat.lab.broker import BrokerOptions, quiet_client

MODULES = "org.apache.kafka.common.security"
USER, PASSWORD, KEY_PASSWORD = "ann", "a b;c='", "of-the-key"
_LISTENERS = {"LOGIN": "SASL_PLAINTEXT", "TLS": "SSL", "MUTUAL": "SSL", "BOTH": "SASL_SSL"}
_MECHANISMS = {
    "PLAIN": f'plain.PlainLoginModule required user_{USER}="{PASSWORD}"',
    "SCRAM-SHA-256": "scram.ScramLoginModule required",
    "SCRAM-SHA-512": "scram.ScramLoginModule required",
    "OAUTHBEARER": 'oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker"',
}


def make_certificates(folder: Path) -> None:
    """``authority.pem`` and ``stranger.pem``; stores of broker and client, signed by the authority, with their keys."""

    def run(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=TIMEOUT_S)

    def make(name: str, *more: str) -> None:
        kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
        run("req", "-x509", *kind, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem", *more)

    for name in ("authority", "stranger"):
        make(name)
    for name in ("broker", "client"):
        extensions = (f"subjectAltName=IP:{HOST}", "basicConstraints=CA:false")
        make(name, "-CA", "authority.pem", "-CAkey", "authority.key", *(f"-addext={each}" for each in extensions))
    password = ("-passout", f"pass:{KEY_PASSWORD}")
    run("pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES", "-in", "client.key", "-out", "locked.key", *password)
    run("pkcs12", "-export", "-inkey", "client.key", "-in", "client.pem", "-out", "client.p12", *password)
    for store, key, chain in (("broker", "broker.key", "broker.pem"), ("client", "locked.key", "client.pem")):
        (folder / f"{store}.store").write_text((folder / key).read_text() + (folder / chain).read_text())


def broker_options(folder: Path) -> BrokerOptions:
    """With the certificates in a folder; a listener for each way to be secured."""
    properties = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.store"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "authority.pem"),
        "listener.name.mutual.ssl.client.auth": "required",
    }
    for listener in ("login", "both"):
        properties[f"listener.name.{listener}.sasl.enabled.mechanisms"] = ",".join(_MECHANISMS)
        for mechanism, module in _MECHANISMS.items():
            key = f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config"
            properties[key] = f"{MODULES}.{module};"
    return BrokerOptions(_LISTENERS, properties)


def set_scram_passwords(bootstrap: str) -> None:
    admin = quiet_client(bootstrap)
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        password = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
        admin.alter_user_scram_credentials([password])[USER].result(TIMEOUT_S)


@contextmanager
def serve_tokens() -> Iterator[str]:
    """The URL of an endpoint that gives tokens without a signature, to those who know the client's secret."""
    server = HTTPServer((HOST, 0), _Tokens)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_port}/token"
    finally:
        server.shutdown()
        thread.join(TIMEOUT_S)
        server.server_close()


class _Tokens(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        is_known = self.headers["Authorization"] == f"Basic {base64.b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"
        now = int(time.time())
        claims = {"sub": USER, "iat": now, "exp": now + 3600}
        token = ".".join(_encode(each) for each in ({"alg": "none"}, claims)) + "."
        answer = {"access_token": token, "token_type": "Bearer", "expires_in": 3600} if is_known else {"error": "who?"}
        body = json.dumps(answer).encode()
        self.send_response(200 if is_known else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None: ...  # noqa: A002 (http.server's)


def _encode(part: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


# What a client gives, as options of Spark's own source


def login(mechanism: str, *, password: str = PASSWORD, protocol: str = "SASL_PLAINTEXT") -> dict[str, str]:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return {
        "kafka.security.protocol": protocol,
        "kafka.sasl.mechanism": mechanism,
        "kafka.sasl.jaas.config": f'{MODULES}.{module} required username="{USER}" password="{password}";',
    }


def token(url: str, *, secret: str = PASSWORD) -> dict[str, str]:
    module = f"{MODULES}.oauthbearer.OAuthBearerLoginModule"
    return {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.jaas.config": f'{module} required clientId="{USER}" clientSecret="{secret}";',
        "kafka.sasl.oauthbearer.token.endpoint.url": url,
        "kafka.sasl.login.callback.handler.class": f"{MODULES}.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
    }


def trust(folder: Path, authority: str = "authority") -> dict[str, str]:
    return {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(folder / f"{authority}.pem"),
    }


def trust_inline(folder: Path) -> dict[str, str]:
    """The certificate on one line, as it stands in files of properties."""
    certificate = " ".join((folder / "authority.pem").read_text().split("\n"))
    return {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": certificate,
    }


def own_key(folder: Path) -> dict[str, str]:
    return {
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.location": str(folder / "client.store"),
        "kafka.ssl.key.password": KEY_PASSWORD,
    }


def own_key_inline(folder: Path) -> dict[str, str]:
    return {
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.key": (folder / "client.key").read_text(),
        "kafka.ssl.keystore.certificate.chain": (folder / "client.pem").read_text(),
    }


def own_key_pkcs12(folder: Path) -> dict[str, str]:
    return {
        "kafka.ssl.keystore.type": "PKCS12",
        "kafka.ssl.keystore.location": str(folder / "client.p12"),
        "kafka.ssl.keystore.password": KEY_PASSWORD,
    }
