"""What stands in for a GPU host is shared with the replica."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tests/replica"))
