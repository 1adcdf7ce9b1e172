#include "runtime.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <new>

namespace kvlab {
namespace {

constexpr int kDrainSeconds = 30;
constexpr size_t kDescriptorChars = 81;

// What a callback's handle points to.
struct Operation {
    void *ctx;
};

std::string describe(const Config &config, const Range &range, uint32_t rkey, uint16_t port) {
    char gid[33];
    for (int i = 0; i < 16; ++i) snprintf(gid + 2 * i, 3, "%02x", config.gid[i]);
    char text[kDescriptorChars + 1];
    snprintf(text, sizeof(text), "%016" PRIx64 ":%08" PRIx32 ":%08" PRIx32 ":%04x:%06x:1:%s", range.addr,
             static_cast<uint32_t>(range.size), rkey, port, static_cast<unsigned>(getpid()) & 0xffffff, gid);
    return text;
}

// A NIC pins what it registers, so memory that is not there cannot be registered.
bool isMapped(const Range &range) {
    const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    constexpr uint64_t kPages = 4096;
    unsigned char resident[kPages];
    const uint64_t end = range.addr + range.size;
    for (uint64_t at = range.addr / page * page; at < end; at += kPages * page) {
        const uint64_t bytes = std::min(end - at, kPages * page);
        if (mincore(reinterpret_cast<void *>(at), bytes, resident) != 0) return false;
    }
    return true;
}

}  // namespace

Runtime &Runtime::get() {
    // Never destroyed: the plugin's own statics may call in after this library's would be gone.
    static Runtime *runtime = new Runtime;
    return *runtime;
}

Runtime::Runtime() {
    pthread_atfork([] { get().mutex_.lock(); }, [] { get().mutex_.unlock(); },
                   [] {
                       // The child starts from nothing. Its copy of the parent's state is left as it is.
                       Runtime &r = get();
                       r.table_.forget();
                       new (&r.mutex_) std::mutex;
                       r.clients_.clear();
                   });
}

void Runtime::shutDown() {
    std::lock_guard<std::mutex> lock(mutex_);
    table_.remove();
}

bool Runtime::openTable(const Config &config) {
    if (table_.isOpen()) return true;
    // Yama's ptrace_scope 1 lets only a parent read a process's memory unless the process says otherwise. Where
    // there is no Yama the call fails and is not needed.
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    TableHeader header{};
    memcpy(header.magic, kTableMagic, sizeof(header.magic));
    header.slots = kTableSlots;
    header.pid = static_cast<uint32_t>(getpid());
    header.dc_key = config.dc_key;
    memcpy(header.gid, config.gid, sizeof(header.gid));
    std::string error;
    if (table_.open(header, error)) return true;
    fprintf(stderr, "libcuobjclient (simulated): %s\n", error.c_str());
    return false;
}

void Runtime::connect(const void *key, const CUObjIOOps &ops, int proto) {
    auto client = std::make_shared<Client>();
    client->ops = ops;
    client->config = loadConfig();
    std::lock_guard<std::mutex> lock(mutex_);
    if (proto != CUOBJ_PROTO_RDMA_DC_V1) client->config.connected = false;
    if (client->config.connected) client->config.connected = openTable(client->config);
    clients_[key] = client;
}

std::shared_ptr<Client> Runtime::find(const void *key) {
    const auto it = clients_.find(key);
    return it == clients_.end() ? nullptr : it->second;
}

bool Runtime::isConnected(const void *key) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto client = find(key);
    return client && client->config.connected;
}

void Runtime::withdraw(uint32_t rkey) {
    if (!table_.drain(rkey, kDrainSeconds))
        fprintf(stderr, "libcuobjclient (simulated): an endpoint stayed in a transfer under rkey %08x\n", rkey);
    std::lock_guard<std::mutex> lock(mutex_);
    table_.release(rkey);
}

void Runtime::disconnect(const void *key) {
    std::shared_ptr<Client> client;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        client = find(key);
        clients_.erase(key);
        if (!client) return;
        for (const auto &[addr, registration] : client->registrations) table_.withdraw(registration.rkey);
    }
    for (const auto &[addr, registration] : client->registrations) withdraw(registration.rkey);
}

bool Runtime::registerMemory(const void *key, uint64_t addr, uint64_t size) {
    if (addr == 0 || size == 0 || size > kMaxRegistration || addr + size < addr) return false;
    if (!isMapped({addr, size})) return false;
    std::lock_guard<std::mutex> lock(mutex_);
    const auto client = find(key);
    if (!client || !client->config.connected || client->registrations.count(addr) != 0) return false;
    const auto rkey = table_.publish(addr, size);
    if (!rkey) return false;
    client->registrations[addr] = {{addr, size}, *rkey};
    return true;
}

bool Runtime::unregisterMemory(const void *key, uint64_t addr) {
    uint32_t rkey;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        const auto client = find(key);
        if (!client) return false;
        const auto it = client->registrations.find(addr);
        if (it == client->registrations.end()) return false;
        rkey = it->second.rkey;
        table_.withdraw(rkey);
        client->registrations.erase(it);
    }
    withdraw(rkey);
    return true;
}

ssize_t Runtime::operate(const void *key, bool is_get, void *ctx, void *ptr, size_t size, loff_t offset) {
    const Range range{reinterpret_cast<uint64_t>(ptr), size};
    if (ptr == nullptr || size == 0 || size > kMaxRegistration) return -EINVAL;
    std::shared_ptr<Client> client;
    std::string text;
    std::multimap<uint64_t, Range>::iterator mark;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        client = find(key);
        if (!client || !client->config.connected) return -ENOTCONN;
        const Registration *registration = nullptr;
        for (const auto &[addr, candidate] : client->registrations)
            if (candidate.range.holds(range.addr, range.size)) registration = &candidate;
        if (registration == nullptr) return -EFAULT;
        for (const auto &[addr, other] : client->busy)
            if (other.overlaps(range)) return -EBUSY;
        text = describe(client->config, range, registration->rkey, 0);
        mark = client->busy.emplace(range.addr, range);
    }
    const Operation operation{ctx};
    const cufileRDMAInfo_t info{1, static_cast<int>(text.size() + 1), text.c_str()};
    ssize_t result = -EINVAL;
    if (is_get && client->ops.get != nullptr)
        result = client->ops.get(&operation, static_cast<char *>(ptr), size, offset, &info);
    else if (!is_get && client->ops.put != nullptr)
        result = client->ops.put(&operation, static_cast<const char *>(ptr), size, offset, &info);
    std::lock_guard<std::mutex> lock(mutex_);
    client->busy.erase(mark);
    return result;
}

void *contextOf(const void *handle) { return static_cast<const Operation *>(handle)->ctx; }

}  // namespace kvlab
