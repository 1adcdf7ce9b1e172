// A client of libcuobjclient that does what it is told: one command a line on standard input, one answer a line.
// Addresses and sizes are decimal. Clients are numbered from 0 in the order in which they were made.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <new>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cuobjclient.h"

namespace {

// What a caller compiled against NVIDIA's header would allocate, poisoned: the library must leave it alone.
constexpr size_t kObjectBytes = 256;
constexpr unsigned char kPoison = 0xa5;

struct Object {
    alignas(16) unsigned char bytes[kObjectBytes];
    cuObjClient *client() { return reinterpret_cast<cuObjClient *>(bytes); }
};

struct Call {
    std::string descriptor;
    cuObjClient *nested = nullptr;
    ssize_t nested_result = 0;
};

ssize_t onGet(const void *handle, char *, size_t, loff_t, const cufileRDMAInfo_t *info) {
    auto *call = static_cast<Call *>(cuObjClient::getCtx(handle));
    call->descriptor = info->desc_str;
    return info->desc_len == static_cast<int>(call->descriptor.size() + 1) ? 0 : -1;
}

ssize_t onPut(const void *handle, const char *ptr, size_t size, loff_t offset, const cufileRDMAInfo_t *info) {
    auto *call = static_cast<Call *>(cuObjClient::getCtx(handle));
    if (call->nested != nullptr) {
        Call inner;
        call->nested_result = call->nested->cuObjGet(&inner, const_cast<char *>(ptr), size, 0, 0);
    }
    return onGet(handle, nullptr, size, offset, info);
}

CUObjIOOps g_ops{onGet, onPut};
// Never destroyed, so that the leak checker finds what they hold.
std::vector<Object *> &g_objects = *new std::vector<Object *>;
std::vector<void *> &g_memory = *new std::vector<void *>;

cuObjClient *makeClient() {
    auto *object = new Object;
    memset(object->bytes, kPoison, sizeof(object->bytes));
    new (object->bytes) cuObjClient(g_ops, CUOBJ_PROTO_RDMA_DC_V1);
    g_objects.push_back(object);
    return object->client();
}

int hammer(cuObjClient *client, int rounds) {
    int failures = 0;
    std::vector<char> memory(1 << 16);
    for (int i = 0; i < rounds; ++i) {
        Call call;
        char *at = memory.data() + i;
        failures += client->cuMemObjGetDescriptor(at, 4096) != CU_OBJ_SUCCESS;
        failures += client->cuObjGet(&call, at, 4096, 0, 0) != 0 || call.descriptor.size() != 81;
        failures += client->cuObjPut(&call, at + 1, 4095, 0, 0) != 0;
        failures += !client->isConnected();
        failures += client->cuMemObjPutDescriptor(at) != CU_OBJ_SUCCESS;
        Call refused;
        failures += client->cuObjGet(&refused, at, 4096, 0, 0) >= 0 || !refused.descriptor.empty();
    }
    return failures;
}

class Words {
public:
    explicit Words(const std::string &line) : in_(line) {}
    std::string text() {
        std::string word;
        in_ >> word;
        return word;
    }
    uint64_t number() { return strtoull(text().c_str(), nullptr, 10); }
    unsigned char *memory() { return reinterpret_cast<unsigned char *>(number()); }
    cuObjClient *client() { return g_objects.at(number())->client(); }

private:
    std::istringstream in_;
};

std::string operate(Words &words, const std::string &verb) {
    cuObjClient *client = words.client();
    void *at = words.memory();
    const size_t size = words.number();
    Call call;
    if (verb == "nested") call.nested = client;
    const ssize_t result =
        verb == "get" ? client->cuObjGet(&call, at, size, 0, 0) : client->cuObjPut(&call, at, size, 0, 0);
    if (verb == "nested") return std::to_string(result) + " " + std::to_string(call.nested_result);
    return std::to_string(result) + " " + call.descriptor;
}

using Command = std::string (*)(Words &);

const std::map<std::string, Command> kCommands = {
    {"new",
     [](Words &) {
         const bool connected = makeClient()->isConnected();
         return std::to_string(g_objects.size() - 1) + " " + std::to_string(connected);
     }},
    {"delete",
     [](Words &words) {
         words.client()->~cuObjClient();
         return std::string("ok");
     }},
    {"connected", [](Words &words) { return std::to_string(words.client()->isConnected()); }},
    {"object_untouched",
     [](Words &words) {
         const Object *object = g_objects.at(words.number());
         const auto poisoned = [](unsigned char byte) { return byte == kPoison; };
         return std::to_string(std::all_of(object->bytes, object->bytes + kObjectBytes, poisoned));
     }},
    {"alloc",  // BYTES VALUE: page-aligned memory filled with the value
     [](Words &words) {
         const size_t size = words.number();
         void *memory = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
         memset(memory, static_cast<int>(words.number()), size);
         g_memory.push_back(memory);
         return std::to_string(reinterpret_cast<uint64_t>(memory));
     }},
    {"map",  // BYTES: address space only, no memory behind it
     [](Words &words) {
         void *memory =
             mmap(nullptr, words.number(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
         return std::to_string(reinterpret_cast<uint64_t>(memory));
     }},
    {"unmap",
     [](Words &words) {
         void *at = words.memory();
         return std::to_string(munmap(at, words.number()));
     }},
    {"protect",  // ADDR BYTES: no access any more, though still mapped, so that nothing else takes its place
     [](Words &words) {
         void *at = words.memory();
         return std::to_string(mprotect(at, words.number(), PROT_NONE));
     }},
    {"load",  // ADDR PATH: the file's bytes into memory
     [](Words &words) {
         unsigned char *at = words.memory();
         std::ifstream file(words.text(), std::ios::binary);
         const std::string bytes((std::istreambuf_iterator<char>(file)), {});
         memcpy(at, bytes.data(), bytes.size());
         return std::to_string(bytes.size());
     }},
    {"dump",  // ADDR BYTES PATH: memory into a new file
     [](Words &words) {
         const auto *at = words.memory();
         const size_t size = words.number();
         std::ofstream file(words.text(), std::ios::binary);
         file.write(reinterpret_cast<const char *>(at), static_cast<std::streamsize>(size));
         return std::string("ok");
     }},
    {"register",
     [](Words &words) {
         cuObjClient *client = words.client();
         void *at = words.memory();
         return std::to_string(client->cuMemObjGetDescriptor(at, words.number()));
     }},
    {"unregister",
     [](Words &words) {
         cuObjClient *client = words.client();
         return std::to_string(client->cuMemObjPutDescriptor(words.memory()));
     }},
    {"cycle",  // CLIENT ADDR BYTES COUNT: registers and unregisters that often; number of failures
     [](Words &words) {
         cuObjClient *client = words.client();
         void *at = words.memory();
         const size_t size = words.number();
         int failures = 0;
         for (uint64_t left = words.number(); left > 0; --left)
             failures += client->cuMemObjGetDescriptor(at, size) + client->cuMemObjPutDescriptor(at);
         return std::to_string(failures);
     }},
    {"get", [](Words &words) { return operate(words, "get"); }},
    {"put", [](Words &words) { return operate(words, "put"); }},
    {"nested",  // a get of the same memory from inside the callback of a put: both return values
     [](Words &words) { return operate(words, "nested"); }},
    {"threads",  // CLIENT COUNT ROUNDS: number of failures
     [](Words &words) {
         cuObjClient *client = words.client();
         std::vector<int> failures(words.number());
         const int rounds = static_cast<int>(words.number());
         std::vector<std::thread> threads;
         for (int &count : failures) threads.emplace_back([&count, client, rounds] { count = hammer(client, rounds); });
         for (std::thread &thread : threads) thread.join();
         int total = 0;
         for (int count : failures) total += count;
         return std::to_string(total);
     }},
    {"fork",  // from here on the child answers: its pid, client 0 connected, number of a new client and connected
     [](Words &) {
         const pid_t child = fork();
         if (child != 0) {
             int status = 0;
             waitpid(child, &status, 0);
             return "child ended " + std::to_string(status);
         }
         const bool before = g_objects.front()->client()->isConnected();
         const bool own = makeClient()->isConnected();
         return std::to_string(getpid()) + " " + std::to_string(before) + " " + std::to_string(g_objects.size() - 1) +
                " " + std::to_string(own);
     }},
    {"quit_child",  // a child leaves as a worker does, without the exit handlers
     [](Words &) -> std::string { _exit(0); }},
    {"undumpable", [](Words &) { return std::to_string(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)); }},
};

}  // namespace

int main() {
    for (std::string line; std::getline(std::cin, line);) {
        Words words(line);
        const auto command = kCommands.find(words.text());
        if (command == kCommands.end()) {
            std::cerr << "driver: what is: " << line << std::endl;
            return 2;
        }
        std::cout << command->second(words) << std::endl;
    }
    return 0;
}
