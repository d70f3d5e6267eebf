#include "exchange/gather/broadcast_assignment.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

namespace evenkeel {
namespace {

// Returns whether one rank should assign units and broadcast them, instead of each rank assigning them
// itself. The result is equal on all ranks.
bool should_broadcast(const LengthTable& table, const PlanSettings& settings) {
  // Minimum number of samples. Assigning the units of a smaller step takes less time than broadcasting them.
  constexpr std::int64_t fewest = 512;
  return settings.dp >= 1 && table.size() >= fewest && shares_are_derived_from_units(settings) &&
         settings.mini_batches.count <= table.size() / settings.dp;
}

constexpr std::int32_t word_valid = 1;

/// Message with the units in each DP rank's share of each mini-batch. It contains one word that shows whether
/// assignment succeeded, the size of each share, and then the units of all shares. The number of words is
/// sufficient for as many units as the length table has entries; words after the last unit are unused.
class UnitsMessage {
 public:
  UnitsMessage(std::int64_t num_entries, const PlanSettings& settings)
      : dp_(static_cast<std::size_t>(settings.dp)),
        num_shares_(dp_ * static_cast<std::size_t>(settings.mini_batches.count)),
        words_(1 + num_shares_ + static_cast<std::size_t>(num_entries)) {}

  [[nodiscard]] std::vector<std::int32_t>& words() noexcept { return words_; }
  [[nodiscard]] bool is_valid() const noexcept { return words_.front() == word_valid; }

  // Units fit in std::int32_t, since there are at most as many units as entries, and gather_lengths() ensures
  // that the number of entries fits in an int.
  void write(std::span<const IdGroups<UnitId>> mini_batches) {
    words_.front() = word_valid;
    auto size = words_.begin() + 1;
    auto unit = size + static_cast<std::ptrdiff_t>(num_shares_);
    for (const IdGroups<UnitId>& shares : mini_batches) {
      for (std::int64_t r = 0; r < shares.size(); ++r) *size++ = static_cast<std::int32_t>(shares[r].size());
      unit = std::ranges::transform(shares.ids(), unit, [](UnitId id) {
               return static_cast<std::int32_t>(id.value());
             }).out;
    }
  }

  [[nodiscard]] std::vector<IdGroups<UnitId>> read() const {
    std::vector<IdGroups<UnitId>> mini_batches;
    auto size = words_.begin() + 1;
    auto unit = size + static_cast<std::ptrdiff_t>(num_shares_);
    for (std::size_t m = 0; m < num_shares_ / dp_; ++m) {
      std::vector<std::int64_t> offsets{0};
      for (std::size_t r = 0; r < dp_; ++r) offsets.push_back(offsets.back() + *size++);
      const auto end = unit + offsets.back();
      mini_batches.emplace_back(Partition(std::vector<Item>(unit, end), std::move(offsets)));
      unit = end;
    }
    return mini_batches;
  }

 private:
  std::size_t dp_;
  std::size_t num_shares_;
  std::vector<std::int32_t> words_;
};

}  // namespace

std::optional<StrategyChoice> choose_strategy_together(const Communicator& comm, int root,
                                                       const StepProblem& problem, GuardedWork& work) {
  // The first word is word_valid if choosing succeeded; the others are the members of StrategyChoice.
  std::array<std::int64_t, 3> message{};
  if (comm.rank() == root) {
    work([&] {
      const StrategyChoice choice = choose_strategy(problem);
      message = {word_valid, choice.hierarchical_end, choice.grid_end};
    });
  }
  comm.broadcast(std::as_writable_bytes(std::span(message)), root);
  const auto& [is_valid, hierarchical_end, grid_end] = message;
  if (is_valid != word_valid) return std::nullopt;
  return StrategyChoice{hierarchical_end, grid_end};
}

StepAssignment assign_together(const Communicator& comm, int root, const StepProblem& problem,
                               GuardedWork& work) {
  const LengthTable& table = problem.table;
  const PlanSettings& settings = problem.settings;
  StepAssignment assignment;
  work.run_on_replicated_data([&] { settings.validate(); });
  if (comm.size() == 1 || !should_broadcast(table, settings)) {
    work.run_on_replicated_data([&] { assignment = assign_step(problem); });
    return assignment;
  }
  UnitsMessage message(table.size(), settings);
  std::vector<IdGroups<UnitId>> units;
  const bool tells = comm.rank() == root && !work.is_skipping_parts();
  // If the root fails to assign units, it sends an invalid message. All ranks then call assign_step() below
  // and find the same error, since they have equal input.
  if (tells && try_locally([&] { message.write(units = assign_units(problem)); }))
    message = {table.size(), settings};
  comm.broadcast(std::as_writable_bytes(std::span(message.words())), root);
  work.run_on_replicated_data([&] {
    if (!message.is_valid()) {
      assignment = assign_step(problem);
      return;
    }
    if (!tells) units = message.read();
    assignment = assign_step_by_units(problem, std::move(units));
  });
  return assignment;
}

void RankPeers::take_maximum(std::span<std::int64_t> numbers) {
  const auto start = std::chrono::steady_clock::now();
  std::array<std::int64_t, 1024> all{};
  // All ranks must reduce the same number of words, even if a rank has failed and passes fewer numbers. 16
  // words are usually enough.
  std::size_t words = 16;
  do {
    const std::size_t count = work_.is_skipping_parts() ? 0 : std::min(numbers.size(), words - 1);
    all.fill(0);
    all.front() = work_.is_skipping_parts() ? 1 : 0;
    std::ranges::copy(numbers.first(count), all.begin() + 1);
    comm_.all_reduce(std::span(all).first(words), ReduceOp::max);
    if (all.front() != 0) {
      work_.skip_remaining();
      break;
    }
    std::copy_n(all.begin() + 1, count, numbers.begin());
    numbers = numbers.subspan(count);
    words = all.size();
  } while (!numbers.empty());
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace evenkeel
