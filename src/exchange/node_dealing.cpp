#include "evenkeel/exchange/node_dealing.hpp"

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <utility>
#include <vector>

#include "evenkeel/base/narrow.hpp"
#include "evenkeel/mesh/fail_together.hpp"

namespace evenkeel {
namespace {

// Fewer samples are dealt in less time than a broadcast takes.
constexpr std::int64_t worth_telling = 512;

constexpr std::int32_t dealt = 1;

/// The shares of all mini-batches as one message: whether they could be dealt, how many entries each has,
/// then the entries.
class SharesMessage {
 public:
  SharesMessage(std::int64_t num_entries, const PlanSettings& settings)
      : dp_(static_cast<std::size_t>(settings.dp)),
        num_shares_(dp_ * static_cast<std::size_t>(settings.mini_batches.count)),
        words_(1 + num_shares_ + static_cast<std::size_t>(num_entries)) {}

  [[nodiscard]] std::vector<std::int32_t>& words() noexcept { return words_; }
  [[nodiscard]] bool is_dealt() const noexcept { return words_.front() == dealt; }

  // Entries are places in a table, and those fit an int: see gather_lengths.
  void write(std::span<const Partition> mini_batches) {
    words_.front() = dealt;
    auto size = words_.begin() + 1;
    auto entry = size + static_cast<std::ptrdiff_t>(num_shares_);
    for (const Partition& shares : mini_batches) {
      for (std::int64_t r = 0; r < shares.size(); ++r) *size++ = static_cast<std::int32_t>(shares[r].size());
      entry = std::ranges::transform(shares.items(), entry, [](Item item) {
                return static_cast<std::int32_t>(item);
              }).out;
    }
  }

  [[nodiscard]] std::vector<Partition> read() const {
    std::vector<Partition> mini_batches;
    auto size = words_.begin() + 1;
    auto entry = size + static_cast<std::ptrdiff_t>(num_shares_);
    for (std::size_t m = 0; m < num_shares_ / dp_; ++m) {
      std::vector<std::int64_t> offsets{0};
      for (std::size_t r = 0; r < dp_; ++r) offsets.push_back(offsets.back() + *size++);
      const auto end = entry + offsets.back();
      mini_batches.emplace_back(std::vector<Item>(entry, end), std::move(offsets));
      entry = end;
    }
    return mini_batches;
  }

 private:
  std::size_t dp_;
  std::size_t num_shares_;
  std::vector<std::int32_t> words_;
};

}  // namespace

DealtStep deal_on_node(const boost::mpi::communicator& node, const LengthTable& table,
                       const PlanSettings& settings, std::int64_t step, std::span<const SharedGroup> trees) {
  settings.validate();
  if (node.size() == 1 || table.size() < worth_telling || !follows_from_shares(settings))
    return deal_step(table, settings, step, trees);
  SharesMessage message(table.size(), settings);
  std::vector<Partition> shares;
  const bool first = node.rank() == 0;
  if (first && !try_locally([&] { shares = deal_shares(table, settings, step); })) message.write(shares);
  boost::mpi::broadcast(node, message.words().data(), narrow<int>(std::ssize(message.words()), "samples"), 0);
  // What fails on the first rank fails on every rank: the input is equal.
  if (!message.is_dealt()) return deal_step(table, settings, step, trees);
  if (!first) shares = message.read();
  return deal_step_by_shares(table, settings, step, std::move(shares));
}

}  // namespace evenkeel
