"""The lab of this folder is looked at alike whether it is named by its inventory or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvlab.doctor import collect, hosts
from kvlab.doctor.hosts import Host
from kvlab.doctor.labfacts import LabFacts
from kvlab.errors import KvlabError

LOCAL, REMOTE = (LabFacts(name, True, "", {}) for name in ("local", "remote"))


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state folder of a lab that is here; what each way of collecting finds is told apart by its name."""
    (tmp_path / "lab.json").write_text(json.dumps({"state_dir": str(tmp_path)}))
    monkeypatch.setenv("KVLAB_LAB_FILE", str(tmp_path / "lab.json"))
    monkeypatch.setattr(collect, "_local", lambda *_, **__: LOCAL)
    monkeypatch.setattr(collect, "_remote", lambda *_: REMOTE)
    return tmp_path


def seen(monkeypatch: pytest.MonkeyPatch, *members: Host) -> LabFacts:
    monkeypatch.setattr(hosts, "of_inventory", lambda _: list(members))
    return collect.lab(Path("inventories/any"), lambda _: None)


def here(state: Path | str, name: str = "localhost") -> Host:
    return Host(name, {"ansible_connection": "local", "kvlab_state_dir": str(state)})


def test_the_inventory_of_this_lab_is_this_lab(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert seen(monkeypatch, here(state)) is LOCAL


def test_any_other_inventory_is_looked_at_from_here(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert seen(monkeypatch, here("/var/lib/kvlab")) is REMOTE
    assert seen(monkeypatch, Host("gpu-1", {"kvlab_state_dir": str(state)})) is REMOTE
    assert seen(monkeypatch, here(state), here(state, "other")) is REMOTE
    monkeypatch.setenv("KVLAB_LAB_FILE", str(state / "nowhere.json"))
    assert seen(monkeypatch, here(state)) is REMOTE


def test_bytes_are_moved_in_this_lab_alone(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "of_inventory", lambda _: [Host("gpu-1")])
    with pytest.raises(KvlabError, match="--round-trip"):
        collect.lab(Path("inventories/any"), lambda _: None, round_trip=True)
