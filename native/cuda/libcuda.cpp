// A libcuda.so.1 with one GPU whose memory is this process's own: what the probe asks of a driver, and no more.
// Built by tests/integration/test_gpu_memory.py where there is no GPU. It bears the mark of kvlab's stand-ins
// (native/cuobject/note.cpp).
#include <elf.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

struct Note {
    Elf64_Nhdr header;
    char owner[8];
    char text[12];
};

__attribute__((section(".note.kvlab"), used, aligned(4)))
const Note kNote = {{sizeof("kvlab"), sizeof("simulated"), 1}, "kvlab", "simulated"};

constexpr int kOk = 0, kOutOfMemory = 2, kInvalidDevice = 101, kInvalidContext = 201;
constexpr std::size_t kAlignment = 256;  // cuMemAlloc's own

int g_context;  // its address is the context
const void *g_current = nullptr;

}  // namespace

extern "C" {

int cuInit(unsigned) { return kOk; }

int cuDeviceGetCount(int *count) {
    *count = 1;
    return kOk;
}

int cuDeviceGet(int *device, int number) {
    *device = number;
    return number == 0 ? kOk : kInvalidDevice;
}

int cuDeviceGetName(char *name, int size, int) {
    std::snprintf(name, static_cast<std::size_t>(size), "software GPU (simulated)");
    return kOk;
}

int cuDevicePrimaryCtxRetain(void **context, int) {
    *context = &g_context;
    return kOk;
}

int cuDevicePrimaryCtxRelease_v2(int) { return kOk; }

int cuCtxSetCurrent(void *context) {
    g_current = context;
    return context == &g_context ? kOk : kInvalidContext;
}

int cuCtxSynchronize() { return g_current == &g_context ? kOk : kInvalidContext; }

int cuMemAlloc_v2(std::uint64_t *address, std::size_t size) {
    if (g_current != &g_context) return kInvalidContext;
    void *memory = std::aligned_alloc(kAlignment, (size + kAlignment - 1) / kAlignment * kAlignment);
    *address = reinterpret_cast<std::uint64_t>(memory);
    return memory == nullptr ? kOutOfMemory : kOk;
}

int cuMemFree_v2(std::uint64_t address) {
    std::free(reinterpret_cast<void *>(address));
    return kOk;
}

int cuMemcpyHtoD_v2(std::uint64_t to, const void *from, std::size_t size) {
    std::memcpy(reinterpret_cast<void *>(to), from, size);
    return kOk;
}

int cuMemcpyDtoH_v2(void *to, std::uint64_t from, std::size_t size) {
    std::memcpy(to, reinterpret_cast<const void *>(from), size);
    return kOk;
}

int cuGetErrorString(int status, const char **text) {
    *text = status == kInvalidDevice ? "invalid device ordinal" : "software GPU: refused";
    return kOk;
}
}
