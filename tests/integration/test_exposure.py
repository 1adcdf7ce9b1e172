"""Nothing of the lab can be reached from elsewhere unless somebody said so."""

from __future__ import annotations

import ipaddress
import shlex

import pytest
from harness import Bench

pytestmark = pytest.mark.integration

POST = """
import urllib.error, urllib.request
try:
    print(urllib.request.urlopen("{url}", b"", timeout=30).status)
except urllib.error.HTTPError as refusal:
    print(refusal.code)
"""


def test_every_program_listens_on_loopback_or_on_the_address_that_the_inventory_gives_it(
    bench: Bench,
) -> None:
    told = {str(bench.lab.data["address"])}
    told |= set(bench.host.variables("kv_profiles_rdma_addresses")["kv_profiles_rdma_addresses"] or ())
    if bench.store_host and bench.store_host.name == bench.host.name:
        told |= {str(bench.store_host.variables("sim_objectscale_address")["sim_objectscale_address"])}
    found = bench.tools_probe("listeners", {"state_dir": str(bench.lab.state_dir)})
    assert found["listeners"], "the lab is up, and none of its programs was seen listening"
    bench.record("listeners", sorted(f"{one['address']}:{one['port']}" for one in found["listeners"]))
    exposed = [
        f"{one['command']} listens on {one['address']}:{one['port']}"
        for one in found["listeners"]
        if not ipaddress.ip_address(one["address"]).is_loopback and one["address"] not in told
    ]
    assert not exposed, "\n".join(exposed)


def test_no_server_runs_a_script_that_is_sent_to_it(bench: Bench) -> None:
    """LMCache has POST /run_script; releases before 0.5.6 have no switch for it in MP mode, and fail here."""
    ports = bench.host.variables("kvlab_ports")["kvlab_ports"]
    found = bench.tools_probe("listeners", {"state_dir": str(bench.lab.state_dir)})
    asked = {ports["vllm"], ports["lmcache_http"]} & {one["port"] for one in found["listeners"]}
    assert ports["vllm"] in asked, "vLLM is up, and was not seen listening"
    for port in asked:
        url = f"http://{bench.lab.data['address']}:{port}/run_script"
        assert bench.host.output(f"python3 -c {shlex.quote(POST.format(url=url))}").strip() == "404", url
