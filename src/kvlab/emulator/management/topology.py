"""What the array is: replication groups, nodes, virtual data centre, licence, base URLs, capacity."""

from __future__ import annotations

import shutil
import uuid
from typing import Any

from kvlab.emulator.addressing import BaseUrl
from kvlab.emulator.management.ask import Answer, Array, Ask, flag, text
from kvlab.emulator.management.errors import ApiError, not_found
from kvlab.emulator.management.records import Document

_NAMES = uuid.UUID("6f1d2c3e-9a6b-5c1e-8f0a-2b7c4d5e6f70")
_BASE_URL = "base url"


def _uuid(*words: str) -> str:
    return str(uuid.uuid5(_NAMES, "/".join(words)))


def group_ids(array: Array) -> dict[str, str]:
    """Name of each replication group by its URN."""
    return {
        f"urn:storageos:ReplicationGroupInfo:{_uuid('group', name)}:global": name
        for name in array.setup.replication_groups
    }


def known_group(array: Array, urn: Any) -> str:
    """The URN, if it is that of a replication group."""
    if not isinstance(urn, str) or urn not in group_ids(array):
        raise not_found(str(urn))
    return str(urn)


def _vdc(array: Array) -> str:
    return f"urn:storageos:VirtualDataCenterData:{_uuid('vdc', array.setup.vdc)}"


def _group(array: Array, urn: str, name: str) -> Document:
    pool = f"urn:storageos:VirtualArray:{_uuid('pool')}"
    return {
        "name": name,
        "id": urn,
        "link": {"rel": "self", "href": f"/vdc/data-service/vpools/{urn}"},
        "description": "simulated",
        "varrayMappings": [{"name": _vdc(array), "value": pool, "is_replication_target": False}],
        "enable_rebalancing": True,
        "isAllowAllNamespaces": True,
        "isFullRep": False,
        "use_replication_target": False,
        "inactive": False,
        "global": True,
        "remote": False,
        "internal": False,
    }


def list_groups(ask: Ask) -> Answer:
    groups = [_group(ask.array, urn, name) for urn, name in group_ids(ask.array).items()]
    return Answer({"data_service_vpool": groups}, "data_service_vpools")


def read_group(ask: Ask) -> Answer:
    urn = known_group(ask.array, ask.place["id"])
    return Answer(_group(ask.array, urn, group_ids(ask.array)[urn]), "data_service_vpool")


def nodes(ask: Ask) -> Answer:
    """One node for each data address."""
    setup = ask.array.setup
    found = [
        {
            "nodename": f"node{number}.{setup.vdc}.kvlab.simulated",
            "ip": address,
            "mgmt_ip": address,
            "geo_ip": address,
            "data_ip": address,
            "data2_ip": address,
            "private_ip": address,
            "nodeid": _uuid("node", str(number)),
            "rackId": "simulated",
            "version": setup.version,
            "isLocal": True,
            "status": "GOOD",
        }
        for number, address in enumerate(setup.node_addresses, start=1)
    ]
    return Answer({"node": found}, "nodes")


def local_vdc(ask: Ask) -> Answer:
    return Answer(_vdc_document(ask.array), "vdc")


def list_vdcs(ask: Ask) -> Answer:
    return Answer({"vdc": [_vdc_document(ask.array)]}, "vdcs")


def _vdc_document(array: Array) -> Document:
    addresses = ",".join(array.setup.node_addresses)
    return {
        "vdcId": _vdc(array),
        "vdcName": array.setup.vdc,
        "name": array.setup.vdc,
        "id": _vdc(array),
        "interVdcEndPoints": addresses,
        "managementEndPoints": addresses,
        "permanentlyFailed": False,
        "local": True,
        "hosted": False,
        "is_encryption_enabled": False,
    }


def licence(_ask: Ask) -> Answer:
    """In no published document of 4.x; ECS has it."""
    feature = {"model": "kvlab emulator (simulated)", "licensed_ind": True, "expired_ind": False}
    return Answer({"license_feature": [feature]}, "license")


def capacity(ask: Ask) -> Answer:
    """Of the disk under the state folder, in GB."""
    disk = shutil.disk_usage(ask.array.service.store.path(""))
    return Answer({"totalProvisioned_gb": disk.total >> 30, "totalFree_gb": disk.free >> 30}, "capacity")


def list_base_urls(ask: Ask) -> Answer:
    entries = [
        {"id": urn, "name": found["name"], "link": _base_link(urn)}
        for urn, found in ask.records.all(_BASE_URL).items()
    ]
    return Answer({"base_url": entries}, "base_urls")


def read_base_url(ask: Ask) -> Answer:
    return Answer(_base(ask), "base_url")


def create_base_url(ask: Ask) -> Answer:
    ask.need_system()
    name, host = text(ask.body, "name"), text(ask.body, "base_url").lower()
    if any(found["baseurl"] == host for found in ask.records.all(_BASE_URL).values()):
        raise ApiError(1015, f"A base URL {host} already exists")
    urn = f"urn:ObjectBaseUrl:{_uuid('base url', host)}"
    made: Document = {"id": urn, "name": name, "link": _base_link(urn), "baseurl": host}
    made["namespace_in_host"] = flag(ask.body, "is_namespace_in_host")
    ask.records.put(_BASE_URL, urn, made)
    publish_base_urls(ask.array)
    return Answer(made, "base_url")


def update_base_url(ask: Ask) -> Answer:
    ask.need_system()
    found = _base(ask)
    found |= {"name": text(ask.body, "name"), "baseurl": text(ask.body, "base_url").lower()}
    found["namespace_in_host"] = flag(ask.body, "is_namespace_in_host")
    ask.records.put(_BASE_URL, found["id"], found)
    publish_base_urls(ask.array)
    return Answer()


def remove_base_url(ask: Ask) -> Answer:
    ask.need_system()
    ask.records.remove(_BASE_URL, _base(ask)["id"])
    publish_base_urls(ask.array)
    return Answer()


def publish_base_urls(array: Array, given: tuple[BaseUrl, ...] | None = None) -> None:
    """Let S3 know the base URLs: those `given` at start, once, and those that are kept."""
    if given is not None:
        for base in given:
            urn = f"urn:ObjectBaseUrl:{_uuid('base url', base.name)}"
            made: Document = {"id": urn, "name": base.name, "link": _base_link(urn), "baseurl": base.name}
            array.records.put(_BASE_URL, urn, made | {"namespace_in_host": base.namespace_in_host})
    kept = array.records.all(_BASE_URL).values()
    array.service.base_urls[:] = [
        BaseUrl(found["baseurl"], namespace_in_host=found["namespace_in_host"]) for found in kept
    ]


def _base(ask: Ask) -> Document:
    found = ask.records.get(_BASE_URL, ask.place["id"])
    if found is None:
        raise not_found(ask.place["id"])
    return found


def _base_link(urn: str) -> Document:
    return {"rel": "self", "href": f"/object/baseurl/{urn}"}
