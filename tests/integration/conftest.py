"""Fixtures of the integration suite: it fails, and never skips, when the lab is not up.

The suite runs once for each GPU host of the inventory (--inventory; default: the local lab). Its options stand in the
conftest.py at the root.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import labhosts
import needs
import pytest
from harness import Bench, Log, Tell, witness
from serving import Server, runner_of, start

from kvlab.errors import KvlabError
from kvlab.serving import health
from kvlab.serving import lab as labs
from kvlab.serving.supervisor import Supervisor

ROOT = Path(__file__).parents[2]
LAB_JSON = Path("/etc/kvlab/lab.json")  # where systemd runs the programs
ELSEWHERE = (
    "inconclusive: vLLM is managed elsewhere (kvlab_serving_mode: external), and this suite starts and stops profiles "
    "and looks into their processes; `kvlab doctor` judges what its addresses answer, and "
    "`python -m kvlab.serving.smoke` sends it a prompt twice"
)


def pytest_configure(config: pytest.Config) -> None:
    # testinfra calls ansible and ansible-inventory by name.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test for each GPU host; with a single one the names of the tests stay short."""
    if "gpu_host" not in metafunc.fixturenames:
        return
    hosts = inventory_of(metafunc.config).gpu_hosts
    if len(hosts) > 1:
        metafunc.parametrize("gpu_host", hosts, indirect=True, scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    needs.slow(config, items)


_INVENTORY = pytest.StashKey[labhosts.Inventory]()
_LABELLED = pytest.StashKey[list[bool]]()


def inventory_of(config: pytest.Config) -> labhosts.Inventory:
    """The inventory that --inventory names, read once."""
    if _INVENTORY not in config.stash:
        given = config.getoption("--inventory", None)
        try:
            config.stash[_INVENTORY] = labhosts.load(Path(given) if given else ROOT / labhosts.LOCAL)
        except KvlabError as error:
            raise pytest.UsageError(str(error)) from error
    return config.stash[_INVENTORY]


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
def inventory(request: pytest.FixtureRequest) -> labhosts.Inventory:
    """The inventory of the lab."""
    return inventory_of(request.config)


@pytest.fixture(scope="session")
def all_hosts(inventory: labhosts.Inventory) -> Iterator[dict[str, labhosts.Host]]:
    """Every host of the inventory's two groups, by name; what the suite brought there is removed at the end."""
    names = dict.fromkeys([*inventory.gpu_hosts, *inventory.object_stores])
    hosts = {name: inventory.host(name) for name in names}
    yield hosts
    for host in hosts.values():
        host.close()


@pytest.fixture(scope="session")
def gpu_host(
    request: pytest.FixtureRequest, inventory: labhosts.Inventory, all_hosts: dict[str, labhosts.Host]
) -> labhosts.Host:
    """The GPU host that is proved."""
    return all_hosts[getattr(request, "param", inventory.gpu_hosts[0])]


@pytest.fixture(scope="session")
def lab(request: pytest.FixtureRequest, gpu_host: labhosts.Host) -> labs.Lab:
    """The lab that site.yml brought up on the host."""
    found, problem = _lab_that_is_up(gpu_host)
    if found is None:
        if gpu_host.local:
            # Every test would say the same sentence: the first is enough.
            request.session.shouldfail = problem if problem is ELSEWHERE else f"the lab is not up: {problem}"
        pytest.fail(problem, pytrace=False)
    return found


def _lab_that_is_up(host: labhosts.Host) -> tuple[labs.Lab | None, str]:
    """The lab, or the sentence that says why there is none."""
    try:
        if not host.local:
            found = labs.Lab(LAB_JSON, labhosts.as_json(host.read(str(LAB_JSON)), f"{host.name}:{LAB_JSON}"))
            return (None, ELSEWHERE) if found.data.get("serving_mode") == "external" else (found, "")
        found = labs.load()
    except KvlabError as error:
        return None, str(error)
    if found.data.get("serving_mode") == "external":
        return None, ELSEWHERE
    if not Supervisor(found.state_dir).alive():
        return None, "the lab is down; run ./lab up first"
    if not health.answers(found.data["endpoint"]):
        return None, f"no object store answers at {found.data['endpoint']}; run ./lab up first"
    return found, ""


@pytest.fixture(scope="session", autouse=True)
def suite_labels(
    request: pytest.FixtureRequest,
    lab: labs.Lab,
    inventory: labhosts.Inventory,
    record_testsuite_property: Callable[[str, object], None],
) -> None:
    """Label the suite in JUnit's output, once for all hosts."""
    if request.config.stash.setdefault(_LABELLED, []):
        return
    request.config.stash[_LABELLED].append(True)
    record_testsuite_property("simulated", str(lab.simulated).lower())
    record_testsuite_property("kvlab_lab", str(lab.file))
    record_testsuite_property("inventory", inventory.path.name)


@pytest.fixture(autouse=True)
def labels(lab: labs.Lab, gpu_host: labhosts.Host, record_property: Callable[[str, object], None]) -> None:
    """Label every test in JUnit's output."""
    record_property("simulated", str(lab.simulated).lower())
    record_property("kvlab_lab", str(lab.file))
    record_property("host", gpu_host.name)


@pytest.fixture(scope="session")
def session_bench(
    lab: labs.Lab,
    gpu_host: labhosts.Host,
    inventory: labhosts.Inventory,
    all_hosts: dict[str, labhosts.Host],
    tell: Tell,
) -> Bench:
    """The bench for what is collected once and judged by many tests."""
    store_host = all_hosts[inventory.object_stores[0]] if inventory.object_stores else None
    try:
        endpoint, store = witness(lab, gpu_host, store_host)
    except KvlabError as error:
        pytest.fail(str(error), pytrace=False)
    log = Log(store_host, str(lab.data.get("access_log") or ""))
    gpu_hosts = tuple(all_hosts[name] for name in inventory.gpu_hosts)
    return Bench(lab, gpu_host, store, endpoint, log, gpu_hosts, store_host, tell)


@pytest.fixture
def bench(session_bench: Bench, record_property: Callable[[str, object], None]) -> Bench:
    """The bench whose findings land in this test's JUnit properties."""
    return session_bench.recording(record_property)


@pytest.fixture(autouse=True)
def needs_are_met(request: pytest.FixtureRequest, session_bench: Bench, labels: None) -> None:
    """Skip, with the reason, what this lab cannot prove; see needs.py."""
    needs.check(request.node, session_bench)


@pytest.fixture(scope="session")
def start_profile(session_bench: Bench) -> Iterator[Callable[[str], Server]]:
    """Start a profile afresh; at the end the one that ran before (else the inventory's) is restored."""
    runner = runner_of(session_bench)
    before = runner.running() or session_bench.lab.configured_profile
    yield lambda name: start(session_bench, name)
    session_bench.tell(f"profile {before}: restoring")
    runner.use(before, restart=runner.running() != before)
