// The tcp transport: a thread that plays the NIC for endpoints on other hosts. Wire format: PROTOCOL.md.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "config.h"
#include "table.h"

namespace kvlab {

class Nic {
public:
    explicit Nic(const Table &table) : table_(table) {}

    // Reserves a port at the address and returns it, or 0 and `error`. Whoever connects waits until start, and then
    // reaches the registrations that are for `index`, the address's place in the table.
    uint16_t listenAt(const Address &address, uint32_t index, std::string &error);
    // Serves, from the table, which must be open by now.
    bool start(uint32_t dc_key, std::string &error);
    void stop();
    // Ends the transfers under a withdrawn key; when it returns none is left.
    void drop(uint32_t rkey);

    void beforeFork() { mutex_.lock(); }
    void afterForkInParent() { mutex_.unlock(); }
    void afterForkInChild();

private:
    struct Request;
    struct Reply;

    struct Listener {
        int fd = -1;
        std::thread acceptor;
    };

    void acceptLoop(int listener, uint32_t index);
    void serve(int fd, uint32_t index);
    bool transfer(int fd, uint32_t index, const Request &request);
    uint32_t grant(int fd, uint32_t index, const Request &request);
    void finish(int fd);

    const Table &table_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::array<Listener, kMaxAddresses> listeners_;  // by the index of their address
    uint32_t dc_key_ = 0;
    bool stopping_ = false;
    std::set<int> connections_;
    std::map<int, uint32_t> active_;  // connection to the rkey of its transfer
};

}  // namespace kvlab
