#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: the NIC nearest to each GPU, and the addresses that cuObject is to use."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpu_topology_facts
short_description: Find the nearest usable NIC of each GPU
version_added: "0.1.0"
description:
  - Read-only. Joins C(nvidia-smi topo -m) with the RDMA devices in sysfs. A NIC is usable when a port of it is active,
    its link layer is Ethernet and it has a routable RoCE v2 GID with an IPv4 address.
  - Each GPU gets the usable NIC at the smallest distance, in the order PIX, PXB, PHB, NODE, SYS. Where several are
    equally near, GPUs are spread over them.
  - It warns of a GPU whose nearest NIC is across the interconnect between CPUs (SYS), of a nearer NIC that cannot be
    used and why, and when there is no address at all, for with an empty list cuObject falls back to HTTP in silence.
options:
  exclude:
    description: RDMA devices or netdevs that are not for storage traffic, such as those of the management network.
    type: list
    elements: str
    default: []
  networks:
    description: Networks that the addresses must be in, such as 192.0.2.0/24; empty for any.
    type: list
    elements: str
    default: []
  sysfs_root:
    description: Where sysfs is.
    type: path
    default: /sys
author: kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Find the NIC of each GPU
  kvlab.lab.gpu_topology_facts:
    exclude: [mlx5_bond_0]
    networks: [192.0.2.0/24]
  register: __gpudirect_topology

- name: Show what cuobj.json gets
  ansible.builtin.debug:
    var: __gpudirect_topology.rdma_dev_addr_list
"""

RETURN = r"""
gpus:
  description:
    - The GPUs in nvidia-smi's order, each with C(gpu), C(cpu_affinity), C(numa_node) and, of its NIC, C(nic),
      C(distance), C(port), C(netdev), C(address) and C(gid_index). These six are null where no NIC is usable.
  type: list
  elements: dict
  returned: always
nics:
  description: The NICs of the matrix, each with C(nic), C(usable) and C(reason), which says why it is not usable.
  type: list
  elements: dict
  returned: always
rdma_dev_addr_list:
  description: IPv4 addresses of the chosen NICs, each once, in the order of the GPUs.
  type: list
  elements: str
  returned: always
problems:
  description: The sentences that the module warns with.
  type: list
  elements: str
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kvlab.lab.plugins.module_utils import gpu_topology, rdma_sysfs

NO_NIC = dict.fromkeys(("port", "netdev", "address", "gid_index"))


def matrix(module):
    """What nvidia-smi says of the host; a host on which it finds no GPU has none."""
    command = module.get_bin_path("nvidia-smi")
    if command is None:
        module.fail_json(msg="nvidia-smi is not on this host; install the NVIDIA driver first")
    status, out, complaint = module.run_command([command, "topo", "-m"])
    if "No devices were found" in out + complaint:
        return {"gpus": [], "nics": [], "links": {}}
    if status:
        said = " ".join((complaint or out).split())
        module.fail_json(
            msg=f"nvidia-smi topo -m ended with {status}: {said or 'no word why'}; repair the driver first"
        )
    try:
        return gpu_topology.parse(out)
    except gpu_topology.TopologyError as error:
        module.fail_json(msg=f"nvidia-smi topo -m is not understood: {error}")


def usable_port(device, exclude, networks):
    """The port of a device to use and None, or None and the sentence why there is none."""
    reason = "it has no port"
    for port in device["ports"]:
        gid, problem = rdma_sysfs.choose_gid(port, networks)
        if device["name"] in exclude or port["netdev"] in exclude:
            reason = "it is excluded"
        elif port["state"] != "ACTIVE":
            reason = f"its port {port['port']} is {port['state']}"
        elif gid is None:
            reason = problem
        elif gid["ipv4"] is None:
            reason = f"{port['netdev']} has no IPv4 address"
        else:
            chosen = {"netdev": port["netdev"], "address": gid["ipv4"], "gid_index": gid["index"]}
            return {"port": port["port"], **chosen}, None
    return None, reason


def problems_of(links, assigned, reasons):
    """A sentence for each GPU that has no near NIC, or not the nearest."""
    for gpu, (nic, distance) in assigned.items():
        barred, closest = gpu_topology.nearest(links[gpu], list(reasons))
        further = len(gpu_topology.DISTANCES) if nic is None else gpu_topology.DISTANCES.index(distance)
        if barred and gpu_topology.DISTANCES.index(closest) < further:
            why = "; ".join(f"{name}: {reasons[name]}" for name in barred)
            have = f"{nic} ({distance}) is used" if nic else "no other is usable"
            yield f"{gpu} has a nearer NIC ({closest}) that cannot be used, {why}; {have}"
        if distance == "SYS":
            yield (
                f"{gpu} reaches {nic} only across the interconnect between CPUs (SYS); bring up a NIC on its own "
                "CPU's side"
            )


def main():
    module = AnsibleModule(
        argument_spec={
            "exclude": {"type": "list", "elements": "str", "default": []},
            "networks": {"type": "list", "elements": "str", "default": []},
            "sysfs_root": {"type": "path", "default": "/sys"},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    found = matrix(module)
    ports, reasons = {}, {}
    try:
        devices = {device["name"]: device for device in rdma_sysfs.devices(wanted["sysfs_root"])}
        for nic in found["nics"]:
            port, reason = None, f"{wanted['sysfs_root']} has no RDMA device of this name"
            if nic in devices:
                port, reason = usable_port(devices[nic], wanted["exclude"], wanted["networks"])
            if port:
                ports[nic] = port
            else:
                reasons[nic] = reason
    except rdma_sysfs.RdmaSysfsError as error:
        module.fail_json(msg=str(error))
    assigned = gpu_topology.assign(found["links"], list(ports))
    problems = list(problems_of(found["links"], assigned, reasons))
    gpus = []
    for gpu in found["gpus"]:
        nic, distance = assigned[gpu["gpu"]]
        gpus.append({**gpu, "nic": nic, "distance": distance, **ports.get(nic, NO_NIC)})
    addresses = list(dict.fromkeys(gpu["address"] for gpu in gpus if gpu["address"]))
    if gpus and not addresses:
        problems.append(
            "no GPU has a usable NIC, so rdma_dev_addr_list is empty, with which cuObject uses HTTP in silence"
        )
    for problem in problems:
        module.warn(problem)
    nics = [{"nic": nic, "usable": nic in ports, "reason": reasons.get(nic)} for nic in found["nics"]]
    module.exit_json(changed=False, gpus=gpus, nics=nics, rdma_dev_addr_list=addresses, problems=problems)


if __name__ == "__main__":
    main()
