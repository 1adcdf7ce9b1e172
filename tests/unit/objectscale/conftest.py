"""Fixtures for the client of the management API."""

from __future__ import annotations

import pytest
from management_array import Array


@pytest.fixture
def array() -> Array:
    return Array()
