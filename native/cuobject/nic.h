// The tcp transport: a thread that plays the NIC for endpoints on other hosts. Wire format: PROTOCOL.md.
#pragma once

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

    // Reserves a port at the address and returns it, or 0 and `error`. Whoever connects waits until start.
    uint16_t listenAt(const Address &address, std::string &error);
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

    void acceptLoop(int listener);
    void serve(int fd);
    bool transfer(int fd, const Request &request);
    uint32_t grant(int fd, const Request &request);
    void finish(int fd);

    const Table &table_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::thread acceptor_;
    int listener_ = -1;
    uint32_t dc_key_ = 0;
    bool stopping_ = false;
    std::set<int> connections_;
    std::map<int, uint32_t> active_;  // connection to the rkey of its transfer
};

}  // namespace kvlab
