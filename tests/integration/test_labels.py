"""A result of a lab with stand-ins says so wherever it is read."""

from __future__ import annotations

import pytest
from harness import Bench

from kvlab.serving.lab import Lab

pytestmark = pytest.mark.integration


def test_every_test_of_this_lab_carries_its_label(lab: Lab, request: pytest.FixtureRequest) -> None:
    properties = dict(request.node.user_properties)
    assert properties["simulated"] == str(lab.simulated).lower()
    assert properties["kvlab_lab"] == str(lab.file)


def test_the_library_that_serving_programs_load_itself_says_whether_it_is_the_stand_in(bench: Bench) -> None:
    found = bench.probe("cuobject_library", {})
    assert found["error"] is None
    assert found["simulated"] is bench.lab.simulated
