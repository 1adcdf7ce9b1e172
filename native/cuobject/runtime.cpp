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

#include "log.h"

namespace kvlab {
namespace {

// An endpoint that was stopped in the middle of a transfer must not hold up its client for ever.
constexpr int kSettleSeconds = 30;
constexpr size_t kDescriptorChars = 81;

// What a callback's handle points to.
struct Operation {
    void *ctx;
};

// A NIC pins what it registers, so memory that is not there cannot be registered.
bool isMapped(const Range &range) {
    const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    constexpr uint64_t kPages = 4096;
    unsigned char resident[kPages];
    const uint64_t end = range.addr + range.size;
    for (uint64_t at = range.addr / page * page; at < end; at += kPages * page)
        if (mincore(reinterpret_cast<void *>(at), std::min(end - at, kPages * page), resident) != 0) return false;
    return true;
}

}  // namespace

Runtime &Runtime::get() {
    // Never destroyed: the plugin's own statics may call in after this library's would be gone.
    static Runtime *runtime = new Runtime;
    return *runtime;
}

Runtime::Runtime() {
    static Runtime *self;
    self = this;
    pthread_atfork(
        [] {
            self->mutex_.lock();
            self->nic_.beforeFork();
        },
        [] {
            self->nic_.afterForkInParent();
            self->mutex_.unlock();
        },
        [] {
            // The child starts from nothing, as it would with a real NIC. It never uses the parent's table.
            self->nic_.afterForkInChild();
            self->table_.forget();
            self->clients_.clear();
            self->ports_.clear();
            new (&self->mutex_) std::mutex;
        });
}

void Runtime::shutDown() {
    nic_.stop();
    std::lock_guard<std::mutex> lock(mutex_);
    table_.remove();
}

bool Runtime::openLocal() {
    if (table_.isOpen()) return true;
    config_ = loadConfig();
    openLog(config_.log_directory, config_.log_level);
    for (const std::string &note : config_.notes) log(Level::kWarn, "%s: %s", config_.path.c_str(), note.c_str());
    std::string error = config_.problem;
    if (!error.empty() || !openTable(error)) {
        nic_.stop();
        log(Level::kError, "not connected: %s", error.c_str());
        return false;
    }
    std::string places;
    for (size_t i = 0; i < ports_.size(); ++i)
        places += (i == 0 ? "" : ", ") + config_.addresses[i].text + " (tcp port " + std::to_string(ports_[i]) + ")";
    log(Level::kInfo, "connected at %s, configuration %s", places.c_str(), config_.path.c_str());
    return true;
}

bool Runtime::openTable(std::string &error) {
    TableHeader header{};
    memcpy(header.magic, kTableMagic, sizeof(header.magic));
    header.slots = kTableSlots;
    header.pid = static_cast<uint32_t>(getpid());
    header.dc_key = config_.dc_key;
    ports_.clear();
    for (const Address &address : config_.addresses) {
        const uint32_t index = static_cast<uint32_t>(ports_.size());
        ports_.push_back(address.tcp ? nic_.listenAt(address, index, error) : 0);
        if (!error.empty()) return false;
        memcpy(header.gids[index], address.gid, sizeof(header.gids[index]));
    }
    header.port = ports_[0];
    // Yama's ptrace_scope 1 lets only a parent read a process's memory unless the process says otherwise.
    // Where there is no Yama the call fails and is not needed.
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    if (!table_.open(header, error)) return false;
    if (nic_.start(config_.dc_key, error)) return true;
    table_.remove();
    table_.forget();
    return false;
}

uint32_t Runtime::nextAddress() {
    return config_.first_fit ? 0 : registered_++ % static_cast<uint32_t>(config_.addresses.size());
}

std::string Runtime::describe(const Range &range, const Registration &registration) const {
    char gid[33];
    for (size_t i = 0; i < 16; ++i) snprintf(gid + 2 * i, 3, "%02x", config_.addresses[registration.address].gid[i]);
    char text[kDescriptorChars + 1];
    snprintf(text, sizeof(text), "%016" PRIx64 ":%08" PRIx32 ":%08" PRIx32 ":%04x:%06x:1:%s", range.addr,
             static_cast<uint32_t>(range.size), registration.rkey, ports_[registration.address],
             static_cast<unsigned>(getpid()) & 0xffffff, gid);
    return text;
}

void Runtime::connect(const void *key, const CUObjIOOps &ops, int proto) {
    auto client = std::make_shared<Client>();
    client->ops = ops;
    std::lock_guard<std::mutex> lock(mutex_);
    client->connected = openLocal();
    if (proto != CUOBJ_PROTO_RDMA_DC_V1) {
        log(Level::kError, "not connected: protocol %d is unknown", proto);
        client->connected = false;
    }
    clients_[key] = client;
}

std::shared_ptr<Client> Runtime::find(const void *key) {
    const auto it = clients_.find(key);
    return it == clients_.end() ? nullptr : it->second;
}

bool Runtime::isConnected(const void *key) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto client = find(key);
    return client && client->connected;
}

void Runtime::settle(uint32_t rkey) {
    nic_.drop(rkey);
    if (!table_.drain(rkey, kSettleSeconds)) {
        // The slot is not used again, so the endpoint can at worst finish what it was doing.
        log(Level::kError, "an endpoint stays in a transfer under the withdrawn rkey %08x", rkey);
        return;
    }
    std::lock_guard<std::mutex> lock(mutex_);
    table_.release(rkey);
}

void Runtime::disconnect(const void *key) {
    std::shared_ptr<Client> client;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        client = find(key);
        if (!client) return;
        clients_.erase(key);
        for (const auto &[addr, registration] : client->registrations) table_.withdraw(registration.rkey);
    }
    for (const auto &[addr, registration] : client->registrations) settle(registration.rkey);
}

bool Runtime::registerMemory(const void *key, Range range) {
    const auto refuse = [&](const char *why) {
        log(Level::kError, "cannot register %" PRIu64 " bytes at %#" PRIx64 ": %s", range.size, range.addr, why);
        return false;
    };
    if (range.addr == 0 || range.size == 0) return refuse("there is no memory");
    if (range.size > kMaxRegistration) return refuse("more than 4 GiB less 64 KiB");
    if (range.addr + range.size < range.addr || !isMapped(range)) return refuse("not all of it is mapped");
    std::lock_guard<std::mutex> lock(mutex_);
    const auto client = find(key);
    if (!client || !client->connected) return refuse("the client is not connected");
    if (client->registrations.count(range.addr) != 0) return refuse("already registered");
    const uint32_t address = nextAddress();
    const auto rkey = table_.publish(range.addr, range.size, address);
    if (!rkey) return refuse("the table is full");
    client->registrations[range.addr] = {range, *rkey, address};
    log(Level::kDebug, "registered %" PRIu64 " bytes at %#" PRIx64 ", rkey %08x", range.size, range.addr, *rkey);
    return true;
}

bool Runtime::unregisterMemory(const void *key, uint64_t addr) {
    uint32_t rkey = 0;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        const auto client = find(key);
        if (client && client->registrations.count(addr) != 0) {
            rkey = client->registrations[addr].rkey;
            client->registrations.erase(addr);
            table_.withdraw(rkey);
        }
    }
    if (rkey == 0) {
        log(Level::kError, "cannot unregister %#" PRIx64 ": no registration starts there", addr);
        return false;
    }
    settle(rkey);
    log(Level::kDebug, "unregistered %#" PRIx64 ", rkey %08x", addr, rkey);
    return true;
}

ssize_t Runtime::operate(const void *key, bool is_get, void *ctx, void *ptr, size_t size, loff_t offset) {
    const Range range{reinterpret_cast<uint64_t>(ptr), size};
    const char *const verb = is_get ? "get" : "put";
    const auto refuse = [&](int error, const char *why) {
        log(Level::kError, "%s of %zu bytes at %p refused: %s", verb, size, ptr, why);
        return ssize_t{-error};
    };
    if (ptr == nullptr || size == 0 || size > kMaxRegistration) return refuse(EINVAL, "not a range of memory");
    std::shared_ptr<Client> client;
    std::string text;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        client = find(key);
        if (!client || !client->connected) return refuse(ENOTCONN, "the client is not connected");
        if (is_get ? client->ops.get == nullptr : client->ops.put == nullptr) return refuse(ENOSYS, "no callback");
        const auto &all = client->registrations;
        const auto found =
            std::find_if(all.begin(), all.end(), [&](const auto &r) { return r.second.range.holds(range); });
        if (found == all.end()) return refuse(EFAULT, "the memory is not registered");
        if (std::any_of(client->busy.begin(), client->busy.end(), [&](const Range &r) { return r.overlaps(range); }))
            return refuse(EBUSY, "another operation uses the buffer");
        client->busy.push_back(range);
        text = describe(range, found->second);
    }
    log(Level::kTrace, "%s %s", verb, text.c_str());
    const Operation operation{ctx};
    const cufileRDMAInfo_t info{1, static_cast<int>(text.size() + 1), text.c_str()};
    const ssize_t result = is_get ? client->ops.get(&operation, static_cast<char *>(ptr), size, offset, &info)
                                  : client->ops.put(&operation, static_cast<const char *>(ptr), size, offset, &info);
    std::lock_guard<std::mutex> lock(mutex_);
    const auto same = [&](const Range &r) { return r.addr == range.addr && r.size == range.size; };
    client->busy.erase(std::find_if(client->busy.begin(), client->busy.end(), same));
    return result;
}

void *Runtime::contextOf(const void *handle) { return static_cast<const Operation *>(handle)->ctx; }

}  // namespace kvlab
