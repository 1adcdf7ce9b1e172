"""Options of the integration suite.

They stand here, not beside the suite: before it knows them pytest takes the value in `--inventory inventories/my-lab`
for a folder of tests, and reads the conftest.py of that folder and above it, and no other.
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kvlab")
    group.addoption("--inventory", help="Inventory of the lab to prove (default: inventories/local).")
    group.addoption(
        "--require-hardware", action="store_true", help="What lacks its hardware fails, not skips."
    )
    group.addoption("--destructive", action="store_true", help="Allow tests that disturb a lab that is real.")
    group.addoption(
        "--soak", type=int, default=0, metavar="SECONDS", help="How long the soak test transfers."
    )
