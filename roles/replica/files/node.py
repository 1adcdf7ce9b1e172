#!/usr/bin/env python3
"""Launcher of one replica node: makes its network, boots it in systemd-nspawn, boots it again when it reboots.

Run as `unshare --mount --propagation private python3 node.py NODE.json` on Linux as root. Its overlay, its network
namespace's name and the node's processes live in this process's own mount namespace or below it, so they end with it.
NODE.json (written by the module kvlab.lab.replica_node): name, base, upper, work, root, console, pid_file, binds
(outside path to inside path, read-only), links (list of {inside, outside, bridge, addresses, mtu}), capabilities.
SIGTERM ends the node; a power-off inside the node ends the launcher too; a reboot inside boots it again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

# systemd-nspawn's exit status when the node asked for a reboot (EXIT_FORCE_RESTART in systemd's sources).
REBOOT = 133
# A node that ends sooner than this did not boot; booting it again and again would only burn CPU.
SHORTEST_LIFE_S = 2
# Seconds that a node gets for an orderly end.
PATIENCE_S = 15


def run(*command: str, check: bool = True) -> None:
    """Run one command; its complaint is this process's error."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")


def mount(node: dict) -> None:
    """Lay the node's own layer over the shared base, and give `ip netns` a folder that nobody else sees."""
    Path("/run/netns").mkdir(exist_ok=True)
    run("mount", "-t", "tmpfs", "-o", "mode=0755", "netns", "/run/netns")
    layers = f"lowerdir={node['base']},upperdir={node['upper']},workdir={node['work']}"
    run("mount", "-t", "overlay", "-o", layers, "overlay", node["root"])


def connect(node: dict) -> None:
    """A new network namespace with the node's links: as after power-on, nothing that was set at run time is left."""
    run("ip", "netns", "add", "node")
    run("ip", "-n", "node", "link", "set", "lo", "up")
    for link in node["links"]:
        run("ip", "link", "del", link["outside"], check=False)
        peer = ["peer", "name", link["inside"], "netns", "node"]
        run("ip", "link", "add", link["outside"], "type", "veth", *peer)
        run("ip", "link", "set", link["outside"], "mtu", str(link["mtu"]), "master", link["bridge"], "up")
        for address in link["addresses"]:
            run("ip", "-n", "node", "addr", "add", address, "dev", link["inside"])
        run("ip", "-n", "node", "link", "set", link["inside"], "up")


def disconnect(node: dict) -> None:
    """Remove what `connect` made."""
    for link in node["links"]:
        run("ip", "link", "del", link["outside"], check=False)
    run("ip", "netns", "del", "node", check=False)


def command(node: dict) -> list[str]:
    """nspawn within the node's namespace, so that the node's /sys shows its own links; ended with the launcher."""
    boot = ["nsenter", "--net=/run/netns/node", "setpriv", "--pdeathsig", "KILL"]
    # Without it /proc/sys/net cannot be written in the node, and no sysctl of its network set.
    boot += ["env", "SYSTEMD_NSPAWN_API_VFS_WRITABLE=network", "systemd-nspawn"]
    boot += ["--quiet", "--boot", "--register=no", "--keep-unit"]
    boot += [
        "--network-namespace-path=/run/netns/node",
        "--resolv-conf=off",
        "--timezone=off",
        "--link-journal=no",
    ]
    boot += [f"--directory={node['root']}", f"--machine={node['name']}"]
    boot += [f"--capability={','.join(node['capabilities'])}"] if node["capabilities"] else []
    return boot + [f"--bind-ro={outside}:{inside}" for outside, inside in node["binds"].items()]


def boot_once(node: dict, ended: list[int]) -> int:
    """Boot the node and wait for its end; returns nspawn's exit status."""
    connect(node)
    try:
        with open(node["console"], "ab") as console:
            machine = subprocess.Popen(
                command(node),
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )
        while machine.poll() is None:
            if ended:
                machine.terminate()
                try:
                    machine.wait(PATIENCE_S)
                except subprocess.TimeoutExpired:
                    machine.kill()
                break
            time.sleep(0.1)
        return machine.wait()
    finally:
        disconnect(node)


def main() -> int:
    node = json.loads(Path(sys.argv[1]).read_text())
    ended: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _frame: ended.append(got))
    pid_file = Path(node["pid_file"])
    pid_file.write_text(f"{os.getpid()}\n")
    try:
        mount(node)
        while True:
            begin = time.monotonic()
            status = boot_once(node, ended)
            if ended or status != REBOOT or time.monotonic() - begin < SHORTEST_LIFE_S:
                return 0 if ended or status == 0 else 1
    finally:
        pid_file.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
