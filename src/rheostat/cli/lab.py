"""``rheostat lab``: a real Kafka and a real Spark cluster on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rheostat.cli.options import unused
from rheostat.cli.output import JsonFlag, console, print_json
from rheostat.errors import InputError

__all__ = ["register"]

Name = Annotated[str, typer.Option("--name", help="Which lab; several can be up at once.")]


def register(app: typer.Typer) -> None:
    """Add the command group."""
    lab = typer.Typer(no_args_is_help=True, help="A real Kafka and a real Spark cluster on this machine.")
    lab.command("up")(up)
    lab.command("status")(status)
    lab.command("down")(down)
    app.add_typer(lab, name="lab")


def up(
    context: typer.Context,
    name: Name = "default",
    broker: Annotated[bool, typer.Option(help="Whether to start a Kafka broker.")] = True,
    spark: Annotated[bool, typer.Option(help="Whether to start a Spark master and Workers.")] = True,
    workers: Annotated[int, typer.Option(help="Number of Workers.")] = 1,
    cores: Annotated[int, typer.Option(help="Cores of each Worker.")] = 4,
    memory: Annotated[int, typer.Option(help="Memory of each Worker for executors, MB.")] = 4096,
    kafka_port: Annotated[int | None, typer.Option(help="Port of the broker; a free one if left out.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Where to keep data and logs while it is up.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep data and logs when it ends.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Start a lab in the background; ends when every part answers."""
    from rheostat.lab import standing
    from rheostat.lab.daemons import WorkerSize
    from rheostat.lab.lab import LabSpec

    places = dict.fromkeys(("workers", "cores", "memory"), None if spark else "with --spark")
    faults = unused(context, {**places, "kafka_port": None if broker else "with --broker"})
    if faults := faults + WorkerSize.faults(cores, memory) + LabSpec.faults(workers, broker or spark, kafka_port):
        raise InputError(faults)
    spec = LabSpec(broker, spark, workers, WorkerSize(cores, memory), kafka_port, folder, keep)
    out = console()
    state = standing.up(name, spec, lambda sentence: out.print(sentence, markup=False))
    _show(state, as_json)


def status(name: Name = "default", as_json: JsonFlag = False) -> int:
    """Ask every part of a lab; exit code 1 unless all answer."""
    from rheostat.lab import standing

    state = standing.status(name)
    _show(state, as_json)
    return 0 if state["state"] == "up" else 1


def down(name: Name = "default", as_json: JsonFlag = False) -> None:
    """Stop a lab and confirm that nothing of it runs."""
    from rheostat.lab import standing

    _show(standing.down(name), as_json)


def _show(state: dict[str, Any], as_json: bool) -> None:
    out = console()
    out.print(f"lab {state['name']}: {state['state']}", markup=False)
    for label, key in (("Kafka", "bootstrap"), ("Spark", "master"), ("web page", "web_ui"), ("why", "message")):
        if state.get(key):
            out.print(f"  {label}: {state[key]}", markup=False, soft_wrap=True)
    for part in state["parts"]:
        out.print(f"  {part['name']}: process {part['pid']}{_health(part)}", markup=False)
    if as_json:
        print_json(state)


def _health(part: dict[str, Any]) -> str:
    if "answers" not in part:
        return ""
    return ", answers" if part["answers"] else ", does not answer" if part["alive"] else ", ended"
