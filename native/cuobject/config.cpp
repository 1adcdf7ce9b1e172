#include "config.h"

namespace kvlab {

Config loadConfig() {
    Config config;
    const uint8_t loopback[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
    __builtin_memcpy(config.gid, loopback, sizeof(loopback));
    config.connected = true;
    return config;
}

}  // namespace kvlab
