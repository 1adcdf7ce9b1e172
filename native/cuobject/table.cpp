#include "table.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

namespace kvlab {
namespace {

constexpr char kDirectory[] = "/dev/shm";
constexpr char kPrefix[] = "kvlab-cuobj-";
constexpr size_t kTableBytes = kHeaderBytes + size_t{kTableSlots} * sizeof(TableSlot);
constexpr off_t kLifeByte = 0;

off_t slotByte(uint32_t rkey) { return static_cast<off_t>(kHeaderBytes + (rkey % kTableSlots) * sizeof(TableSlot)); }

// Open-file-description locks: the kernel drops them with the holder, so nothing stays locked after a crash.
bool lockByte(int fd, short type, off_t byte) {
    struct flock lock{};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = byte;
    lock.l_len = 1;
    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

// A table whose owner no longer holds the lock on its first byte is left over from a process that was killed.
bool isStale(int fd) { return lockByte(fd, F_WRLCK, kLifeByte); }

void unlinkIfStale(const std::string &path) {
    int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return;
    struct stat here{}, there{};
    if (isStale(fd) && fstat(fd, &here) == 0 && lstat(path.c_str(), &there) == 0 && here.st_ino == there.st_ino)
        unlink(path.c_str());
    close(fd);
}

void removeStaleTables() {
    DIR *directory = opendir(kDirectory);
    if (directory == nullptr) return;
    const size_t prefix = strlen(kPrefix);
    while (const dirent *entry = readdir(directory)) {
        const char *name = entry->d_name;
        if (strncmp(name, kPrefix, prefix) != 0) continue;
        if (name[prefix] == '\0' || strspn(name + prefix, "0123456789") != strlen(name + prefix)) continue;
        unlinkIfStale(std::string(kDirectory) + "/" + name);
    }
    closedir(directory);
}

}  // namespace

bool Table::open(const TableHeader &header, std::string &error) {
    removeStaleTables();
    path_ = std::string(kDirectory) + "/" + kPrefix + std::to_string(header.pid);
    // Nameless until it is complete and locked, so that nobody sees half a table or takes it for a stale one.
    int fd = ::open(kDirectory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    const auto fail = [&](const char *what) {
        error = std::string(what) + " " + path_ + ": " + strerror(errno);
        if (fd >= 0) close(fd);
        return false;
    };
    if (fd < 0) return fail("cannot create");
    if (fchmod(fd, 0600) != 0 || ftruncate(fd, kTableBytes) != 0) return fail("cannot set up");
    void *map = mmap(nullptr, kTableBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) return fail("cannot map");
    memcpy(map, &header, sizeof(header));
    // Keys are not to be guessed, nor to be those of an earlier process with this pid.
    uint16_t random = 0;
    if (getrandom(&random, sizeof(random), 0) == sizeof(random)) first_generation_ = random;
    const std::string self = "/proc/self/fd/" + std::to_string(fd);
    if (!lockByte(fd, F_WRLCK, kLifeByte) ||
        linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
        fail("cannot publish");
        munmap(map, kTableBytes);
        return false;
    }
    fd_ = fd;
    base_ = static_cast<char *>(map);
    slots_ = reinterpret_cast<TableSlot *>(base_ + kHeaderBytes);
    return true;
}

void Table::forget() {
    if (base_ != nullptr) munmap(base_, kTableBytes);
    if (fd_ >= 0) close(fd_);
    *this = Table();
}

void Table::remove() {
    if (isOpen()) unlink(path_.c_str());
}

std::optional<uint32_t> Table::publish(uint64_t addr, uint64_t size, uint32_t address) {
    uint32_t index;
    if (unused_ < kTableSlots) {
        index = unused_++;
    } else if (!free_.empty()) {
        index = free_.front();
        free_.pop_front();
    } else {
        return std::nullopt;
    }
    TableSlot &slot = slots_[index];
    if (slot.generation == 0) slot.generation = first_generation_;
    slot.generation = slot.generation % 0xffff + 1;  // never 0, so no key is 0
    slot.addr = addr;
    slot.size = size;
    slot.address = address;
    const uint32_t rkey = slot.generation << 16 | index;
    __atomic_store_n(&slot.rkey, rkey, __ATOMIC_RELEASE);
    return rkey;
}

bool Table::lookUp(uint32_t rkey, uint64_t &addr, uint64_t &size, uint32_t &address) const {
    const TableSlot &slot = slots_[rkey % kTableSlots];
    if (rkey == 0 || __atomic_load_n(&slot.rkey, __ATOMIC_ACQUIRE) != rkey) return false;
    addr = slot.addr;
    size = slot.size;
    address = slot.address;
    return true;
}

void Table::withdraw(uint32_t rkey) { __atomic_store_n(&slots_[rkey % kTableSlots].rkey, 0, __ATOMIC_SEQ_CST); }

bool Table::drain(uint32_t rkey, int seconds) const {
    // An endpoint holds a read lock on the slot during a transfer. A new one sees the key withdrawn and lets go.
    const timespec pause{0, 200'000};
    for (long waited = 0; waited < seconds * 5000L; ++waited) {
        if (lockByte(fd_, F_WRLCK, slotByte(rkey))) {
            lockByte(fd_, F_UNLCK, slotByte(rkey));
            return true;
        }
        nanosleep(&pause, nullptr);
    }
    return false;
}

void Table::release(uint32_t rkey) { free_.push_back(rkey % kTableSlots); }

}  // namespace kvlab
