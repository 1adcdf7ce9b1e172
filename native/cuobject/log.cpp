#include "log.h"

#include <fcntl.h>
#include <strings.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <ctime>

namespace kvlab {
namespace {

constexpr const char *kNames[] = {"ERROR", "WARN", "INFO", "DEBUG", "TRACE"};

std::atomic<int> g_fd{STDERR_FILENO};
std::atomic<int> g_level{static_cast<int>(Level::kError)};

}  // namespace

void openLog(const std::string &directory, const std::string &level) {
    int chosen = -1;
    for (int i = 0; i < 5; ++i)
        if (strcasecmp(level.c_str(), kNames[i]) == 0) chosen = i;
    g_level = chosen < 0 ? static_cast<int>(Level::kError) : chosen;
    int fd = STDERR_FILENO;
    int number = 0;
    if (!directory.empty()) {
        const std::string path = directory + "/cuobj_" + std::to_string(getpid()) + ".log";
        fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0640);
        number = errno;
        if (fd < 0) fd = STDERR_FILENO;
    }
    // The file before this one stays open: another thread may be about to write to it.
    g_fd = fd;
    if (!directory.empty() && fd == STDERR_FILENO)
        log(Level::kError, "cannot write a log in logging.dir %s: %s", directory.c_str(), strerror(number));
    if (chosen < 0 && !level.empty())
        log(Level::kError, "logging.level %s is none of ERROR, WARN, INFO, DEBUG, TRACE; taking ERROR", level.c_str());
}

void log(Level level, const char *format, ...) {
    if (static_cast<int>(level) > g_level) return;
    timeval now{};
    gettimeofday(&now, nullptr);
    tm utc{};
    gmtime_r(&now.tv_sec, &utc);
    char line[1024];
    size_t used = strftime(line, sizeof(line), "%Y-%m-%dT%H:%M:%S", &utc);
    used += static_cast<size_t>(snprintf(line + used, sizeof(line) - used, ".%06ldZ %d %s libcuobjclient (simulated): ",
                                         static_cast<long>(now.tv_usec), getpid(), kNames[static_cast<int>(level)]));
    va_list arguments;
    va_start(arguments, format);
    const int more = vsnprintf(line + used, sizeof(line) - used - 1, format, arguments);
    va_end(arguments);
    if (more > 0) used = std::min(used + static_cast<size_t>(more), sizeof(line) - 2);
    line[used++] = '\n';
    // One write, so that lines of several threads do not mix. A log that cannot be written stops nothing.
    if (write(g_fd, line, used) < 0) return;
}

}  // namespace kvlab
