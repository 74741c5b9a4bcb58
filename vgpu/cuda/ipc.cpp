// CUDA IPC: memory and events of one process used by another on the same host. A handle names the file that backs the
// memory as /proc/<pid>/fd/<n> of the process that exported it: nothing is left behind when that one dies, and nothing
// can be opened then.
#include "vgpu/cuda/ipc.hpp"

#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "vgpu/core/settings.hpp"
#include "vgpu/cuda/release.hpp"

using namespace vgpu;
using namespace vgpu::cuda;

namespace {

constexpr std::uint32_t kMemoryMagic = 0x6d757067;
constexpr std::uint32_t kEventMagic = 0x65757067;

// The contents of the 64 bytes of a handle.
struct Ticket {
    std::uint32_t magic;
    std::int32_t process;
    std::uint64_t start_time;
    std::int32_t file;
    std::uint32_t reserved;
    std::uint64_t offset;
    std::uint64_t bytes;
    std::uint64_t id;         // of the allocation in its process: differs for a later allocation at the same address
    unsigned char device[8];  // the first half of the device's UUID
};
static_assert(sizeof(Ticket) <= CU_IPC_HANDLE_SIZE);

struct Import {
    MappedRange range;
    Ticket ticket;
    Context* context;
    int opens = 1;
};

struct Imports {
    std::mutex lock;
    std::map<std::uintptr_t, Import> by_address;  // of the program's pointer
};

Imports& imports() {
    static auto& all = *new Imports;
    return all;
}

Device* device_of_ticket(const Ticket& ticket) {
    for (int i = 0; i < devices().count(); ++i)
        if (std::memcmp(devices()[i].uuid.data(), ticket.device, sizeof ticket.device) == 0)
            return &devices()[i];
    return nullptr;
}

Ticket new_ticket(std::uint32_t magic, int file, const Device& device) {
    Ticket ticket{};
    ticket.magic = magic;
    ticket.process = getpid();
    ticket.start_time = start_time_of(getpid());
    ticket.file = file;
    std::memcpy(ticket.device, device.uuid.data(), sizeof ticket.device);
    return ticket;
}

CUresult map_import(const Ticket& ticket, Context& context, Device& device, CUdeviceptr* out) {
    constexpr std::uint64_t kPage = 4096;
    const std::uint64_t first = ticket.offset / kPage * kPage;
    const std::uint64_t last = (ticket.offset + ticket.bytes + kPage - 1) / kPage * kPage;
    const int file = open_file_of_process(ticket.process, ticket.start_time, ticket.file);
    if (file < 0)
        return CUDA_ERROR_INVALID_HANDLE;
    Import import{{}, ticket, &context};
    const bool mapped = import.range.map(file, first, last - first);
    close(file);
    if (!mapped)
        return CUDA_ERROR_MAP_FAILED;
    Allocation allocation;
    allocation.address = import.range.address() + (ticket.offset - first);
    allocation.alias = import.range.alias() + (ticket.offset - first);
    allocation.bytes = ticket.bytes;
    allocation.kind = MemoryKind::Imported;
    allocation.device = device.ordinal;
    allocation.context = &context;
    allocations().add(allocation);
    *out = allocation.address;
    imports().by_address.emplace(allocation.address, std::move(import));
    return CUDA_SUCCESS;
}

CUresult open_memory(const Entry& entry, CUdeviceptr* out, const CUipcMemHandle& handle, unsigned flags) {
    Ticket ticket{};
    std::memcpy(&ticket, &handle, sizeof ticket);
    if (out == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || ticket.magic != kMemoryMagic)
        return CUDA_ERROR_INVALID_VALUE;
    if (ticket.process == getpid())
        return CUDA_ERROR_INVALID_CONTEXT;  // as the driver has it: not in the process that exported the memory
    // The GPU may be one that CUDA_VISIBLE_DEVICES hides here (CUDA's reference, cudaIpcOpenMemHandle; NCCL maps such
    // memory). It has no ordinal then, and the memory is told to be the importing context's.
    Device* const exporter = device_of_ticket(ticket);
    Device& own = entry.context().device();
    if (exporter != &own && !settings().peers)
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    const std::lock_guard guard(imports().lock);
    for (auto& [address, import] : imports().by_address)
        if (import.context == &entry.context() && std::memcmp(&import.ticket, &ticket, sizeof ticket) == 0) {
            ++import.opens;
            *out = address;
            return CUDA_SUCCESS;
        }
    return map_import(ticket, entry.context(), exporter != nullptr ? *exporter : own, out);
}

}  // namespace

namespace vgpu::cuda {

std::uint64_t start_time_of(int process) {
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string text;
    std::getline(file, text);
    const std::size_t name_end = text.rfind(')');  // the name before it may hold anything
    if (name_end == std::string::npos)
        return 0;
    std::istringstream fields(text.substr(name_end + 1));
    std::string field;
    for (int i = 3; i <= 22; ++i)
        fields >> field;
    return std::stoull("0" + field);
}

int open_file_of_process(int process, std::uint64_t start_time, int file) {
    if (start_time_of(process) != start_time)
        return -1;
    const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(file);
    return open(path.c_str(), O_RDWR | O_CLOEXEC);
}

void release_imported(const Allocation& allocation) {
    const std::lock_guard guard(imports().lock);
    imports().by_address.erase(allocation.address);
}

}  // namespace vgpu::cuda

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr pointer) {
    VGPU_ENTER(cuIpcGetMemHandle, Needs::Context);
    const auto found = allocations().find(at(pointer));
    if (handle == nullptr || !found || found->kind != MemoryKind::Device)
        return CUDA_ERROR_INVALID_VALUE;
    const Device& device = devices()[found->device];
    Ticket ticket = new_ticket(kMemoryMagic, device.memory->file(), device);
    ticket.offset = found->block.file_offset;
    ticket.bytes = found->bytes;
    ticket.id = found->id;
    std::memset(handle, 0, sizeof *handle);
    std::memcpy(handle, &ticket, sizeof ticket);
    return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr* pointer, CUipcMemHandle handle, unsigned int flags) {
    VGPU_ENTER(cuIpcOpenMemHandle, Needs::Context);
    return open_memory(entry, pointer, handle, flags);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* pointer, CUipcMemHandle handle, unsigned int flags) {
    VGPU_ENTER(cuIpcOpenMemHandle, Needs::Context);
    return open_memory(entry, pointer, handle, flags);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
    VGPU_ENTER(cuIpcCloseMemHandle, Needs::Context);
    const auto found = allocations().find(at(pointer));
    if (!found || found->kind != MemoryKind::Imported || found->address != at(pointer))
        return CUDA_ERROR_INVALID_VALUE;
    {
        const std::lock_guard guard(imports().lock);
        const auto import = imports().by_address.find(at(pointer));
        if (import == imports().by_address.end())
            return CUDA_ERROR_INVALID_VALUE;
        if (--import->second.opens > 0)
            return CUDA_SUCCESS;
    }
    found->context->synchronize();
    if (const auto removed = allocations().remove(at(pointer)))
        release_allocation(*removed);
    return CUDA_SUCCESS;
}

CUresult cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent given) {
    VGPU_ENTER(cuIpcGetEventHandle, Needs::Context);
    const auto event = event_handles().find(given);
    if (event == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (handle == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if ((event->flags() & CU_EVENT_INTERPROCESS) == 0)
        return CUDA_ERROR_INVALID_HANDLE;
    const Ticket ticket = new_ticket(kEventMagic, event->shared_file(), event->context().device());
    std::memset(handle, 0, sizeof *handle);
    std::memcpy(handle, &ticket, sizeof ticket);
    return CUDA_SUCCESS;
}

CUresult cuIpcOpenEventHandle(CUevent* out, CUipcEventHandle handle) {
    VGPU_ENTER(cuIpcOpenEventHandle, Needs::Context);
    Ticket ticket{};
    std::memcpy(&ticket, &handle, sizeof ticket);
    if (out == nullptr || ticket.magic != kEventMagic)
        return CUDA_ERROR_INVALID_VALUE;
    if (ticket.process == getpid())
        return CUDA_ERROR_INVALID_CONTEXT;
    const int file = open_file_of_process(ticket.process, ticket.start_time, ticket.file);
    auto event = std::make_shared<Event>(entry.context(), CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
    if (file < 0 || !event->open_shared(file))
        return CUDA_ERROR_MAP_FAILED;
    *out = vgpu::cuda::handle(event_handles().add(std::move(event)));
    return CUDA_SUCCESS;
}
