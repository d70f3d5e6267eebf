#include "exchange/gather/told_assignment.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

namespace evenkeel {
namespace {

// The same on every rank.
bool is_worth_telling(const LengthTable& table, const PlanSettings& settings) {
  constexpr std::int64_t fewest = 512;  // fewer samples are assigned in less time than a broadcast takes
  return settings.dp >= 1 && table.size() >= fewest && follows_from_units(settings) &&
         settings.mini_batches.count <= table.size() / settings.dp;
}

constexpr std::int32_t word_told = 1;

/// The units of all mini-batches' shares as one message: whether they could be assigned, how many each share
/// has, then the units. There are no more units than entries; what is over is not looked at.
class UnitsMessage {
 public:
  UnitsMessage(std::int64_t num_entries, const PlanSettings& settings)
      : dp_(static_cast<std::size_t>(settings.dp)),
        num_shares_(dp_ * static_cast<std::size_t>(settings.mini_batches.count)),
        words_(size(num_entries, settings)) {}

  /// In words.
  [[nodiscard]] static std::size_t size(std::int64_t num_entries, const PlanSettings& settings) noexcept {
    return 1 + static_cast<std::size_t>(settings.dp) * static_cast<std::size_t>(settings.mini_batches.count) +
           static_cast<std::size_t>(num_entries);
  }

  [[nodiscard]] std::vector<std::int32_t>& words() noexcept { return words_; }

  // Units are no more than the entries of a table, and those fit an int: see gather_lengths.
  void write(std::span<const IdGroups<UnitId>> mini_batches) {
    words_.front() = word_told;
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

// The message of `size` words of rank `teller` for all. A rank that has no memory for it takes part all the
// same. Returns whether it was told.
bool broadcast_words(const Communicator& comm, int teller, std::span<std::int32_t> words, std::size_t size) {
  std::array<std::int32_t, 16384> scrap;
  scrap.front() = 0;
  std::int32_t first_word = 0;
  for (std::size_t done = 0; done < size;) {
    const std::size_t count = std::min(size - done, scrap.size());
    std::int32_t* const piece = words.empty() ? scrap.data() : words.data() + done;
    comm.broadcast(std::as_writable_bytes(std::span(piece, count)), teller);
    if (done == 0) first_word = *piece;
    done += count;
  }
  return first_word == word_told;
}

}  // namespace

std::optional<StrategyChoice> choose_strategy_together(const Communicator& comm, int teller,
                                                       const StepProblem& problem, GuardedWork& work) {
  std::array<std::int64_t, 4> message{};  // whether it was chosen, whether it is a grid, and the ends
  if (comm.rank() == teller) {
    work([&] {
      const StrategyChoice choice = choose_strategy(problem);
      message = {word_told, choice.is_grid() ? 1 : 0, choice.hierarchical_end, choice.grid_end};
    });
  }
  comm.broadcast(std::as_writable_bytes(std::span(message)), teller);
  const auto& [is_told, is_grid, hierarchical_end, grid_end] = message;
  if (is_told != word_told) return std::nullopt;
  return StrategyChoice{is_grid == 1 ? Strategy::grid : Strategy::hierarchical, hierarchical_end, grid_end};
}

void assign_together(const Communicator& comm, int teller, const StepProblem& problem,
                     StepAssignment& assignment, GuardedWork& work) {
  const LengthTable& table = problem.table;
  const PlanSettings& settings = problem.settings;
  work.on_replicated_data([&] { settings.validate(); });
  if (comm.size() == 1 || !is_worth_telling(table, settings)) {
    work.on_replicated_data([&] { assignment = assign_step(problem); });
    return;
  }
  std::optional<UnitsMessage> message;
  work([&] { message.emplace(table.size(), settings); });
  std::vector<IdGroups<UnitId>> units;
  const bool tells = comm.rank() == teller;
  if (tells && message) {
    const auto error = try_locally([&] {
      units = assign_units(problem);
      message->write(units);
    });
    if (error) message->words().front() = 0;
  }
  const bool is_told =
      broadcast_words(comm, teller, message ? std::span(message->words()) : std::span<std::int32_t>(),
                      UnitsMessage::size(table.size(), settings));
  work.on_replicated_data([&] {
    // What fails on the one that tells fails on every rank: the input is equal.
    if (!is_told) {
      assignment = assign_step(problem);
      return;
    }
    if (!tells) units = message->read();
    assignment = assign_step_by_units(problem, std::move(units));
  });
}

}  // namespace evenkeel
