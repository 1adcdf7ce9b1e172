// Everything the library knows, one per process. cuobjclient.cpp is only a thin skin over this.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "config.h"
#include "cuobjclient.h"
#include "table.h"

namespace kvlab {

// NVIDIA's limit for one registration.
constexpr uint64_t kMaxRegistration = (uint64_t{4} << 30) - (uint64_t{64} << 10);

struct Range {
    uint64_t addr;
    uint64_t size;
    bool holds(uint64_t a, uint64_t n) const { return a >= addr && n <= size && a - addr <= size - n; }
    bool overlaps(const Range &o) const { return addr < o.addr + o.size && o.addr < addr + size; }
};

struct Registration {
    Range range;
    uint32_t rkey;
};

struct Client {
    CUObjIOOps ops;
    Config config;
    std::map<uint64_t, Registration> registrations;  // by start address
    std::multimap<uint64_t, Range> busy;             // operations whose callback is running
};

class Runtime {
public:
    static Runtime &get();

    // Leaves no file behind. Later calls, from statics destroyed after this library's, still find their state.
    void shutDown();
    void connect(const void *key, const CUObjIOOps &ops, int proto);
    void disconnect(const void *key);
    bool isConnected(const void *key);
    bool registerMemory(const void *key, uint64_t addr, uint64_t size);
    bool unregisterMemory(const void *key, uint64_t addr);
    ssize_t operate(const void *key, bool is_get, void *ctx, void *ptr, size_t size, loff_t offset);

private:
    Runtime();
    std::shared_ptr<Client> find(const void *key);
    void withdraw(uint32_t rkey);
    bool openTable(const Config &config);

    std::mutex mutex_;
    std::map<const void *, std::shared_ptr<Client>> clients_;
    Table table_;
};

}  // namespace kvlab
