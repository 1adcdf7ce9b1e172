"""playbooks/logs.yml: a failed run leaves the logs of every host, and no secret of any file that holds one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
KEYS = {name: f"{name}Zq8rT4wLpX2vN6mB0sKd" for name in ("inventory", "management", "file", "tenant")}


def test_no_secret_of_the_lab_is_in_the_artifacts_or_in_the_plays_own_output(tmp_path: Path) -> None:
    state, profiles, collected = tmp_path / "state", tmp_path / "profiles", tmp_path / "collected"
    (state / "log").mkdir(parents=True)
    (state / "log/vllm.log").write_text("".join(f"signing with {key} for kvlab\n" for key in KEYS.values()))
    (profiles / "s3-rdma").mkdir(parents=True)
    (profiles / "s3-rdma/secret.env").write_text(f"AWS_SECRET_ACCESS_KEY={KEYS['tenant']}\n")
    (tmp_path / "objectscale.json").write_text(json.dumps({"secret_key": KEYS["file"]}))
    variables = {
        "kvlab_service_manager": "supervisor",
        "kvlab_state_dir": str(state),
        "kv_profiles_dir": str(profiles),
        "kv_profiles_list": [{"name": "baseline"}, {"name": "s3-rdma"}],
        "objectscale_secrets_file": str(tmp_path / "objectscale.json"),
        "objectscale_secret_key": KEYS["inventory"],
        "objectscale_management_password": KEYS["management"],
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
    }
    groups = {"gpu_hosts": {"hosts": {"node1": None}}, "object_stores": {"hosts": {"store": None}}}
    (tmp_path / "hosts.json").write_text(json.dumps({"all": {"vars": variables, "children": groups}}))
    (tmp_path / "ansible.cfg").touch()
    settings = {
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".lab/collections"),
        "ANSIBLE_HOME": str(tmp_path / "home"),
        "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg"),
        "ANSIBLE_DIFF_ALWAYS": "true",
    }
    command = [Path(sys.executable).with_name("ansible-playbook"), "-vv", "-i", tmp_path / "hosts.json"]
    command += ["-e", json.dumps({"kvlab_logs_dir": str(collected)}), ROOT / "playbooks/logs.yml"]
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    for host in ("node1", "store"):
        assert (collected / host / "vllm.log").read_text() == "signing with [taken out] for kvlab\n" * len(
            KEYS
        )
    for name, key in KEYS.items():
        assert key not in done.stdout + done.stderr, name
