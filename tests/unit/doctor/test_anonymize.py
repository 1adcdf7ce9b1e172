"""Anonymized facts name nobody, and are judged as before."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import re
from typing import Any

from doctor_lab import healthy

from kvlab.doctor import diagnosis
from kvlab.doctor.anonymize import anonymize
from kvlab.doctor.labfacts import LabFacts, Problem

SECRET = "wJalrXUtnFEMI-K7MDENG"


def private() -> LabFacts:
    """Facts in which secrets, addresses and names stand in every kind of place."""
    facts = healthy(2)
    topics = facts.hosts["node1"]
    topics["files"]["secrets"][0].update(path="/home/jdoe/lab/secret.env", owner="jdoe")
    topics["kernel"]["log"] = [
        "node1 kernel: martian source 192.0.2.77 from fe80::1",
        "mac 0c:42:a1:5d:4d:b8",
    ]
    topics["rdma"]["devices"][0]["node_guid"] = "58a2:e103:001a:677e"
    topics["lmcache_log"]["seen"]["degraded"]["last"] = (
        f"secret_key={SECRET} at http://store.example.com:9020"
    )
    topics["processes"]["api_token"] = "tok-123456"
    hosts = {
        "gpu-a.example.com": topics,
        "gpu-b.example.com": facts.hosts["node2"],
        "lab": facts.hosts["lab"],
    }
    applies = {"gpu-a.example.com": facts.applies["node1"], "gpu-b.example.com": facts.applies["node2"]}
    problem = Problem("gpu-c.example.com", "", "gpu-c does not answer at 192.0.2.99")
    return dataclasses.replace(facts, hosts=hosts, applies=applies, problems=(problem,))


def test_no_secret_address_or_name_is_left() -> None:
    text = json.dumps(anonymize(private(), [SECRET]).as_json())
    for leak in (SECRET, "tok-123456", "jdoe", "gpu-a", "gpu-b", "gpu-c", "example.com", "0c:42:a1", "58a2:e103",
                 "fe80::abcd", "0e42:a1ff", "c633:640a"):  # fmt: skip
        assert leak not in text, leak
    left = set(re.findall(r"(?<![\w.-])\d+\.\d+\.\d+\.\d+(?![\w-]|\.\d)", text))
    assert left
    assert all(
        ipaddress.ip_address(a) in ipaddress.ip_network("10.0.0.0/8") for a in left if a != "4.1.0.0"
    ), left


def test_a_name_is_replaced_by_the_same_name_everywhere() -> None:
    facts = anonymize(private(), [SECRET])
    hosts = [host for host in facts.hosts if host != "lab"]
    assert len(set(hosts)) == 2
    assert set(facts.applies) == set(hosts)
    addresses = facts.hosts[hosts[0]]["network"]["addresses"]["rail0"][0].partition("/")[0]
    assert facts.hosts[hosts[0]]["gds"]["cufile"]["rdma_dev_addr_list"] == [addresses]
    gid = next(g for g in facts.hosts[hosts[0]]["rdma"]["devices"][0]["ports"][0]["gids"] if g["ipv4"])
    assert gid["ipv4"] == str(ipaddress.IPv6Address(gid["gid"]).ipv4_mapped) == addresses


def test_it_is_judged_as_before() -> None:
    def statuses(facts: LabFacts) -> list[Any]:
        groups = diagnosis.diagnose(facts, diagnosis.select()).groups
        return sorted((group.check.id, group.status, len(group.hosts)) for group in groups)

    facts = private()
    facts.hosts["gpu-b.example.com"]["network"]["addresses"]["rail1"] = ["198.51.100.11/25"]
    assert ("HOST065", "fail", 1) in statuses(facts)
    assert statuses(anonymize(facts, [SECRET])) == statuses(facts)


def test_versions_and_pci_addresses_are_kept() -> None:
    facts = private()
    facts.hosts["lab"]["objectscale"]["version"] = "4.1.0.0"
    found = anonymize(facts)
    host = next(host for host in found.hosts if host != "lab")
    assert found.hosts["lab"]["objectscale"]["version"] == "4.1.0.0"
    assert found.hosts[host]["pcie"]["bridges"][0]["bdf"] == "0000:15:01.0"
    assert found.hosts[host]["driver"]["loaded"] == "590.48.01"
