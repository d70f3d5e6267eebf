#include "bench/data/route_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "bench/measurement.hpp"
#include "bench/plan/lengths.hpp"
#include "bench/python.hpp"
#include "bench/python_scripts.hpp"
#include "evenkeel/pack/cp_layout.hpp"
#include "evenkeel/pack/row_routes.hpp"

namespace evenkeel::bench {
namespace {

constexpr std::size_t sequences = 64;
constexpr CpGroup cp_group{8};
constexpr RowMember member{CpRank{2}};
constexpr int calls = 401;  // of microseconds each
constexpr LogNormal lengths_of_batch{7.5, 1.0, 1, 8192};

std::vector<std::int64_t> aligned(std::vector<std::int64_t> lengths) {
  for (std::int64_t& length : lengths) length = align_up(length, cp_group.chunks());
  return lengths;
}

nlohmann::json arrays_of(const RowRoute<>& route) {
  return {route.send_rows, route.send_counts, route.receive_rows, route.receive_counts};
}

}  // namespace

void add_routes(const PackOptions& options, Report& report) {
  const std::vector<std::int64_t> lengths =
      aligned(made_up_lengths(sequences, options.seed, lengths_of_batch));
  const PackedLayout layout(lengths, cp_group.chunks(), cp_group);
  RowRoute<std::int64_t> wide;
  RowRoute<std::int32_t> narrow_rows;
  RowRoute<std::int64_t> fresh;
  const std::vector<Case> cases{
      {"int64",
       [&](std::size_t) {
         wide = row_route(layout, RowCut::zigzag, RowCut::contiguous, member, std::move(wide));
       }},
      {"int32", [&](std::size_t) {
         narrow_rows = row_route(layout, RowCut::zigzag, RowCut::contiguous, member, std::move(narrow_rows));
       }}};
  // Allocating and freeing pages of the operating system evicts other data from the caches.
  const std::vector<Case> alone{{"int64, in fresh memory", [&](std::size_t) {
                                   fresh = row_route(layout, RowCut::zigzag, RowCut::contiguous, member);
                                 }}};
  std::vector<Samples> ours = measure_in_turn(cases, calls);
  std::ranges::copy(measure_in_turn(alone, calls), std::back_inserter(ours));
  const bool asks_torch = options.row_bytes == sizeof(std::int64_t);  // as the other loops
  const PythonAnswer answer = !asks_torch ? PythonAnswer{nullptr, "rows are not of 8 bytes"}
                                          : run_python(options.python, route_loop_script,
                                                       {{"lengths", lengths},
                                                        {"cp", cp_group.size},
                                                        {"rank", member.cp_rank.value()},
                                                        {"rounds", std::min(options.rounds, 41)}});
  Table table(
      "routes",
      fmt::format("The route from zigzag to contiguous of one rank: {} sequences, {} rows of it, cp {}",
                  lengths.size(), layout.local_rows(), cp_group.size),
      {{"case", "case"}, {"us", "us, median", 1}, {"speed", "x of int64", 1}});
  const double of_wide = median(ours.front().seconds);
  const auto add = [&](const std::string& name, double seconds) {
    table.add({name, 1e6 * seconds, seconds / of_wide});
  };
  for (const Samples& samples : ours) add(samples.name, median(samples.seconds));
  if (answer.problem.empty()) {
    const std::string torch = "torch " + answer.value.at("version").get<std::string>() + ", ";
    for (const auto& [name, what] : {std::pair{"by_chunks", "a loop over sequences and chunks"},
                                     std::pair{"by_owners", "a loop over sequences, rows by their owners"}}) {
      if (answer.value.at("routes").at(name) != arrays_of(wide))
        throw std::logic_error(std::string("the loop ") + name + " builds another route");
      add(torch + what, median(answer.value.at("seconds").at(name).get<std::vector<double>>()));
    }
  } else {
    report.notes.push_back("No routes built by PyTorch: " + answer.problem);
  }
  report.tables.push_back(std::move(table));
}

}  // namespace evenkeel::bench
