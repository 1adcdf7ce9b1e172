"""The nodes themselves: real hosts with networks of their own and no way out, that reboot as hosts do."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = pytest.mark.replica


def test_a_node_has_its_rails_and_no_link_of_this_machine(replica: Any) -> None:
    for name in replica.nodes:
        links = replica.host(name).check_output("ls /sys/class/net").split()
        assert sorted(links) == ["lo", "mgmt0", "rail0", "rail1"]


def test_a_node_has_no_way_to_an_outside_address(replica: Any) -> None:
    host = replica.host(replica.nodes[0])
    assert host.check_output("ip route show default") == ""
    assert "unreachable" in host.run("ip route get 192.0.2.1").stderr.lower()


def test_nodes_reach_each_other_over_the_rails(replica: Any) -> None:
    store = next(node for node in replica.described["nodes"] if node["group"] == "object_stores")
    for name in replica.nodes:
        route = json.loads(replica.host(name).check_output(f"ip -json route get {store['rails'][0]}"))
        assert route[0]["dev"].startswith("rail")


def test_a_rebooted_node_comes_back_and_has_lost_what_was_set_at_run_time(replica: Any) -> None:
    name = replica.nodes[-1]
    host = replica.host(name)
    before = replica.boot_id(name)
    host.check_output("ip link set mgmt0 mtu 1400 && touch /run/kvlab-test /var/lib/kvlab-test")
    replica.reboot(name)
    assert replica.boot_id(name) != before
    assert host.check_output("cat /sys/class/net/mgmt0/mtu") == "1500"
    assert not host.file("/run/kvlab-test").exists
    assert host.file("/var/lib/kvlab-test").exists
    host.check_output("rm /var/lib/kvlab-test")


def test_after_a_reboot_a_converged_node_has_its_roce_settings_again(replica: Any) -> None:
    name = replica.nodes[-1]
    host = replica.host(name)
    qos = "/var/lib/kvlab-standins/mlnx_qos/rail0.json"
    assert '"trust": "dscp"' in host.check_output("cat %s", qos)
    replica.reboot(name)
    host.run("systemctl is-system-running --wait")
    host.check_output("systemctl is-active kvlab-roce@rail0 kvlab-roce@rail1")
    for rail in ("rail0", "rail1"):
        done = host.run(f"/usr/local/lib/kvlab/roce_settings.py /etc/kvlab/roce/{rail}.json --check")
        assert (done.rc, done.stdout) == (0, "")
        assert host.check_output(f"cat /sys/class/net/{rail}/mtu") == "9000"


def test_the_root_of_a_node_is_seen_from_outside(replica: Any) -> None:
    name = replica.nodes[0]
    assert (replica.root(name) / "etc/hostname").read_text().strip() == name
