"""kvlab lint: what is wrong with an lmcache.yaml, a cufile.json, or a profile's arguments."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click


@click.command("lint")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option(
    "--lmcache",
    default="0.5.6",
    show_default=True,
    metavar="V",
    help="LMCache's version, or the folder it is in.",
)
@click.option("--nixl", default="1.5.1", show_default=True, metavar="V", help="NIXL's version.")
@click.option("--vllm", metavar="V", help="vLLM's version.")
@click.option(
    "--profile", type=click.Choice(["baseline", "s3-http", "s3-rdma", "file"]), help="What the file is for."
)
@click.option(
    "--model", type=click.Path(path_type=Path), metavar="CONFIG", help="config.json, or a preset's name."
)
@click.option("--tp", type=int, default=1, show_default=True, help="Tensor-parallel ranks.")
@click.option("--max-tokens", type=int, help="Longest request (vLLM's --max-model-len).")
@click.option(
    "--env", "env_files", type=click.Path(path_type=Path), multiple=True, help="Environment file; repeatable."
)
@click.option(
    "--address", "addresses", multiple=True, help="An address of the host that the file is for; repeatable."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    files: tuple[Path, ...],
    lmcache: str,
    nixl: str,
    vllm: str | None,
    profile: str | None,
    model: Path | None,
    tp: int,
    max_tokens: int | None,
    env_files: tuple[Path, ...],
    addresses: tuple[str, ...],
    as_json: bool,
) -> None:
    """Findings about KV-cache configuration FILEs, by stable id.

    Exit status 0: no error. 1: at least one error. 2: a file is unreadable or an argument makes no sense.
    """
    from kvlab.kvcache import lint
    from kvlab.kvcache.files import context_of, read_text

    context = context_of(
        lmcache=lmcache,
        nixl=nixl,
        vllm=vllm,
        profile=profile,
        model=None if model is None else str(model),
        tp=tp,
        max_tokens=max_tokens,
        env_files=[str(file) for file in env_files],
        addresses=list(addresses),
    )
    found: dict[str, list[lint.Finding]] = {}
    for file in files:
        text, mode = read_text(str(file))
        found[str(file)] = lint.lint(text, str(file), lint.with_mode(context, mode))
    if as_json:
        report = [
            finding.as_dict() | {"file": name} for name, findings in found.items() for finding in findings
        ]
        click.echo(json.dumps({"findings": report}, indent=1))
    else:
        for name, findings in found.items():
            for finding in findings:
                place = f"{name}:{finding.line}" if finding.line else name
                key = f" {finding.key}:" if finding.key else ""
                click.echo(f"{place}: {finding.severity} {finding.id}{key} {finding.reason} {finding.remedy}")
    if any(lint.has_errors(findings) for findings in found.values()):
        sys.exit(1)
