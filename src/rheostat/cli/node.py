"""``rheostat node``: the HTTP server on a machine that starts and stops Spark Workers."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from rheostat.cli.output import JsonFlag, console, print_json
from rheostat.errors import Fault, InputError, to_install

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("node")(node)


def node(
    master: Annotated[str, typer.Option("--master", help="The Spark master's web page, http://HOST:PORT.")],
    n_max: Annotated[int, typer.Option("--n-max", help="Workers that there can be, standby included.")] = 4,
    name: Annotated[str, typer.Option("--name", help="Name of this node among those of the master.")] = "node",
    host: Annotated[str, typer.Option("--host", help="Where to listen; off loopback a token is needed.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port to listen at; 0: a free one.")] = 8091,
    address: Annotated[
        str,
        typer.Option(
            "--address",
            help="Where the Workers listen: one address for all, or one for each, comma separated. "
            "A loopback address is the first of a series.",
        ),
    ] = "127.0.0.1",
    cores: Annotated[int, typer.Option("--cores", help="Cores of each Worker.")] = 1,
    memory: Annotated[int, typer.Option("--memory", help="Memory of each Worker for executors, MB.")] = 1024,
    folder: Annotated[Path | None, typer.Option("--folder", help="Where it keeps its records and logs.")] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="File with the token; else RHEOSTAT_NODE_TOKEN.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the Workers running when it ends.")] = False,
    grace: Annotated[float, typer.Option("--grace", help="Time for the Workers to leave when it ends, s.")] = 30.0,
    peer: Annotated[
        list[str] | None,
        typer.Option("--peer", help="Another node, NAME=http://HOST:PORT, to measure the way to; again, or by commas."),
    ] = None,
    ping_every: Annotated[float, typer.Option("--ping-every", help="Time between two measurements, s.")] = 10.0,
    delay: Annotated[
        list[str] | None,
        typer.Option("--delay", help="For trials: CALLER=MS, the pings of another node are answered so much later."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Start and stop Spark Workers on this machine, as orders come; ends with Ctrl-C or SIGTERM."""
    _require_libraries()
    from rheostat.node.options import NodeOptions
    from rheostat.node.running import run_node

    given = NodeOptions(
        master.rstrip("/"), n_max, name, host, port, _parts(address), cores, memory, folder, token_file, keep, grace
    )
    options = replace(given, peers=_parts(*(peer or ())), ping_every_s=ping_every, delays=_parts(*(delay or ())))
    out = console()
    result = run_node(options, lambda sentence: out.print(sentence, markup=False, soft_wrap=True))
    if as_json:
        print_json(result)


def _parts(*texts: str) -> tuple[str, ...]:
    return tuple(part.strip() for text in texts for part in text.split(","))


def _require_libraries() -> None:
    missing = [each for each in ("fastapi", "uvicorn", "httpx", "psutil") if importlib.util.find_spec(each) is None]
    if missing:
        message = f"the node server needs them; {to_install('spark,node')}"
        raise InputError([Fault("install", f"without {', '.join(missing)}", "with the extras spark and node", message)])
