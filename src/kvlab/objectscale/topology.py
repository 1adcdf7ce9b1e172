"""What the array is: release, nodes and their data addresses, replication groups, licence."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kvlab.errors import KvlabError
from kvlab.objectscale.errors import ForbiddenError, UnsupportedError
from kvlab.objectscale.management import Management
from kvlab.objectscale.plan import Document

_GROUPS = "/vdc/data-service/vpools"


@dataclass(frozen=True)
class Node:
    """A data node. `data_addresses` are where S3 listens, one or two."""

    name: str
    version: str
    status: str
    data_addresses: tuple[str, ...]


def nodes(api: Management) -> list[Node]:
    """The array's nodes; raises UnsupportedError for a release that this client does not know."""
    said = api.read("/vdc/nodes", "nodes")
    found = [_node(node) for node in said.get("node") or ()]
    if not found:
        raise UnsupportedError(
            f"{api.access.address} lists no node, so its release is unknown; ask its administrator"
        )
    for version in sorted({node.version for node in found}):
        require_supported(version, api.access.address)
    return found


def require_supported(version: str, address: str) -> None:
    """ObjectScale 4.x and ECS 3.8 or newer 3.x share this API (facts/objectscale.md 1.1)."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if not numbers or not ((3, 8) <= (int(numbers[1]), int(numbers[2])) < (5, 0)):
        raise UnsupportedError(
            f"{address} runs release {version or 'unknown'}; this client knows ECS 3.8 and ObjectScale 4.x. Use the S3 "
            "API alone (objectscale_management: false), or a release that it knows"
        )


def replication_groups(api: Management) -> dict[str, str]:
    """URN of each replication group, by name."""
    said = api.read(_GROUPS, "replication groups")
    return {str(group["name"]): str(group["id"]) for group in said.get("data_service_vpool") or ()}


def group_urn(api: Management, group: str) -> str:
    """The URN of a group that is given by name or by URN. The array is asked once a play."""
    if group.startswith("urn:"):
        return group
    known = api.login().replication_groups
    if group not in known:
        known = replication_groups(api)
        api.remember_groups(known)
    if group not in known:
        there = ", ".join(sorted(known)) or "none"
        raise KvlabError(
            f"{api.access.address} has no replication group {group} (it has: {there}); correct the name, or let an "
            "administrator make it"
        )
    return known[group]


def vdc_name(api: Management) -> str:
    return str(api.read("/object/vdcs/vdc/local", "local virtual data center").get("vdcName") or "")


def licence(api: Management) -> list[Document] | None:
    """The licensed features; None where this release has no such call, or does not let this user ask.

    The call is in no published document of 4.x; clients of ECS use it.
    """
    try:
        said = api.find("/license", "licence")
    except (UnsupportedError, ForbiddenError):
        return None
    return None if said is None else [dict(feature) for feature in said.get("license_feature") or ()]


def _node(node: Document) -> Node:
    given = [node.get(name) for name in ("data_ip", "data2_ip")]
    addresses = tuple(dict.fromkeys(address for address in given if address)) or (node.get("ip", ""),)
    return Node(node.get("nodename", ""), node.get("version", ""), node.get("status", ""), addresses)
