// Predefined types and operators against C's own sizes and against what MPI accepts.
#include "datatype/element.hpp"

#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <vector>

#include "datatype/layout.hpp"

namespace {

using swy::datatype::Element;
using swy::datatype::element_of;
using swy::datatype::Operator;
using swy::datatype::operator_of;
using swy::datatype::size_of;

TEST(Element, C_types_are_what_C_makes_of_them) {
    const struct {
        MPI_Datatype type;
        Element element;
        std::size_t bytes;
    } rows[] = {
        {MPI_SIGNED_CHAR, Element::kInt8, 1},
        {MPI_SHORT, Element::kInt16, sizeof(short)},
        {MPI_INT, Element::kInt32, sizeof(int)},
        {MPI_LONG, Element::kInt64, sizeof(long)},
        {MPI_LONG_LONG, Element::kInt64, sizeof(long long)},
        {MPI_UNSIGNED_CHAR, Element::kUint8, 1},
        {MPI_UNSIGNED, Element::kUint32, sizeof(unsigned)},
        {MPI_UNSIGNED_LONG, Element::kUint64, sizeof(unsigned long)},
        {MPI_INT8_T, Element::kInt8, 1},
        {MPI_UINT16_T, Element::kUint16, 2},
        {MPI_INT32_T, Element::kInt32, 4},
        {MPI_UINT64_T, Element::kUint64, 8},
        {MPI_AINT, Element::kInt64, sizeof(MPI_Aint)},
        {MPI_OFFSET, Element::kInt64, sizeof(MPI_Offset)},
        {MPI_COUNT, Element::kInt64, sizeof(MPI_Count)},
        {MPI_FLOAT, Element::kFloat32, sizeof(float)},
        {MPI_DOUBLE, Element::kFloat64, sizeof(double)},
        {MPI_LONG_DOUBLE, Element::kLongDouble, sizeof(long double)},
        {MPI_C_FLOAT_COMPLEX, Element::kComplex32, sizeof(std::complex<float>)},
        {MPI_C_DOUBLE_COMPLEX, Element::kComplex64, sizeof(std::complex<double>)},
        {MPI_C_LONG_DOUBLE_COMPLEX, Element::kComplexLongDouble, sizeof(std::complex<long double>)},
        {MPI_CXX_DOUBLE_COMPLEX, Element::kComplex64, sizeof(std::complex<double>)},
        {MPI_C_BOOL, Element::kLogical, sizeof(bool)},
        {MPI_CXX_BOOL, Element::kLogical, sizeof(bool)},
        {MPI_BYTE, Element::kByte, 1},
        {MPI_CHAR, Element::kInt8, 1},
        {MPI_WCHAR, Element::kNone, sizeof(wchar_t)},
        {MPI_DOUBLE_INT, Element::kNone, 12},
        {MPI_SHORT_INT, Element::kNone, 6},
        {MPI_2INT, Element::kNone, 8},
        {MPI_DATATYPE_NULL, Element::kNone, 0},
    };
    for (const auto& row : rows) {
        char name[MPI_MAX_OBJECT_NAME] = "MPI_DATATYPE_NULL";
        int length = 0;
        if (row.type != MPI_DATATYPE_NULL)
            MPI_Type_get_name(row.type, name, &length);
        EXPECT_EQ(element_of(row.type).element, row.element) << name;
        EXPECT_EQ(element_of(row.type).bytes, row.bytes) << name;
        EXPECT_EQ(size_of(row.type), row.bytes) << name;
    }
}

TEST(Element, Derived_types_are_none) {
    MPI_Datatype type;
    MPI_Type_contiguous(1, MPI_INT, &type);
    EXPECT_EQ(element_of(type).element, Element::kNone);
    EXPECT_EQ(element_of(type).bytes, 0);
    EXPECT_EQ(size_of(type), 4u);
    MPI_Type_free(&type);
}

TEST(Element, Fortran_types_have_the_class_of_their_name) {
    EXPECT_EQ(element_of(MPI_INTEGER).element, Element::kInt32);
    EXPECT_EQ(element_of(MPI_REAL).element, Element::kFloat32);
    EXPECT_EQ(element_of(MPI_DOUBLE_PRECISION).element, Element::kFloat64);
    EXPECT_EQ(element_of(MPI_COMPLEX).element, Element::kComplex32);
    EXPECT_EQ(element_of(MPI_DOUBLE_COMPLEX).element, Element::kComplex64);
    EXPECT_EQ(element_of(MPI_LOGICAL).element, Element::kLogical);
    EXPECT_EQ(element_of(MPI_CHARACTER).element, Element::kNone);
#ifdef MPI_INTEGER8
    EXPECT_EQ(element_of(MPI_INTEGER8).element, Element::kInt64);
#endif
#ifdef MPI_REAL8
    EXPECT_EQ(element_of(MPI_REAL8).element, Element::kFloat64);
#endif
#ifdef MPI_REAL16
    EXPECT_EQ(element_of(MPI_REAL16).element, Element::kNone) << "quadruple precision, no long double";
#endif
    MPI_Datatype type;
    MPI_Type_create_f90_real(6, MPI_UNDEFINED, &type);
    EXPECT_EQ(element_of(type).element, Element::kFloat32);
    MPI_Type_create_f90_complex(15, MPI_UNDEFINED, &type);
    EXPECT_EQ(element_of(type).element, Element::kComplex64);
    MPI_Type_create_f90_integer(18, &type);
    EXPECT_EQ(element_of(type).element, Element::kInt64);
}

// (Fortran's integers are no logicals, which an Element does not tell: left out for the logical operators.)
TEST(Operator, Is_defined_only_where_MPI_reduces) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const MPI_Op ops[] = {MPI_SUM,  MPI_PROD, MPI_MIN, MPI_MAX,  MPI_LAND,   MPI_LOR,
                          MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_MINLOC, MPI_MAXLOC};
    const MPI_Datatype types[] = {MPI_SIGNED_CHAR,
                                  MPI_SHORT,
                                  MPI_INT,
                                  MPI_LONG,
                                  MPI_UNSIGNED_CHAR,
                                  MPI_UNSIGNED,
                                  MPI_UINT64_T,
                                  MPI_FLOAT,
                                  MPI_DOUBLE,
                                  MPI_LONG_DOUBLE,
                                  MPI_C_FLOAT_COMPLEX,
                                  MPI_C_DOUBLE_COMPLEX,
                                  MPI_C_BOOL,
                                  MPI_BYTE,
                                  MPI_REAL,
                                  MPI_COMPLEX,
                                  MPI_LOGICAL,
                                  MPI_CHAR,
                                  MPI_2INT,
                                  MPI_DOUBLE_INT,
                                  MPI_AINT,
                                  MPI_OFFSET,
                                  MPI_COUNT};
    for (MPI_Op op : ops)
        for (MPI_Datatype type : types) {
            if (!swy::datatype::defined(operator_of(op), element_of(type).element))
                continue;
            alignas(32) unsigned char in[64] = {}, inout[64] = {};
            char name[MPI_MAX_OBJECT_NAME];
            int length = 0;
            MPI_Type_get_name(type, name, &length);
            EXPECT_EQ(MPI_Reduce_local(in, inout, 1, type, op), MPI_SUCCESS)
                << swy::datatype::name(operator_of(op)) << " of " << name;
        }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

TEST(Operator, Is_not_defined_where_the_standard_does_not) {
    using swy::datatype::defined;
    for (Operator op : {Operator::kSum, Operator::kProd, Operator::kMin, Operator::kMax})
        for (Element element : {Element::kLogical, Element::kByte, Element::kNone})
            EXPECT_FALSE(defined(op, element)) << swy::datatype::name(op) << " of " << swy::datatype::name(element);
    for (Element element : {Element::kComplex32, Element::kComplex64, Element::kComplexLongDouble}) {
        EXPECT_FALSE(defined(Operator::kMin, element));
        EXPECT_FALSE(defined(Operator::kMax, element));
    }
    for (Operator op :
         {Operator::kLand, Operator::kLor, Operator::kLxor, Operator::kBand, Operator::kBor, Operator::kBxor})
        for (Element element :
             {Element::kFloat16, Element::kFloat32, Element::kFloat64, Element::kComplex32, Element::kNone})
            EXPECT_FALSE(defined(op, element)) << swy::datatype::name(op) << " of " << swy::datatype::name(element);
    EXPECT_FALSE(defined(Operator::kBand, Element::kLogical));
    EXPECT_FALSE(defined(Operator::kLand, Element::kByte));
    for (Operator op : {Operator::kReplace, Operator::kNoOp, Operator::kNull})
        EXPECT_FALSE(defined(op, Element::kInt32)) << "no reduction";
}

TEST(Operator, A_program_s_own_is_a_user_operator) {
    MPI_Op op;
    MPI_Op_create([](void*, void*, int*, MPI_Datatype*) {}, 1, &op);
    EXPECT_EQ(operator_of(op), Operator::kUser);
    EXPECT_EQ(operator_of(MPI_SUM), Operator::kSum);
    EXPECT_EQ(operator_of(MPI_REPLACE), Operator::kReplace);
    EXPECT_EQ(operator_of(MPI_OP_NULL), Operator::kNull);
    MPI_Op_free(&op);
}

}  // namespace

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    MPI_Init(&argc, &argv);
    const int failed = RUN_ALL_TESTS();
    MPI_Finalize();
    return failed;
}
