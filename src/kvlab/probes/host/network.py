"""Routes, addresses and the settings of NICs that share a subnet; topic `network` (see checks.platform)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kvlab.probes.host.tools import names, root, said, text


def collect(job: Any) -> dict[str, Any]:
    """Facts about the host's network."""
    sysfs, proc = root(job, "sysfs"), root(job, "proc")
    conf = Path("/proc/sys/net/ipv4/conf")
    rules = json.loads(said("ip", "-j", "rule") or "[]")
    return {
        "default_route": default_route(text(proc / "net/route") or text(Path("/proc/net/route")) or ""),
        "mlx5": mlx5(sysfs),
        "addresses": addresses(),
        "rp_filter": _setting(conf, "rp_filter"),
        "arp_ignore": _setting(conf, "arp_ignore"),
        "source_rules": any(rule.get("src", "all") != "all" for rule in rules),
        "openibd": Path("/etc/init.d/openibd").exists(),
    }


def default_route(table: str) -> str | None:
    """The netdev of the default route with the lowest metric, from /proc/net/route."""
    routes = []
    for line in table.splitlines()[1:]:
        words = line.split()
        if len(words) > 7 and words[1] == "00000000" and words[7] == "00000000":
            routes.append((int(words[6]), words[0]))
    return min(routes)[1] if routes else None


def addresses() -> dict[str, list[str]]:
    """The addresses of each netdev with their prefix length."""
    found = {}
    for link in json.loads(said("ip", "-j", "address") or "[]"):
        listed = [f"{one['local']}/{one['prefixlen']}" for one in link.get("addr_info", []) if "local" in one]
        if listed:
            found[link["ifname"]] = listed
    return found


def mlx5(sysfs: Path) -> list[str]:
    """Netdevs of ConnectX NICs."""
    found = []
    for netdev in names(sysfs / "class/net"):
        driver = sysfs / "class/net" / netdev / "device/driver"
        if (driver.exists() and driver.resolve().name == "mlx5_core") or (
            sysfs / "class/net" / netdev / "device/infiniband"
        ).is_dir():
            found.append(netdev)
    return found


def _setting(conf: Path, name: str) -> dict[str, int]:
    values = {}
    for netdev in names(conf):
        value = text(conf / netdev / name)
        if value is not None and value.isdigit():
            values[netdev] = int(value)
    return values
