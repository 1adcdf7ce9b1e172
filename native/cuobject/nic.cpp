#include "nic.h"

#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "log.h"

namespace kvlab {
namespace {

constexpr char kMagic[4] = {'K', 'V', 'R', '1'};
constexpr int kTimeoutSeconds = 30;
// More transfers at once than any endpoint starts; a flood must not exhaust the client's threads.
constexpr size_t kMaxConnections = 128;
constexpr size_t kMaxCall = size_t{1} << 30;

enum Operation : uint32_t { kRead = 1, kWrite = 2 };
enum Status : uint32_t { kOk, kBadRequest, kBadDcKey, kWrongProcess, kBadRkey, kOutOfBounds, kFault };

// Straight to the kernel, past the sanitizers' interceptors: a NIC's DMA is no access of the program's own, the
// program may well use the same memory at the same time, and memory gone since is EFAULT here and no crash.
ssize_t dmaSend(int fd, const void *memory, size_t length) {
    return syscall(SYS_sendto, fd, memory, length, MSG_NOSIGNAL, nullptr, 0);
}
ssize_t dmaReceive(int fd, void *memory, size_t length) {
    return syscall(SYS_recvfrom, fd, memory, length, 0, nullptr, nullptr);
}

template <typename Step>
bool moveAll(uint64_t addr, uint64_t length, Step step) {
    while (length > 0) {
        const ssize_t n = step(reinterpret_cast<void *>(addr), std::min<uint64_t>(length, kMaxCall));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        addr += static_cast<uint64_t>(n);
        length -= static_cast<uint64_t>(n);
    }
    return true;
}

bool receiveAll(int fd, void *memory, size_t length) {
    return moveAll(reinterpret_cast<uint64_t>(memory), length, [fd](void *at, size_t n) { return recv(fd, at, n, 0); });
}

}  // namespace

struct Nic::Request {
    char magic[4];
    uint32_t operation;
    uint32_t dc_key;
    uint32_t dctn;
    uint32_t rkey;
    uint32_t unused;
    uint64_t addr;
    uint64_t size;    // of the descriptor: what must lie within the registration
    uint64_t length;  // of this transfer, at most size
};

struct Nic::Reply {
    char magic[4];
    uint32_t status;
};

uint16_t Nic::listenAt(const Address &address, uint32_t index, std::string &error) {
    static_assert(sizeof(Request) == 48 && sizeof(Reply) == 8, "PROTOCOL.md gives these sizes");
    sockaddr_storage storage;
    socklen_t length = address.socketAddress(0, storage);
    auto *where = reinterpret_cast<sockaddr *>(&storage);
    const int fd = socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, where, length) != 0 || listen(fd, 64) != 0 || getsockname(fd, where, &length) != 0) {
        error = "cannot listen at " + address.text + ": " + strerror(errno);
        if (fd >= 0) close(fd);
        return 0;
    }
    std::lock_guard<std::mutex> lock(mutex_);
    listeners_[index].fd = fd;
    return ntohs(storage.ss_family == AF_INET ? reinterpret_cast<sockaddr_in *>(&storage)->sin_port
                                              : reinterpret_cast<sockaddr_in6 *>(&storage)->sin6_port);
}

bool Nic::start(uint32_t dc_key, std::string &error) {
    std::lock_guard<std::mutex> lock(mutex_);
    dc_key_ = dc_key;
    stopping_ = false;
    // No signal of the program may land in a thread it does not know of.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        for (uint32_t index = 0; index < listeners_.size(); ++index)
            if (const int fd = listeners_[index].fd; fd >= 0)
                listeners_[index].acceptor = std::thread([this, fd, index] { acceptLoop(fd, index); });
    } catch (const std::system_error &no_thread) {
        error = std::string("no thread for the tcp transport: ") + no_thread.what();
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return error.empty();
}

void Nic::stop() {
    {
        std::unique_lock<std::mutex> lock(mutex_);
        stopping_ = true;
        for (const Listener &listener : listeners_)
            if (listener.fd >= 0) shutdown(listener.fd, SHUT_RDWR);
        for (int fd : connections_) shutdown(fd, SHUT_RDWR);
        changed_.wait(lock, [this] { return connections_.empty(); });
    }
    for (Listener &listener : listeners_) {
        if (listener.acceptor.joinable()) listener.acceptor.join();
        std::lock_guard<std::mutex> lock(mutex_);
        if (listener.fd >= 0) close(listener.fd);
        listener.fd = -1;
    }
}

void Nic::afterForkInChild() {
    // The threads are the parent's. Only the descriptors were copied, and a copy would keep a peer waiting.
    for (const Listener &listener : listeners_)
        if (listener.fd >= 0) close(listener.fd);
    for (int fd : connections_) close(fd);
    const Table &table = table_;
    new (this) Nic(table);
}

void Nic::drop(uint32_t rkey) {
    std::unique_lock<std::mutex> lock(mutex_);
    for (const auto &[fd, key] : active_)
        if (key == rkey) shutdown(fd, SHUT_RDWR);
    changed_.wait(lock, [this, rkey] {
        return std::none_of(active_.begin(), active_.end(), [rkey](const auto &a) { return a.second == rkey; });
    });
}

void Nic::acceptLoop(int listener, uint32_t index) {
    for (;;) {
        const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
            // The program's own files may close again; until then the connection waits in the backlog.
            usleep(100'000);
            continue;
        }
        std::lock_guard<std::mutex> lock(mutex_);
        if (stopping_) {
            if (fd >= 0) close(fd);
            return;
        }
        if (fd < 0) {
            if (errno == EINTR || errno == ECONNABORTED) continue;
            log(Level::kError, "the tcp transport stops listening: %s", strerror(errno));
            return;
        }
        if (connections_.size() >= kMaxConnections) {
            log(Level::kWarn, "the tcp transport refuses more than %zu connections", kMaxConnections);
            close(fd);
            continue;
        }
        try {
            std::thread([this, fd, index] { serve(fd, index); }).detach();
            connections_.insert(fd);  // before serve can end: it needs the lock for that
        } catch (const std::system_error &error) {
            log(Level::kError, "no thread for a transfer: %s", error.what());
            close(fd);
        }
    }
}

void Nic::serve(int fd, uint32_t index) {
    const timeval timeout{kTimeoutSeconds, 0};
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    Request request{};
    while (receiveAll(fd, &request, sizeof(request)) && transfer(fd, index, request)) {
    }
    std::lock_guard<std::mutex> lock(mutex_);
    connections_.erase(fd);
    close(fd);
    changed_.notify_all();
}

bool Nic::transfer(int fd, uint32_t index, const Request &request) {
    const uint32_t status = grant(fd, index, request);
    Reply reply{{kMagic[0], kMagic[1], kMagic[2], kMagic[3]}, status};
    bool ok = send(fd, &reply, sizeof(reply), MSG_NOSIGNAL) == sizeof(reply) && status == kOk;
    if (ok && request.operation == kRead) {
        ok = moveAll(request.addr, request.length, [fd](void *at, size_t n) { return dmaSend(fd, at, n); });
    } else if (ok) {
        ok = moveAll(request.addr, request.length, [fd](void *at, size_t n) { return dmaReceive(fd, at, n); });
        reply.status = ok ? kOk : kFault;
        ok = send(fd, &reply, sizeof(reply), MSG_NOSIGNAL) == sizeof(reply) && ok;
    }
    finish(fd);
    if (status != kOk)
        log(Level::kWarn, "tcp: refused a transfer of %llu bytes under rkey %08x (status %u)",
            static_cast<unsigned long long>(request.length), request.rkey, status);
    else
        log(ok ? Level::kDebug : Level::kWarn, "tcp: %s %llu bytes under rkey %08x%s",
            request.operation == kRead ? "sent" : "received", static_cast<unsigned long long>(request.length),
            request.rkey, ok ? "" : ": broken off");
    return ok;
}

uint32_t Nic::grant(int fd, uint32_t index, const Request &request) {
    if (memcmp(request.magic, kMagic, sizeof(kMagic)) != 0) return kBadRequest;
    if (request.operation != kRead && request.operation != kWrite) return kBadRequest;
    if (request.length == 0 || request.length > request.size) return kBadRequest;
    std::lock_guard<std::mutex> lock(mutex_);
    if (request.dc_key != dc_key_) return kBadDcKey;
    if (request.dctn != static_cast<uint32_t>(getpid())) return kWrongProcess;
    uint64_t addr = 0, size = 0;
    uint32_t address = 0;
    // As on a host with several NICs, a key is one NIC's own.
    if (!table_.lookUp(request.rkey, addr, size, address) || address != index) return kBadRkey;
    if (request.addr < addr || request.size > size || request.addr - addr > size - request.size) return kOutOfBounds;
    active_[fd] = request.rkey;
    return kOk;
}

void Nic::finish(int fd) {
    std::lock_guard<std::mutex> lock(mutex_);
    active_.erase(fd);
    changed_.notify_all();
}

}  // namespace kvlab
