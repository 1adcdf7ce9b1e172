// The library's log: to <logging.dir>/cuobj_<pid>.log, else to standard error. Every line says `simulated`.
#pragma once

#include <string>

namespace kvlab {

enum class Level { kError, kWarn, kInfo, kDebug, kTrace };

// An unknown name gives kError, NVIDIA's default, and is itself reported.
void openLog(const std::string &directory, const std::string &level);

__attribute__((format(printf, 2, 3))) void log(Level level, const char *format, ...);

}  // namespace kvlab
