#include "config.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "json.h"

namespace kvlab {
namespace {

constexpr char kDefaultPath[] = "/etc/cufile.json";
constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

const char *environment(const char *name) {
    const char *value = getenv(name);
    return value != nullptr && *value != '\0' ? value : nullptr;
}

std::string choosePath() {
    for (const char *name : {"CUOBJ_ENV_PATH_JSON", "CUFILE_ENV_PATH_JSON"})
        if (const char *value = environment(name)) return value;
    return kDefaultPath;
}

// NVIDIA writes the key as a string of hex digits; a plain number is taken as well.
bool parseKey(const std::string &text, uint32_t &key) {
    if (text.empty() || text[0] == '-') return false;
    char *end = nullptr;
    errno = 0;
    const unsigned long long value = strtoull(text.c_str(), &end, 0);
    if (errno != 0 || *end != '\0' || value > UINT32_MAX) return false;
    key = static_cast<uint32_t>(value);
    return true;
}

std::string readAddresses(const Json &list, Config &config) {
    if (!list.isNull() && list.type != Json::Type::kArray) return "properties.rdma_dev_addr_list is no list";
    if (list.items.empty())
        return "properties.rdma_dev_addr_list is empty; name the addresses of this host's RDMA interfaces";
    std::string elsewhere;
    for (const Json &item : list.items) {
        Address address;
        if (item.type != Json::Type::kString || !parseAddress(item.text, address))
            return "properties.rdma_dev_addr_list holds " + item.text +
                   ", which is no IP address of a NIC; a device name such as mlx5_0 needs NVIDIA's client 1.2";
        if (address.isLocal())
            config.addresses.push_back(address);
        else
            elsewhere += (elsewhere.empty() ? "" : ", ") + item.text;
    }
    if (config.addresses.empty())
        return "properties.rdma_dev_addr_list names no address of this host (" + elsewhere + ")";
    if (config.addresses.size() > kMaxAddresses) return "properties.rdma_dev_addr_list has more than 16 addresses";
    if (!elsewhere.empty())
        config.notes.push_back("properties.rdma_dev_addr_list: not of this host, left out: " + elsewhere);
    return "";
}

void readPolicy(const Json &policy, Config &config) {
    config.first_fit = policy.text == "FirstFit";
    if (!policy.isNull() && !config.first_fit && policy.text != "RoundRobin")
        config.notes.push_back("properties.rdma_load_balancing_policy " + policy.text +
                               " is not simulated; taking RoundRobin");
}

std::string readProperties(const Json &properties, Config &config) {
    const Json &key = properties["rdma_dc_key"];
    if (!key.isNull() && !parseKey(key.text, config.dc_key))
        return "properties.rdma_dc_key is no 32-bit number such as \"0xffeeddcc\"";
    readPolicy(properties["rdma_load_balancing_policy"], config);
    return readAddresses(properties["rdma_dev_addr_list"], config);
}

}  // namespace

bool Address::isV4() const { return memcmp(gid, kMapped, sizeof(kMapped)) == 0; }

socklen_t Address::socketAddress(uint16_t port, sockaddr_storage &storage) const {
    storage = {};
    if (isV4()) {
        auto *v4 = reinterpret_cast<sockaddr_in *>(&storage);
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        memcpy(&v4->sin_addr, gid + sizeof(kMapped), 4);
        return sizeof(*v4);
    }
    auto *v6 = reinterpret_cast<sockaddr_in6 *>(&storage);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    memcpy(&v6->sin6_addr, gid, sizeof(gid));
    return sizeof(*v6);
}

bool Address::isLocal() const {
    sockaddr_storage storage;
    const socklen_t length = socketAddress(0, storage);
    const int fd = socket(storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    const bool local = bind(fd, reinterpret_cast<sockaddr *>(&storage), length) == 0;
    close(fd);
    return local;
}

bool parseAddress(const std::string &text, Address &address) {
    memcpy(address.gid, kMapped, sizeof(kMapped));
    if (inet_pton(AF_INET, text.c_str(), address.gid + sizeof(kMapped)) != 1 &&
        inet_pton(AF_INET6, text.c_str(), address.gid) != 1)
        return false;
    address.text = text;
    in6_addr v6;
    memcpy(&v6, address.gid, sizeof(v6));
    address.loopback = address.isV4() ? address.gid[12] == 127 : IN6_IS_ADDR_LOOPBACK(&v6);
    // 0.0.0.0 and :: can be bound anywhere and are no address of a NIC.
    for (const uint8_t *byte = address.gid + (address.isV4() ? 12 : 0); byte < address.gid + 16; ++byte)
        if (*byte != 0) return true;
    return false;
}

Config loadConfig() {
    Config config;
    config.path = choosePath();
    std::ifstream file(config.path);
    std::stringstream content;
    if (!file || !(content << file.rdbuf())) {
        config.problem = "cannot read " + config.path + "; name a readable file in CUFILE_ENV_PATH_JSON";
        return config;
    }
    Json document;
    std::string error;
    if (!parseJson(content.str(), document, error)) {
        config.problem = config.path + " is no JSON: " + error;
        return config;
    }
    config.log_directory = document["logging"]["dir"].text;
    config.log_level = document["logging"]["level"].text;
    config.problem = readProperties(document["properties"], config);
    if (!config.problem.empty()) {
        config.problem = config.path + ": " + config.problem;
        return config;
    }
    const char *tcp = environment("KVLAB_CUOBJ_TCP");
    for (Address &address : config.addresses) address.tcp = tcp != nullptr ? strcmp(tcp, "0") != 0 : !address.loopback;
    return config;
}

}  // namespace kvlab
