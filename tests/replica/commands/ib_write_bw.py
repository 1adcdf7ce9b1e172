#!/usr/bin/env python3
"""Stand-in for ib_write_bw: two ends meet over TCP, and the client says what ib_write_bw.json names.

The state is {"gbits": 196.2}, and nothing is measured. It takes -p PORT and, to be the client, an
address as the last word; all else is only logged.
"""

from __future__ import annotations

import json
import socket

from standin import end, folder, log_call

words = log_call()
port = int(words[words.index("-p") + 1]) if "-p" in words else 18515
server = words[-1] if words and words[-1].count(".") == 3 else ""
if server:
    try:
        socket.create_connection((server, port), timeout=5).close()
    except OSError:
        end(1, f" Couldn't connect to {server}:{port}\nUnable to open file descriptor for socket connection")
    gbits = json.loads((folder() / "ib_write_bw.json").read_text())["gbits"]
    print(" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]")
    print(f" 65536      1000000          0.00               {gbits:.2f}              0.374000")
else:
    with socket.create_server(("", port)) as listener:
        listener.accept()[0].close()
