"""kvlab exporter: what it says of NICs, LMCache and buckets, and what it does not say where it cannot know."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fake_sysfs
import pytest
from object_store import ObjectStore
from prometheus_client import CollectorRegistry, generate_latest

from kvlab.errors import KvlabError
from kvlab.exporter.collector import KvlabCollector, Profile
from kvlab.exporter.store import Buckets
from kvlab.probes import sampler

COUNTERS = {
    "lookup_requested_tokens": 4096,
    "lookup_hit_tokens": 3840,
    "lookup_hit_l1_tokens": None,
    "lookup_hit_l2_tokens": 3840,
    "l2_stored_chunks": 16,
    "l2_loaded_chunks": 15,
}
SERVER = {"available": True, "healthy": True, "counters": COUNTERS}
EMPTY = Buckets((), lambda _name: (0, 0), 1.0)


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    """Two ConnectX ports with counters, the second one's driver without any."""
    root = fake_sysfs.write(
        tmp_path / "sys",
        [fake_sysfs.nic("mlx5_0", "rail0", "192.0.2.1"), fake_sysfs.nic("mlx5_1", "rail1", "192.0.2.2", 2)],
    )
    port = root / "class/infiniband/mlx5_0/ports/1"
    for name, text in {
        "counters/port_rcv_data": "250",
        "counters/port_xmit_data": "100",
        "hw_counters/out_of_sequence": "7",
        "hw_counters/lifespan": "10",
        "hw_counters/rx_write_requests": "N/A (no PMA)",
    }.items():
        (port / name).parent.mkdir(exist_ok=True)
        (port / name).write_text(f"{text}\n")
    return root


def page(collector: KvlabCollector) -> dict[str, float]:
    """The metrics as Prometheus would read them, by name and labels."""
    registry = CollectorRegistry()
    registry.register(collector)
    lines = generate_latest(registry).decode().splitlines()
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in lines) if name[:1] != "#"
    }


def collector(sysfs: Path, profile: Profile | None = None, **more: Any) -> KvlabCollector:
    given: dict[str, Any] = {
        "version": "1.2",
        "simulated": True,
        "running": lambda: profile,
        "buckets": EMPTY,
        "quotas": {},
        "sysfs": sysfs,
    }
    return KvlabCollector(**given | more)


def rdma(facts: dict[str, Any]) -> Profile:
    return Profile("s3-rdma", "rdma", 1000, lambda: facts)


def of(found: dict[str, float], metric: str) -> dict[frozenset[str], float]:
    """The values of one metric by the values of its labels, in whatever order these stand."""
    names = {
        name: frozenset(re.findall(r'="([^"]*)"', name)) for name in found if name.startswith(f"{metric}{{")
    }
    return {labels: found[name] for name, labels in names.items()}


def test_port_data_is_in_bytes_though_the_kernel_counts_words_of_four(sysfs: Path) -> None:
    assert of(page(collector(sysfs)), "kvlab_rdma_payload_bytes_total") == {
        frozenset(("mlx5_0", "1", "received")): 1000,
        frozenset(("mlx5_0", "1", "sent")): 400,
    }


def test_a_counter_that_the_port_lacks_is_left_out_and_not_zero(sysfs: Path) -> None:
    found = page(collector(sysfs))
    assert of(found, "kvlab_rdma_events_total") == {frozenset(("mlx5_0", "1", "out_of_sequence")): 7}
    assert not [name for name in found if "mlx5_1" in name]


def test_pause_frames_are_told_by_priority_and_direction(
    sysfs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    statistics = {"rx_prio3_pause": 5, "tx_prio3_pause": 6, "rx_prio3_pause_duration": 9, "rx_bytes": 1}

    class Told(sampler.Ethtool):
        def read(self) -> dict[str, int]:
            return statistics if self._netdev == "rail0" else {}

    monkeypatch.setattr(sampler, "Ethtool", Told)
    assert of(page(collector(sysfs)), "kvlab_pause_frames_total") == {
        frozenset(("rail0", "3", "received")): 5,
        frozenset(("rail0", "3", "sent")): 6,
    }


def test_an_interface_that_is_gone_does_not_end_the_scrape(sysfs: Path) -> None:
    """The kernel knows nothing of the interfaces of a made-up sysfs."""
    found = page(collector(sysfs))
    assert not [name for name in found if name.startswith("kvlab_pause")]
    assert [name for name in found if name.startswith("kvlab_info")]


def test_lmcache_is_told_with_bytes_of_whole_chunks(sysfs: Path) -> None:
    found = page(collector(sysfs, rdma(SERVER)))
    assert found['kvlab_lmcache_up{profile="s3-rdma"}'] == 1
    assert found['kvlab_lmcache_healthy{profile="s3-rdma"}'] == 1
    assert of(found, "kvlab_lmcache_store_bytes_total") == {
        frozenset(("s3-rdma", "stored")): 16000,
        frozenset(("s3-rdma", "loaded")): 15000,
    }
    # This version tells no hits of the DRAM tier: nothing is said of them.
    assert of(found, "kvlab_lmcache_lookup_tokens_total") == {
        frozenset(("s3-rdma", "requested")): 4096,
        frozenset(("s3-rdma", "hit")): 3840,
        frozenset(("s3-rdma", "hit_store")): 3840,
    }


@pytest.mark.parametrize(
    ("facts", "up", "healthy"),
    [
        ({"available": False, "counters": {}}, 0, None),
        ({"available": True, "healthy": False, "counters": {}}, 1, 0),
    ],
)
def test_a_silent_server_and_a_degraded_one_are_two_things(
    sysfs: Path, facts: dict[str, Any], up: int, healthy: int | None
) -> None:
    found = page(collector(sysfs, rdma(facts)))
    assert found['kvlab_lmcache_up{profile="s3-rdma"}'] == up
    assert found.get('kvlab_lmcache_healthy{profile="s3-rdma"}') == healthy


def test_a_profile_without_a_server_says_nothing_of_one(sysfs: Path) -> None:
    found = page(collector(sysfs, Profile("baseline", "none", 1, None)))
    assert not [name for name in found if "lmcache" in name]


def test_a_bucket_that_cannot_be_listed_keeps_its_last_content_and_is_marked(sysfs: Path) -> None:
    answers: Iterator[tuple[int, int]] = iter([(3, 300)])

    def listing(_name: str) -> tuple[int, int]:
        try:
            return next(answers)
        except StopIteration:
            raise KvlabError("the store does not answer") from None

    watched = Buckets(("kv",), listing, 60)
    watched.refresh()
    first = page(collector(sysfs, buckets=watched, quotas={"kv": 1000}))
    watched.refresh()
    second = page(collector(sysfs, buckets=watched))
    for found, failed in ((first, 0), (second, 1)):
        assert found['kvlab_bucket_bytes{bucket="kv"}'] == 300
        assert found['kvlab_bucket_objects{bucket="kv"}'] == 3
        assert found['kvlab_bucket_listing_failed{bucket="kv"}'] == failed
    assert first['kvlab_bucket_quota_bytes{bucket="kv"}'] == 1000


def test_an_error_that_nobody_expects_is_not_taken_for_a_silent_store() -> None:
    def broken(_name: str) -> tuple[int, int]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Buckets(("kv",), broken, 60).refresh()


@pytest.fixture
def lab_file(tmp_path: Path) -> Callable[[str, Path], Path]:
    """A lab in which nothing runs but its store."""

    def write(endpoint: str, secrets: Path) -> Path:
        profile = {"bucket": "kv-s3-rdma", "mode": "mp", "programs": []}
        data = {
            "state_dir": str(tmp_path / "state"),
            "simulated": True,
            "endpoint": endpoint,
            "secrets_file": str(secrets),
            "profiles": {"s3-rdma": profile, "baseline": {"bucket": None, "mode": "none", "programs": []}},
        }
        file = tmp_path / "lab.json"
        file.write_text(json.dumps(data))
        return file

    return write


def test_the_command_serves_a_page_with_the_buckets_of_a_real_store_and_ends_when_told(
    tmp_path: Path, sysfs: Path, lab_file: Callable[[str, Path], Path], object_store: ObjectStore
) -> None:
    bucket = object_store.bucket("a", "b", size=10)
    file = lab_file(object_store.endpoint, object_store.secrets_file)
    command = [sys.executable, "-c", "from kvlab.cli import main; main()", "exporter", "--port", "0"]
    command += ["--bucket", bucket, "--quota", f"{bucket}=2", "--sysfs-root", str(sysfs)]
    exporter = subprocess.Popen(
        command, env={**os.environ, "KVLAB_LAB_FILE": str(file)}, stderr=subprocess.PIPE, text=True
    )
    try:
        assert exporter.stderr is not None
        said = exporter.stderr.readline()
        url = said.split()[-1]
        assert url.startswith("http://127.0.0.1:"), said
        wanted = f'kvlab_bucket_bytes{{bucket="{bucket}"}} 20.0'
        deadline = time.monotonic() + 20
        text = ""
        while wanted not in text and time.monotonic() < deadline:
            text = urllib.request.urlopen(url, timeout=10).read().decode()
        assert wanted in text
        assert f'kvlab_bucket_quota_bytes{{bucket="{bucket}"}} 2e+09' in text
        assert 'simulated="true"' in text
        assert object_store.secret_key not in text
    finally:
        exporter.send_signal(signal.SIGTERM)
        assert exporter.wait(timeout=20) == 0


@pytest.mark.parametrize("quota", ["kv", "kv=", "=5", "kv=0", "kv=many"])
def test_a_quota_that_says_nothing_is_refused(quota: str) -> None:
    from click.testing import CliRunner

    from kvlab.cli.exporter import command

    refused = CliRunner().invoke(command, ["--quota", quota])
    assert refused.exit_code == 2
    assert "BUCKET=GB" in refused.output


def test_the_kernel_tells_the_statistics_of_its_own_interfaces_and_nothing_of_others() -> None:
    for netdev in sorted(path.name for path in Path("/sys/class/net").iterdir()):
        for name, value in sampler.Ethtool(netdev).read().items():
            assert name.isprintable()
            assert name
            assert value >= 0
    assert sampler.Ethtool("lo").read() == {}
    assert sampler.Ethtool("kvlab-none").read() == {}
