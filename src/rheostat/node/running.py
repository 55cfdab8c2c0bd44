"""A node server from its start to its end."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from typing import Any

from rheostat.errors import Fault, InputError
from rheostat.lab.daemons import Daemons, WorkerSize
from rheostat.lab.folders import Say, quiet
from rheostat.node.ending import EndSignals
from rheostat.node.folder import Folder
from rheostat.node.master import Master
from rheostat.node.options import NodeOptions, prepare
from rheostat.node.spark import StandaloneSpark
from rheostat.node.values import Rules
from rheostat.node.workers import Workers
from rheostat.plan.words import several

__all__ = ["run_node"]


def run_node(options: NodeOptions, say: Say = quiet) -> dict[str, Any]:
    """Serve until SIGTERM, SIGINT or SIGHUP; returns what is left. For the main thread.

    Workers of a server before this one, on the same folder, are found again. A server that is killed leaves its
    Workers running for the next one to find.

    Raises:
        InputError: all that is wrong with the options and the machine; nothing has been started.
    """
    from rheostat.node.server import make_app, serve

    with EndSignals() as signals, ExitStack() as closing:
        found = prepare(options)
        listener = closing.enter_context(_listen(options))
        folder = Folder(found.folder)
        size = WorkerSize(options.cores, options.memory_mb)
        spark = StandaloneSpark(Daemons(folder.spark, found.java, found.spark_home), size, Master(options.master))
        workers = Workers(spark, folder, Rules(options.name, options.n_max, options.addresses))
        say(_beginning(options, listener, workers, found.token))
        ways = options.ways()
        app = make_app(workers, name=options.name, n_max=options.n_max, size=size, token=found.token, ways=ways)
        workers.start()
        ways.start()
        try:
            folder.announce({"url": _url(listener), "pid": os.getpid(), "name": options.name})
            serve(app, listener, signals)
        finally:
            ways.close()
            left = workers.close(keep=options.keep, grace_s=options.grace_s)
    ids = [worker.record.id for worker in left]
    going = f"; {several(len(ids), 'Worker goes', 'Workers go')} on" if ids else ""
    say(f"node {options.name} has ended{going}")
    return {"schema": "rheostat.node/1", "name": options.name, "state": "ended", "workers_left": ids}


def _listen(options: NodeOptions) -> socket.socket:
    """A socket at the address; taken before anything else, so that a second server does no harm.

    Its connections send at once what there is. Otherwise the end of an answer waits for the acknowledgement of its
    beginning, 40 ms: asyncio sees to that only for sockets that name their protocol.
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


def _beginning(options: NodeOptions, listener: socket.socket, workers: Workers, token: str | None) -> str:
    before = len(workers.known)
    again = f"; {several(before, 'Worker')} of before found again" if before else ""
    door = "asks for its token" if token else "asks for no token, as only this machine reaches it"
    late = f"; pings are answered late, for trials: {', '.join(options.delays)} ms" if options.delays else ""
    return f"node {options.name}: {_url(listener)}, up to {several(options.n_max, 'Worker')}; {door}{again}{late}"
