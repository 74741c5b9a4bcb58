// The compiled part of fmt, once for the whole library. Used as headers alone (FMT_HEADER_ONLY), fmt makes every file
// that formats a line take three seconds longer to compile; and Debian has its compiled part as a shared library only,
// which no program should have to load because of this library. configure tries this file and uses the headers alone
// where another version of fmt does not compile it.
#include <fmt/format.h>

#ifndef FMT_HEADER_ONLY
#include <fmt/format-inl.h>

template auto fmt::detail::thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto fmt::detail::decimal_point_impl(locale_ref) -> char;
#endif
