"""Drills that change files or facts are named by their checks on a profile that is rendered here and on recorded facts.

The rest need a lab that is up (tests/integration/test_drills.py).
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from kvlab.doctor import configuration
from kvlab.drills import configuration as profiles
from kvlab.drills import recorded
from kvlab.drills.bench import Bench
from kvlab.drills.drill import Drill, run
from kvlab.kvcache import render
from kvlab.kvcache.profile import ProfileSpec
from kvlab.probes import host as host_probes

FACTS = Path(__file__).parents[2] / "fixtures" / "facts"
SPEC = {
    "name": "s3-rdma", "mode": "mp", "stack": "current-cpu", "vllm": "0.32.0", "lmcache": "0.5.6", "nixl": "1.5.1",
    "model": "/models/lab", "max_model_len": 16_384, "directory": "/etc/kvlab/profiles/s3-rdma", "simulated": True,
    "model_config": {"model_type": "llama", "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 2,
                     "head_dim": 64, "hidden_size": 512, "torch_dtype": "bfloat16"},
    "endpoints": ["http://127.0.0.1:9020"], "bucket": "kv-lab", "access_key": "AKIDEXAMPLE", "secret_key": "none",
    "library_dirs": ["/opt/cuobj"], "rdma_dev_addr_list": ["127.0.0.1"], "shm_name": "kvlab-1",
}  # fmt: skip


class Desk:
    """As much of a bench as needs no lab: a profile's folder, its log, recorded good facts."""

    simulated = True
    profile = "s3-rdma"

    def __init__(self, folder: Path) -> None:
        self.lab = self
        self.left_healthy: dict[str, Any] = {}
        self.state_dir = folder
        self.about = {"dir": str(folder / "s3-rdma")}

    def host_facts(self, topic: str) -> Any:
        facts = copy.deepcopy(yaml.safe_load((FACTS / f"{topic}.yml").read_text())["good"])
        return {**facts, "chunk_tokens": 256} if topic == "lmcache" else facts

    def look(self, *topics: str, **job: Any) -> dict[str, Any]:
        found = host_probes.run({"profile_dir": self.about["dir"], **job, "topics": list(topics)})["facts"]
        return configuration.with_config(found, self.profile)


@pytest.fixture
def desk(tmp_path: Path) -> Bench:
    (tmp_path / "s3-rdma").mkdir()
    for name, file in render.profile(ProfileSpec.from_mapping(SPEC)).files.items():
        target = tmp_path / "s3-rdma" / name
        target.write_text(file.content)
        target.chmod(file.mode)
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "lmcache-s3-rdma.log").write_text("LMCache v0.5.6\nINFO: it serves\n")
    return cast(Bench, Desk(tmp_path))


@pytest.mark.parametrize("drill", [*profiles.DRILLS, *recorded.DRILLS], ids=lambda drill: drill.name)
def test_a_changed_file_or_fact_is_named_by_its_check(drill: Drill, desk: Bench) -> None:
    outcome = run(drill, desk)
    assert (outcome.verdict, outcome.reason) == ("named", "")
