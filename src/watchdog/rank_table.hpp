#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/activity.hpp"
#include "evenkeel/watchdog/watchdog.hpp"
#include "watchdog/verdict.hpp"

namespace evenkeel {

/// What a rank tells of one of its threads, as it travels.
struct ThreadSign {
  std::array<char, 40> phase{};  ///< empty where no thread stands here
  std::array<char, 40> wait{};
  std::int64_t step = no_step;
  std::int64_t whom = 0;  ///< WaitFor

  friend bool operator==(const ThreadSign&, const ThreadSign&) = default;
};

/// A sign of life, as it travels.
struct SignOfLife {
  std::uint64_t progress = 0;
  std::array<ThreadSign, most_told_threads> threads{};
};
static_assert(std::is_trivially_copyable_v<SignOfLife>);

[[nodiscard]] SignOfLife sign_of(std::uint64_t progress,
                                 const std::array<ThreadActivity, most_told_threads>& threads) noexcept;

/// What one rank has heard of all. Times are of a clock of the caller's, in seconds.
class RankTable {
 public:
  /// With hosts as far as they are known.
  explicit RankTable(std::vector<std::string> hosts) : hosts_(std::move(hosts)), seen_(hosts_.size()) {}

  void hears(int rank, const SignOfLife& sign, double now);
  /// The first that is told counts.
  void knows_host(int rank, std::string_view host) {
    if (std::string& known = hosts_[static_cast<std::size_t>(rank)]; known.empty()) known = host;
  }
  void ends(int rank) noexcept { seen_[static_cast<std::size_t>(rank)].has_ended = true; }
  /// Rank by rank: ever.
  [[nodiscard]] bool has_heard(int rank) const noexcept {
    return seen_[static_cast<std::size_t>(rank)].is_heard;
  }

  [[nodiscard]] std::vector<RankSigns> signs(double now) const;
  /// For people.
  [[nodiscard]] std::vector<WatchedRank> ranks(double now) const;
  [[nodiscard]] int size() const noexcept { return static_cast<int>(seen_.size()); }

 private:
  struct Seen {
    SignOfLife last;
    double heard_at = 0;
    double moved_at = 0;
    bool is_heard = false;
    bool has_ended = false;
  };

  std::vector<std::string> hosts_;
  std::vector<Seen> seen_;
};

}  // namespace evenkeel
