"""``rheostat lab``: a real Kafka and Spark cluster here; ``rheostat node``: the server that runs Spark Workers."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated, Any

import typer

from rheostat.cli.common import JsonFlag, print_json, report, say, unused
from rheostat.errors import Fault, InputError, to_install

Name = Annotated[str, typer.Option("--name", help="Name of the lab; several can be up at once.")]


lab = typer.Typer(no_args_is_help=True, help="A real Kafka and a real Spark cluster on this machine.")


@lab.command("up")
def up(
    context: typer.Context,
    name: Name = "default",
    broker: Annotated[bool, typer.Option(help="Start a Kafka broker.")] = True,
    spark: Annotated[bool, typer.Option(help="Start a Spark master and Workers.")] = True,
    workers: Annotated[int, typer.Option(help="Number of Workers.")] = 1,
    cores: Annotated[int, typer.Option(help="Cores of each Worker.")] = 4,
    memory: Annotated[int, typer.Option(help="Memory of each Worker for executors, MB.")] = 4096,
    kafka_port: Annotated[int | None, typer.Option(help="Port of the broker. Default: a free one.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Folder for data and logs. Default: a temporary one.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep data and logs when the lab ends.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Start a lab in the background; returns when every part answers."""
    from rheostat.host.spark_daemons import WorkerSize
    from rheostat.lab import standing
    from rheostat.lab.lab import LabSpec

    places = dict.fromkeys(("workers", "cores", "memory"), None if spark else "with --spark")
    faults = unused(context, {**places, "kafka_port": None if broker else "with --broker"})
    if faults := faults + WorkerSize.faults(cores, memory) + LabSpec.faults(workers, broker or spark, kafka_port):
        raise InputError(faults)
    spec = LabSpec(broker, spark, workers, WorkerSize(cores, memory), kafka_port, folder, keep)
    _show(standing.up(name, spec, say), as_json)


@lab.command("status")
def status(name: Name = "default", as_json: JsonFlag = False) -> int:
    """Check every part of a lab; exit code 1 unless all answer."""
    from rheostat.lab import standing

    state = standing.status(name)
    _show(state, as_json)
    return 0 if state["state"] == "up" else 1


@lab.command("down")
def down(name: Name = "default", as_json: JsonFlag = False) -> None:
    """Stop a lab and check that no process of it is left."""
    from rheostat.lab import standing

    _show(standing.down(name), as_json)


def _show(state: dict[str, Any], as_json: bool) -> None:
    report(f"lab {state['name']}: {state['state']}")
    for label, key in (("Kafka", "bootstrap"), ("Spark", "master"), ("web page", "web_ui"), ("why", "message")):
        if state.get(key):
            report(f"  {label}: {state[key]}")
    for part in state["parts"]:
        report(f"  {part['name']}: process {part['pid']}{_health(part)}")
    if as_json:
        print_json(state)


def _health(part: dict[str, Any]) -> str:
    if "answers" not in part:
        return ""
    return ", answers" if part["answers"] else ", does not answer" if part["alive"] else ", ended"


# node


def node(
    master: Annotated[str, typer.Option("--master", help="Web UI of the Spark master, http://HOST:PORT.")],
    n_max: Annotated[int, typer.Option("--n-max", help="Most Workers, standby included.")] = 4,
    name: Annotated[str, typer.Option("--name", help="Name of this node, unique for the master.")] = "node",
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; a token is required unless it is loopback.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port to listen on; 0: a free one.")] = 8091,
    addresses: Annotated[
        str,
        typer.Option(
            "--address",
            help="Address of the Workers: one for all, or one for each, comma separated. "
            "A loopback address is the first of a series.",
        ),
    ] = "127.0.0.1",
    cores: Annotated[int, typer.Option("--cores", help="Cores that each Worker offers.")] = 1,
    memory_mb: Annotated[int, typer.Option("--memory", help="Memory of each Worker for executors, MB.")] = 1024,
    cpus: Annotated[
        str | None, typer.Option("--cpus", help="CPUs that the Workers run on, as in 0,1. Default: all. Linux only.")
    ] = None,
    speed: Annotated[
        float, typer.Option("--speed", help="What a CPU of this node does in a second, relative to other nodes.")
    ] = 1.0,
    folder: Annotated[Path | None, typer.Option("--folder", help="Folder for its records and logs.")] = None,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", help="File with the token. Default: the variable RHEOSTAT_NODE_TOKEN."),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the Workers running at the end.")] = False,
    grace_s: Annotated[float, typer.Option("--grace", help="Time for the Workers to end, s.")] = 30.0,
    peers: Annotated[
        list[str] | None,
        typer.Option(
            "--peer",
            help="Another node, NAME=http://HOST:PORT, to measure the round trip to. Repeatable, or comma separated.",
        ),
    ] = None,
    ping_every_s: Annotated[float, typer.Option("--ping-every", help="Time between two measurements, s.")] = 10.0,
    delays: Annotated[
        list[str] | None,
        typer.Option("--delay", help="For tests: CALLER=MS delays the answers to the pings of that node."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Serve HTTP requests to start and stop Spark Workers on this machine, until Ctrl-C or SIGTERM."""
    given = {name: value for name, value in locals().items() if name != "as_json"}
    _require_libraries()
    from rheostat.node.options import NodeOptions, run_node

    lists = {"addresses": _parts(addresses), "peers": _parts(*(peers or ())), "delays": _parts(*(delays or ()))}
    lists["cpus"] = () if cpus is None else _parts(cpus)
    result = run_node(NodeOptions(**{**given, "master": master.rstrip("/"), **lists}), say)
    if as_json:
        print_json(result)


def _parts(*texts: str) -> tuple[str, ...]:
    return tuple(part.strip() for text in texts for part in text.split(","))


def _require_libraries() -> None:
    missing = [each for each in ("fastapi", "uvicorn", "httpx", "psutil") if importlib.util.find_spec(each) is None]
    if missing:
        message = f"the node server needs them; {to_install('spark,node')}"
        raise InputError([Fault("install", f"without {', '.join(missing)}", "with the extras spark and node", message)])
