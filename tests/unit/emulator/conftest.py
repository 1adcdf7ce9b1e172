"""Fixtures: a running emulator per test module, and boto3 clients for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from emulator_helpers import Emulator

from kvlab.emulator.dialect import OBJECTSCALE, Dialect
from kvlab.emulator.service import Service
from kvlab.emulator.store import Store
from kvlab.emulator.users import UserStore


@pytest.fixture(scope="session", autouse=True)
def _no_outside_settings() -> Iterator[None]:
    """The developer's own AWS settings must not decide these tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [n for n in os.environ if n.startswith("AWS_")]:
            patch.delenv(name)
        for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
            patch.setenv(name, os.devnull)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield


@pytest.fixture
def make_emulator(tmp_path: Path) -> Iterator[Callable[..., Emulator]]:
    """Start emulators of one's own: `make_emulator("--dialect", "aws")`."""
    made: list[Emulator] = []

    def make(*arguments: str) -> Emulator:
        folder = tmp_path / f"emulator{len(made)}"
        folder.mkdir()
        made.append(Emulator(folder, list(arguments)))
        return made[-1].start()

    yield make
    for emulator in made:
        emulator.kill()


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """One emulator in ObjectScale's dialect for the module."""
    running = Emulator(tmp_path_factory.mktemp("emulator")).start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """One emulator in AWS's dialect for the module."""
    running = Emulator(tmp_path_factory.mktemp("aws"), ["--dialect", "aws"]).start()
    yield running
    running.stop()


@pytest.fixture
def s3(emulator: Emulator) -> Any:
    return emulator.client()


_count = iter(range(10**6))


@pytest.fixture
def bucket(s3: Any) -> str:
    """A new bucket of the user kvlab."""
    name = f"bucket-{next(_count)}"
    s3.create_bucket(Bucket=name)
    return name


@pytest.fixture
def make_service(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """A Service without a front end, on a state folder of its own."""
    made: list[Service] = []

    def make(dialect: Dialect = OBJECTSCALE) -> Service:
        store = Store(tmp_path / f"service{len(made)}", utf16_order=dialect.utf16_order, fsync=False)
        made.append(Service(store, UserStore(), dialect))
        return made[-1]

    yield make
    for service in made:
        service.close()
