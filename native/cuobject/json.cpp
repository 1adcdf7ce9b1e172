#include "json.h"

#include <cstdint>
#include <cstring>

namespace kvlab {
namespace {

// Deeper than any configuration, and far from what would exhaust the stack.
constexpr int kMaxDepth = 64;

class Parser {
public:
    explicit Parser(const std::string &text) : text_(text) {}

    bool document(Json &value) {
        if (!parse(value, 0)) return false;
        space();
        return at_ == text_.size() || fail("something follows the end of the document");
    }

    std::string error() const {
        long line = 1;
        for (size_t i = 0; i < at_ && i < text_.size(); ++i) line += text_[i] == '\n';
        return "line " + std::to_string(line) + ": " + what_;
    }

private:
    bool fail(const char *what) {
        if (what_.empty()) what_ = what;
        return false;
    }
    bool end() const { return at_ >= text_.size(); }
    char peek() const { return end() ? '\0' : text_[at_]; }

    void space() {
        for (; !end(); ++at_) {
            if (text_.compare(at_, 2, "//") == 0) at_ = std::min(text_.find('\n', at_), text_.size());
            if (end() || strchr(" \t\r\n", text_[at_]) == nullptr || text_[at_] == '\0') return;
        }
    }

    bool take(char c) {
        if (end() || text_[at_] != c) return false;
        ++at_;
        return true;
    }

    bool word(const char *name) {
        const size_t length = strlen(name);
        if (text_.compare(at_, length, name) != 0) return fail("a value is expected");
        at_ += length;
        return true;
    }

    bool parse(Json &value, int depth) {
        if (depth > kMaxDepth) return fail("nested too deeply");
        space();
        switch (peek()) {
            case '{': return object(value, depth);
            case '[': return array(value, depth);
            case '"': value.type = Json::Type::kString; return string(value.text);
            case 't':
                value.type = Json::Type::kBool;
                value.boolean = true;
                return word("true");
            case 'f': value.type = Json::Type::kBool; return word("false");
            case 'n': return word("null");
            default: value.type = Json::Type::kNumber; return number(value.text);
        }
    }

    bool object(Json &value, int depth) {
        value.type = Json::Type::kObject;
        take('{');
        space();
        if (take('}')) return true;
        do {
            space();
            std::string name;
            if (peek() != '"') return fail("a name in double quotes is expected");
            if (!string(name)) return false;
            space();
            if (!take(':')) return fail("a colon is expected");
            Json member;
            if (!parse(member, depth + 1)) return false;
            value.members[name] = std::move(member);
            space();
        } while (take(','));
        return take('}') || fail("a comma or } is expected");
    }

    bool array(Json &value, int depth) {
        value.type = Json::Type::kArray;
        take('[');
        space();
        if (take(']')) return true;
        do {
            value.items.emplace_back();
            if (!parse(value.items.back(), depth + 1)) return false;
            space();
        } while (take(','));
        return take(']') || fail("a comma or ] is expected");
    }

    bool digits() {
        const size_t from = at_;
        while (peek() >= '0' && peek() <= '9') ++at_;
        return at_ > from;
    }

    bool number(std::string &out) {
        const size_t from = at_;
        take('-');
        if (!take('0') && !digits()) return fail("a value is expected");
        if (take('.') && !digits()) return fail("digits are expected after the point");
        if (take('e') || take('E')) {
            if (!take('+')) take('-');
            if (!digits()) return fail("digits are expected in the exponent");
        }
        out = text_.substr(from, at_ - from);
        return true;
    }

    bool hex4(uint32_t &code) {
        code = 0;
        for (int i = 0; i < 4; ++i, ++at_) {
            const char c = peek();
            const char *digit = strchr("0123456789abcdef", c | 0x20);
            if (c == '\0' || digit == nullptr || *digit == '\0' || (c < '0'))
                return fail("four hex digits are expected");
            code = code * 16 + static_cast<uint32_t>(digit - "0123456789abcdef");
        }
        return true;
    }

    bool escape(std::string &out) {
        const char c = peek();
        ++at_;
        if (const char *which = strchr("\"\\/bfnrt", c); c != '\0' && which != nullptr) {
            out += "\"\\/\b\f\n\r\t"[which - "\"\\/bfnrt"];
            return true;
        }
        return fail("an unknown escape");
    }

    bool string(std::string &out) {
        take('"');
        while (!end()) {
            const unsigned char c = static_cast<unsigned char>(text_[at_++]);
            if (c == '"') return true;
            if (c < 0x20) return fail("a control character in a string");
            if (c != '\\') {
                out += static_cast<char>(c);
            } else if (peek() == 'u') {
                ++at_;
                uint32_t code = 0;
                if (!hex4(code) || !unicode(code, out)) return false;
            } else if (!escape(out)) {
                return false;
            }
        }
        return fail("the string does not end");
    }

    bool unicode(uint32_t code, std::string &out) {
        if (code >= 0xdc00 && code <= 0xdfff) return fail("half a surrogate pair");
        if (code >= 0xd800 && code <= 0xdbff) {
            uint32_t low = 0;
            if (!take('\\') || !take('u') || !hex4(low)) return fail("half a surrogate pair");
            if (low < 0xdc00 || low > 0xdfff) return fail("half a surrogate pair");
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        }
        const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((code >> shift) & 0x3f)); };
        if (code < 0x80) {
            out += static_cast<char>(code);
        } else if (code < 0x800) {
            out += static_cast<char>(0xc0 | (code >> 6));
            tail(0);
        } else if (code < 0x10000) {
            out += static_cast<char>(0xe0 | (code >> 12));
            tail(6);
            tail(0);
        } else {
            out += static_cast<char>(0xf0 | (code >> 18));
            tail(12);
            tail(6);
            tail(0);
        }
        return true;
    }

    const std::string &text_;
    size_t at_ = 0;
    std::string what_;
};

}  // namespace

const Json &Json::operator[](const std::string &name) const {
    static const Json *const null = new Json;
    const auto it = members.find(name);
    return it == members.end() ? *null : it->second;
}

bool parseJson(const std::string &document, Json &value, std::string &error) {
    Parser parser(document);
    if (parser.document(value)) return true;
    error = parser.error();
    return false;
}

}  // namespace kvlab
