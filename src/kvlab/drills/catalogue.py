"""Every drill, by name, gathered from the modules that stage them."""

from __future__ import annotations

from kvlab.drills import configuration, kv, nodes, recorded, serving, store, transfers
from kvlab.drills.drill import Drill
from kvlab.errors import KvlabError

DRILLS: dict[str, Drill] = {}

for _area in (transfers, store, nodes, kv, serving, configuration, recorded):
    for _drill in _area.DRILLS:
        if _drill.name in DRILLS:
            raise ValueError(f"two drills are named {_drill.name}")
        DRILLS[_drill.name] = _drill


def find(name: str) -> Drill:
    """The drill of that name. Raises KvlabError when there is none."""
    if name not in DRILLS:
        raise KvlabError(f"there is no drill {name!r}; kvlab drill list shows them.")
    return DRILLS[name]
