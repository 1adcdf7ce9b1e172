"""The seed-0 model, made once and run by the reference Llama beside this file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from llama import Llama

from kvlab.testmodel.make import contents


@pytest.fixture(scope="session")
def files() -> dict[str, bytes]:
    return contents(0)


@pytest.fixture(scope="session")
def model(files: dict[str, bytes]) -> Llama:
    return Llama.of(files)
