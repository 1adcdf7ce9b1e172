"""Fixtures of the integration suite: it fails, and never skips, when the lab is not up."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from harness import Bench, Tell
from serving import Server, start

from kvlab.errors import KvlabError
from kvlab.probes import s3_bucket
from kvlab.serving import health, profiles
from kvlab.serving import lab as labs
from kvlab.serving.supervisor import Supervisor


@pytest.fixture(scope="session")
def tell(request: pytest.FixtureRequest) -> Tell:
    """Print a progress line past pytest's capture."""
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    capture = request.config.pluginmanager.get_plugin("capturemanager")

    def line(text: str) -> None:
        with capture.global_and_fixture_disabled():
            reporter.ensure_newline()
            reporter.write_line(f"    {text}")

    return line


@pytest.fixture(scope="session")
def lab(request: pytest.FixtureRequest) -> labs.Lab:
    """The lab that `./lab up` brought up."""
    found, problem = _lab_that_is_up()
    if found is None:
        # Every test would say the same sentence: the first is enough.
        request.session.shouldfail = f"the lab is not up: {problem}"
        pytest.fail(problem, pytrace=False)
    return found


def _lab_that_is_up() -> tuple[labs.Lab | None, str]:
    """The lab, or the sentence that says why there is none."""
    try:
        found = labs.load()
    except KvlabError as error:
        return None, str(error)
    if not Supervisor(found.state_dir).alive():
        return None, "the lab is down; run ./lab up first"
    if not health.answers(found.data["endpoint"]):
        return None, f"no object store answers at {found.data['endpoint']}; run ./lab up first"
    return found, ""


@pytest.fixture(scope="session", autouse=True)
def suite_labels(lab: labs.Lab, record_testsuite_property: pytest.FixtureRequest) -> None:
    """Label the suite in JUnit's output."""
    record_testsuite_property("simulated", str(lab.simulated).lower())  # type: ignore[operator]
    record_testsuite_property("kvlab_lab", str(lab.file))  # type: ignore[operator]


@pytest.fixture(autouse=True)
def labels(lab: labs.Lab, record_property: pytest.FixtureRequest) -> None:
    """Label every test in JUnit's output."""
    record_property("simulated", str(lab.simulated).lower())  # type: ignore[operator]
    record_property("kvlab_lab", str(lab.file))  # type: ignore[operator]


@pytest.fixture(scope="session")
def session_bench(lab: labs.Lab, tell: Tell) -> Bench:
    """The bench for what is collected once and judged by many tests."""
    store = s3_bucket.client(lab.data["endpoint"], lab.data["region"], lab.data["secrets_file"])
    return Bench(lab, store, tell)


@pytest.fixture
def bench(session_bench: Bench, record_property: object) -> Bench:
    """The bench whose findings land in this test's JUnit properties."""
    return Bench(session_bench.lab, session_bench.s3, session_bench.tell, record_property)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def start_profile(session_bench: Bench) -> Iterator[Callable[[str], Server]]:
    """Start a profile afresh; at the end the one that ran before (else the inventory's) is restored."""
    lab = session_bench.lab
    before = profiles.running(lab) or lab.configured_profile
    yield lambda name: start(session_bench, name)
    session_bench.tell(f"profile {before}: restoring")
    profiles.use(lab, before, restart=profiles.running(lab) != before, progress=session_bench.tell)
