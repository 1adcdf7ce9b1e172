"""`kvlab emulator`: the emulated ObjectScale."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import click


@click.group(invoke_without_command=True)
@click.option("--state", type=click.Path(path_type=Path), help="Folder for objects and the index.")
@click.option("--address", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--s3-port", default=9020, show_default=True, help="S3 over HTTP.")
@click.option("--tls-port", default=0, show_default=True, help="S3 over TLS (9021 on an array); 0 is off.")
@click.option("--users", type=click.Path(path_type=Path), help="JSON file with the object users, mode 0600.")
@click.option(
    "--access-log", type=click.Path(path_type=Path), help="Default: access.log in the state folder."
)
@click.option(
    "--metrics-port", default=0, show_default=True, help="Prometheus metrics on loopback; 0 is off."
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
@click.pass_context
def command(ctx: click.Context, /, state: Path | None, **options: object) -> None:
    """Serve an emulated ObjectScale (simulated), or work with a running one."""
    if ctx.invoked_subcommand is not None:
        return
    if state is None:
        raise click.UsageError("--state DIR is needed: the folder for objects and the index.")
    import uvloop

    from kvlab.emulator.server import Options, serve

    users = options["users"]
    if users is None:
        raise click.UsageError("--users FILE is needed: without users every request is refused.")
    settings = Options(state=state, **options)  # type: ignore[arg-type]
    uvloop.run(serve(settings, lambda line: click.echo(line)))


@command.command("log")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--since", default="", help="Seconds back from now, or a time such as 2026-12-01T10:00:00Z.")
def log_command(file: Path, since: str) -> None:
    """Print the access log FILE as JSON lines, from --since on."""
    from kvlab.emulator.log import read_log, since_text

    for record in read_log(file, since_text(since, time.time()) if since else ""):
        sys.stdout.write(json.dumps(record, separators=(",", ":")) + "\n")
