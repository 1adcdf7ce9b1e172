"""kvlab exporter: metrics of a lab between runs, for Prometheus."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvlab import __version__
from kvlab.cli import _store
from kvlab.errors import KvlabError

if TYPE_CHECKING:
    from kvlab.exporter.collector import Profile
    from kvlab.serving.lab import Lab


def _quota(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, int]:  # noqa: ARG001
    from kvlab.objectscale.quota import SMALLEST_GB

    quotas = {}
    for value in values:
        bucket, sign, size = value.partition("=")
        if not (bucket and sign and size.isdigit() and int(size)):
            raise click.BadParameter(f"{value} is not of the form BUCKET=GB, such as kv-s3-rdma=2000")
        quotas[bucket] = int(size) * SMALLEST_GB
    return quotas


@click.command()
@click.option("--address", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=9477, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one."
)
@click.option(
    "--bucket", "buckets", multiple=True, help="Bucket to watch; default: those of the lab's profiles."
)
@click.option(
    "--quota", "quotas", multiple=True, callback=_quota, metavar="BUCKET=GB", help="Its quota; repeatable."
)
@click.option(
    "--list-every",
    default=300.0,
    show_default=True,
    type=click.FloatRange(min=1),
    help="Seconds between listings.",
)
@click.option(
    "--sysfs-root", default=Path("/sys"), type=click.Path(path_type=Path, exists=True), help="Where sysfs is."
)
@_store.options
def command(
    address: str,
    port: int,
    buckets: tuple[str, ...],
    quotas: dict[str, int],
    list_every: float,
    sysfs_root: Path,
    endpoint: str | None,
    secrets_file: Path | None,
    ca_bundle: Path | None,
) -> None:
    """Serve what vLLM, LMCache and node_exporter do not: RDMA ports, pause frames, LMCache's health, buckets.

    Read-only. Run one on each GPU host; the rules and the dashboard are in monitoring/. Ends with SIGTERM or Ctrl-C.
    """
    from botocore.exceptions import BotoCoreError, ClientError
    from prometheus_client import CollectorRegistry, start_http_server

    from kvlab.exporter.collector import KvlabCollector
    from kvlab.exporter.store import Buckets
    from kvlab.objectscale import s3
    from kvlab.serving import lab as labs

    lab = labs.load()
    names = buckets or tuple(sorted({p["bucket"] for p in lab.profiles.values() if p.get("bucket")}))
    store = _store.resolve(endpoint, secrets_file, ca_bundle)

    def listing(bucket: str) -> tuple[int, int]:
        sizes = [found.size for found in s3.objects(store.client, bucket)]
        return len(sizes), sum(sizes)

    watched = Buckets(names, listing, list_every, (BotoCoreError, ClientError, OSError, KvlabError))
    registry = CollectorRegistry()
    registry.register(
        KvlabCollector(__version__, lab.simulated, lambda: _running(lab), watched, quotas, sysfs_root)
    )
    ended = threading.Event()
    for word in (signal.SIGTERM, signal.SIGINT):
        signal.signal(word, lambda *_: ended.set())
    try:
        server, thread = start_http_server(port, addr=address, registry=registry)
    except OSError as error:
        raise KvlabError(
            f"{address}:{port} cannot be listened on ({error.strerror}); give another --port."
        ) from error
    click.echo(f"metrics at http://{address}:{server.server_port}/metrics", err=True)
    threading.Thread(target=watched.follow, daemon=True).start()
    ended.wait()
    watched.stop()
    server.shutdown()
    thread.join()


def _running(lab: Lab) -> Profile | None:
    """The profile that runs, as the lab's description has it."""
    from kvlab.exporter.collector import Profile
    from kvlab.probes import lmcache_mp
    from kvlab.serving import profiles
    from kvlab.serving.supervisor import Supervisor

    name = profiles.running(lab) if Supervisor(lab.state_dir).alive() else None
    if name is None:
        return None
    found = lab.profiles[name]
    url = f"http://{found['host']}:{found['ports']['lmcache_http']}"
    watched = (lambda: lmcache_mp.collect(url)) if found["mode"] == "mp" else None
    return Profile(name, found["expected_path"], found["chunk_bytes"], watched)
