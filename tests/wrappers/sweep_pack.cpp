// The sweep's cases of packing: the position is part of the result, and so is what lies around the packed data.
#include "sweep.hpp"

namespace sweep {
namespace {

constexpr int kBefore = 8;  // bytes that are packed already

int bytes(const World& w) {
    return w.n * static_cast<int>(sizeof(int));
}

Ints data_packed_position(const World& w) {
    return {w.n, w.n + 16, 1};
}
Ints packed_data_position(const World& w) {
    return {w.n + 16, w.n, 1};
}

}  // namespace

std::vector<Case> pack_cases() {
    return {
        {"MPI_Pack", "", 2, data_packed_position,
         [](const World& w, int* const* b) {
             b[2][0] = kBefore;
             return MPI_Pack(b[0], w.n, MPI_INT, b[1], bytes(w) + 64, &b[2][0], w.comm);
         }},
        {"MPI_Unpack", "", 2, packed_data_position,
         [](const World& w, int* const* b) {
             b[2][0] = kBefore;
             return MPI_Unpack(b[0], bytes(w) + 64, &b[2][0], b[1], w.n, MPI_INT, w.comm);
         }},
        {"MPI_Pack_external", "", 2, data_packed_position,
         [](const World& w, int* const* b) {
             MPI_Aint position = kBefore;
             const int code = MPI_Pack_external("external32", b[0], w.n, MPI_INT, b[1], bytes(w) + 64, &position);
             b[2][0] = static_cast<int>(position);
             return code;
         }},
        {"MPI_Unpack_external", "", 2, packed_data_position,
         [](const World& w, int* const* b) {
             MPI_Aint position = kBefore;
             const int code = MPI_Unpack_external("external32", b[0], bytes(w) + 64, &position, b[1], w.n, MPI_INT);
             b[2][0] = static_cast<int>(position);
             return code;
         }},
    };
}

}  // namespace sweep
