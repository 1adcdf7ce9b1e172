"""Rules for the environment of the serving process, beside the file it goes with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kvlab.kvcache.lint.document import UnreadableError, json_object, truthy
from kvlab.kvcache.lint.types import Context, Finding, absent, did_you_mean
from kvlab.kvcache.versions import release

_NOT_KEYS = frozenset(
    (
        "CONFIG_FILE",
        "EXTRA_CONFIG",
        "TRACK_USAGE",
        "LOG_LEVEL",
        "USE_EXPERIMENTAL",
        "FORCE_SKIP_SAVE",
        "DISABLE_BANNER",
        "LOG_FORMAT",
        "DEBUG",
        "REMOTE_CONFIG_URL",
        "APP_ID",
    )
)
"""LMCACHE_ variables that are no configuration key."""


SECRETS = frozenset(("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"))
"""Variables that nobody but the service may read. An access key alone opens nothing."""


def parse(text: str, name: str) -> dict[str, str]:
    """KEY=VALUE lines as systemd's EnvironmentFile has them: blank lines and # comments skipped, quotes removed.

    Raises:
        UnreadableError: a line is no assignment.
    """
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if not bare or bare[0] in "#;":
            continue
        key, sign, value = bare.removeprefix("export ").partition("=")
        if not sign or not key.strip().isidentifier():
            raise UnreadableError(f"{name} is no environment file: line {number} is not KEY=VALUE.")
        value = value.strip()
        if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        values[key.strip()] = value
    return values


def check(context: Context, accelerated: bool) -> Iterator[Finding]:
    """Findings about the environment; a note if none was given."""
    env = context.env
    if env is None:
        yield Finding(
            "ENV001",
            "note",
            "PYTHONHASHSEED",
            0,
            "the environment was not given, so hash seed and credentials were not judged.",
            "Lint with --env FILE.",
        )
        return
    yield from _hash_seed(env)
    yield from _overrides(env, context)
    yield from _secrets(env, context)
    if not env.get("LMCACHE_CONFIG_FILE"):
        yield absent(
            "ENV010",
            "error",
            "LMCACHE_CONFIG_FILE",
            "LMCACHE_CONFIG_FILE is not set: LMCache goes by its defaults and reads no file.",
            "Name the profile's lmcache.yaml.",
        )
    if env.get("LMCACHE_FORCE_SKIP_SAVE"):
        yield absent(
            "ENV012",
            context.strict(),
            "LMCACHE_FORCE_SKIP_SAVE",
            "LMCACHE_FORCE_SKIP_SAVE is set, to whatever value: this instance reads the cache and stores nothing.",
            "Remove it where the instance shall store.",
        )
    if accelerated:
        yield from _cufile_paths(env)
    for name in ("AWS_REQUEST_CHECKSUM_CALCULATION", "AWS_RESPONSE_CHECKSUM_VALIDATION"):
        if env.get(name, "").lower() == "when_supported":
            yield absent(
                "ENV005",
                "error" if accelerated else "warning",
                name,
                f"{name} asks for checksums that ObjectScale may not know and that RDMA replies cannot carry.",
                f"Write {name}=when_required.",
            )
    allocator = env.get("PYTORCH_CUDA_ALLOC_CONF", "") + env.get("PYTORCH_ALLOC_CONF", "")
    if "expandable_segments:True" in allocator:
        yield absent(
            "ENV006",
            "error" if accelerated else "warning",
            "PYTORCH_CUDA_ALLOC_CONF",
            "memory from expandable segments cannot be registered with the NIC.",
            "Remove expandable_segments.",
        )
    if (
        context.vllm is not None
        and release(context.vllm) >= (0, 24)
        and env.get("VLLM_USE_V2_MODEL_RUNNER") != "0"
        and "LMCACHE_CONFIG_FILE" in env
    ):
        yield absent(
            "ENV007",
            "warning",
            "VLLM_USE_V2_MODEL_RUNNER",
            f"vLLM {context.vllm} uses its second model runner for some models, with which the in-process connector "
            "has not been proven.",
            "Write VLLM_USE_V2_MODEL_RUNNER=0.",
        )


def _hash_seed(env: Mapping[str, str]) -> Iterator[Finding]:
    seed = env.get("PYTHONHASHSEED")
    if seed is None or seed in ("", "random"):
        yield absent(
            "ENV002",
            "error",
            "PYTHONHASHSEED",
            "PYTHONHASHSEED is not fixed: every process names its chunks differently, so nothing is ever found and no "
            "error says so.",
            "Write PYTHONHASHSEED=0 for every process of every host.",
        )
    elif not (seed.isascii() and seed.isdigit() and len(seed) <= 10 and int(seed) < 2**32):
        yield absent(
            "ENV002",
            "error",
            "PYTHONHASHSEED",
            f"PYTHONHASHSEED {seed[:32]!r} stops Python.",
            "Write PYTHONHASHSEED=0.",
        )


def _secrets(env: Mapping[str, str], context: Context) -> Iterator[Finding]:
    for name, place in context.exposed.items():
        yield absent(
            "ENV011",
            "error",
            name,
            f"{name} stands in {place}, which others may read.",
            "chmod 0600.",
        )
    pair = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    missing = [name for name in pair if not env.get(name)]
    if len(missing) == 1:
        yield absent(
            "ENV013",
            "error",
            missing[0],
            f"of {pair[0]} and {pair[1]} only one is set; the SDK takes neither and requests go out unsigned.",
            f"Set {missing[0]} too.",
        )


def _overrides(env: Mapping[str, str], context: Context) -> Iterator[Finding]:
    for name, value in env.items():
        if not name.startswith("LMCACHE_"):
            continue
        key = name.removeprefix("LMCACHE_").lower()
        if key in context.lmcache.top:
            spoils = key == "local_cpu" and truthy(value)
            yield absent(
                "ENV003",
                context.strict() if spoils else "warning",
                name,
                f"{name}={value} overrides {key} of the file.",
                "Set it in one place only.",
            )
        elif name.removeprefix("LMCACHE_") == "EXTRA_CONFIG":
            yield from _extra_config(name, value)
        elif name.removeprefix("LMCACHE_") not in _NOT_KEYS:
            hint = did_you_mean(name, [f"LMCACHE_{k.upper()}" for k in context.lmcache.top])
            if hint:
                yield absent(
                    "ENV004", "warning", name, f"LMCache reads no {name}.{hint}", "Correct or remove it."
                )


def _extra_config(name: str, value: str) -> Iterator[Finding]:
    if json_object(value) is None:
        yield absent("ENV003", "error", name, f"{name} is not a JSON object.", "Correct or remove it.")
        return
    yield absent(
        "ENV003", "warning", name, f"{name} replaces extra_config of the file.", "Set it in one place only."
    )


def _cufile_paths(env: Mapping[str, str]) -> Iterator[Finding]:
    if not env.get("CUFILE_ENV_PATH_JSON"):
        yield absent(
            "ENV008",
            "error",
            "CUFILE_ENV_PATH_JSON",
            "without CUFILE_ENV_PATH_JSON the client reads /etc/cufile.json, whose address list is empty as shipped.",
            "Name the profile's cufile.json.",
        )
    if not env.get("CUOBJ_ENV_PATH_JSON"):
        yield absent(
            "ENV009",
            "warning",
            "CUOBJ_ENV_PATH_JSON",
            "from client 1.4 on (CUDA 13.5) the file is chosen by CUOBJ_ENV_PATH_JSON alone.",
            "Set both variables.",
        )
