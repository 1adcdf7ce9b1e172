// What the library takes from its JSON file and environment. Names and defaults are those of client 1.0 (CUDA 13.1).
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kvlab {

// More rails than a host has NICs.
constexpr size_t kMaxAddresses = 16;

struct Address {
    uint8_t gid[16] = {};  // the RoCEv2 GID, which is the IPv6 address, or ::ffff:a.b.c.d
    std::string text;
    bool loopback = false;
    bool tcp = false;  // whether the tcp transport listens here

    bool isV4() const;
    // Fills in a socket address with that port and returns its length.
    socklen_t socketAddress(uint16_t port, sockaddr_storage &storage) const;
    // Whether it is an address of this host.
    bool isLocal() const;
};

bool parseAddress(const std::string &text, Address &address);

struct Config {
    std::string path;                // of the JSON file
    std::string problem;             // why no client can be connected; empty when one can
    std::vector<std::string> notes;  // what does not stop a client and should be known
    std::vector<Address> addresses;  // the local ones of properties.rdma_dev_addr_list, in its order
    bool first_fit = false;          // properties.rdma_load_balancing_policy; otherwise in turn
    uint32_t dc_key = 0xffeeddcc;    // properties.rdma_dc_key; NVIDIA's documented default
    std::string log_directory;
    std::string log_level;
};

// Reads $CUOBJ_ENV_PATH_JSON, else $CUFILE_ENV_PATH_JSON, else /etc/cufile.json.
Config loadConfig();

}  // namespace kvlab
