"""Options of the integration suite.

They stand here and not beside the suite: before pytest knows them it takes the value of `--inventory inventories/my-lab`
for a folder of tests, and reads no other conftest.py than those of that folder and above it.
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
