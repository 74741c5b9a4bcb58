#include "datatype/predefined.hpp"

#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>  // MPIX_C_FLOAT16, where this Open MPI has it
#endif

#include <array>
#include <mutex>
#include <span>

#include "call/hash.hpp"
#include "real.hpp"

namespace swy::datatype {
namespace {

enum class Class : std::uint8_t {
    kSigned,
    kUnsigned,
    kFloat,
    kLongDouble,
    kComplex,
    kComplexLongDouble,
    kLogical,
    kByte,
    kOther
};

struct Row {
    MPI_Datatype type;
    Class kind;
};

// One row for each type; MPI gives the size. MPI_WCHAR and MPI_CHARACTER are characters, not numbers (MPI 4.0 section
// 6.9.2), and so is MPI_CHAR; but Open MPI reduces that as an 8-bit integer, and programs rely on it.
std::span<const Row> rows() {
    static const Row table[] = {
        {MPI_SIGNED_CHAR, Class::kSigned},
        {MPI_SHORT, Class::kSigned},
        {MPI_INT, Class::kSigned},
        {MPI_LONG, Class::kSigned},
        {MPI_LONG_LONG_INT, Class::kSigned},
        {MPI_INT8_T, Class::kSigned},
        {MPI_INT16_T, Class::kSigned},
        {MPI_INT32_T, Class::kSigned},
        {MPI_INT64_T, Class::kSigned},
        {MPI_AINT, Class::kSigned},
        {MPI_OFFSET, Class::kSigned},
        {MPI_COUNT, Class::kSigned},
        {MPI_UNSIGNED_CHAR, Class::kUnsigned},
        {MPI_UNSIGNED_SHORT, Class::kUnsigned},
        {MPI_UNSIGNED, Class::kUnsigned},
        {MPI_UNSIGNED_LONG, Class::kUnsigned},
        {MPI_UNSIGNED_LONG_LONG, Class::kUnsigned},
        {MPI_UINT8_T, Class::kUnsigned},
        {MPI_UINT16_T, Class::kUnsigned},
        {MPI_UINT32_T, Class::kUnsigned},
        {MPI_UINT64_T, Class::kUnsigned},
        {MPI_FLOAT, Class::kFloat},
        {MPI_DOUBLE, Class::kFloat},
        {MPI_LONG_DOUBLE, Class::kLongDouble},
        {MPI_C_FLOAT_COMPLEX, Class::kComplex},
        {MPI_C_DOUBLE_COMPLEX, Class::kComplex},
        {MPI_C_LONG_DOUBLE_COMPLEX, Class::kComplexLongDouble},
        {MPI_CXX_FLOAT_COMPLEX, Class::kComplex},
        {MPI_CXX_DOUBLE_COMPLEX, Class::kComplex},
        {MPI_CXX_LONG_DOUBLE_COMPLEX, Class::kComplexLongDouble},
        {MPI_C_BOOL, Class::kLogical},
        {MPI_CXX_BOOL, Class::kLogical},
        {MPI_BYTE, Class::kByte},
        {MPI_PACKED, Class::kOther},
        {MPI_CHAR, Class::kSigned},
        {MPI_WCHAR, Class::kOther},
        {MPI_FLOAT_INT, Class::kOther},
        {MPI_DOUBLE_INT, Class::kOther},
        {MPI_LONG_DOUBLE_INT, Class::kOther},
        {MPI_LONG_INT, Class::kOther},
        {MPI_SHORT_INT, Class::kOther},
        {MPI_2INT, Class::kOther},
        {MPI_INTEGER, Class::kSigned},
        {MPI_REAL, Class::kFloat},
        {MPI_DOUBLE_PRECISION, Class::kFloat},
        {MPI_COMPLEX, Class::kComplex},
        {MPI_DOUBLE_COMPLEX, Class::kComplex},
        {MPI_LOGICAL, Class::kLogical},
        {MPI_CHARACTER, Class::kOther},
        {MPI_2REAL, Class::kOther},
        {MPI_2DOUBLE_PRECISION, Class::kOther},
        {MPI_2INTEGER, Class::kOther},
#ifdef MPI_2COMPLEX
        {MPI_2COMPLEX, Class::kOther},
        {MPI_2DOUBLE_COMPLEX, Class::kOther},
#endif
#ifdef MPI_INTEGER1
        {MPI_INTEGER1, Class::kSigned},
#endif
#ifdef MPI_INTEGER2
        {MPI_INTEGER2, Class::kSigned},
#endif
#ifdef MPI_INTEGER4
        {MPI_INTEGER4, Class::kSigned},
#endif
#ifdef MPI_INTEGER8
        {MPI_INTEGER8, Class::kSigned},
#endif
#ifdef MPI_INTEGER16
        {MPI_INTEGER16, Class::kSigned},
#endif
#ifdef MPI_REAL2
        {MPI_REAL2, Class::kFloat},
#endif
#ifdef MPI_REAL4
        {MPI_REAL4, Class::kFloat},
#endif
#ifdef MPI_REAL8
        {MPI_REAL8, Class::kFloat},
#endif
#ifdef MPI_REAL16
        {MPI_REAL16, Class::kFloat},
#endif
#ifdef MPI_COMPLEX4
        {MPI_COMPLEX4, Class::kComplex},
#endif
#ifdef MPI_COMPLEX8
        {MPI_COMPLEX8, Class::kComplex},
#endif
#ifdef MPI_COMPLEX16
        {MPI_COMPLEX16, Class::kComplex},
#endif
#ifdef MPI_COMPLEX32
        {MPI_COMPLEX32, Class::kComplex},
#endif
#ifdef MPI_LOGICAL1
        {MPI_LOGICAL1, Class::kLogical},
#endif
#ifdef MPI_LOGICAL2
        {MPI_LOGICAL2, Class::kLogical},
#endif
#ifdef MPI_LOGICAL4
        {MPI_LOGICAL4, Class::kLogical},
#endif
#ifdef MPI_LOGICAL8
        {MPI_LOGICAL8, Class::kLogical},
#endif
#ifdef MPIX_C_FLOAT16
        {MPIX_C_FLOAT16, Class::kFloat},
#endif
    };
    return table;
}

Element integer(std::size_t bytes, bool is_signed) {
    switch (bytes) {
        case 1:
            return is_signed ? Element::kInt8 : Element::kUint8;
        case 2:
            return is_signed ? Element::kInt16 : Element::kUint16;
        case 4:
            return is_signed ? Element::kInt32 : Element::kUint32;
        case 8:
            return is_signed ? Element::kInt64 : Element::kUint64;
        default:
            return Element::kNone;
    }
}

// The element of a class and size. Floating-point types of a size that no row of Element has (Fortran's REAL16 and
// COMPLEX32 are quadruple, COMPLEX4 consists of halves) are moved and reduced by MPI alone.
Element element(Class kind, std::size_t bytes) {
    switch (kind) {
        case Class::kSigned:
        case Class::kUnsigned:
            return integer(bytes, kind == Class::kSigned);
        case Class::kFloat:
            return bytes == 2   ? Element::kFloat16
                   : bytes == 4 ? Element::kFloat32
                   : bytes == 8 ? Element::kFloat64
                                : Element::kNone;
        case Class::kLongDouble:
            return Element::kLongDouble;
        case Class::kComplex:
            return bytes == 8 ? Element::kComplex32 : bytes == 16 ? Element::kComplex64 : Element::kNone;
        case Class::kComplexLongDouble:
            return Element::kComplexLongDouble;
        case Class::kLogical:
            return Element::kLogical;
        case Class::kByte:
            return Element::kByte;
        case Class::kOther:
            break;
    }
    return Element::kNone;
}

// A hash of handles without collisions: `factor` is searched for when the table is made, so that a look-up is one
// multiplication, one load and one comparison.
class Table {
  public:
    Table() {
        while (!place_all())
            factor_ = factor_ * 6364136223846793005u + 1442695040888963407u;
        for (const Row& row : rows()) {
            Predefined& entry = entries_[slot(row.type)];
            MPI_Count size = 0;
            if (real::Type_size_x(row.type, &size) != MPI_SUCCESS || size < 0)
                size = 0;
            entry.size = static_cast<std::uint32_t>(size);
            const Element kind = element(row.kind, entry.size);
            entry.element = {size > 0 ? kind : Element::kNone, static_cast<std::uint8_t>(size)};
        }
    }

    const Predefined* find(MPI_Datatype type) const {
        const std::size_t at = slot(type);
        return handles_[at] == type && type != nullptr ? &entries_[at] : nullptr;
    }

  private:
    static constexpr unsigned kBits = 9;
    static constexpr std::size_t kSlots = std::size_t{1} << kBits;

    std::size_t slot(MPI_Datatype type) const {
        return static_cast<std::size_t>((reinterpret_cast<std::uintptr_t>(type) * factor_) >> (64 - kBits));
    }

    bool place_all() {
        handles_.fill(nullptr);
        for (const Row& row : rows()) {
            MPI_Datatype& place = handles_[slot(row.type)];
            if (place != nullptr && place != row.type)
                return false;
            place = row.type;
        }
        return true;
    }

    std::uint64_t factor_ = call::kGoldenRatio;
    std::array<MPI_Datatype, kSlots> handles_{};
    std::array<Predefined, kSlots> entries_{};
};

std::atomic<const Table*> table{nullptr};

[[gnu::noinline]] const Table* make_table() {
    static const Table made;
    table.store(&made, std::memory_order_release);
    return &made;
}

}  // namespace

const Predefined* find_predefined(MPI_Datatype type) {
    const Table* made = table.load(std::memory_order_acquire);
    if (made == nullptr) [[unlikely]]
        made = make_table();
    return made->find(type);
}

std::size_t size_of(MPI_Datatype type) {
    if (const Predefined* known = find_predefined(type)) [[likely]]
        return known->size;
    MPI_Count size = 0;
    if (type == MPI_DATATYPE_NULL || real::Type_size_x(type, &size) != MPI_SUCCESS || size < 0)
        return 0;
    return static_cast<std::size_t>(size);
}

}  // namespace swy::datatype
