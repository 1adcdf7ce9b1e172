"""apt_pin: the file it writes as real apt reads it, holds, and pins that apt would not follow."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kvlab.lab.plugins.module_utils import apt_policy

Run = Callable[..., dict[str, Any]]
Commands = Callable[..., Path]

POLICIES = Path(__file__).parents[2] / "fixtures/commands/apt_cache_policy"
REAL_APT = shutil.which("apt-get")
DRIVER = {"packages": ["nvidia-open"], "version": "590.48.*", "explanation": "one branch"}
PACKAGES = {"nvidia-open": ("580.95.05-1", "590.48.01-1", "595.45.04-1"), "mft": ("4.33.0-1", "4.34.0-1")}


def policy(name: str) -> dict[str, Any]:
    found: dict[str, Any] = apt_policy.parse_policy((POLICIES / f"{name}.txt").read_text())
    return found


def test_the_versions_priorities_and_sources_of_a_real_machine_are_read() -> None:
    found = policy("debian-backports")["nvidia-kernel-dkms"]
    assert (found["installed"], found["candidate"]) == ("525.147.05-7~deb12u1", "535.183.06-1~bpo12+1")
    assert [(v["version"], v["priority"], len(v["sources"])) for v in found["versions"]] == [
        ("535.216.03-1", 400, 1),
        ("535.183.06-1~bpo12+1", 900, 1),
        ("535.183.01-1~deb12u1", 500, 1),
        ("525.147.05-7~deb12u1", 500, 2),
    ]
    assert found["versions"][3]["sources"][1] == {"priority": 100, "source": "/var/lib/dpkg/status"}


def test_several_packages_and_a_forbidden_one_are_read() -> None:
    assert list(policy("ubuntu-two-packages")) == ["nvidia-driver-535", "nvidia-dkms-535"]
    found = policy("forbidden-by-pin")["cuda-drivers-fabricmanager"]
    assert (found["installed"], found["candidate"]) == (None, None)
    assert {version["priority"] for version in found["versions"]} == {-1}
    assert apt_policy.parse_policy("N: Unable to locate package x\n") == {}


@pytest.mark.parametrize(
    ("name", "package", "version", "met"),
    [
        ("debian-backports", "nvidia-kernel-dkms", "535.183.06-1~bpo12+1", True),
        ("debian-backports", "nvidia-kernel-dkms", "535.183.01*", False),
        ("forbidden-by-pin", "cuda-drivers-fabricmanager", "550.*", False),
        ("ubuntu-two-packages", "nvidia-open", "590.*", False),
        ("ubuntu-two-packages", "nvidia-open*", "590.*", True),
    ],
)
def test_a_version_pin_that_apt_would_not_follow_is_found(
    name: str, package: str, version: str, met: bool
) -> None:
    found = list(
        apt_policy.unmet({"packages": [package], "version": version, "priority": 1001}, policy(name))
    )
    assert (found == []) is met
    assert all(sentence.startswith(f"{package} is pinned to {version}, but ") for sentence in found)


@pytest.fixture
def apt_root(tmp_path: Path, commands: Commands, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root for the real apt-cache, with one repository of PACKAGES; holds go to the stand-in of apt-mark."""
    if REAL_APT is None:
        pytest.skip("this machine has no apt")
    root, repository = tmp_path / "apt", tmp_path / "repository"
    for folder in ("etc/preferences.d", "state/lists/partial", "cache/archives/partial"):
        (root / folder).mkdir(parents=True)
    (root / "status").write_text("")
    repository.mkdir()
    records = [
        f"Package: {name}\nVersion: {version}\nArchitecture: all\nFilename: ./x.deb\nSize: 1\nSHA256: {'0' * 64}\n"
        for name, versions in PACKAGES.items()
        for version in versions
    ]
    (repository / "Packages").write_text("\n".join(records))
    (root / "sources.list").write_text(f"deb [trusted=yes] file:{repository} ./\n")
    (root / "apt.conf").write_text(
        f'Dir::Etc::sourcelist "{root}/sources.list"; Dir::Etc::sourceparts "/nowhere"; Dir::Etc::main "/nowhere";'
        f'Dir::Etc::parts "/nowhere"; Dir::Etc::preferences "/nowhere"; APT::Sandbox::User "root";'
        f'Dir::Etc::preferencesparts "{root}/etc/preferences.d"; Dir::State "{root}/state"; Dir::Cache "{root}/cache";'
        f'Dir::State::status "{root}/status"; Acquire::Languages "none";'
    )
    monkeypatch.setenv("APT_CONFIG", str(root / "apt.conf"))
    subprocess.run([REAL_APT, "update", "-qq"], check=True, capture_output=True)
    state = commands("apt-mark")
    (state / "apt-mark").mkdir()
    (state / "apt-mark/known").write_text("nvidia-open\nlinux-image-generic\nmft\n")
    (tmp_path / "bin/apt-cache").symlink_to("/usr/bin/apt-cache")
    return root


def pin(run: Run, root: Path, *pins: dict[str, Any], check: bool = False, **options: Any) -> dict[str, Any]:
    folder = root / "etc/preferences.d"
    fixed = {"name": "kvlab", "preferences_folder": str(folder), "pins": list(pins)}
    return run("apt_pin", check=check, **{**fixed, **options})


def candidate(package: str) -> str:
    done = subprocess.run(
        ["/usr/bin/apt-cache", "policy", package], check=True, capture_output=True, text=True
    )
    found: str = apt_policy.parse_policy(done.stdout)[package]["candidate"]
    return found


def test_apt_takes_the_pinned_version_and_a_second_run_changes_nothing(run: Run, apt_root: Path) -> None:
    assert candidate("nvidia-open") == "595.45.04-1"
    first = pin(run, apt_root, DRIVER)
    assert (first["changed"], first["problems"]) == (True, [])
    assert first["policy"]["nvidia-open"]["candidate"] == candidate("nvidia-open") == "590.48.01-1"
    text = Path(first["path"]).read_text()
    assert (
        "Explanation: one branch\nPackage: nvidia-open\nPin: version 590.48.*\nPin-Priority: 1001\n" in text
    )
    assert not pin(run, apt_root, DRIVER)["changed"]


def test_several_pins_stand_in_one_file_and_all_are_in_force(run: Run, apt_root: Path) -> None:
    never = {"packages": ["mft"], "version": "4.34.*", "priority": -1}
    host = {"packages": ["x*"], "origin": "linux.mellanox.com", "priority": 900}
    written = Path(pin(run, apt_root, DRIVER, never, host)["path"]).read_text()
    assert 'Package: x*\nPin: origin "linux.mellanox.com"\nPin-Priority: 900\n' in written
    assert (candidate("nvidia-open"), candidate("mft")) == ("590.48.01-1", "4.33.0-1")


def test_a_pin_to_a_version_that_no_repository_has_is_said(run: Run, apt_root: Path) -> None:
    result = pin(run, apt_root, {**DRIVER, "version": "590.44.*"}, {"packages": ["mftt"], "version": "4.*"})
    assert result["problems"] == [
        "nvidia-open is pinned to 590.44.*, but apt would take 595.45.04-1; it knows 595.45.04-1, 590.48.01-1, "
        "580.95.05-1",
        "mftt is pinned to 4.*, but no repository has it; add the repository, or update apt",
    ]


def test_check_mode_shows_the_file_and_writes_nothing(run: Run, apt_root: Path, commands: Commands) -> None:
    result = pin(run, apt_root, DRIVER, check=True, holds=["mft"])
    assert (result["changed"], result["held"], result["problems"]) == (True, ["mft"], [])
    assert "Pin: version 590.48.*" in result["diff"][0]["after"]
    assert result["diff"][1]["after"] == "mft\n"
    assert not list((apt_root / "etc/preferences.d").iterdir())
    assert "hold mft" not in (commands() / "calls.log").read_text()


def test_packages_are_held_once_and_others_holds_stay(run: Run, apt_root: Path, commands: Commands) -> None:
    held = commands() / "apt-mark/held"
    held.write_text("mft\n")
    first = pin(run, apt_root, holds=["linux-image-generic", "nvidia-open"])
    assert (first["changed"], first["held"]) == (True, ["linux-image-generic", "nvidia-open"])
    assert held.read_text().split() == ["linux-image-generic", "mft", "nvidia-open"]
    assert not pin(run, apt_root, holds=["linux-image-generic", "nvidia-open"])["changed"]
    gone = pin(run, apt_root, holds=["nvidia-open"], state="absent")
    assert (gone["changed"], gone["released"]) == (True, ["nvidia-open"])
    assert held.read_text().split() == ["linux-image-generic", "mft"]


def test_absent_takes_the_owner_s_file_only(run: Run, apt_root: Path) -> None:
    pin(run, apt_root, DRIVER)
    other = apt_root / "etc/preferences.d/cuda-repository-pin-600"
    other.write_text("Package: *\nPin: release l=NVIDIA CUDA\nPin-Priority: 600\n")
    gone = pin(run, apt_root, DRIVER, state="absent")
    assert gone["changed"]
    assert gone["diff"][0]["after"] == ""
    assert [path.name for path in (apt_root / "etc/preferences.d").iterdir()] == [other.name]
    assert not pin(run, apt_root, state="absent")["changed"]


@pytest.mark.parametrize(
    ("wrong", "options", "why"),
    [
        (
            {"version": "1", "origin": "x"},
            {},
            "the pin of mft has version and origin of version, origin and release",
        ),
        ({}, {}, "the pin of mft has none of version, origin and release; give one"),
        ({"version": "1", "packages": ["mft mst"]}, {}, "needs package names without spaces"),
        ({"version": "1", "packages": []}, {}, "the pin of no package needs package names"),
        ({"version": "1", "priority": 0}, {}, "has priority 0"),
        ({"version": "1\nPin-Priority: 5"}, {}, "has a line break in version or explanation"),
        ({"version": "1"}, {"name": "kv.lab"}, "name 'kv.lab' is no file name for apt"),
        (
            {"version": "1"},
            {"preferences_folder": "/nowhere"},
            "/nowhere is no folder; set preferences_folder",
        ),
    ],
    ids=["two-ways", "no-way", "space", "no-package", "zero", "line-break", "name", "folder"],
)
def test_bad_input_is_one_sentence(
    run: Run, tmp_path: Path, commands: Commands, wrong: dict[str, Any], options: dict[str, Any], why: str
) -> None:
    commands("apt-mark")
    (tmp_path / "etc/preferences.d").mkdir(parents=True)
    result = pin(run, tmp_path, {"packages": ["mft"], **wrong}, **options)
    assert result["failed"]
    assert why in result["msg"]
    assert not list((tmp_path / "etc/preferences.d").iterdir())


def test_a_hold_of_an_unknown_package_and_a_host_without_apt_are_said(
    run: Run, tmp_path: Path, commands: Commands
) -> None:
    (tmp_path / "etc/preferences.d").mkdir(parents=True)
    assert (
        "apt-mark is not on this host; apt_pin is for Debian and Ubuntu"
        in pin(run, tmp_path, holds=["x"])["msg"]
    )
    (commands("apt-mark") / "apt-mark").mkdir()
    (commands() / "apt-mark/known").write_text("")
    message = pin(run, tmp_path, holds=["nvidia-opne"])["msg"]
    assert "apt-mark hold nvidia-opne ended with 100: E: Unable to locate package nvidia-opne" in message
