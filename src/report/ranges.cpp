#include "report/ranges.hpp"

#include <fmt/format.h>

#include <third_party/nvtx/nvToolsExt.h>
#include <cstdlib>
#include <string>

namespace swy::report::ranges {

bool on = false;

namespace {

nvtxDomainHandle_t nvtx_domain = nullptr;

// What a tool shows: the text as the range's name, a category for each transport, and the bytes.
struct Attributes {
    Attributes(std::string_view call, std::size_t bytes, Carrier carrier, Reason reason)
        : text(reason == Reason::kNone ? fmt::format("{} ({})", call, name(carrier))
                                       : fmt::format("{} ({}: {})", call, name(carrier), name(reason))) {
        event.version = NVTX_VERSION;
        event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
        event.category = static_cast<std::uint32_t>(carrier) + 1;
        event.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
        event.payload.ullValue = bytes;
        event.messageType = NVTX_MESSAGE_TYPE_ASCII;
        event.message.ascii = text.c_str();
    }
    std::string text;
    nvtxEventAttributes_t event{};
};

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
