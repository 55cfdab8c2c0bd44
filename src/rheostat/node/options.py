"""Options of a node server, checked as a whole before anything starts; the server from start to end."""

from __future__ import annotations

import ipaddress
import json
import os
import socket
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rheostat.config.loading import TOKEN_VARIABLE, read_token
from rheostat.config.models import is_node_address, is_node_name
from rheostat.errors import Fault, InputError, attempt
from rheostat.execute.node_client import NodeClient
from rheostat.host.java import Java, Say, bash_faults, cache_folder, find_java, pyspark_home, quiet, require_writable
from rheostat.host.processes import Launch, Part, module_command, module_environment
from rheostat.host.spark_daemons import Daemons, WorkerSize, port_faults
from rheostat.lab.lab import Lab
from rheostat.node.cpu import cpu_faults
from rheostat.node.peers import PeerRoundTrips
from rheostat.node.server import EndSignals
from rheostat.node.workers import Folder, Rules, StandaloneSpark, Workers, address_of
from rheostat.text import several

MOST_WORKERS = 1000
"""A larger number is a typing error."""

MOST_DELAY_MS = 1000.0
"""A ping that is delayed longer would count as not answered."""


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """Options of ``rheostat node``.

    Attributes:
        master: the master's web page, ``http://host:port``.
        n_max: largest number of Workers, standby included.
        name: prefix of its Workers' names; nodes of one master have different names.
        port: 0: a free one.
        addresses: of the Workers; see :func:`~rheostat.node.workers.address_of`.
        cores, memory_mb: of each Worker.
        folder: for its records; None: in the user's cache, by name.
        token_file: file with the token; None: from the environment, or no token.
        keep: leave the Workers running at the end.
        grace_s: time for Workers to leave at the end, s.
        peers: other nodes, each ``NAME=URL``; its own name is ignored, so that all nodes can be given one list.
        ping_every_s: interval of the pings to the peers, s.
        delays: artificial delays of answers to pings, each ``CALLER=MS``; for trials.
        cpus: numbers of the CPUs that the Workers run on; empty: on all of the machine.
        speed: of one of them, relative to other nodes.
    """

    master: str
    n_max: int = 4
    name: str = "node"
    host: str = "127.0.0.1"
    port: int = 8091
    addresses: Sequence[str] = ("127.0.0.1",)
    cores: int = 1
    memory_mb: int = 1024
    folder: Path | None = None
    token_file: Path | None = None
    keep: bool = False
    grace_s: float = 30.0
    peers: Sequence[str] = ()
    ping_every_s: float = 10.0
    delays: Sequence[str] = ()
    cpus: Sequence[str] = ()
    speed: float = 1.0

    def peer_round_trips(self) -> PeerRoundTrips:
        """The measurement of round trips to its peers, of valid options."""
        peers = {name: url.rstrip("/") for name, url in map(_pair, self.peers)}
        delays = {name: float(ms) for name, ms in map(_pair, self.delays)}
        return PeerRoundTrips(self.name, peers, delays, self.ping_every_s)


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the server needs from this machine, and the token."""

    java: Java
    spark_home: Path
    folder: Path
    token: str | None


def prepare(options: NodeOptions, environ: Mapping[str, str] | None = None) -> Prepared:
    """Check options and machine before anything starts. Raises InputError with all faults."""
    env = os.environ if environ is None else environ
    token, faults = check(options, env)
    faults += bash_faults(env)
    java = attempt(find_java, None, faults, env)
    home = attempt(pyspark_home, None, faults)
    named = options.name if is_node_name(options.name) else "node"
    place = options.folder or cache_folder(env) / "nodes" / named
    folder = attempt(require_writable, None, faults, place.absolute(), "--folder")
    if faults or java is None or home is None or folder is None:
        raise InputError(faults)
    return Prepared(java, home, folder, token)


def check(options: NodeOptions, environ: Mapping[str, str]) -> tuple[str | None, list[Fault]]:
    """The token, and all faults of the options."""
    faults = list(_faults(options))
    token = attempt(_token, None, faults, options, environ)
    return token, faults


def _faults(options: NodeOptions) -> Iterator[Fault]:
    if not is_node_name(options.name):
        yield Fault("--name", options.name, "letters, digits, - and _, at most 41", "this is no name for a node")
    yield from _master_faults(options.master)
    if not 1 <= options.n_max <= MOST_WORKERS:
        message = "a node has room for a Worker" if options.n_max < 1 else "each Worker is a process of 250 MB"
        yield Fault("--n-max", str(options.n_max), f"1 to {MOST_WORKERS}", message)
    for fault in WorkerSize.faults(options.cores, options.memory_mb):
        yield Fault("--" + fault.field.removesuffix("_mb"), fault.given, fault.allowed, fault.message)
    if options.port != 0:
        yield from port_faults(options.port, "--port")
    if not 0 <= options.grace_s <= 3600:
        yield Fault("--grace", f"{options.grace_s:g}", "0 to 3600 s", "how long Workers may take to leave at the end")
    yield from _address_faults(options)
    yield from cpu_faults(options.cpus)
    if not 0.01 <= options.speed <= 100:
        message = "the speed of a CPU, relative to other nodes, is a positive number"
        yield Fault("--speed", f"{options.speed:g}", "0.01 to 100", message)
    yield from _peer_faults(options.peers)
    yield from _delay_faults(options)
    if not 0.1 <= options.ping_every_s <= 3600:
        message = "how often the round trips to the peers are measured"
        yield Fault("--ping-every", f"{options.ping_every_s:g}", "0.1 to 3600 s", message)


def _master_faults(master: str) -> Iterator[Fault]:
    allowed = "the master's web page, as in http://10.0.0.1:8080"
    if master.startswith("spark://"):
        yield Fault("--master", master, allowed, "the spark:// URL is not needed: the page tells it")
        return
    try:
        parts = urlsplit(master)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        more = bool(parts.path.strip("/") or parts.query or parts.fragment)
    except ValueError:
        good = more = False
    if not good or more:
        message = "nothing comes after the port" if good else "it begins with http://, then comes the host"
        yield Fault("--master", master, allowed, message)


def _address_faults(options: NodeOptions) -> Iterator[Fault]:
    given = ",".join(options.addresses)
    allowed = f"one address for all Workers, or {options.n_max}: one for each"
    if len(options.addresses) not in (1, options.n_max):
        yield Fault("--address", given, allowed, "some Workers would have an address of their own, others none")
    if len(set(options.addresses)) < len(options.addresses) or not all(options.addresses):
        yield Fault("--address", given, allowed, "an address stands there twice, or is empty")
    try:
        address_of(options.n_max, [options.addresses[0]])
    except ValueError:
        room = f"room for {options.n_max} addresses up to 127.255.255.254"
        yield Fault("--address", given, room, "the series of loopback addresses ends before")


def _peer_faults(peers: Sequence[str]) -> Iterator[Fault]:
    valid = [text for text in peers if is_node_name(_pair(text)[0]) and is_node_address(_pair(text)[1])]
    for text in peers:
        if text not in valid:
            yield Fault("--peer", text, "NAME=http://HOST:PORT", "this is no name and address of a node server")
    yield from _repeated("--peer", valid)


def _delay_faults(options: NodeOptions) -> Iterator[Fault]:
    valid = [text for text in options.delays if _is_delay(text, options.name)]
    for text in options.delays:
        if text not in valid:
            allowed = f"CALLER=MS, another node and 0 to {MOST_DELAY_MS:g} ms"
            yield Fault("--delay", text, allowed, "it does not say whose pings are answered how late")
    yield from _repeated("--delay", valid)


def _is_delay(text: str, own_name: str) -> bool:
    name, ms = _pair(text)
    try:
        return is_node_name(name) and name != own_name and 0 <= float(ms) <= MOST_DELAY_MS
    except ValueError:
        return False


def _repeated(option: str, pairs: Sequence[str]) -> Iterator[Fault]:
    names = Counter(_pair(text)[0] for text in pairs)
    for text in pairs:
        if (times := names[_pair(text)[0]]) > 1:
            yield Fault(option, text, "each name once", f"{_pair(text)[0]} is given {times} times")


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name.strip(), value.strip()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _token(options: NodeOptions, env: Mapping[str, str]) -> str | None:
    """The token; needed where others can reach the server."""
    token = read_token(options.token_file, "--token-file", env)
    if token is None and not _is_loopback(options.host):
        message = f"{options.host} can be reached by others: set {TOKEN_VARIABLE}, or give --token-file"
        raise InputError([Fault("--token-file", "none", "a token", message)])
    return token


# A node server from its start to its end.


def run_node(options: NodeOptions, say: Say = quiet) -> dict[str, Any]:
    """Serve until SIGTERM, SIGINT or SIGHUP, in the main thread; returns what is left.

    The Workers of an earlier server on the same folder are recovered, also of one that was killed.

    Raises:
        InputError: all that is wrong with the options and the machine; nothing has been started.
    """
    from rheostat.node.server import make_app, serve

    with EndSignals() as signals, ExitStack() as closing:
        prepared = prepare(options)
        listener = closing.enter_context(_listen(options))
        folder = Folder(prepared.folder)
        size = WorkerSize(options.cores, options.memory_mb)
        spark = StandaloneSpark(Daemons(folder.spark, prepared.java, prepared.spark_home), size, options.master)
        cpus = frozenset(map(int, options.cpus))
        rules = Rules(options.name, options.n_max, options.addresses, cpus=cpus, speed=options.speed)
        workers = Workers(spark, folder, rules)
        say(_describe_start(options, listener, workers, prepared.token))
        peers = options.peer_round_trips()
        app = make_app(workers, name=options.name, n_max=options.n_max, size=size, token=prepared.token, peers=peers)
        workers.start()
        peers.start()
        try:
            folder.announce({"url": _url(listener), "pid": os.getpid(), "name": options.name})
            serve(app, listener, signals)
        finally:
            peers.close()
            left = workers.close(keep=options.keep, grace_s=options.grace_s)
    ids = [worker.record.id for worker in left]
    kept = f"; {several(len(ids), 'Worker keeps', 'Workers keep')} running" if ids else ""
    say(f"node {options.name} has ended{kept}")
    return {"schema": "rheostat.node/1", "name": options.name, "state": "ended", "workers_left": ids}


def _listen(options: NodeOptions) -> socket.socket:
    """Bind the address before anything else starts, so that a second server does no harm.

    TCP_NODELAY is set here since asyncio sets it only on sockets that name their protocol; without it the end of an
    answer waits 40 ms for the acknowledgement of its beginning.
    """
    try:
        family = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((options.host, options.port), family=family, backlog=128)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        message = f"the server cannot listen there: {error.strerror or error}"
        given = f"{options.host}:{options.port}"
        raise InputError([Fault("--port", given, "a free port at an address of this machine", message)]) from None
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _describe_start(options: NodeOptions, listener: socket.socket, workers: Workers, token: str | None) -> str:
    recovered = len(workers.known)
    again = f"; recovered {several(recovered, 'Worker')}" if recovered else ""
    access = "requires its token" if token else "requires no token, as only this machine reaches it"
    late = f"; pings are answered late, for trials: {', '.join(options.delays)} ms" if options.delays else ""
    return f"node {options.name}: {_url(listener)}, up to {several(options.n_max, 'Worker')}; {access}{again}{late}"


# A node server as a part of a lab, in a process of its own.


_READY_S = 60.0


@dataclass(frozen=True, slots=True)
class StartedNode:
    """A node server that answers. It and its Workers end with the lab at the latest."""

    address: str
    part: Part
    folder: Path

    def client(self, timeout_s: float = 10.0) -> NodeClient:
        return NodeClient(self.address, None, timeout_s)

    @classmethod
    def start(cls, lab: Lab, folder: Path, *, n_max: int, options: Sequence[str] = ()) -> StartedNode:
        """Run ``rheostat node`` for the lab's master on a free port. ``options``: further ones of the command.

        Raises:
            PartFailedError: it did not start.
        """
        folder.mkdir(parents=True, exist_ok=True)
        given = ("--master", lab.cluster.web_url, "--folder", str(folder), "--n-max", str(n_max), "--port", "0")
        launch = Launch(module_command("rheostat", "node", *given, *options), module_environment(), folder)
        part = lab.run_part(f"node-{folder.name}", launch)
        part.wait_ready(lambda: _address(folder, part.pid) is not None, _READY_S)
        return cls(str(_address(folder, part.pid)), part, folder)


def _address(folder: Path, pid: int) -> str | None:
    """Where the server of this process listens; None: it does not listen yet."""
    try:
        server = json.loads((folder / "server.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return str(server["url"]) if server["pid"] == pid else None
