"""Nothing of the lab can be reached from elsewhere unless somebody said so."""

from __future__ import annotations

import ipaddress
import re
import shlex
import subprocess
import sys
from pathlib import Path

import labhosts
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


def test_anonymized_facts_hold_no_secret_address_or_name_of_this_lab(bench: Bench, tmp_path: Path) -> None:
    kvlab, written = Path(sys.executable).with_name("kvlab"), tmp_path / "facts.json"
    command = [kvlab, "facts", "collect", "-i", bench.host.inventory, "-o", written, "--anonymize"]
    subprocess.run(
        command, check=False, capture_output=True
    )  # 2 where a host does not answer: it is named, too
    text = written.read_text()
    assert '"kvlab-facts"' in text
    secrets = labhosts.as_json(bench.host.read(str(bench.lab.data["secrets_file"])), "the secrets file")
    machines = {bench.host, *bench.gpu_hosts}
    names = {bench.host.output("uname -n").strip(), *(host.name for host in machines)} - {"localhost"}
    addresses = {one for host in machines for one in host.output("hostname -I").split()}
    found = [one for one in names | addresses if re.search(rf"(?<![\w.:-]){re.escape(one)}(?![\w.:-])", text)]
    assert found == []
    assert secrets["secret_key"] not in text
