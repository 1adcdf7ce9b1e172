# SPDX-License-Identifier: Apache-2.0
"""The output of `gdscheck -p`, and what in it speaks against cuObject. Pure, standard library only."""

from __future__ import annotations

import re

_VERSION = re.compile(r"(GDS release|nvidia_fs|libcufile) version:\s+(\d\S*)")
_SUPPORT = re.compile(r"^\s*([A-Za-z][\w .-]*?)\s*:\s*(Supported|Unsupported|compat.*?)\s*$", re.IGNORECASE)
_DETAIL = re.compile(r"^\s*--\s*(.+?)\s*:\s*(.+?)\s*$")
_PROPERTY = re.compile(
    r"^\s*((?:properties|fs|execution|profile|miscellaneous|rdma)\.[\w.]+)\s*:\s*(.*?)\s*$"
)
_STATUS = re.compile(r"Up:\s*(\d+)\s+Down:\s*(\d+)")


def parse(text):
    """{"versions", "support", "rdma", "settings"}, each {name: text}.

    `support` has the kinds of storage and "Userspace RDMA"; `rdma` the lines below it, such as "Mellanox PeerDirect",
    "DmaBuf support", "rdma devices" and "rdma_device_status"; `settings` the effective cufile.json.
    """
    found = {"versions": {}, "support": {}, "rdma": {}, "settings": {}}
    for line in text.splitlines():
        found["versions"].update(
            (name.replace("GDS release", "gds"), value) for name, value in _VERSION.findall(line)
        )
        for kind, pattern in (("settings", _PROPERTY), ("rdma", _DETAIL), ("support", _SUPPORT)):
            match = pattern.match(line)
            if match:
                found[kind][match[1]] = match[2]
                break
    return found


def problems(found, kind):
    """Sentences on what gdscheck says against RDMA with this `rdma_peer_type`; what it does not say is no problem.

    They are a hint and no proof: it answers for GPUDirect Storage's files, and cuObject has its own library.
    """
    rdma = found["rdma"]
    wanted = r"dma-?buf" if kind == "dmabuf" else r"PeerDirect"
    for name, value in rdma.items():
        if re.search(wanted, name, re.IGNORECASE) and value.lower() == "disabled":
            yield f"gdscheck calls {name} disabled, and rdma_peer_type is {kind}"
    if rdma.get("rdma library", "").lower().startswith("not loaded"):
        yield "gdscheck cannot load libcufile_rdma.so; install the release of libcufile that the toolkit has"
    if rdma.get("rdma devices", "").lower().startswith("not configured"):
        yield "gdscheck sees no address in rdma_dev_addr_list"
    status = _STATUS.search(rdma.get("rdma_device_status", rdma.get("rdma_dev_addr_list_status", "")))
    if status and int(status[2]):
        yield f"gdscheck finds {status[2]} of the addresses' devices down"
