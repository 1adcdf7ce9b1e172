// The registration table of this process: /dev/shm/kvlab-cuobj-<pid>, read by the endpoint. Layout: PROTOCOL.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "config.h"

namespace kvlab {

constexpr char kTableMagic[8] = {'K', 'V', 'L', 'A', 'B', 'C', 'U', '1'};
constexpr uint32_t kTableSlots = 1u << 16;  // the low 16 bits of an rkey name the slot

struct TableHeader {
    char magic[8];
    uint32_t slots;
    uint32_t pid;
    uint32_t dc_key;
    uint32_t port;  // of the tcp transport at the first address, 0 when it is off
    uint8_t gids[kMaxAddresses][16];
};

struct TableSlot {
    uint64_t addr;
    uint64_t size;
    uint32_t rkey;  // 0 while the slot is free; written last, cleared first
    uint32_t generation;
    uint32_t address;  // index of the GID that the registration is for
    uint32_t unused;
};

constexpr size_t kHeaderBytes = 4096;
static_assert(sizeof(TableHeader) == 280 && sizeof(TableSlot) == 32, "PROTOCOL.md gives these sizes");

class Table {
public:
    // Creates the table of this process. On failure `error` says why and the table is not open.
    bool open(const TableHeader &header, std::string &error);
    bool isOpen() const { return slots_ != nullptr; }
    // Forgets a table that belongs to the parent of a fork, without touching it.
    void forget();
    // Removes the file. The mapping stays, for calls that come after the end of main.
    void remove();

    std::optional<uint32_t> publish(uint64_t addr, uint64_t size, uint32_t address);
    // The range that a live key allows, and the index of its address.
    bool lookUp(uint32_t rkey, uint64_t &addr, uint64_t &size, uint32_t &address) const;
    // The key is dead for every access that starts after this.
    void withdraw(uint32_t rkey);
    // Waits until no endpoint is inside a transfer under that key. False when one stayed inside for `seconds`.
    bool drain(uint32_t rkey, int seconds) const;
    // Lets the slot be used again.
    void release(uint32_t rkey);

private:
    std::string path_;
    int fd_ = -1;
    char *base_ = nullptr;
    TableSlot *slots_ = nullptr;
    uint32_t first_generation_ = 1;
    uint32_t unused_ = 0;        // slots from here on were never used
    std::deque<uint32_t> free_;  // oldest first, so that a key comes round as late as possible
};

}  // namespace kvlab
