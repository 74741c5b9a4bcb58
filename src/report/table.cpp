#include "report/table.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace swy::report {
namespace {

constexpr std::size_t kNarrowest = 40, kIndent = 2, kBetween = 2;

bool is_set(const char* variable) {
    const char* const value = std::getenv(variable);
    return value != nullptr && *value != '\0';
}

// Characters, of UTF-8.
std::size_t length_of(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(
        text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u; }));
}

std::size_t sum_of(const std::vector<std::size_t>& widths) {
    std::size_t sum = kIndent;
    for (const std::size_t width : widths)
        sum += width != 0 ? width + kBetween : 0;
    return sum - kBetween;
}

}  // namespace

Form form_of(std::FILE* file) {
    Form form;
    const int descriptor = fileno(file);
    const bool is_terminal = isatty(descriptor) == 1;
    winsize size{};
    if (is_set("COLUMNS"))
        form.width = std::strtoul(std::getenv("COLUMNS"), nullptr, 10);
    else if (is_terminal && ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col != 0)
        form.width = size.ws_col;
    form.width = form.width == 0 ? Form::kUsual : std::max(form.width, kNarrowest);
    const char* const kind = std::getenv("TERM");
    form.colour = is_terminal && !is_set("NO_COLOR") && kind != nullptr && std::string_view(kind) != "dumb";
    return form;
}

Form form_of_report(const settings::Values& values) {
    if (values.report_columns == 0)
        return form_of(stderr);
    return {std::max(values.report_columns, kNarrowest), values.report_colour};
}

std::string coloured(std::string_view text, Colour colour, const Form& form) {
    constexpr std::array<std::string_view, 6> kCodes = {"", "1", "2", "32", "33", "35"};
    if (!form.colour || colour == Colour::kNone || text.empty())
        return std::string(text);
    return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[static_cast<std::size_t>(colour)], text);
}

std::string Table::line(const std::vector<Cell>& cells, const std::vector<std::size_t>& widths,
                        const Form& form) const {
    std::string text(kIndent, ' ');
    std::size_t pending = 0;  // blanks, which no line ends with
    for (std::size_t i = 0; i < cells.size(); ++i) {
        if (widths[i] == 0)
            continue;
        const std::size_t blanks = widths[i] - length_of(cells[i].text);
        const bool left = columns_[i].is_words;
        if (!cells[i].text.empty()) {
            text.append(pending + (left ? 0 : blanks), ' ').append(coloured(cells[i].text, cells[i].colour, form));
            pending = left ? blanks : 0;
        } else {
            pending += blanks;
        }
        pending += kBetween;
    }
    return text + "\n";
}

std::string Table::as_text(const Form& form) const {
    std::vector<std::size_t> widths;
    std::vector<Cell> headings;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        headings.push_back({columns_[i].heading, Colour::kSoft});
        std::size_t width = 0;  // a column without a word in it is left out
        for (const auto& row : rows_)
            width = std::max(width, length_of(row[i].text));
        widths.push_back(width == 0 ? 0 : std::max(width, columns_[i].heading.size()));
    }
    int most = 0;
    for (const Column& column : columns_)
        most = std::max(most, column.spare);
    for (int spare = most; spare > 0 && sum_of(widths) > form.width; --spare)
        for (std::size_t i = 0; i < columns_.size(); ++i)
            if (columns_[i].spare == spare)
                widths[i] = 0;
    std::string text = line(headings, widths, form);
    for (const auto& row : rows_)
        text += line(row, widths, form);
    return text;
}

std::string wrapped(std::string_view text, std::size_t begins, std::size_t indent, const Form& form) {
    std::string lines;
    std::size_t column = begins;
    bool first = true;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(' '), text.size());
        const std::string_view word = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (!first && column + 1 + length_of(word) > form.width) {
            lines += "\n" + std::string(indent, ' ');
            column = indent;
        } else if (!first) {
            lines += ' ';
            ++column;
        }
        lines += word;
        column += length_of(word);
        first = false;
    }
    return lines;
}

}  // namespace swy::report
