// A strict JSON reader (RFC 8259), with the one liberty NVIDIA's own templates take: // comments.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace kvlab {

struct Json {
    enum class Type { kNull, kBool, kNumber, kString, kArray, kObject };
    Type type = Type::kNull;
    bool boolean = false;
    std::string text;  // of a string, or a number as it stands
    std::vector<Json> items;
    std::map<std::string, Json> members;  // of a repeated name the last

    // The member, or null where this is no object or has none of that name.
    const Json &operator[](const std::string &name) const;
    bool isNull() const { return type == Type::kNull; }
};

// Parses one document. On failure `error` says what is wrong and in which line.
bool parseJson(const std::string &document, Json &value, std::string &error);

}  // namespace kvlab
