"""`kvlab bench`: speed of the lab's own parts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click


@click.group()
def command() -> None:
    """Measure the lab's own parts."""


@command.command("emulator")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON line.")
@click.option("--rounds", default=15, show_default=True, help="Rounds in which all contenders take turns.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where to store; decides the file system.")
@click.option(
    "--serving-python",
    type=click.Path(path_type=Path),
    help="Python with nixl. Default: .lab/venv/bin/python if there; else a Python client stands in for NIXL.",
)
@click.option(
    "--cuobject", type=click.Path(path_type=Path), help="Folder of libcuobjclient.so.1. Default: .lab/lib"
)
@click.option(
    "--moto", type=click.Path(path_type=Path), help="moto_server, to compare with. Default: the path's."
)
@click.option(
    "--stored-gib", default=0, show_default=True, help="Store so much before looking at the memory."
)
def emulator(
    as_json: bool,
    rounds: int,
    folder: Path | None,
    serving_python: Path | None,
    cuobject: Path | None,
    moto: Path | None,
    stored_gib: int,
) -> None:
    """The emulated ObjectScale over what this machine can do at all (simulated)."""
    from kvlab.emulator import bench

    python, library = serving_python or Path(".lab/venv/bin/python"), cuobject or Path(".lab/lib")
    nixl = serving_python is not None or (python.exists() and (library / "libcuobjclient.so.1").exists())
    settings = bench.Settings(
        folder=folder,
        rounds=rounds,
        # Not resolved: a venv's python is a link, and what it links to knows nothing of the venv.
        serving_python=python.absolute() if nixl else None,
        cuobject=library.absolute() if nixl else None,
        moto=moto or bench.find_moto(),
        stored_gib=stored_gib,
    )
    result = bench.run(settings, lambda line: click.echo(line, err=True))
    for name, ratio in result["ratios"].items():
        took = ", ".join(f"{who} {ms} ms" for who, ms in result["milliseconds"][name].items())
        click.echo(f"{name:16}{ratio} of its floor (wanted {bench.TARGETS[name]}): {took}")
    click.echo(f"one-sided GETs of 1 MiB per second: {result['rdma_get_1MiB_per_second']}")
    listed, own = result["list_10000_seconds"], result["list_10000_server_seconds"]
    click.echo(f"10,000 objects listed by boto3 in {listed} s, of which the emulator took {own} s")
    click.echo(f"resident memory with {stored_gib} GiB stored: {result['resident_mb']} MB")
    for miss in result["misses"]:
        click.echo(f"missed: {miss}")
    if as_json:
        click.echo(json.dumps(result))


@command.command("ttft")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON line.")
@click.option("--rounds", default=20, show_default=True, help="Rounds in which the clients take turns.")
@click.option("--tokens", default=512, show_default=True, help="Length of the prompts.")
@click.option("--delay-ms", default=100.0, show_default=True, help="TTFT of the known server.")
@click.option("--url", help="A vLLM to ask instead, such as http://127.0.0.1:8000.")
@click.option("--model", default="", help="The model it serves; default: it is asked.")
@click.option(
    "--serving-python",
    type=click.Path(path_type=Path),
    help="Python with vLLM, whose own client takes part. Default: .lab/venv/bin/python if there.",
)
def ttft(
    as_json: bool,
    rounds: int,
    tokens: int,
    delay_ms: float,
    url: str | None,
    model: str,
    serving_python: Path | None,
) -> None:
    """What the harness of kvlab ttft adds to a TTFT (a server of known TTFT is simulated).

    Exit status 1 when it adds too much, or disagrees with vLLM's own client.
    """
    from kvlab.ttft import bench

    python = serving_python or Path(".lab/venv/bin/python")
    used = python.absolute() if serving_python or python.exists() else None
    settings = bench.Settings(url, model, tokens, rounds, delay_ms, used)
    result = bench.run(settings, lambda line: click.echo(line, err=True))
    label = " (simulated)" if result["simulated"] else ""
    click.echo(f"TTFT in ms, median of {rounds}{label}: {result['ttft_ms']}")
    click.echo(
        f"the harness adds {result['overhead_ms']} ms ({result['overhead_share']:.2%}) to a raw socket"
    )
    if "kvlab_over_vllm" in result:
        click.echo(f"against vLLM's own client: {result['kvlab_over_vllm']:.4f}")
    if as_json:
        click.echo(json.dumps(result, separators=(",", ":")))
    if not result["within"]:
        click.echo(
            "kvlab: the harness adds more than 1 % or 2 ms, or is more than 2 % from vLLM's client; repeat it on a "
            "quiet machine.",
            err=True,
        )
        sys.exit(1)
