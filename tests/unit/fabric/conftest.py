"""What stands in for a GPU host is shared with the replica; modules import what they share by the collection's name."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
for folder in (".lab/collections", "tests/replica", "plugins/module_utils", "roles/rdma_fabric/files"):
    sys.path.insert(0, str(ROOT / folder))
