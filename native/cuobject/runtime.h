// Everything the library knows, one per process. cuobjclient.cpp is only a thin skin over this.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "config.h"
#include "cuobjclient.h"
#include "nic.h"
#include "table.h"

namespace kvlab {

// NVIDIA's limit for one registration: 4 GiB less 64 KiB.
constexpr uint64_t kMaxRegistration = (uint64_t{4} << 30) - (uint64_t{64} << 10);

struct Range {
    uint64_t addr;
    uint64_t size;
    bool holds(const Range &o) const { return o.addr >= addr && o.size <= size && o.addr - addr <= size - o.size; }
    bool overlaps(const Range &o) const { return addr < o.addr + o.size && o.addr < addr + size; }
};

struct Registration {
    Range range;
    uint32_t rkey;
    uint32_t address;  // index of the address that its descriptors name
};

struct Client {
    CUObjIOOps ops{};
    bool connected = false;
    std::map<uint64_t, Registration> registrations;  // by start address
    std::vector<Range> busy;                         // operations whose callback is running
};

class Runtime {
public:
    static Runtime &get();

    void connect(const void *key, const CUObjIOOps &ops, int proto);
    void disconnect(const void *key);
    bool isConnected(const void *key);
    bool registerMemory(const void *key, Range range);
    bool unregisterMemory(const void *key, uint64_t addr);
    // What the callback returned, or a negative errno when it was not called.
    ssize_t operate(const void *key, bool is_get, void *ctx, void *ptr, size_t size, loff_t offset);
    static void *contextOf(const void *handle);
    // Leaves no file and no thread behind. Later calls, from statics destroyed after this library's, still find
    // their state.
    void shutDown();

private:
    Runtime();
    std::shared_ptr<Client> find(const void *key);
    bool openLocal();
    bool openTable(std::string &error);
    // The address of the next registration: in turn, or always the first.
    uint32_t nextAddress();
    std::string describe(const Range &range, const Registration &registration) const;
    // Waits until nobody is inside a transfer under a key that was withdrawn.
    void settle(uint32_t rkey);

    // Guards all but what nic_ guards itself. Not held while a callback runs or while settle waits.
    std::mutex mutex_;
    std::map<const void *, std::shared_ptr<Client>> clients_;
    Config config_;
    std::vector<uint16_t> ports_;  // of the tcp transport at each address, 0 where it is off
    uint32_t registered_ = 0;      // how often an address was chosen
    Table table_;
    Nic nic_{table_};
};

}  // namespace kvlab
