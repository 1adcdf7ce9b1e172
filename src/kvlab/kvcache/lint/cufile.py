"""Rules for cufile.json (from client 1.4 on cuobj.json)."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

from kvlab.kvcache import knownkeys
from kvlab.kvcache.lint.document import Document
from kvlab.kvcache.lint.types import Context, Finding, did_you_mean

_LIST = ("properties", "rdma_dev_addr_list")


def check(doc: Document, context: Context, commented: bool) -> Iterator[Finding]:
    """Every finding about a cufile.json."""
    known = knownkeys.data("cufile")
    for key, line in doc.twice:
        yield Finding("CUF001", "error", key, line, f"{key} is given twice.", "Remove one of the two.")
    if commented:
        yield Finding(
            "CUF002",
            "note",
            "",
            0,
            "the file has // comments, which are no JSON.",
            "Write strict JSON without them.",
        )
    for section in doc.values:
        if section not in known["sections"]:
            yield doc.finding(
                "CUF003",
                "error",
                (section,),
                f"there is no section {section}; it is ignored.{did_you_mean(section, known['sections'])}",
                "Correct or remove it.",
            )
    properties = doc.get("properties")
    if not isinstance(properties, dict):
        yield doc.finding(
            "CUF004",
            "error",
            ("properties",),
            "there are no properties.",
            "Add properties.rdma_dev_addr_list.",
        )
        return
    for key, value in properties.items():
        path = ("properties", key)
        if key not in known["properties"]:
            yield doc.finding(
                "CUF005",
                "error",
                path,
                f"there is no property {key}; it is ignored.{did_you_mean(key, known['properties'])}",
                "Correct or remove it.",
            )
        elif key in known["booleans"] and not isinstance(value, bool):
            yield doc.finding(
                "CUF006", "error", path, f"{key} is {value!r}, not true or false.", "Write it without quotes."
            )
    yield from _addresses(doc, properties.get("rdma_dev_addr_list"), context)
    yield from _path_settings(doc, properties, known)


def _addresses(doc: Document, addresses: Any, context: Context) -> Iterator[Finding]:
    if not isinstance(addresses, list) or not addresses:
        yield doc.finding(
            "CUF007",
            "error",
            _LIST,
            "rdma_dev_addr_list is empty or missing: the client does not connect, and data goes over HTTP without a "
            "word.",
            "List the addresses of this host's RDMA NICs.",
        )
        return
    for number, entry in enumerate(addresses):
        path = (*_LIST, str(number))
        bare = str(entry).partition("%")[0]
        try:
            address = ipaddress.ip_address(bare)
        except ValueError:
            yield doc.finding(
                "CUF008",
                "warning" if bare.isidentifier() else "error",
                path,
                f"{entry!r} is not an IP address; device names are taken from client 1.2 on (CUDA 13.3).",
                "Write the NIC's IPv4 address.",
            )
            continue
        if address.is_unspecified or address.is_multicast:
            yield doc.finding(
                "CUF009", "error", path, f"{entry} is no address of a NIC.", "Write the NIC's address."
            )
        elif address.version == 6:
            yield doc.finding(
                "CUF010",
                "warning",
                path,
                f"{entry} is IPv6, which client 1.2 (CUDA 13.3) is the first to take.",
                "Use the NIC's IPv4 address with older clients.",
            )
        if context.addresses is not None and str(address) not in context.addresses:
            yield doc.finding(
                "CUF011",
                "error",
                path,
                f"{entry} is not an address of this host; the list is of the client's own NICs, not of the storage.",
                "List this host's RDMA addresses.",
            )
    if len({str(entry) for entry in addresses}) < len(addresses):
        yield doc.finding("CUF012", "warning", _LIST, "an address is listed twice.", "List each NIC once.")


def _path_settings(doc: Document, properties: dict[str, Any], known: dict[str, Any]) -> Iterator[Finding]:
    compat = properties.get("allow_compat_mode")
    if compat is None or compat is True:
        yield doc.finding(
            "CUF013",
            "error",
            ("properties", "allow_compat_mode"),
            "compatibility mode is allowed"
            + (" by default" if compat is None else "")
            + ": transfers fall back "
            "to bounce copies without an error.",
            "Write allow_compat_mode: false.",
        )
    peer = properties.get("rdma_peer_type")
    if peer is not None and peer not in known["peer_types"]:
        yield doc.finding(
            "CUF014",
            "error",
            ("properties", "rdma_peer_type"),
            f"rdma_peer_type {peer!r} does not exist.{did_you_mean(str(peer), known['peer_types'])}",
            'Write "dmabuf".',
        )
    elif peer != "dmabuf":
        yield doc.finding(
            "CUF015",
            "warning",
            ("properties", "rdma_peer_type"),
            "GPU memory is registered through nvidia-peermem"
            + (" by default" if peer is None else "")
            + ", which "
            "needs that kernel module.",
            'Write rdma_peer_type: "dmabuf" with the open driver.',
        )
    if properties.get("use_pci_p2pdma") is not True:
        yield doc.finding(
            "CUF016",
            "warning",
            ("properties", "use_pci_p2pdma"),
            "use_pci_p2pdma is off (its default).",
            "Write use_pci_p2pdma: true for the Dell engine.",
        )
    if doc.get("execution", "parallel_io") is True:
        yield doc.finding(
            "CUF017",
            "error",
            ("execution", "parallel_io"),
            "parallel_io must be off for cuObject.",
            "Write parallel_io: false.",
        )
