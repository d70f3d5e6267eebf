#include "bench/stream/made_up_groups.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <queue>

#include "bench/plan/lengths.hpp"
#include "evenkeel/base/error.hpp"
#include "io/files/input_file.hpp"

namespace evenkeel::bench {

using stream::WaitingGroup;

GroupLengths long_tail(std::int64_t cap) {
  constexpr std::size_t rows = 20'000;
  constexpr std::int64_t longest_prompt = 512;
  const LogNormal responses{.mu = 6.5, .sigma = 1.1, .min = 16, .max = cap - longest_prompt};
  const std::vector<std::int64_t> lengths = made_up_lengths(rows, 7, responses);
  GroupLengths made{"long tail", {}};
  std::mt19937_64 engine(8);
  for (const std::int64_t length : lengths) {
    const auto prompt = static_cast<std::int64_t>(64 + draw_below(engine, longest_prompt - 63));
    made.rows.push_back({prompt, length, 0});
  }
  return made;
}

GroupLengths lengths_of_file(const std::string& path, std::int64_t cap) {
  GroupLengths lengths{std::filesystem::path(path).stem().string(), read_length_table(InputFile(path))};
  std::erase_if(lengths.rows, [&](const FileLengths& row) { return row.prompt + row.response > cap; });
  if (lengths.rows.empty()) throw InputError(path, "has no sample below the cap", "Raise --cap");
  return lengths;
}

std::vector<WaitingGroup> made_up_groups(const GroupLengths& lengths, std::int64_t groups,
                                         std::int64_t group_size, std::int64_t cap, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  const auto draw = [&] { return lengths.rows[draw_below(engine, lengths.rows.size())]; };
  std::vector<WaitingGroup> made;
  std::int64_t arrival = 0;
  for (std::int64_t g = 0; g < groups; ++g) {
    WaitingGroup& group = made.emplace_back();
    group.uid = g;
    const std::int64_t prompt = draw().prompt;
    for (std::int64_t i = 0; i < group_size; ++i) {
      const std::int64_t response = std::min(draw().response, cap - prompt);
      group.samples.push_back({++arrival, i, prompt, response, 0, 0});
    }
    group.ready = arrival;
  }
  return made;
}

std::vector<WaitingGroup> as_finished(std::span<const WaitingGroup> started, std::int64_t slots) {
  std::priority_queue<std::int64_t, std::vector<std::int64_t>, std::greater<>> free_at;
  for (std::int64_t slot = 0; slot < slots; ++slot) free_at.push(0);
  std::vector<std::pair<std::int64_t, const WaitingGroup*>> finished;
  for (const WaitingGroup& group : started) {
    std::int64_t last = 0;
    for (const stream::WaitingSample& sample : group.samples) {
      const std::int64_t end = free_at.top() + sample.response;
      free_at.pop();
      free_at.push(end);
      last = std::max(last, end);
    }
    finished.emplace_back(last, &group);
  }
  std::ranges::stable_sort(finished, {}, [](const auto& entry) { return entry.first; });
  std::vector<WaitingGroup> groups;
  for (const auto& [end, group] : finished) groups.push_back(*group);
  return groups;
}

}  // namespace evenkeel::bench
