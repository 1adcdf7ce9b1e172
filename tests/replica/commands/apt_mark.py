#!/usr/bin/env python3
"""Stand-in for `apt-mark showhold|hold|unhold`, for tests on a machine whose own holds are not to be touched.

State: apt-mark/known, the packages that exist, and apt-mark/held, one a line. A node of the replica has the real one.
"""

from __future__ import annotations

from standin import end, folder, log_call

verb, *names = log_call()
home = folder() / "apt-mark"
held = (home / "held").read_text().split() if (home / "held").exists() else []
if verb == "showhold":
    print("\n".join(held))
elif verb in ("hold", "unhold"):
    for name in names:
        if name not in (home / "known").read_text().split():
            end(100, f"E: Unable to locate package {name}")
    held = sorted({*held, *names} if verb == "hold" else set(held) - set(names))
    (home / "held").write_text("".join(f"{name}\n" for name in held))
else:
    end(1, f"E: Invalid operation {verb}")
