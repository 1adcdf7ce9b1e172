// Reads documents separated by NUL from standard input, parses each with the library's reader and prints one line for
// each: the value as canonical JSON, or "!" and the error.
#include "json.h"

#include <cstdio>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>

namespace {

using kvlab::Json;

std::string quoted(const std::string &text) {
    std::string out = "\"";
    for (const char c : text) {
        char escape[8];
        snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned char>(c));
        const bool plain = static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\';
        out += plain ? std::string(1, c) : std::string(escape);
    }
    return out + "\"";
}

std::string write(const Json &value) {
    std::string out, separator;
    switch (value.type) {
        case Json::Type::kNull: return "null";
        case Json::Type::kBool: return value.boolean ? "true" : "false";
        case Json::Type::kNumber: return value.text;
        case Json::Type::kString: return quoted(value.text);
        case Json::Type::kArray:
            for (const Json &item : value.items) {
                out += separator + write(item);
                separator = ",";
            }
            return "[" + out + "]";
        case Json::Type::kObject:
            for (const auto &[name, member] : value.members) {
                out += separator + quoted(name) + ":" + write(member);
                separator = ",";
            }
            return "{" + out + "}";
    }
    return "";
}

}  // namespace

int main() {
    for (std::string document; std::getline(std::cin, document, '\0');) {
        Json value;
        std::string error;
        if (kvlab::parseJson(document, value, error))
            std::cout << write(value) << "\n";
        else
            std::cout << "!" << error << "\n";
    }
    return 0;
}
