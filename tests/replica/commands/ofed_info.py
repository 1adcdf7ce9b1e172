#!/usr/bin/env python3
"""Stand-in for `ofed_info -s` and `-n`: the version of the package ofed-scripts that carries it."""

from __future__ import annotations

from standin import carried_by, end, log_call

words = log_call()
version = carried_by("ofed-scripts")
if words == ["-s"]:
    print(f"OFED-internal-{version}:")
elif words == ["-n"]:
    print(version)
else:
    end(1, f"ofed_info: this stand-in does not know {' '.join(words)}")
