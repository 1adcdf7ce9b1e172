"""Fixtures for the software cuObject: built once a session with the machine's own compiler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cuobject_driver import Build, Client, build_driver, build_library, write_config


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Build]:
    done: dict[str, Build] = {}

    def get(sanitizer: str) -> Build:
        if sanitizer not in done:
            done[sanitizer] = build_driver(sanitizer, tmp_path_factory.mktemp(f"cuobject-{sanitizer}"))
        return done[sanitizer]

    return get


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library as users have it."""
    return build_library(tmp_path_factory.mktemp("cuobject"))


@pytest.fixture(scope="session")
def build(builds: Callable[[str], Build]) -> Build:
    """The build that most tests run: under AddressSanitizer, which ends a driver that errs."""
    return builds("address")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write_config(tmp_path / "cufile.json")


@pytest.fixture
def client(build: Build, config: Path) -> Iterator[Client]:
    """A driver with one connected client, number 0, whose tcp transport is on."""
    with Client(build, config, KVLAB_CUOBJ_TCP="1") as driver:
        assert driver.ask("new") == ["0", "1"]
        yield driver
