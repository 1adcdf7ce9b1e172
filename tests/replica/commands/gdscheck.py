#!/usr/bin/env python3
"""Stand-in for `gdscheck -p`: the release of GDS and what the simulated host supports, in the order of the real one."""

from __future__ import annotations

import kernel_modules
from standin import carried_by, end, log_call

words = log_call()
if words[:1] != ["-p"]:
    end(1, "usage: gdscheck -p")
modules = kernel_modules.loaded()
if "nvidia" not in modules:
    end(1, "cuInit failed: CUDA_ERROR_NO_DEVICE")
dma_buf = "MIT" in modules["nvidia"]["license"]
release = carried_by("gds-tools")
print(f" GDS release version: {release}")
print(f" nvidia_fs version:  {modules['nvidia_fs']['version'] if 'nvidia_fs' in modules else 'not loaded'}")
print(" libcufile version: 2.12\n Platform: x86_64")
print(
    " ============\n ENVIRONMENT:\n ============\n ====\n DRIVER CONFIGURATION:\n ====================="
)
for title, there in (
    ("NVMe P2PDMA", False),
    ("NVMe", False),
    ("Userspace RDMA", "nvidia_peermem" in modules or dma_buf),
):
    print(f" {title:<15}: {'Supported' if there else 'Unsupported'}")
print(f" --Mellanox PeerDirect : {'Enabled' if 'nvidia_peermem' in modules else 'Disabled'}")
print(f" --DMA-BUF             : {'Enabled' if dma_buf else 'Disabled'}")
print(" --rdma library        : Loaded (libcufile_rdma.so)")
