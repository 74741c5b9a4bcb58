// A copy between a device and host memory that fails in one-sided communication is an MPI error of the call that makes
// the copy; it names the call, the rank, the window and the cause, and nothing is written. A window of which one side
// has missed something stays in error.
// clang-format off
// launch: -n 1 --gpus 1 -x VGPU_FAULTS=cuMemcpyAsync@1=CUDA_ERROR_ECC_UNCORRECTABLE -- put
// launch: -n 1 --gpus 1 -x VGPU_FAULTS=cuMemcpyAsync@2=CUDA_ERROR_ECC_UNCORRECTABLE -- get
// launch: -n 1 --gpus 1 -x VGPU_FAULTS=cuMemcpyAsync@1=CUDA_ERROR_ECC_UNCORRECTABLE -x SWITCHYARD_PEER_POOL=0 -- create
// launch: -n 1 --gpus 1 -x VGPU_FAULTS=cuMemcpyAsync@2=CUDA_ERROR_ECC_UNCORRECTABLE -x SWITCHYARD_PEER_POOL=0 -- fence
// launch: -n 1 --gpus 1 -x VGPU_FAULTS=cuMemcpyAsync@1=CUDA_ERROR_ECC_UNCORRECTABLE -- direct
// launch: -n 1 --gpus 1 -x VGPU_FAULTS=cuMemcpyAsync@1=CUDA_ERROR_ECC_UNCORRECTABLE -- attach
// launch: -n 1 --gpus 1 -x VGPU_FAULTS=cuMemcpyAsync@3=CUDA_ERROR_ECC_UNCORRECTABLE -- detach
// clang-format on
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "../gpu.hpp"

namespace {

constexpr int kCount = 100;
constexpr MPI_Aint kBytes = kCount * sizeof(int);
int failures = 0;

void expect(bool right, const std::string& what) {
    if (right)
        return;
    std::fprintf(stderr, "%s\n", what.c_str());
    ++failures;
}

// `of`: what the call is made on.
void expect_error(int code, const std::string& call, const std::string& of = "the window (1 rank): ") {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0, error_class = 0;
    MPI_Error_string(code, text, &length);
    MPI_Error_class(code, &error_class);
    const std::string said = text;
    expect(error_class == MPI_ERR_OTHER && said.find(call + " on rank 0 of " + of) != std::string::npos &&
               said.find("CUDA_ERROR_ECC_UNCORRECTABLE") != std::string::npos,
           call + ": " + said);
}

std::vector<std::byte> filled(int value) {
    return std::vector<std::byte>(kBytes, static_cast<std::byte>(value));
}

void name(MPI_Win win) {
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_set_name(win, "the window");
}

int create(void* base, MPI_Win& win) {
    const int code = MPI_Win_create(base, kBytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    if (code == MPI_SUCCESS)
        name(win);
    return code;
}

void put() {
    const gpu::Memory origin(gpu::Kind::kDevice, filled(1));
    std::vector<std::byte> memory = filled(2);
    MPI_Win win = MPI_WIN_NULL;
    create(memory.data(), win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    expect_error(MPI_Put(origin.address(), kCount, MPI_INT, 0, 0, kCount, MPI_INT, win), "MPI_Put");
    expect(MPI_Win_flush(0, win) == MPI_SUCCESS && memory == filled(2), "something was put");
    expect(MPI_Put(origin.address(), kCount, MPI_INT, 0, 0, kCount, MPI_INT, win) == MPI_SUCCESS, "the next call");
    expect(MPI_Win_unlock(0, win) == MPI_SUCCESS && memory == filled(1), "nothing was put");
    MPI_Win_free(&win);
}

void get() {
    const gpu::Memory result(gpu::Kind::kDevice, filled(1));
    std::vector<std::byte> memory = filled(2);
    MPI_Win win = MPI_WIN_NULL;
    create(memory.data(), win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    expect(MPI_Get(result.address(), kCount, MPI_INT, 0, 0, kCount, MPI_INT, win) == MPI_SUCCESS, "the call");
    expect_error(MPI_Win_flush(0, win), "MPI_Get");
    expect(result.read() == filled(1), "something was got");
    MPI_Get(result.address(), kCount, MPI_INT, 0, 0, kCount, MPI_INT, win);
    expect(MPI_Win_unlock(0, win) == MPI_SUCCESS && result.read() == filled(2), "nothing was got");
    MPI_Win_free(&win);
}

void create() {
    const gpu::Memory memory(gpu::Kind::kDevice, filled(1));
    MPI_Win win = MPI_WIN_NULL;
    expect_error(create(memory.address(), win), "MPI_Win_create", "MPI_COMM_WORLD (1 rank): ");
    expect(create(memory.address(), win) == MPI_SUCCESS, "the next window");
    MPI_Win_free(&win);
    int error_class = MPI_SUCCESS;
    MPI_Error_class(MPI_Win_create(memory.address(), -1000, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win), &error_class);
    expect(error_class == MPI_ERR_SIZE, "a window of -1000 bytes: class " + std::to_string(error_class));
}

void fence() {
    const gpu::Memory memory(gpu::Kind::kDevice, filled(1));
    MPI_Win win = MPI_WIN_NULL;
    expect(create(memory.address(), win) == MPI_SUCCESS, "the window");
    expect_error(MPI_Win_fence(0, win), "MPI_Win_fence");
    expect_error(MPI_Win_fence(MPI_MODE_NOSUCCEED, win), "MPI_Win_fence");
    expect_error(MPI_Win_free(&win), "MPI_Win_free");
    expect(memory.read() == filled(1), "the window's memory was written");
}

// Over memory that the ranks map, which is copied by the call itself; the window has missed nothing.
void direct() {
    const gpu::Memory memory(gpu::Kind::kDevice, filled(1)), origin(gpu::Kind::kDevice, filled(2));
    MPI_Win win = MPI_WIN_NULL;
    expect(create(memory.address(), win) == MPI_SUCCESS, "the window");
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    expect_error(MPI_Put(origin.address(), kCount, MPI_INT, 0, 0, kCount, MPI_INT, win), "MPI_Put");
    expect(memory.read() == filled(1), "something was put");
    expect(MPI_Put(origin.address(), kCount, MPI_INT, 0, 0, kCount, MPI_INT, win) == MPI_SUCCESS, "the next call");
    expect(MPI_Win_unlock(0, win) == MPI_SUCCESS && memory.read() == filled(2), "nothing was put");
    expect(MPI_Win_free(&win) == MPI_SUCCESS, "MPI_Win_free");
}

MPI_Win dynamic_window() {
    MPI_Win win = MPI_WIN_NULL;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    name(win);
    return win;
}

int put(const std::vector<std::byte>& from, const gpu::Memory& to, MPI_Win win) {
    MPI_Aint where = 0;
    MPI_Get_address(to.address(), &where);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Put(from.data(), kCount, MPI_INT, 0, where, kCount, MPI_INT, win);
    return MPI_Win_unlock(0, win);
}

void attach() {
    const gpu::Memory memory(gpu::Kind::kDevice, filled(1));
    MPI_Win win = dynamic_window();
    expect_error(MPI_Win_attach(win, memory.address(), kBytes), "MPI_Win_attach");
    expect(MPI_Win_attach(win, memory.address(), kBytes) == MPI_SUCCESS, "the next attach");
    expect(put(filled(2), memory, win) == MPI_SUCCESS, "a put into what was attached then");
    expect(MPI_Win_detach(win, memory.address()) == MPI_SUCCESS && memory.read() == filled(2), "nothing was put");
    MPI_Win_free(&win);
}

// The first copy is MPI_Win_attach's, the second MPI_Win_unlock's.
void detach() {
    const gpu::Memory memory(gpu::Kind::kDevice, filled(1));
    MPI_Win win = dynamic_window();
    expect(MPI_Win_attach(win, memory.address(), kBytes) == MPI_SUCCESS, "the attach");
    expect(put(filled(2), memory, win) == MPI_SUCCESS, "the put");
    expect_error(MPI_Win_detach(win, memory.address()), "MPI_Win_detach");
    expect(memory.read() == filled(1), "the memory was written");
    expect(MPI_Win_attach(win, memory.address(), kBytes) == MPI_SUCCESS, "the memory is attached still");
    expect(put(filled(3), memory, win) == MPI_SUCCESS, "the next put");
    MPI_Win_free(&win);
    expect(memory.read() == filled(3), "nothing was put");
}

}  // namespace

int main(int argc, char** argv) {
    if (OMPI_MAJOR_VERSION < 5)  // "rdma" needs process_vm_readv for MPI_Win_create, which containers forbid
        setenv("OMPI_MCA_osc", "^rdma,ucx", 1);
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    gpu::Driver::get().use(0);
    const std::string which = argc > 1 ? argv[1] : "";
    if (which == "put")
        put();
    else if (which == "get")
        get();
    else if (which == "create")
        create();
    else if (which == "direct")
        direct();
    else if (which == "attach")
        attach();
    else if (which == "detach")
        detach();
    else
        fence();
    MPI_Finalize();
    return failures > 0 ? 1 : 0;
}
