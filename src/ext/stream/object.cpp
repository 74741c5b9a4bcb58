#include "ext/stream/object.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>

#include "real.hpp"

namespace swy::stream {
namespace {

struct Objects {
    std::mutex mutex;
    std::map<MPIX_Stream, std::shared_ptr<const Object>> all;
    std::uintptr_t made = 0;
};
Objects& objects() {
    static auto* the_objects = new Objects;  // not destroyed at exit
    return *the_objects;
}

bool value_of(MPI_Info info, const char* key, std::string& value) {
    std::array<char, MPI_MAX_INFO_VAL + 1> text{};
    int found = 0;
    real::Info_get(info, key, MPI_MAX_INFO_VAL, text.data(), &found);
    value = text.data();
    return found != 0;
}

int digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    const char lower = static_cast<char>(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

bool from_hex(const std::string& text, void* value, std::size_t bytes) {
    if (text.size() != 2 * bytes)
        return false;
    auto* to = static_cast<unsigned char*>(value);
    for (std::size_t i = 0; i < bytes; ++i) {
        const int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        to[i] = static_cast<unsigned char>(high * 16 + low);
    }
    return true;
}

std::string read(MPI_Info info, Object& object) {
    std::string type;
    if (info == MPI_INFO_NULL || !value_of(info, "type", type))
        return {};
    if (type != "cudaStream_t")
        return fmt::format("the info's \"type\" is \"{}\": Switchyard knows \"cudaStream_t\"", type);
    std::string value;
    if (!value_of(info, "value", value))
        return "the info has a \"type\" and no \"value\": give it the stream by MPIX_Info_set_hex(info, \"value\", "
               "&stream, sizeof stream)";
    if (!from_hex(value, &object.handle, sizeof object.handle))
        return fmt::format(
            "the info's \"value\" is no stream in hexadecimal ({} digits, {} are wanted): set it by "
            "MPIX_Info_set_hex(info, \"value\", &stream, sizeof stream)",
            value.size(), 2 * sizeof object.handle);
    object.cuda = true;
    return {};
}

}  // namespace

MPIX_Stream create(MPI_Info info, std::string& problem) {
    auto object = std::make_shared<Object>();
    problem = read(info, *object);
    if (problem.empty() && object->cuda && device::locate_stream(object->handle).ordinal < 0)
        problem = "the CUDA driver knows no context of the stream in the info's \"value\"";
    if (!problem.empty())
        return MPIX_STREAM_NULL;
    const std::scoped_lock lock(objects().mutex);
    // Handles are numbers that are not reused: a freed one is known to be invalid.
    const auto handle = reinterpret_cast<MPIX_Stream>(++objects().made * 16);
    objects().all.emplace(handle, std::move(object));
    return handle;
}

std::shared_ptr<const Object> find(MPIX_Stream stream) {
    const std::scoped_lock lock(objects().mutex);
    const auto it = objects().all.find(stream);
    return it != objects().all.end() ? it->second : nullptr;
}

std::string free(MPIX_Stream stream) {
    const std::scoped_lock lock(objects().mutex);
    const auto it = objects().all.find(stream);
    if (it == objects().all.end())
        return "the stream is MPIX_STREAM_NULL, or has been freed";
    if (it->second.use_count() > 1)
        return "a communicator still has the stream: free that first";
    objects().all.erase(it);
    return {};
}

std::string in_hex(const void* value, std::size_t bytes) {
    static constexpr char kDigits[] = "0123456789abcdef";
    const auto* from = static_cast<const unsigned char*>(value);
    std::string text;
    for (std::size_t i = 0; i < bytes; ++i)
        text += {kDigits[from[i] / 16], kDigits[from[i] % 16]};
    return text;
}

}  // namespace swy::stream
