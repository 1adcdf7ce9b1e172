"""What the array is, and which releases are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from management_array import ACCESS, Array, error

from kvlab.errors import KvlabError
from kvlab.objectscale import topology
from kvlab.objectscale.errors import LicenceError, UnsupportedError
from kvlab.objectscale.session import SessionFile

GROUPS = "GET /vdc/data-service/vpools"
TWO = {"data_service_vpool": [{"name": "rg1", "id": "urn:1"}, {"name": "rg2", "id": "urn:2"}]}


def nodes_of(array: Array, *nodes: dict[str, Any]) -> list[topology.Node]:
    array.tell("GET /vdc/nodes", {"node": list(nodes)})
    with array.management() as api:
        return topology.nodes(api)


def test_a_node_s_data_addresses_are_where_s3_listens(array: Array) -> None:
    version = "4.1.0.0.141552.bad1f62dd07"
    two = {"nodename": "n1", "ip": "192.0.2.1", "data_ip": "198.51.100.1", "data2_ip": "203.0.113.1"}
    one = {"nodename": "n2", "ip": "192.0.2.2", "data_ip": "198.51.100.2", "data2_ip": "198.51.100.2"}
    none = {"nodename": "n3", "ip": "192.0.2.3", "data_ip": "", "data2_ip": None}
    found = nodes_of(array, *({**node, "version": version, "status": "Good"} for node in (two, one, none)))
    assert [node.data_addresses for node in found] == [
        ("198.51.100.1", "203.0.113.1"),
        ("198.51.100.2",),
        ("192.0.2.3",),
    ]
    assert found[0] == topology.Node("n1", version, "Good", ("198.51.100.1", "203.0.113.1"))


@pytest.mark.parametrize("version", ["3.8.0.1", "3.9.0", "4.0.0.0.1", "4.1.0.0.141552.bad1f62dd07"])
def test_releases_that_are_known(version: str) -> None:
    topology.require_supported(version, "https://array")


@pytest.mark.parametrize("version", ["", "1.3.0", "3.7.0.9", "5.0.0.0", "10.1", "next"])
def test_releases_that_are_not_known_are_refused(version: str) -> None:
    with pytest.raises(UnsupportedError, match="this client knows ECS 3.8 and ObjectScale 4.x"):
        topology.require_supported(version, "https://array")


def test_one_node_of_an_unknown_release_is_enough_to_refuse(array: Array) -> None:
    with pytest.raises(UnsupportedError, match="release 3.6.2.0"):
        nodes_of(array, {"version": "4.1.0.0"}, {"version": "3.6.2.0"})


def test_an_array_without_nodes_is_refused(array: Array) -> None:
    with pytest.raises(UnsupportedError, match="lists no node"):
        nodes_of(array)


def test_a_group_is_looked_up_once_a_play(array: Array, tmp_path: Path) -> None:
    array.tell(GROUPS, TWO)
    for name, urn in (("rg1", "urn:1"), ("rg2", "urn:2"), ("rg1", "urn:1")):
        with array.management(SessionFile(tmp_path / "session")) as api:
            assert topology.group_urn(api, name) == urn
    assert array.calls == [GROUPS]


def test_a_urn_is_taken_as_it_is(array: Array) -> None:
    with array.management() as api:
        assert topology.group_urn(api, "urn:storageos:x") == "urn:storageos:x"
    assert array.calls == []


def test_an_unknown_group_is_told_with_those_that_are_there(array: Array) -> None:
    array.tell(GROUPS, TWO)
    with array.management() as api, pytest.raises(KvlabError) as raised:
        topology.group_urn(api, "rg3")
    assert str(raised.value) == (
        f"{ACCESS.address} has no replication group rg3 (it has: rg1, rg2); correct the name, or let an administrator "
        "make it"
    )


def test_the_local_data_center_has_a_name(array: Array) -> None:
    array.tell("GET /object/vdcs/vdc/local", {"vdcName": "vdc1"}, {})
    with array.management() as api:
        assert topology.vdc_name(api) == "vdc1"
        assert topology.vdc_name(api) == ""


def test_the_licence_is_unknown_where_the_release_has_no_such_call(array: Array) -> None:
    feature = {"model": "x", "licensed_ind": True, "expired_ind": False}
    array.tell("GET /license", {"license_feature": [feature], "license_text": "long"}, error(404, 2000))
    with array.management() as api:
        assert topology.licence(api) == [feature]
        assert topology.licence(api) is None
        array.tell("GET /license", error(405, 1007), error(403, 3000))
        assert topology.licence(api) is None
        assert topology.licence(api) is None


def test_an_invalid_licence_is_an_error(array: Array) -> None:
    array.tell("GET /license", error(403, 3001))
    with array.management() as api, pytest.raises(LicenceError):
        topology.licence(api)
