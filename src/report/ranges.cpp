#include "report/ranges.hpp"

#include <fmt/format.h>

#include <third_party/nvtx/nvToolsExtPayload.h>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

namespace swy::report::ranges {

bool on = false;

namespace {

nvtxDomainHandle_t nvtx_domain = nullptr;

// A range's fields, which a tool shows by the schema that start() has registered.
struct Payload {
    std::uint64_t bytes;
    std::uint32_t transport, reason;  // of enumerations that the tool has the words of
};

// Of Payload; 0 where the tool takes no payloads but numbers: it gets the bytes.
std::uint64_t schema = 0;

// What a tool shows: the text as the range's name, a category for each transport, and the payload.
struct Attributes {
    Attributes(std::string_view call, std::size_t bytes, Carrier carrier, Reason reason)
        : text(reason == Reason::kNone ? fmt::format("{} ({})", call, name(carrier))
                                       : fmt::format("{} ({}: {})", call, name(carrier), name(reason))),
          payload{bytes, static_cast<std::uint32_t>(carrier), static_cast<std::uint32_t>(reason)},
          extended{schema, sizeof payload, &payload} {
        event.version = NVTX_VERSION;
        event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
        event.category = static_cast<std::uint32_t>(carrier) + 1;
        if (schema != 0) {
            event.payloadType = NVTX_PAYLOAD_TYPE_EXT;
            event.reserved0 = 1;  // payload
            event.payload.ullValue = NVTX_POINTER_AS_PAYLOAD_ULLVALUE(&extended);
        } else {
            event.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
            event.payload.ullValue = bytes;
        }
        event.messageType = NVTX_MESSAGE_TYPE_ASCII;
        event.message.ascii = text.c_str();
    }
    Attributes(const Attributes&) = delete;  // its parts point to each other
    Attributes& operator=(const Attributes&) = delete;

    std::string text;
    Payload payload;
    nvtxPayloadData_t extended;
    nvtxEventAttributes_t event{};
};

// Tells the tool the words of an enumeration. Returns the type that it has in a schema, 0 where the tool takes none.
template <typename Value>
std::uint64_t register_words(const char* title, int count) {
    std::vector<std::string> words;
    std::vector<nvtxPayloadEnum_t> entries;
    words.reserve(static_cast<std::size_t>(count));
    entries.reserve(static_cast<std::size_t>(count));
    for (int value = 0; value < count; ++value)
        words.emplace_back(name(static_cast<Value>(value)));
    for (const std::string& word : words)
        entries.push_back({word.c_str(), entries.size(), 0});
    nvtxPayloadEnumAttr_t attributes{};
    attributes.fieldMask = NVTX_PAYLOAD_ENUM_ATTR_FIELD_NAME | NVTX_PAYLOAD_ENUM_ATTR_FIELD_ENTRIES |
                           NVTX_PAYLOAD_ENUM_ATTR_FIELD_NUM_ENTRIES | NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE;
    attributes.name = title;
    attributes.entries = entries.data();
    attributes.numEntries = entries.size();
    attributes.sizeOfEnum = sizeof(std::uint32_t);
    return nvtxPayloadEnumRegister(nvtx_domain, &attributes);
}

std::uint64_t register_schema() {
    const std::uint64_t transport = register_words<Carrier>("transport", kCarriers);
    const std::uint64_t reason = register_words<Reason>("reason", kReasons);
    if (transport == 0 || reason == 0)
        return 0;
    std::array<nvtxPayloadSchemaEntry_t, 3> entries{};
    entries[0].type = NVTX_PAYLOAD_ENTRY_TYPE_UINT64;
    entries[0].name = "bytes";
    entries[0].offset = offsetof(Payload, bytes);
    entries[1].type = transport;
    entries[1].name = "transport";
    entries[1].offset = offsetof(Payload, transport);
    entries[2].type = reason;
    entries[2].name = "reason";
    entries[2].offset = offsetof(Payload, reason);
    nvtxPayloadSchemaAttr_t attributes{};
    attributes.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
                           NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
                           NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
    attributes.name = "switchyard call";
    attributes.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
    attributes.entries = entries.data();
    attributes.numEntries = entries.size();
    attributes.payloadStaticSize = sizeof(Payload);
    return nvtxPayloadSchemaRegister(nvtx_domain, &attributes);
}

}  // namespace

void start() {
    const char* tool = std::getenv("NVTX_INJECTION64_PATH");
    if (tool == nullptr || *tool == '\0')
        return;
    if (nvtx_domain == nullptr) {
        nvtx_domain = nvtxDomainCreateA("switchyard");
        for (int carrier = 0; carrier < kCarriers; ++carrier)
            nvtxDomainNameCategoryA(nvtx_domain, static_cast<std::uint32_t>(carrier) + 1,
                                    std::string(name(static_cast<Carrier>(carrier))).c_str());
        if (nvtx_domain != nullptr)
            schema = register_schema();
    }
    on = nvtx_domain != nullptr;  // null where the tool's library could not be loaded, or wants no domains
}

void stop() {
    on = false;
}

InThread::InThread(std::string_view call, std::size_t bytes, Carrier carrier, Reason reason) : begun_(on) {
    if (!begun_)
        return;
    const Attributes attributes(call, bytes, carrier, reason);
    nvtxDomainRangePushEx(nvtx_domain, &attributes.event);
}

InThread::~InThread() {
    if (begun_)
        nvtxDomainRangePop(nvtx_domain);
}

void OfOperation::begin(std::string_view call, std::size_t bytes, Carrier carrier, Reason reason) {
    if (!on)
        return;
    end();
    begun_ = true;
    const Attributes attributes(call, bytes, carrier, reason);
    id_ = nvtxDomainRangeStartEx(nvtx_domain, &attributes.event);
}

void OfOperation::end_begun() {
    begun_ = false;
    nvtxDomainRangeEnd(nvtx_domain, id_);
}

}  // namespace swy::report::ranges
