# SPDX-License-Identifier: Apache-2.0
"""Asks CUDA and the RDMA stack whether GPU memory can be shared as dma-buf. Standard library only.

Each question is put in a process of its own: a driver that hangs or crashes shall not take the caller with it.
"""

from __future__ import annotations

import json
import subprocess
import sys

TIMEOUT_S = 8

_CUDA = """
import ctypes, json
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError:
    print("null"); raise SystemExit
code = cuda.cuInit(0)
name = ctypes.c_char_p()
cuda.cuGetErrorName(code, ctypes.byref(name))
found = {"code": code, "name": (name.value or b"?").decode(), "dma_buf": {}}
count, value = ctypes.c_int(), ctypes.c_int()
if code == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0:
    for device in range(count.value):
        if cuda.cuDeviceGetAttribute(ctypes.byref(value), 124, device) == 0:
            found["dma_buf"]["GPU%d" % device] = value.value
print(json.dumps(found))
"""

# A registration with file descriptor -1 cannot succeed: EBADF says that the kernel went as far as to look for the
# file, the other two that it knows no dma-buf (NCCL asks in this way, src/transport/net_ib/gdr.cc).
_VERBS = """
import ctypes, errno, json
try:
    verbs = ctypes.CDLL("libibverbs.so.1", use_errno=True)
    register = verbs.ibv_reg_dmabuf_mr
except (OSError, AttributeError):
    print("null"); raise SystemExit
pointer, size, number = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int
verbs.ibv_get_device_list.restype = ctypes.POINTER(pointer)
verbs.ibv_get_device_name.argtypes, verbs.ibv_get_device_name.restype = [pointer], ctypes.c_char_p
verbs.ibv_open_device.argtypes, verbs.ibv_open_device.restype = [pointer], pointer
verbs.ibv_alloc_pd.argtypes, verbs.ibv_alloc_pd.restype = [pointer], pointer
register.argtypes, register.restype = [pointer, size, ctypes.c_size_t, size, number, number], pointer
count, found = number(), {}
devices = verbs.ibv_get_device_list(ctypes.byref(count))
for at in range(count.value if devices else 0):
    name = verbs.ibv_get_device_name(devices[at]).decode()
    context = verbs.ibv_open_device(devices[at])
    domain = verbs.ibv_alloc_pd(context) if context else None
    if not domain:
        found[name] = "cannot be opened"
        continue
    ctypes.set_errno(0)
    register(domain, 0, 0, 0, -1, 0)
    code = ctypes.get_errno()
    no = (errno.EOPNOTSUPP, errno.EPROTONOSUPPORT)
    found[name] = "yes" if code == errno.EBADF else "no" if code in no else errno.errorcode.get(code, str(code))
print(json.dumps(found))
"""


def cuda():
    """What cuInit says, {"code", "name", "dma_buf": {gpu: its attribute 124}}; None without libcuda."""
    return _ask(_CUDA)


def verbs():
    """Whether each RDMA device takes dma-buf: "yes", "no" or why that is not known; None without libibverbs."""
    return _ask(_VERBS)


def _ask(script):
    try:
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        return json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        return None
