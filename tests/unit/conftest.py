"""An emulated object store for all unit tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from object_store import ObjectStore


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """One for all tests that do not stop it or arm faults; each makes buckets of its own."""
    store = ObjectStore(tmp_path_factory.mktemp("object-store"))
    process = store.start()
    yield store
    process.terminate()
    process.wait(30)
