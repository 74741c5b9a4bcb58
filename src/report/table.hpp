// Tables of text that fit a terminal, and what a terminal can show.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "settings/settings.hpp"

namespace swy::report {

struct Form {
    static constexpr std::size_t kUsual = 120;  // where no terminal says
    std::size_t width = kUsual;                 // columns
    bool colour = false;
};

// What suits this file: a terminal's width, or COLUMNS; colour on a terminal alone, and not with NO_COLOR
// (https://no-color.org) or TERM=dumb.
Form form_of(std::FILE* file);

// What suits the table of a report on standard error, which mpirun may pass on to a terminal: SWITCHYARD_REPORT says
// how wide that is.
Form form_of_report(const settings::Values& values);

enum class Colour : std::uint8_t { kNone, kBold, kSoft, kGreen, kYellow, kMagenta };
std::string coloured(std::string_view text, Colour colour, const Form& form);

// A table whose columns are as wide as what is in them. Where the terminal is narrower, columns that can be spared are
// left out, the most dispensable first.
class Table {
  public:
    struct Column {
        std::string heading;
        bool is_words = false;  // to the left; numbers go to the right
        int spare = 0;          // 0: never left out; otherwise those with the largest go first, together
    };
    struct Cell {
        std::string text;
        Colour colour = Colour::kNone;
    };

    explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
    void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }  // a cell a column
    std::string as_text(const Form& form) const;  // with its headings, each line indented by two

  private:
    std::string line(const std::vector<Cell>& cells, const std::vector<std::size_t>& widths, const Form& form) const;
    std::vector<Column> columns_;
    std::vector<std::vector<Cell>> rows_;
};

// Breaks a text of words into lines that fit, each but the first indented by `indent`. `begins`: the column at which
// the text begins.
std::string wrapped(std::string_view text, std::size_t begins, std::size_t indent, const Form& form);

}  // namespace swy::report
