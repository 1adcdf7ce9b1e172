"""`kvlab emulator`: the emulated ObjectScale."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from kvlab.errors import KvlabError


def _number(ctx: click.Context, param: click.Parameter, value: str) -> int:  # noqa: ARG001
    try:
        return int(value, 0)
    except ValueError:
        raise click.BadParameter(f"{value} is no number such as 0xffeeddcc") from None


def _host_names(
    ctx: click.Context,  # noqa: ARG001
    param: click.Parameter,  # noqa: ARG001
    values: tuple[str, ...],
) -> tuple[str, ...]:
    for value in values:
        if not re.fullmatch(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*", value):
            raise click.BadParameter(
                f"{value} is no host name such as s3.lab.example (without scheme and port)"
            )
    return tuple(value.lower() for value in values)


@click.group(invoke_without_command=True)
@click.option("--state", type=click.Path(path_type=Path), help="Folder for objects and the index.")
@click.option("--address", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--s3-port", type=click.IntRange(0, 65535), default=9020, show_default=True, help="S3 over HTTP."
)
@click.option(
    "--tls-port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="S3 over TLS (9021 on an array); 0 is off.",
)
@click.option("--users", type=click.Path(path_type=Path), help="JSON file with the object users, mode 0600.")
@click.option(
    "--access-log", type=click.Path(path_type=Path), help="Default: access.log in the state folder."
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="Prometheus metrics on loopback; 0 is off.",
)
@click.option(
    "--admin-port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="Fault interface on loopback; 0 is off.",
)
@click.option(
    "--dialect", type=click.Choice(["objectscale", "aws"]), default="objectscale", show_default=True
)
@click.option(
    "--fsync/--no-fsync", default=False, show_default=True, help="Survive a power cut, not only kill -9."
)
@click.option(
    "--rdma/--no-rdma",
    default=True,
    show_default=True,
    help="--no-rdma: every one-sided request is declined.",
)
@click.option(
    "--rdma-dc-key",
    default="0xffeeddcc",
    show_default=True,
    callback=_number,
    help="The clients' rdma_dc_key.",
)
@click.option(
    "--base-url",
    "base_urls",
    multiple=True,
    callback=_host_names,
    help="Host name under which buckets are host names (bucket.NAME); may be repeated.",
)
@click.option(
    "--namespace-base-url",
    "namespace_base_urls",
    multiple=True,
    callback=_host_names,
    help="The same with the namespace in the host (bucket.namespace.NAME).",
)
@click.option(
    "--management-port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="Management API over TLS (4443 on an array); 0 is off.",
)
@click.option(
    "--management-credentials",
    type=click.Path(path_type=Path),
    help="JSON file with the management users, mode 0600.",
)
@click.option(
    "--management-log", type=click.Path(path_type=Path), help="Default: management.log in the state folder."
)
@click.option(
    "--replication-group",
    "replication_groups",
    multiple=True,
    default=("rg1",),
    show_default=True,
    help="Replication group of the array; may be repeated.",
)
@click.option(
    "--node-address",
    "node_addresses",
    multiple=True,
    help="Data address of a node, as the management API lists it; may be repeated. Default: --address.",
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    state: Path | None,
    base_urls: tuple[str, ...],
    namespace_base_urls: tuple[str, ...],
    **options: object,
) -> None:
    """Serve an emulated ObjectScale (simulated), or work with a running one."""
    if ctx.invoked_subcommand is not None:
        return
    if state is None:
        raise click.UsageError("--state DIR is needed: the folder for objects and the index.")
    import uvloop

    from kvlab.emulator.addressing import BaseUrl
    from kvlab.emulator.server import Options, serve

    users = options["users"]
    if users is None and not options["management_port"]:
        raise click.UsageError(
            "--users FILE is needed, or --management-port: without users every request is refused."
        )
    hosts = [BaseUrl(name) for name in base_urls]
    hosts += [BaseUrl(name, namespace_in_host=True) for name in namespace_base_urls]
    settings = Options(state=state, base_urls=tuple(hosts), **options)  # type: ignore[arg-type]
    uvloop.run(serve(settings, lambda line: click.echo(line)))


@command.command("log")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--since", default="", help="Seconds back from now, or a time such as 2026-12-01T10:00:00Z.")
def log_command(file: Path, since: str) -> None:
    """Print the access log FILE as JSON lines, from --since on."""
    from kvlab.emulator.log import read_log, since_text

    for record in read_log(file, since_text(since, time.time()) if since else ""):
        sys.stdout.write(json.dumps(record, separators=(",", ":")) + "\n")


@command.group("fault")
def fault_group() -> None:
    """Arm, list and clear faults of a running emulator (its --admin-port)."""


_admin = click.option(
    "--admin-port",
    required=True,
    type=int,
    envvar="KVLAB_EMULATOR_ADMIN_PORT",
    help="The emulator's --admin-port.",
)


@fault_group.command("kinds")
def fault_kinds() -> None:
    """What faults there are."""
    from kvlab.emulator.faults import KINDS

    for name, kind in KINDS.items():
        click.echo(f"{name:16}{kind.says}")


@fault_group.command("add")
@click.argument("kind")
@click.option("--name", help="To clear it by; default: the kind.")
@click.option("--op", help="Operation, such as GetObject; * and ? are wildcards.")
@click.option("--bucket", help="Bucket pattern.")
@click.option("--key", help="Key pattern, such as 'kv_*'.")
@click.option("--count", type=int, help="How many requests it strikes; default: all.")
@click.option("--rate", type=float, help="Share of requests it strikes, 0 to 1.")
@click.option("--seed", type=int, help="Makes --rate and the flipped bit repeatable.")
@click.option("--seconds", type=float, help="For latency, slow-list and clock-skew.")
@click.option("--bytes-per-second", type=int, help="For bandwidth.")
@click.option("--bit", type=int, help="Which bit flips; default: drawn with the seed.")
@_admin
def fault_add(admin_port: int, **fields: object) -> None:
    """Arm a fault of KIND (see `kvlab emulator fault kinds`)."""
    sent = {name: value for name, value in fields.items() if value is not None}
    click.echo(_admin_call(admin_port, "POST", "/faults", sent)["name"])


@fault_group.command("list")
@_admin
def fault_list(admin_port: int) -> None:
    """The faults that are armed, as JSON lines with their hits."""
    for fault in _admin_call(admin_port, "GET", "/faults")["faults"]:
        click.echo(json.dumps(fault))


@fault_group.command("clear")
@click.argument("name", required=False)
@_admin
def fault_clear(admin_port: int, name: str | None) -> None:
    """Clear the fault NAME, or all."""
    path = f"/faults/{quote(name, safe='')}" if name else "/faults"
    click.echo(f"{_admin_call(admin_port, 'DELETE', path)['cleared']} cleared")


def _admin_call(port: int, method: str, path: str, body: object = None) -> Any:
    """Ask the fault interface; a refusal or a port with no emulator is a KvlabError."""
    import httpx

    try:
        reply = httpx.request(
            method, f"http://127.0.0.1:{port}{path}", json=body, timeout=10, trust_env=False
        )
        found = reply.json()
    except (httpx.HTTPError, ValueError):
        raise KvlabError(
            f"no emulator's fault interface answers on port {port}; start it with --admin-port {port}"
        ) from None
    if reply.is_error:
        raise KvlabError(f"{found['error']}")
    return found
