#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: one end of one RDMA bandwidth test between two hosts."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: ib_write_bw
short_description: Run one end of perftest's ib_write_bw
version_added: "0.1.0"
description:
  - Without O(server) it waits for a client; start that end first, as an asynchronous task.
  - With O(server) it writes there.
  - Both ends end by themselves; after O(timeout) seconds the process is ended, whatever it waits for.
  - The GID index is computed from sysfs and never assumed. It changes nothing; in check mode nothing is run.
options:
  device:
    description: RDMA device, such as mlx5_0.
    type: str
    required: true
  server:
    description: Address of the other end; empty to be the server.
    type: str
    default: ""
  network:
    description: Network that the GID's address must be in, such as 198.51.100.0/24; empty for any.
    type: str
    default: ""
  port:
    description: TCP port over which both ends agree.
    type: int
    default: 18515
  gpu:
    description: Index of the GPU whose memory is used; -1 for host memory. perftest must be built with CUDA for it.
    type: int
    default: -1
  seconds:
    description: How long to write.
    type: int
    default: 5
  timeout:
    description: Seconds after which the process is ended; longer than O(seconds).
    type: int
    default: 30
  connect_attempts:
    description: How often the client tries, a second apart, until the server listens.
    type: int
    default: 10
  sysfs_root:
    description: Where sysfs is.
    type: path
    default: /sys
author: kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Write to the other host
  kvlab.lab.ib_write_bw:
    device: mlx5_0
    server: 198.51.100.12
  register: __burn_in_client
"""

RETURN = r"""
gbits:
  description: Average bandwidth in Gbit/s; null when there is no result, and always for the server.
  type: float
  returned: always
problem:
  description: Why there is no result; null when there is one.
  type: str
  returned: always
"""

import subprocess
import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kvlab.lab.plugins.module_utils import perftest, rdma_sysfs


def gid_index(given):
    """The index of the device's RoCE v2 GID; raises RdmaSysfsError with the sentence why there is none."""
    (device,) = rdma_sysfs.devices(given["sysfs_root"], [given["device"]])
    networks = [given["network"]] if given["network"] else []
    gid, why = rdma_sysfs.choose_gid(device["ports"][0], networks)
    if gid is None:
        raise rdma_sysfs.RdmaSysfsError(f"{given['device']}: {why}")
    return gid["index"]


def command(path, given):
    words = [path, "-d", given["device"], "-x", str(gid_index(given)), "-p", str(given["port"])]
    words += ["-D", str(given["seconds"]), "-F", "--report_gbits"]
    words += [f"--use_cuda={given['gpu']}"] if given["gpu"] >= 0 else []
    return words + ([given["server"]] if given["server"] else [])


def measure(words, given):
    """Bandwidth and problem of one end; a client tries again while nobody listens."""
    end = time.monotonic() + given["timeout"]
    attempts = given["connect_attempts"] if given["server"] else 1
    text = ""
    for attempt in range(attempts):
        try:
            # On a timeout `run` ends the process and waits for it, so no end is left behind.
            done = subprocess.run(
                words,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=max(1, end - time.monotonic()),
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None, f"it did not end within {given['timeout']} s, and was ended"
        text = done.stdout
        if done.returncode == 0:
            gbits = perftest.average_gbits(text) if given["server"] else None
            missing = given["server"] and gbits is None
            return gbits, "it ended without a result in Gb/sec" if missing else None
        if "Couldn't connect" not in text or attempt == attempts - 1:
            break
        time.sleep(1)
    return None, perftest.complaint(text) or "it failed without a word"


def main():
    module = AnsibleModule(
        argument_spec={
            "device": {"type": "str", "required": True},
            "server": {"type": "str", "default": ""},
            "network": {"type": "str", "default": ""},
            "port": {"type": "int", "default": 18515},
            "gpu": {"type": "int", "default": -1},
            "seconds": {"type": "int", "default": 5},
            "timeout": {"type": "int", "default": 30},
            "connect_attempts": {"type": "int", "default": 10},
            "sysfs_root": {"type": "path", "default": "/sys"},
        },
        supports_check_mode=True,
    )
    path = module.get_bin_path("ib_write_bw")
    if path is None:
        module.exit_json(changed=False, gbits=None, problem="ib_write_bw is not installed (package perftest)")
    if module.check_mode:
        module.exit_json(changed=False, gbits=None, problem="nothing is measured in check mode")
    try:
        gbits, problem = measure(command(path, module.params), module.params)
    except rdma_sysfs.RdmaSysfsError as error:
        gbits, problem = None, str(error)
    module.exit_json(changed=False, gbits=gbits, problem=problem)


if __name__ == "__main__":
    main()
