"""Fixtures for the software cuObject: built once a session with the machine's own compiler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cuobject_driver import Build, Client, build, write_config


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Build]:
    done: dict[str, Build] = {}

    def get(kind: str) -> Build:
        if kind not in done:
            done[kind] = build(kind, tmp_path_factory.mktemp(f"cuobject-{kind}"))
        return done[kind]

    return get


@pytest.fixture(scope="session")
def plain(builds: Callable[[str], Build]) -> Build:
    return builds("plain")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write_config(tmp_path / "cufile.json")


@pytest.fixture
def client(plain: Build, config: Path) -> Iterator[Client]:
    """A driver with one connected client, number 0, whose tcp transport is on."""
    with Client(plain, config, KVLAB_CUOBJ_TCP="1") as driver:
        assert driver.ask("new") == ["0", "1"]
        yield driver
