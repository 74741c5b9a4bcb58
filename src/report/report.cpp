#include "report/report.hpp"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "config.h"
#include "error/loss.hpp"
#include "real.hpp"
#include "report/counters.hpp"
#include "report/processes.hpp"
#include "report/summary.hpp"
#include "settings/files.hpp"
#include "settings/settings.hpp"

namespace swy::report {

namespace {

constexpr int kRoot = 0;
constexpr std::size_t kTexts = 8;  // texts in Facts

// The cells that any rank has; the same list on every rank.
std::vector<Key> cells_of_all(const std::vector<Cell>& mine, MPI_Comm comm) {
    std::vector<unsigned char> used((keys() + 7) / 8);
    for (const Cell& cell : mine)
        used[cell.key / 8] = static_cast<unsigned char>(used[cell.key / 8] | (1u << (cell.key % 8)));
    real::Allreduce(MPI_IN_PLACE, used.data(), static_cast<int>(used.size()), MPI_UNSIGNED_CHAR, MPI_BOR, comm);
    std::vector<Key> all;
    for (Key key = 0; key < keys(); ++key) {
        if ((used[key / 8] >> (key % 8) & 1u) != 0)
            all.push_back(key);
    }
    return all;
}

// What MPI_DOUBLE_INT is.
struct TimeOfRank {
    double seconds;
    int rank;
};

// The least, or the most, of all ranks' times in each cell.
std::vector<TimeOfRank> extreme(const std::vector<TimeOfRank>& mine, MPI_Op op, MPI_Comm comm) {
    std::vector<TimeOfRank> found(mine.size());
    real::Reduce(mine.data(), found.data(), static_cast<int>(mine.size()), MPI_DOUBLE_INT, op, kRoot, comm);
    return found;
}

// The sums over ranks; significant on the root.
std::vector<Line> sum_lines(int rank, MPI_Comm comm) {
    const std::vector<Cell> mine = snapshot();
    const std::vector<Key> all = cells_of_all(mine, comm);
    std::vector<Sum> sums(all.size());
    std::vector<TimeOfRank> times(all.size(), {0, rank});
    for (const Cell& cell : mine) {
        const auto at = static_cast<std::size_t>(std::lower_bound(all.begin(), all.end(), cell.key) - all.begin());
        sums[at] = cell.sum;
        times[at].seconds = static_cast<double>(cell.sum.nanoseconds) * 1e-9;
    }
    std::vector<Sum> totals(all.size());
    constexpr std::size_t kNumbers = 3 + kSizeClasses;
    static_assert(sizeof(Sum) == kNumbers * sizeof(std::uint64_t));
    real::Reduce(sums.data(), totals.data(), static_cast<int>(kNumbers * all.size()), MPI_UINT64_T, MPI_SUM, kRoot,
                 comm);
    const std::vector<TimeOfRank> least = extreme(times, MPI_MINLOC, comm), most = extreme(times, MPI_MAXLOC, comm);
    std::vector<Line> lines;
    for (std::size_t i = 0; i < all.size(); ++i) {
        lines.push_back(line_of({all[i], totals[i]}));
        lines.back().least = {least[i].seconds, least[i].rank};
        lines.back().most = {most[i].seconds, most[i].rank};
    }
    return lines;
}

double longest(double seconds, MPI_Comm comm) {
    double longest = 0;
    real::Reduce(&seconds, &longest, 1, MPI_DOUBLE, MPI_MAX, kRoot, comm);
    return longest;
}

// The texts of all ranks, kTexts for each rank, in rank order; only on the root.
std::vector<std::string> gather_texts(const Facts& mine, int rank, int ranks, MPI_Comm comm) {
    std::string packed;
    for (const std::string* text : {&mine.mpi_library, &mine.nccl_version, &mine.driver, &mine.host, &mine.device,
                                    &mine.tools_above, &mine.tools_below, &mine.kernels}) {
        packed += text->c_str();  // up to the first NUL, which separates
        packed += '\0';
    }
    const int length = static_cast<int>(packed.size());
    std::vector<int> lengths(rank == kRoot ? static_cast<std::size_t>(ranks) : 0);
    real::Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, kRoot, comm);
    std::vector<int> offsets(lengths.size());
    for (std::size_t i = 1; i < offsets.size(); ++i)
        offsets[i] = offsets[i - 1] + lengths[i - 1];
    std::string all(lengths.empty() ? 0 : static_cast<std::size_t>(offsets.back() + lengths.back()), '\0');
    real::Gatherv(packed.data(), length, MPI_CHAR, all.data(), lengths.data(), offsets.data(), MPI_CHAR, kRoot, comm);
    std::vector<std::string> texts;
    for (std::size_t at = 0; at < all.size(); at += texts.back().size() + 1)
        texts.emplace_back(all.c_str() + at);
    return texts;
}

// One text where all ranks that have one have the same, otherwise all that differ.
std::string distinct(const std::vector<std::string>& texts, std::size_t which) {
    std::vector<std::string> seen;
    for (std::size_t i = which; i < texts.size(); i += kTexts) {
        if (!texts[i].empty() && std::find(seen.begin(), seen.end(), texts[i]) == seen.end())
            seen.push_back(texts[i]);
    }
    std::string joined;
    for (const std::string& text : seen)
        joined += (joined.empty() ? "" : "; ") + text;
    return joined;
}

Communicators sum_of(const Communicators& mine, MPI_Comm comm) {
    const long own[] = {mine.made, mine.reused, mine.evicted, mine.live_max};
    long all[std::size(own)] = {};
    real::Reduce(own, all, static_cast<int>(std::size(own)), MPI_LONG, MPI_SUM, kRoot, comm);
    return {all[0], all[1], all[2], all[3]};
}

constinit Time run_began{};

void put(std::string_view text, std::FILE* file) {
    std::fwrite(text.data(), 1, text.size(), file);
}

void write_file(const std::string& path, const std::string& text) {
    std::FILE* file = settings::open_to_write(path);
    bool written = file != nullptr;
    if (written) {
        put(text, file);
        written = std::ferror(file) == 0;
        written = std::fclose(file) == 0 && written;
    }
    if (!written) {
        std::fprintf(stderr, "switchyard: the report could not be written to %s: %s (SWITCHYARD_REPORT=json:FILE)\n",
                     path.c_str(), std::strerror(errno));
    }
}

}  // namespace

void begin_run() {
    run_began = std::chrono::steady_clock::now();
}

void write(const Facts& mine, MPI_Comm comm) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - run_began).count();
    int rank = 0;
    int ranks = 1;
    real::Comm_rank(comm, &rank);
    real::Comm_size(comm, &ranks);
    Summary summary;
    summary.lines = sum_lines(rank, comm);
    summary.run.seconds = longest(seconds, comm);
    summary.communicators = sum_of(mine.communicators, comm);
    const std::vector<std::string> texts = gather_texts(mine, rank, ranks, comm);
    if (rank != kRoot)
        return;
    if (const error::Loss loss = error::loss_of(comm)) {
        std::fprintf(stderr, "switchyard: no report: %s while it was gathered\n", loss.what.c_str());
        return;
    }
    summary.switchyard = PACKAGE_VERSION;
    summary.run.program = command_line_of(getpid());
    summary.run.began = date_before(seconds);
    summary.run.settings = settings::changed();
    summary.mpi = distinct(texts, 0);
    summary.nccl = distinct(texts, 1);
    summary.driver = distinct(texts, 2);
    summary.tools_above = distinct(texts, 5);
    summary.tools_below = distinct(texts, 6);
    summary.kernels = distinct(texts, 7);
    summary.tuning = mine.tuning;
    for (std::size_t i = 0; i + kTexts <= texts.size(); i += kTexts)
        summary.ranks.push_back({texts[i + 3], texts[i + 4]});
    if (settings::values().report == settings::ReportTo::kJson) {
        write_file(settings::values().report_file, as_json(summary));
    } else {
        put(as_text(summary, form_of_report(settings::values())), stderr);
        std::fflush(stderr);
    }
}

}  // namespace swy::report
