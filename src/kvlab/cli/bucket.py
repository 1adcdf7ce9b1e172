"""kvlab bucket: what a bucket holds, and cleaning it."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvlab.cli import _store
from kvlab.errors import KvlabError

if TYPE_CHECKING:
    from kvlab.objectscale.usage import Comparison, Count, Usage

_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def _age(ctx: click.Context, param: click.Parameter, value: str | None) -> timedelta | None:  # noqa: ARG001
    if value is None:
        return None
    found = re.fullmatch(r"([0-9]{1,6})([mhd])", value)
    if not found:
        raise click.BadParameter(f"{value} is no age such as 90m, 12h or 7d")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


@click.group()
def command() -> None:
    """Look at the KV in a bucket, and clean it."""


@command.command()
@click.argument("bucket")
@click.option("--prefix", default="", help="Only keys that begin so.")
@click.option("--expect", type=int, metavar="TOKENS", help="Compare with what a request so long stores.")
@click.option("--config", type=click.Path(path_type=Path), help="For --expect: config.json of the model.")
@click.option("--tp", default=1, show_default=True, help="For --expect: tensor-parallel ranks.")
@click.option("--pp", default=1, show_default=True, help="For --expect: pipeline-parallel stages.")
@click.option(
    "--chunk-size", default=256, show_default=True, help="For --expect: LMCache's tokens per chunk."
)
@click.option("--kv-dtype", default="auto", show_default=True, help="For --expect: vLLM's --kv-cache-dtype.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_store.options
def usage(
    bucket: str,
    prefix: str,
    expect: int | None,
    config: Path | None,
    as_json: bool,
    endpoint: str | None,
    secrets_file: Path | None,
    ca_bundle: Path | None,
    **layout: Any,
) -> None:
    """Objects and bytes of BUCKET per model, ranks and type, told from the keys.

    With --expect the end is 1 when the bucket does not hold exactly what `kvlab size` computes.
    """
    from kvlab.objectscale import s3
    from kvlab.objectscale.usage import compare, measure

    geometry = _geometry(config, layout) if expect is not None else None
    store = _store.resolve(endpoint, secrets_file, ca_bundle)
    with _store.explained(store):
        found = measure(s3.objects(store.client, bucket, prefix))
    compared = compare(found, geometry, expect) if geometry and expect is not None else None
    if as_json:
        about = {"bucket": bucket, "endpoint": store.endpoint, "simulated": store.simulated}
        more = {"expectation": compared.as_json()} if compared else {}
        click.echo(json.dumps({**about, **found.as_json(), **more}, indent=1))
    else:
        label = "  (simulated)" if store.simulated else ""
        click.echo("\n".join([f"bucket {bucket} at {store.endpoint}{label}", *_lines(found, compared)]))
    if compared and not compared.equal:
        raise SystemExit(1)


@command.command()
@click.argument("bucket")
@click.option("--prefix", default="", help="Only keys that begin so, such as the name of a model.")
@click.option(
    "--older-than", callback=_age, metavar="AGE", help="Only what was written so long ago: 90m, 12h, 7d."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--while-in-use", is_flag=True, help="Also while a service uses the bucket.")
@_store.options
def clean(
    bucket: str,
    prefix: str,
    older_than: timedelta | None,
    yes: bool,
    while_in_use: bool,
    endpoint: str | None,
    secrets_file: Path | None,
    ca_bundle: Path | None,
) -> None:
    """Delete objects of BUCKET, by prefix, age, or all.

    Run again after an interruption: it goes on with what is left. The record of the cache epoch goes only with
    everything else. A service that used the bucket keeps a list of what it stored and would look for it in vain, so
    the bucket of a running service is refused.
    """
    from kvlab.objectscale.clean import Choice, chosen, delete
    from kvlab.objectscale.usage import measure

    store = _store.resolve(endpoint, secrets_file, ca_bundle)
    if not while_in_use:
        _refuse_in_use(bucket)
    choice = Choice(prefix, None if older_than is None else datetime.now(UTC) - older_than)
    with _store.explained(store):
        going = measure(chosen(store.client, bucket, choice))
        if not going.total.objects and not choice.whole:
            click.echo(f"bucket {bucket}: nothing to delete")
            return
        foreign = f" ({going.foreign.objects:,} of them not LMCache's)" if going.foreign.objects else ""
        what = f"{going.total.objects:,} objects, {_size(going.total.bytes)},{foreign} of bucket {bucket}"
        if not yes:
            click.confirm(f"Delete {what} at {store.endpoint}?", abort=True)
        with click.progressbar(length=going.total.objects, label="deleting") as bar:
            delete(store.client, bucket, choice, lambda: bar.update(1))
    click.echo(f"deleted {what}")


def _refuse_in_use(bucket: str) -> None:
    from kvlab.serving import lab as labs
    from kvlab.serving import profiles

    lab = labs.find()
    name = profiles.user_of(lab, bucket) if lab else None
    if name:
        raise KvlabError(
            f"profile {name} is running and uses bucket {bucket}: it would go on taking what is deleted for stored. "
            "Switch to another profile first (./lab profile use baseline), or give --while-in-use."
        )


def _geometry(config: Path | None, layout: dict[str, Any]) -> Any:
    from kvlab.kvcache.files import read_json_object
    from kvlab.kvcache.geometry import Geometry

    if config is None:
        raise KvlabError("--expect needs --config: how many bytes a token takes depends on the model.")
    return Geometry.from_config(read_json_object(str(config)), **layout)


def _size(size: int) -> str:
    return f"{size:,} B ({size / 1024**3:.3f} GiB)"


def _line(name: str, count: Count) -> str:
    return f"{name:<60}{count.objects:>12,} objects  {_size(count.bytes)}"


def _lines(found: Usage, compared: Comparison | None) -> list[str]:
    lines = [_line("all KV and foreign objects", found.total)]
    for layout, ranks in sorted(found.kv.items()):
        lines.append(_line(f"{layout.model}, TPxPP {layout.world_size}, {layout.dtype}", found.of(layout)))
        lines += [_line(f"  rank {rank}", count) for rank, count in sorted(ranks.items()) if len(ranks) > 1]
    if found.slots.objects:
        lines.append(_line("slots without names (MP mode, or a pool)", found.slots))
    if found.foreign.objects:
        lines.append(_line(f"foreign, such as {found.foreign_keys[0]}", found.foreign))
    lines.append(f"cache epoch: {'recorded' if found.has_epoch else 'none recorded'}")
    if compared:
        lines.append(_line("expected by kvlab size", compared.expected))
        lines.append(_line(f"found of that kind: {'equal' if compared.equal else 'differs'}", compared.found))
    return lines
