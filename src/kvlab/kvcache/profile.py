"""What a serving profile is made from, and what its rendering yields: values only, no I/O."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal
from urllib.parse import SplitResult, urlsplit

from kvlab.errors import KvlabError
from kvlab.kvcache.geometry import DTYPE_BYTES, Geometry
from kvlab.kvcache.versions import release

PROFILE_NAMES = ("baseline", "s3-http", "s3-rdma", "file")
MODES = ("none", "mp", "in-process")
Engine = Literal["none", "standard", "dell"]

_MODEL_PRINTABLE = re.compile(r"[!#-\[\]-~]+")


@dataclass(frozen=True)
class RenderedFile:
    """One file of a profile directory. `secret` files have mode 0600 and stay out of logs and diffs."""

    content: str
    mode: int = 0o644
    secret: bool = False


@dataclass(frozen=True)
class RenderedProfile:
    """The files of a profile directory, by file name."""

    files: Mapping[str, RenderedFile]


@dataclass(frozen=True)
class ProfileSpec:
    """Everything that decides a profile. Sizes are bytes unless the name says otherwise.

    `directory` is where the files will lie on the host; the environment names `cufile.json` by it.
    `model` is the directory of the weights, or their Hugging Face name; `model_config` its `config.json`.
    `file_path` is the folder of the `file` profile; with `direct_io` its transfers pass the host's page cache by.
    `revision` names the weights (a hash or a commit).
    """

    name: str
    mode: str
    vllm: str
    lmcache: str
    nixl: str
    model: str
    model_config: Mapping[str, Any]
    max_model_len: int
    directory: str
    simulated: bool
    endpoints: tuple[str, ...] = ()
    bucket: str = ""
    region: str = "us-east-1"
    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    host: str = "127.0.0.1"
    api_port: int = 8000
    lmcache_port: int = 5555
    lmcache_http_port: int = 8080
    lmcache_metrics_port: int = 9090
    library_dirs: tuple[str, ...] = ()
    rdma_dev_addr_list: tuple[str, ...] = ()
    shm_name: str = ""
    l1_size_gb: float | None = None
    pool_size: int | None = None
    device: str = "cpu"
    cpu_kvcache_gib: int = 4
    tp: int = 1
    pp: int = 1
    chunk_size: int = 256
    kv_dtype: str = "auto"
    file_path: str = ""
    direct_io: bool = True
    ca_bundle: str = ""
    gds: bool = False
    served_model_name: str = ""
    revision: str = ""
    stack: str = ""
    log_dir: str = ""
    extra_env: Mapping[str, str] = field(default_factory=dict)
    extra_vllm_args: tuple[str, ...] = ()

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> ProfileSpec:
        """Build a spec from plain data (YAML, Ansible variables); lists become tuples.

        Raises:
            KvlabError: a field is unknown, missing, or of the wrong type.
        """
        known = {f.name: f for f in fields(cls)}
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise KvlabError(f"a profile has no field {unknown[0]!r}; its fields are {', '.join(known)}.")
        converted: dict[str, Any] = {}
        for name, value in values.items():
            converted[name] = _convert(name, str(known[name].type), value)
        required = (
            "name",
            "mode",
            "vllm",
            "lmcache",
            "nixl",
            "model",
            "model_config",
            "max_model_len",
            "directory",
        )
        missing = [name for name in (*required, "simulated") if name not in converted]
        if missing:
            raise KvlabError(f"the profile lacks {', '.join(missing)}.")
        spec = cls(**converted)
        spec.check()
        return spec

    @property
    def engine(self) -> Engine:
        """NIXL's OBJ engine: `dell` for RDMA, `standard` for HTTP, none elsewhere."""
        if self.name == "s3-rdma":
            return "dell"
        return "standard" if self.name == "s3-http" else "none"

    @property
    def expected_path(self) -> str:
        """The way the payload must take for this profile to be what it says: rdma, http, file or none."""
        return {"s3-rdma": "rdma", "s3-http": "http", "file": "file"}.get(self.name, "none")

    def geometry(self) -> Geometry:
        """The KV cache of this profile's model under its parallel layout."""
        return Geometry.from_config(
            self.model_config, tp=self.tp, pp=self.pp, chunk_size=self.chunk_size, kv_dtype=self.kv_dtype
        )

    def check(self) -> None:
        """Refuse what cannot work, in one sentence.

        Raises:
            KvlabError: the first thing that is wrong.
        """
        if self.name not in PROFILE_NAMES:
            raise KvlabError(f"profile {self.name!r} is not one of {', '.join(PROFILE_NAMES)}.")
        if self.mode not in MODES:
            raise KvlabError(f"profile {self.name}: mode {self.mode!r} is not one of {', '.join(MODES)}.")
        if (self.name == "baseline") != (self.mode == "none"):
            raise KvlabError(
                f"profile {self.name}: mode {self.mode!r} does not fit; only baseline has mode none."
            )
        if self.device not in ("cpu", "cuda"):
            raise KvlabError(f"profile {self.name}: device {self.device!r} is not cpu or cuda.")
        if self.mode == "in-process" and self.device == "cpu":
            raise KvlabError(
                f"profile {self.name}: LMCache's in-process connector has no CPU path and would serve "
                "without a cache; use mode mp on a CPU."
            )
        if self.kv_dtype not in ("auto", *DTYPE_BYTES):
            raise KvlabError(
                f"profile {self.name}: KV dtype {self.kv_dtype!r} is not auto, {', '.join(DTYPE_BYTES)}."
            )
        for version in (self.vllm, self.lmcache, self.nixl):
            release(version)
        for port in ("api_port", "lmcache_port", "lmcache_http_port", "lmcache_metrics_port"):
            if not 1 <= getattr(self, port) <= 65535:
                raise KvlabError(
                    f"profile {self.name}: {port} is {getattr(self, port)}; a port is 1 to 65535."
                )
        if self.max_model_len < 1:
            raise KvlabError(
                f"profile {self.name}: max_model_len is {self.max_model_len}; it must be positive."
            )
        if self.pool_size is not None and self.pool_size < (1 if self.mode == "mp" else 0):
            raise KvlabError(
                f"profile {self.name}: pool_size is {self.pool_size}; MP mode needs a pool of at least 1 "
                "object, in-process mode 0 (shared keys) or more."
            )
        if self.engine != "none":
            self._check_object_store()
        if self.name == "s3-rdma":
            self._check_rdma()
        if self.name == "file":
            self._check_folder()

    def _check_folder(self) -> None:
        if not self.file_path.startswith("/"):
            raise KvlabError("profile file: file_path must be the absolute path of the mounted folder.")
        if self.gds and self.device == "cpu":
            raise KvlabError(
                "profile file: GDS_MT needs a GPU with GPUDirect Storage and this stack serves on the CPU; use POSIX."
            )
        if self.gds and not self.direct_io:
            raise KvlabError(
                "profile file: GDS_MT moves bytes between storage and GPU by direct I/O only; leave direct_io on, or "
                "use POSIX."
            )
        if self.pool_size == 0:
            raise KvlabError(
                "profile file: pool_size is 0, which means files that outlive the server, and no cache epoch is kept "
                "for a folder; give the number of files, or leave it out."
            )

    def _check_object_store(self) -> None:
        if not self.endpoints:
            raise KvlabError(
                f"profile {self.name}: no endpoint; give at least one http(s)://host:port of the store."
            )
        for endpoint in self.endpoints:
            parts = _split(endpoint)
            if (
                parts is None
                or parts.scheme not in ("http", "https")
                or not parts.hostname
                or parts.path not in ("", "/")
            ):
                raise KvlabError(
                    f"profile {self.name}: endpoint {endpoint!r} is not of the form http(s)://host:port."
                )
        if len({urlsplit(e).scheme for e in self.endpoints}) > 1:
            raise KvlabError(f"profile {self.name}: endpoints mix http and https; all must be of one kind.")
        if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", self.bucket):
            raise KvlabError(f"profile {self.name}: {self.bucket!r} is not a valid bucket name.")
        for what, value in (("access key", self.access_key), ("secret key", self.secret_key)):
            if not value:
                raise KvlabError(f"profile {self.name}: the {what} is missing.")
            if not _MODEL_PRINTABLE.fullmatch(value):
                raise KvlabError(
                    f"profile {self.name}: the {what} has a space, quote, backslash or unprintable "
                    "character, which an environment file cannot carry; make another key."
                )

    def _check_rdma(self) -> None:
        if not self.rdma_dev_addr_list:
            raise KvlabError(
                "profile s3-rdma: rdma_dev_addr_list is empty; with it the client quietly uses HTTP. Name "
                "the host's RDMA addresses."
            )
        for address in self.rdma_dev_addr_list:
            try:
                parsed = ipaddress.ip_address(address.partition("%")[0])
            except ValueError:
                raise KvlabError(
                    f"profile s3-rdma: {address!r} in rdma_dev_addr_list is not an IP address."
                ) from None
            if parsed.is_unspecified or parsed.is_multicast:
                raise KvlabError(
                    f"profile s3-rdma: {address} in rdma_dev_addr_list is not an address of a NIC."
                )


def _split(endpoint: str) -> SplitResult | None:
    """The endpoint's parts, or None where its port is no port."""
    try:
        parts = urlsplit(endpoint)
        return parts if parts.port is None or parts.port > 0 else None
    except ValueError:
        return None


def _convert(name: str, kind: str, value: Any) -> Any:
    """A plain value as the type that the field has, or one sentence why not."""
    if kind.startswith("tuple"):
        if isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value):
            return tuple(str(v) for v in value)
        raise KvlabError(f"profile field {name} must be a list of strings.")
    if kind.startswith("Mapping"):
        if isinstance(value, Mapping):
            return value
        raise KvlabError(f"profile field {name} must be a mapping.")
    if value is None and "None" in kind:
        return None
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind.startswith("int") and isinstance(value, int) and not isinstance(value, bool):
        return value
    if kind.startswith("float") and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if kind == "str" and isinstance(value, str):
        # Ansible's strings are a class of their own, which YAML does not write.
        return str(value)
    raise KvlabError(f"profile field {name} is {value!r}; it must be of type {kind}.")
