// cudaMemcpy and cudaMemset may return before they are over: of pageable memory the last bytes are still on their way
// then, between two places in device memory all of them ("API synchronization behavior" in CUDA's manuals). An MPI call
// right after one of them sends what it wrote, and what an MPI call has received is not overwritten by one made before:
// in memory of every kind, of cudaMallocAsync and cuMemCreate too, where the driver does not wait for them.
// launch: -n 2 --gpus 2 -x SWITCHYARD_P2P_COMM=pair
// launch: -n 2 --gpus 2 -x SWITCHYARD_NCCL=no
// launch: -n 3 --gpus 3 -x VGPU_JITTER=3
// launch: -n 2 --gpus 2 -- late
// test-timeout: 240
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "../gpu.hpp"

namespace {

constexpr int kRounds = 6;
int rank = 0, size = 0, failures = 0;

void expect(bool right, const std::string& what) {
    if (!right && failures++ < 5)
        std::fprintf(stderr, "FAILED: rank %d: %s\n", rank, what.c_str());
}

enum class Made { kByAlloc, kManaged, kByPool, kByCreate };
const char* name(Made made) {
    constexpr const char* kNames[] = {"device", "managed", "pooled", "mapped"};
    return kNames[static_cast<int>(made)];
}

gpu::Driver& driver() {
    return gpu::Driver::get();
}

// Device memory of one of the four kinds.
class Memory {
  public:
    Memory(Made made, std::size_t bytes) : made_(made), bytes_(bytes) {
        using Address = unsigned long long;
        if (made == Made::kByAlloc || made == Made::kManaged) {
            address_ = driver().allocate(made == Made::kManaged ? gpu::Kind::kManaged : gpu::Kind::kDevice, bytes);
        } else if (made == Made::kByPool) {
            auto* allocate = driver().call<int(void**, std::size_t, void*)>("cuMemAllocAsync");
            gpu::Driver::check("cuMemAllocAsync", allocate(&address_, bytes, nullptr));
            driver().synchronize();
        } else {
            constexpr std::size_t kUnit = std::size_t{2} << 20;
            bytes_ = (bytes + kUnit - 1) / kUnit * kUnit;
            int device = 0;
            gpu::Driver::check("cuCtxGetDevice", driver().call<int(int*)>("cuCtxGetDevice")(&device));
            // CUmemAllocationProp: pinned memory of a device, and CUmemAccessDesc: to be read and written there.
            struct {
                int type = 1, handles = 0, location = 1, id = 0;
                void* security = nullptr;
                unsigned char flags[8] = {};
            } properties;
            properties.id = device;
            const struct { int location, id, access; } access{1, device, 3};
            Address address = 0;
            auto* create = driver().call<int(Address*, std::size_t, const void*, Address)>("cuMemCreate");
            gpu::Driver::check("cuMemCreate", create(&handle_, bytes_, &properties, 0));
            auto* reserve =
                driver().call<int(Address*, std::size_t, std::size_t, Address, Address)>("cuMemAddressReserve");
            gpu::Driver::check("cuMemAddressReserve", reserve(&address, bytes_, 0, 0, 0));
            auto* map = driver().call<int(Address, std::size_t, std::size_t, Address, Address)>("cuMemMap");
            gpu::Driver::check("cuMemMap", map(address, bytes_, 0, handle_, 0));
            auto* allow = driver().call<int(Address, std::size_t, const void*, std::size_t)>("cuMemSetAccess");
            gpu::Driver::check("cuMemSetAccess", allow(address, bytes_, &access, 1));
            address_ = reinterpret_cast<void*>(address);
        }
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory() {
        if (made_ != Made::kByCreate) {
            driver().release(gpu::Kind::kDevice, address_);
            return;
        }
        driver().synchronize();
        using Address = unsigned long long;
        const auto address = reinterpret_cast<Address>(address_);
        gpu::Driver::check("cuMemUnmap", driver().call<int(Address, std::size_t)>("cuMemUnmap")(address, bytes_));
        gpu::Driver::check("cuMemRelease", driver().call<int(Address)>("cuMemRelease")(handle_));
        gpu::Driver::check("cuMemAddressFree",
                           driver().call<int(Address, std::size_t)>("cuMemAddressFree")(address, bytes_));
    }
    void* address() const { return address_; }

  private:
    const Made made_;
    std::size_t bytes_;
    unsigned long long handle_ = 0;
    void* address_ = nullptr;
};

std::vector<int> numbers(int of, int count, int round) {
    std::vector<int> all(count);
    for (int i = 0; i < count; ++i)
        all[i] = of * 100003 + round * 1009 + i;
    return all;
}

void clear(void* memory, std::size_t bytes) {
    auto* set = driver().call<int(void*, unsigned char, std::size_t)>("cuMemsetD8_v2");
    gpu::Driver::check("cuMemsetD8", set(memory, 0xee, bytes));
}

enum class Call { kSendrecv, kAllreduce, kReduceLocal, kCalls };
const char* name(Call call) {
    constexpr const char* kNames[] = {"MPI_Sendrecv", "MPI_Allreduce", "MPI_Reduce_local"};
    return kNames[static_cast<int>(call)];
}

std::vector<int> wanted_of(Call call, int count, int round) {
    if (call == Call::kSendrecv)
        return numbers((rank + size - 1) % size, count, round);
    std::vector<int> all = numbers(call == Call::kAllreduce ? 0 : rank, count, round);
    for (int of = 1; of < size && call == Call::kAllreduce; ++of)
        for (int i = 0; i < count; ++i)
            all[i] += numbers(of, 1, round)[0] + i;
    return all;
}

// What one call gives whose buffers were written just before: by a copy from pageable memory, or from device memory.
void round(Call call, Made made, int count, int round, bool between) {
    const std::size_t bytes = count * sizeof(int);
    const Memory out(made, bytes), in(made, bytes), source(made, bytes);
    const std::vector<int> mine = numbers(rank, count, round);
    driver().copy(source.address(), mine.data(), bytes);
    driver().synchronize();
    clear(in.address(), bytes);  // 0xeeeeeeee is negative
    if (between)
        driver().copy(out.address(), source.address(), bytes);
    else
        driver().copy(out.address(), mine.data(), bytes);
    const int to = (rank + 1) % size, from = (rank + size - 1) % size;
    if (call == Call::kSendrecv)
        MPI_Sendrecv(out.address(), count, MPI_INT, to, 0, in.address(), count, MPI_INT, from, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    else if (call == Call::kAllreduce)
        MPI_Allreduce(out.address(), in.address(), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    else
        MPI_Reduce_local(out.address(), in.address(), count, MPI_INT, MPI_MAX);
    driver().synchronize();
    std::vector<int> content(count);
    driver().copy(content.data(), in.address(), bytes);
    expect(content == wanted_of(call, count, round),
           std::string(name(call)) + " of " + std::to_string(count) + " ints in " + name(made) + " memory, round " +
               std::to_string(round) + (between ? ", copied on the device" : ", copied from the host"));
}

void pause(void*) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
}

// The second half of a message lies in the first memory for which the driver does not wait, where a copy is still to be
// made.
void late() {
    constexpr int kHalf = 5000;
    const std::size_t bytes = kHalf * sizeof(int);
    const Memory first(Made::kByAlloc, bytes), second(Made::kByPool, bytes), source(Made::kByAlloc, bytes);
    std::vector<int> mine = numbers(rank, 2 * kHalf, 0), content(2 * kHalf);
    driver().copy(first.address(), mine.data(), bytes);
    driver().copy(source.address(), mine.data() + kHalf, bytes);
    driver().synchronize();
    auto* queue = driver().call<int(void*, void (*)(void*), void*)>("cuLaunchHostFunc");
    gpu::Driver::check("cuLaunchHostFunc", queue(nullptr, pause, nullptr));
    driver().copy(second.address(), source.address(), bytes);
    MPI_Aint places[2];
    const int lengths[2] = {kHalf, kHalf};
    MPI_Get_address(first.address(), &places[0]);
    MPI_Get_address(second.address(), &places[1]);
    MPI_Datatype both = MPI_DATATYPE_NULL;
    MPI_Type_create_hindexed(2, lengths, places, MPI_INT, &both);
    MPI_Type_commit(&both);
    MPI_Sendrecv(MPI_BOTTOM, 1, both, (rank + 1) % size, 0, content.data(), 2 * kHalf, MPI_INT,
                 (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Type_free(&both);
    expect(content == wanted_of(Call::kSendrecv, 2 * kHalf, 0), "MPI_Sendrecv, half of it from pooled memory");
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    driver().use(rank % driver().devices);
    if (argc > 1 && std::string_view(argv[1]) == "late")
        late();
    else  // pooled and mapped memory last: from then on every call waits for the default stream
        for (const Made made : {Made::kByAlloc, Made::kManaged, Made::kByPool, Made::kByCreate})
            for (int call = 0; call < static_cast<int>(Call::kCalls); ++call)
                for (const int count : {4, 10000, 300000})
                    for (int number = 0; number < kRounds; ++number)
                        round(static_cast<Call>(call), made, count, number, number % 2 == 0);
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
