// The compiled part of fmt, once for all. As headers alone (FMT_HEADER_ONLY) fmt takes every file that formats a line
// three seconds longer to compile; and Debian has its compiled part as a shared library only, which no program should
// have to load on our account. configure tries this file and takes the headers alone where another fmt refuses it.
#include <fmt/format.h>

#ifndef FMT_HEADER_ONLY
#include <fmt/format-inl.h>

template auto fmt::detail::thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto fmt::detail::decimal_point_impl(locale_ref) -> char;
#endif
