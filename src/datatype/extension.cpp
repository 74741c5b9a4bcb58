#include "datatype/extension.hpp"

#include <array>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <mutex>

#include "datatype/narrow_float.hpp"
#include "real.hpp"

namespace swy::datatype {

constinit std::atomic<bool> extensions_in_use{false};

namespace {

constexpr std::size_t kTypes = 4, kOperators = 4;
constexpr Operator kOurs[kOperators] = {Operator::kSum, Operator::kProd, Operator::kMin, Operator::kMax};

template <Operator kOp>
float combined(float in, float inout) {
    if constexpr (kOp == Operator::kSum)
        return in + inout;
    else if constexpr (kOp == Operator::kProd)
        return in * inout;
    else if constexpr (kOp == Operator::kMin)
        return in < inout ? in : inout;
    else
        return in > inout ? in : inout;
}

template <typename Narrow, Operator kOp>
void reduce(void* in, void* inout, int* count, MPI_Datatype*) {
    const auto* from = static_cast<const Narrow*>(in);
    auto* to = static_cast<Narrow*>(inout);
    for (int i = 0; i < *count; ++i)
        to[i] = Narrow::narrow(combined<kOp>(Narrow::wide(from[i]), Narrow::wide(to[i])));
}

struct ExtensionRow {
    Element element;
    const char* name;
    std::uint8_t bytes;
    std::array<MPI_User_function*, kOperators> functions;
};

template <typename Narrow>
constexpr ExtensionRow row(Element element, const char* name) {
    return {element,
            name,
            sizeof(Narrow),
            {reduce<Narrow, Operator::kSum>, reduce<Narrow, Operator::kProd>, reduce<Narrow, Operator::kMin>,
             reduce<Narrow, Operator::kMax>}};
}

constexpr std::array<ExtensionRow, kTypes> kRows{row<Float16>(Element::kFloat16, "MPIX_FLOAT16"),
                                                 row<Bfloat16>(Element::kBfloat16, "MPIX_BFLOAT16"),
                                                 row<Float8E4m3>(Element::kFloat8E4m3, "MPIX_FLOAT8_E4M3"),
                                                 row<Float8E5m2>(Element::kFloat8E5m2, "MPIX_FLOAT8_E5M2")};

// The objects made so far. Readers take no lock: a handle is stored before anybody can have it.
struct Made {
    std::array<std::atomic<MPI_Datatype>, kTypes> types{};
    std::array<std::array<MPI_Op, kOperators>, kTypes> operators{};
    std::atomic<MPI_Op> average{nullptr};
};
constinit Made made{};
std::mutex extension_mutex;

bool mpi_is_up(const char* wanted) {
    int up = 0, down = 0;
    real::Initialized(&up);
    real::Finalized(&down);
    if ((up && !down) || open_sessions.load(std::memory_order_relaxed) > 0)
        return true;
    std::fprintf(stderr, "switchyard: %s was asked for %s: it is there from MPI_Init to MPI_Finalize\n", wanted,
                 down ? "after MPI_Finalize" : "before MPI_Init");
    return false;
}

// Duplicates an integer type of the same size: MPI sees one element of that many bytes, so that MPI_Get_elements counts
// it and MPI_Pack_external converts it correctly.
MPI_Datatype make_type(const ExtensionRow& row, std::array<MPI_Op, kOperators>& operators) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    if (real::Type_dup(row.bytes == 2 ? MPI_UINT16_T : MPI_UINT8_T, &type) != MPI_SUCCESS)
        return MPI_DATATYPE_NULL;
    real::Type_set_name(type, row.name);
    for (std::size_t op = 0; op < kOperators; ++op)
        if (real::Op_create(row.functions[op], 1, &operators[op]) != MPI_SUCCESS)
            operators[op] = MPI_OP_NULL;
    return type;
}

// Never called: the wrappers pass a sum to MPI in place of this operator, or none.
void never(void*, void*, int*, MPI_Datatype*) {}

std::size_t row_of(MPI_Datatype type) {
    std::size_t row = 0;
    while (row < kTypes && (type == nullptr || made.types[row].load(std::memory_order_acquire) != type))
        ++row;
    return row;
}

template <typename Number>
void divide_all(void* address, std::size_t count, Number processes) {
    auto* numbers = static_cast<Number*>(address);
    for (std::size_t i = 0; i < count; ++i)
        numbers[i] = static_cast<Number>(numbers[i] / processes);
}

template <typename Part>
void divide_complex(void* address, std::size_t count, int processes) {
    divide_all(address, 2 * count, static_cast<Part>(processes));  // real and imaginary parts side by side
}

template <typename Narrow>
void divide_narrow(void* address, std::size_t count, int processes) {
    auto* numbers = static_cast<Narrow*>(address);
    for (std::size_t i = 0; i < count; ++i)
        numbers[i] = Narrow::narrow(Narrow::wide(numbers[i]) / static_cast<float>(processes));
}

// Divides integers. With more processes than a small integer can count, every quotient is 0.
template <typename Integer>
void divide_integers(void* address, std::size_t count, int processes) {
    auto* numbers = static_cast<Integer*>(address);
    for (std::size_t i = 0; i < count; ++i)
        if constexpr (sizeof(Integer) < sizeof(int))
            numbers[i] = static_cast<Integer>(static_cast<int>(numbers[i]) / processes);
        else
            numbers[i] /= static_cast<Integer>(processes);
}

}  // namespace

constinit std::atomic<int> open_sessions{0};

MPI_Datatype extension_type(Element element) {
    for (std::size_t i = 0; i < kTypes; ++i) {
        if (kRows[i].element != element)
            continue;
        if (MPI_Datatype known = made.types[i].load(std::memory_order_acquire))
            return known;
        if (!mpi_is_up(kRows[i].name))
            return MPI_DATATYPE_NULL;
        const std::scoped_lock lock(extension_mutex);
        if (MPI_Datatype known = made.types[i].load(std::memory_order_relaxed))
            return known;
        const MPI_Datatype type = make_type(kRows[i], made.operators[i]);
        if (type == MPI_DATATYPE_NULL)
            return type;
        made.types[i].store(type, std::memory_order_release);
        extensions_in_use.store(true, std::memory_order_release);
        return type;
    }
    return MPI_DATATYPE_NULL;
}

MPI_Op average_operator() {
    if (MPI_Op known = made.average.load(std::memory_order_acquire))
        return known;
    if (!mpi_is_up("MPIX_AVG"))
        return MPI_OP_NULL;
    const std::scoped_lock lock(extension_mutex);
    MPI_Op op = made.average.load(std::memory_order_relaxed);
    if (op == nullptr && real::Op_create(never, 1, &op) == MPI_SUCCESS) {
        made.average.store(op, std::memory_order_release);
        extensions_in_use.store(true, std::memory_order_release);
    }
    return op != nullptr ? op : MPI_OP_NULL;
}

bool is_average(MPI_Op op) {
    return op != nullptr && made.average.load(std::memory_order_acquire) == op;
}

bool find_extension(MPI_Datatype type, ElementOf& element) {
    const std::size_t row = row_of(type);
    if (row < kTypes)
        element = {kRows[row].element, kRows[row].bytes};
    return row < kTypes;
}

MPI_Op find_operator(MPI_Op op, MPI_Datatype type, bool may_average) {
    const bool average = is_average(op);
    const Operator meaning = average ? Operator::kSum : operator_of(op);
    if (average && (!may_average || !defined(Operator::kAvg, element_of(type).element)))
        return MPI_OP_NULL;
    const std::size_t row = row_of(type);
    if (row == kTypes)
        return average ? MPI_SUM : op;
    for (std::size_t i = 0; i < kOperators; ++i)
        if (kOurs[i] == meaning)
            return made.operators[row][i];
    const bool left_to_mpi = meaning == Operator::kUser || meaning == Operator::kReplace || meaning == Operator::kNoOp;
    return left_to_mpi ? op : MPI_OP_NULL;
}

void divide(void* address, std::size_t count, Element element, int processes) {
    switch (element) {
        case Element::kInt8:
            return divide_integers<std::int8_t>(address, count, processes);
        case Element::kInt16:
            return divide_integers<std::int16_t>(address, count, processes);
        case Element::kInt32:
            return divide_integers<std::int32_t>(address, count, processes);
        case Element::kInt64:
            return divide_integers<std::int64_t>(address, count, processes);
        case Element::kUint8:
            return divide_integers<std::uint8_t>(address, count, processes);
        case Element::kUint16:
            return divide_integers<std::uint16_t>(address, count, processes);
        case Element::kUint32:
            return divide_integers<std::uint32_t>(address, count, processes);
        case Element::kUint64:
            return divide_integers<std::uint64_t>(address, count, processes);
        case Element::kFloat16:
            return divide_narrow<Float16>(address, count, processes);
        case Element::kBfloat16:
            return divide_narrow<Bfloat16>(address, count, processes);
        case Element::kFloat8E4m3:
            return divide_narrow<Float8E4m3>(address, count, processes);
        case Element::kFloat8E5m2:
            return divide_narrow<Float8E5m2>(address, count, processes);
        case Element::kFloat32:
            return divide_all(address, count, static_cast<float>(processes));
        case Element::kFloat64:
            return divide_all(address, count, static_cast<double>(processes));
        case Element::kLongDouble:
            return divide_all(address, count, static_cast<long double>(processes));
        case Element::kComplex32:
            return divide_complex<float>(address, count, processes);
        case Element::kComplex64:
            return divide_complex<double>(address, count, processes);
        case Element::kComplexLongDouble:
            return divide_complex<long double>(address, count, processes);
        case Element::kNone:
        case Element::kLogical:
        case Element::kByte:
            return;  // no average is defined
    }
}

void release_extensions() {
    const std::scoped_lock lock(extension_mutex);
    extensions_in_use.store(false, std::memory_order_release);
    for (std::size_t i = 0; i < kTypes; ++i) {
        MPI_Datatype type = made.types[i].exchange(nullptr);
        if (type == nullptr)
            continue;
        real::Type_free(&type);
        for (MPI_Op& op : made.operators[i])
            if (op != MPI_OP_NULL)
                real::Op_free(&op);
    }
    if (MPI_Op average = made.average.exchange(nullptr))
        real::Op_free(&average);
}

}  // namespace swy::datatype
