#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Settings of one RoCE port that last until the next boot: roce_settings.py CONFIG.json [--check]

Trust, PFC and DSCP map (mlnx_qos), ECN, traffic class, RoCE mode and type of service of rdma_cm, MTU, ARP and
reverse-path filter, and source routing. The role rdma_fabric runs it, and a unit does at each boot, so what was set and
what a boot sets cannot differ. What is there is read first, only what differs is written, and it is read again: a
setting that a NIC does not keep is an error. Exit status: 0 nothing to do, or done; 1 with --check, something differs;
2 it cannot be done. Prints one line for each setting that differs.

Sources: Mellanox/mlnx-tools (mlnx_qos); the kernel's Documentation/ABI/testing/configfs-rdma_cm, sysfs-class-net and
networking/ip-sysctl; DOCA-OFED's sysfs folders ecn and tc.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

# The parser that the module mlnx_qos uses; the role puts it beside this program.
import qos_state

NEEDS_OFED = (
    "DOCA-OFED's driver has it. With the inbox driver set rdma_fabric_ofed to false, and ECN by ROCE_CC_PRIO_MASK of "
    "mlxconfig"
)


class SettingsError(Exception):
    """What was asked for cannot be done; the message says why and what to do."""


class Setting:
    """One value: how it is read, and how it is written."""

    def __init__(self, name, want, read, write):
        self.name, self.want, self.read, self.write = name, want, read, write


def command(*words):
    """Output of a command that must succeed."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise SettingsError(f"there is no {words[0]}; install mlnx-tools or iproute2") from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "no word why").splitlines()[-1]
        raise SettingsError(f"{' '.join(words)} ended: {said}")
    return done.stdout


def file(name, path, want, missing):
    """A setting that is a file with one word or number. Some answer a number with a word after it."""

    def read():
        try:
            return path.read_text("ascii").strip()
        except FileNotFoundError:
            raise SettingsError(f"{path} is not there: {missing}") from None
        except OSError as error:
            raise SettingsError(f"{path} cannot be read: {error.strerror}") from None

    def write(value):
        try:
            path.write_text(f"{value}\n", "ascii")
        except OSError as error:
            raise SettingsError(f"{path} does not take {value}: {error.strerror}") from None

    return Setting(name, str(want), read, write)


def traffic_class(sysfs, device, port, want):
    """What connections carry that set none themselves. The file says nothing until it was set, then a line of words."""
    setting = file(
        "traffic class", sysfs / f"class/infiniband/{device}/tc/{port}/traffic_class", want, NEEDS_OFED
    )
    lines = setting.read
    setting.read = lambda: (lines().splitlines() or ["none"])[0].rpartition("=")[2]
    return setting


def rdma_device(sysfs, netdev):
    """Name and port of the RDMA device of an interface. Names change with udev's rules, so they are asked for."""
    for device in sorted((sysfs / "class/infiniband").glob("*")):
        if (device / "device/net" / netdev).exists():
            ports = len(list((device / "ports").glob("*")))
            at = device / "device/net" / netdev / "dev_port"
            return device.name, int(at.read_text("ascii")) + 1 if ports > 1 and at.exists() else 1
    raise SettingsError(f"{netdev} belongs to no RDMA device; load the NIC's driver, or correct its name")


def rdma_cm(configfs, device, port, config):
    """RoCE mode and type of service of connections that rdma_cm makes."""
    folder = configfs / "rdma_cm" / device
    why = "load rdma_cm and mount configfs"
    if not folder.is_dir():
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            raise SettingsError(f"{folder} cannot be made ({error.strerror}); {why}") from None
    where = folder / f"ports/{port}"
    if config.get("roce_mode"):
        yield file("RoCE mode", where / "default_roce_mode", config["roce_mode"], why)
    if config.get("tos") is not None:
        yield file("type of service", where / "default_roce_tos", config["tos"], why)


def ecn(sysfs, netdev, config):
    """Congestion notification on one priority, at both ends, and the DSCP of the notification."""
    folder, priority = sysfs / f"class/net/{netdev}/ecn", config["priority"]
    for end in ("roce_np", "roce_rp"):
        yield file(f"ECN {end} priority {priority}", folder / end / f"enable/{priority}", 1, NEEDS_OFED)
    yield file("DSCP of CNP", folder / "roce_np/cnp_dscp", config["cnp_dscp"], NEEDS_OFED)


def mtu(netdev, want):
    """The interface's MTU."""

    def read():
        return json.loads(command("ip", "-j", "link", "show", "dev", netdev))[0]["mtu"]

    return Setting(
        f"MTU of {netdev}",
        want,
        read,
        lambda value: command("ip", "link", "set", "dev", netdev, "mtu", str(value)),
    )


def sysctls(proc, netdev, values):
    """Settings of IPv4 for one interface."""
    for name, value in sorted(values.items()):
        yield file(name, proc / f"sys/net/ipv4/conf/{netdev}/{name}", value, "the interface is gone")


def source_route(netdev, route):
    """Answers leave by the port whose address they come from, though several ports are in one network."""
    table, address, network = str(route["table"]), route["address"], route["network"]

    def rules():
        found = json.loads(command("ip", "-j", "rule", "show") or "[]")
        return sorted({rule["table"] for rule in found if rule.get("src") == address})

    def add_rule(_value):
        for old in rules():
            command("ip", "rule", "del", "from", address, "table", old)
        command("ip", "rule", "add", "from", address, "table", table)

    def routes():
        try:
            found = json.loads(command("ip", "-j", "route", "show", "table", table) or "[]")
        except SettingsError:
            # A table that nothing was ever put in does not exist.
            return []
        return sorted((one["dst"], one.get("dev"), one.get("gateway")) for one in found)

    want = [(network, netdev, None)]
    if route.get("gateway"):
        want.append(("default", netdev, route["gateway"]))

    def add_routes(_value):
        command("ip", "route", "replace", network, "dev", netdev, "src", address, "table", table)
        if route.get("gateway"):
            command(
                "ip", "route", "replace", "default", "via", route["gateway"], "dev", netdev, "table", table
            )

    yield Setting(f"routes of table {table}", sorted(want), routes, add_routes)
    yield Setting(f"rule for {address}", [table], rules, add_rule)


def settings(config):
    """All settings of a port but those of mlnx_qos, in the order in which they are made."""
    netdev, interface, sysfs = config["netdev"], config["interface"], Path(config["sysfs_root"])
    device, port = rdma_device(sysfs, netdev)
    # A VLAN cannot have a larger MTU than what it lies on.
    for name in dict.fromkeys([netdev, interface]):
        yield mtu(name, config["mtu"])
    yield from sysctls(Path(config["proc_root"]), interface, config["sysctl"])
    if config.get("source_route"):
        yield from source_route(interface, config["source_route"])
    yield from rdma_cm(Path(config["configfs_root"]), device, port, config)
    if config.get("traffic_class"):
        yield traffic_class(sysfs, device, port, config["tos"])
    if config.get("ecn"):
        yield from ecn(sysfs, netdev, config["ecn"])


def work(config, check):
    """Set what differs, or with `check` only tell; returns one line for each."""
    lines = quality_of_service(config["netdev"], config["qos"], check)
    for setting in settings(config):
        have = setting.read()
        if have == setting.want:
            continue
        lines.append(f"{config['netdev']}: {setting.name} {have} -> {setting.want}")
        if check:
            continue
        setting.write(setting.want)
        now = setting.read()
        if now != setting.want:
            raise SettingsError(
                f"{config['netdev']} does not keep {setting.name} {setting.want}; it has {now}"
            )
    return lines


def quality_of_service(netdev, want, check):
    """Trust, PFC, DSCP map and who decides them, by mlnx_qos; one line for each that differs."""
    want = {**want, "dscp2prio": {int(dscp): prio for dscp, prio in want["dscp2prio"].items()}}
    qos_state.check(want)

    def read():
        return qos_state.parse(command("mlnx_qos", "-i", netdev, "-a"))

    have = read()
    off = qos_state.differing(have, want)
    lines = [f"{netdev}: {name} {have[name]} -> {want[name]}" for name in off]
    made = []
    while off and not check:
        # One at a time: trust dscp shows the mapping, and PFC can move the buffers.
        calls = qos_state.calls(have, want)
        if not calls:
            break
        if calls[0] in made:
            raise SettingsError(f"{netdev} does not keep what mlnx_qos {' '.join(calls[0])} sets")
        made.append(calls[0])
        command("mlnx_qos", "-i", netdev, *calls[0])
        have = read()
    return lines


def main():
    parser = argparse.ArgumentParser(description="settings of one RoCE port that a boot forgets")
    parser.add_argument("config", type=Path)
    parser.add_argument("--check", action="store_true", help="tell what differs, set nothing")
    given = parser.parse_args()
    try:
        config = json.loads(given.config.read_text("utf-8"))
        lines = work(config, given.check)
    except (SettingsError, qos_state.QosError) as error:
        print(f"roce_settings: {error}", file=sys.stderr)
        return 2
    except (OSError, ValueError) as error:
        print(f"roce_settings: {given.config} cannot be read: {error}", file=sys.stderr)
        return 2
    print("".join(f"{line}\n" for line in lines), end="")
    return int(given.check and bool(lines))


if __name__ == "__main__":
    sys.exit(main())
