// What the library takes from its JSON file and environment.
#pragma once

#include <cstdint>
#include <string>

namespace kvlab {

struct Config {
    bool connected = false;
    uint8_t gid[16] = {};
    uint32_t dc_key = 0xffeeddcc;  // NVIDIA's documented default
    std::string problem;           // why it is not connected
};

Config loadConfig();

}  // namespace kvlab
