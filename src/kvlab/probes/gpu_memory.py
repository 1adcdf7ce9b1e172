"""Memory of a GPU through the CUDA driver's own library, without torch or a toolkit: allocate, fill, read back, free.

Standard library only. Signatures: CUDA Driver API 13.1, chapters "Memory Management" and "Primary Context Management".
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

from kvlab.errors import KvlabError
from kvlab.probes import Facts, cuobject_library

LIBRARY = "libcuda.so.1"


class Gpu:
    """One GPU, by the number that CUDA gives it in this process (CUDA_VISIBLE_DEVICES counts).

    Raises:
        KvlabError: there is no CUDA driver, it fails, or it has no such GPU.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.driver = cuobject_library.collect(LIBRARY)
        if self.driver["error"]:
            raise KvlabError(f"GPU memory needs NVIDIA's driver, which is not here: {self.driver['error']}.")
        # nvidia-smi, and so the record of each GPU's NIC, counts by PCI address; CUDA by itself puts the fastest first.
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        self._cuda = ctypes.CDLL(LIBRARY)
        count, self._device, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
        self._call("cuInit", ctypes.c_uint(0))
        self._call("cuDeviceGetCount", ctypes.byref(count))
        if not 0 <= number < count.value:
            raise KvlabError(f"there is no GPU {number}: the driver shows {count.value}, counted from 0.")
        self._call("cuDeviceGet", ctypes.byref(self._device), ctypes.c_int(number))
        name = ctypes.create_string_buffer(256)
        self._call("cuDeviceGetName", name, ctypes.c_int(len(name)), self._device)
        self.name = name.value.decode(errors="replace")
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._device)
        self._context = context

    def facts(self) -> Facts:
        """What it is; `simulated` when the driver's library bears the mark of the stand-in."""
        return {
            "gpu": self.number,
            "name": self.name,
            "driver": self.driver["path"],
            "simulated": self.driver["simulated"],
        }

    def allocate(self, size: int) -> int:
        """Address of `size` bytes of the GPU's memory."""
        address = ctypes.c_uint64()
        self._here("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def free(self, address: int) -> None:
        """Give memory back."""
        self._here("cuMemFree_v2", ctypes.c_uint64(address))

    def write(self, address: int, data: bytes) -> None:
        """Copy bytes to the GPU."""
        self._here("cuMemcpyHtoD_v2", ctypes.c_uint64(address), data, ctypes.c_size_t(len(data)))

    def read(self, address: int, size: int) -> bytes:
        """Copy bytes from the GPU, after all that was under way on it."""
        data = ctypes.create_string_buffer(size)
        self._here("cuCtxSynchronize")
        self._here("cuMemcpyDtoH_v2", data, ctypes.c_uint64(address), ctypes.c_size_t(size))
        return data.raw

    def close(self) -> None:
        """Release the GPU."""
        self._call("cuDevicePrimaryCtxRelease_v2", self._device)

    def _here(self, name: str, *arguments: Any) -> None:
        """A call in this GPU's context: another one, or NIXL, may have made its own the current one."""
        self._call("cuCtxSetCurrent", self._context)
        self._call(name, *arguments)

    def _call(self, name: str, *arguments: Any) -> None:
        function: Callable[..., int] = getattr(self._cuda, name)
        if status := function(*arguments):
            text = ctypes.c_char_p()
            self._cuda.cuGetErrorString(ctypes.c_int(status), ctypes.byref(text))
            said = text.value.decode(errors="replace") if text.value else "no word why"
            raise KvlabError(f"{name} on GPU {self.number} failed with {status}: {said}.")
