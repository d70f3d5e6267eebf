#include "evenkeel/exchange/node_dealing.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "evenkeel/mesh/mpi_call.hpp"

namespace evenkeel {
namespace {

// The same on every rank.
bool is_worth_telling(const LengthTable& table, const PlanSettings& settings) {
  constexpr std::int64_t fewest = 512;  // fewer samples are dealt in less time than a broadcast takes
  return settings.dp >= 1 && table.size() >= fewest && follows_from_shares(settings) &&
         settings.mini_batches.count <= table.size() / settings.dp;
}

constexpr std::int32_t told = 1;

/// The shares of all mini-batches as one message: whether they could be dealt, how many entries each has,
/// then the entries.
class SharesMessage {
 public:
  SharesMessage(std::int64_t num_entries, const PlanSettings& settings)
      : dp_(static_cast<std::size_t>(settings.dp)),
        num_shares_(dp_ * static_cast<std::size_t>(settings.mini_batches.count)),
        words_(size(num_entries, settings)) {}

  /// In words.
  [[nodiscard]] static std::size_t size(std::int64_t num_entries, const PlanSettings& settings) noexcept {
    return 1 + static_cast<std::size_t>(settings.dp) * static_cast<std::size_t>(settings.mini_batches.count) +
           static_cast<std::size_t>(num_entries);
  }

  [[nodiscard]] std::vector<std::int32_t>& words() noexcept { return words_; }

  // Entries are places in a table, and those fit an int: see gather_lengths.
  void write(std::span<const Partition> mini_batches) {
    words_.front() = told;
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

// The first rank's message of `size` words for all. A rank that has no memory for it takes part all the same.
// Returns whether it was told.
bool broadcast_words(const boost::mpi::communicator& node, std::span<std::int32_t> words, std::size_t size) {
  std::array<std::int32_t, 16384> scrap;
  scrap.front() = 0;
  std::int32_t first_word = 0;
  for (std::size_t done = 0; done < size;) {
    const std::size_t count = std::min(size - done, scrap.size());
    std::int32_t* const piece = words.empty() ? scrap.data() : words.data() + done;
    check_mpi(MPI_Bcast(piece, static_cast<int>(count), MPI_INT32_T, 0, node), "MPI_Bcast");
    if (done == 0) first_word = *piece;
    done += count;
  }
  return first_word == told;
}

}  // namespace

void deal_on_node(const boost::mpi::communicator& node, const LengthTable& table,
                  const PlanSettings& settings, std::int64_t step, std::span<const SharedGroup> trees,
                  DealtStep& dealt, GuardedWork& work) {
  work.on_replicated_data([&] { settings.validate(); });
  if (node.size() == 1 || !is_worth_telling(table, settings)) {
    work.on_replicated_data([&] { dealt = deal_step(table, settings, step, trees); });
    return;
  }
  std::optional<SharesMessage> message;
  work([&] { message.emplace(table.size(), settings); });
  std::vector<Partition> shares;
  const bool first = node.rank() == 0;
  if (first && message) {
    const auto error = try_locally([&] {
      shares = deal_shares(table, settings, step);
      message->write(shares);
    });
    if (error) message->words().front() = 0;
  }
  const bool is_dealt =
      broadcast_words(node, message ? std::span(message->words()) : std::span<std::int32_t>(),
                      SharesMessage::size(table.size(), settings));
  work.on_replicated_data([&] {
    // What fails on the first rank fails on every rank: the input is equal.
    if (!is_dealt) {
      dealt = deal_step(table, settings, step, trees);
      return;
    }
    if (!first) shares = message->read();
    dealt = deal_step_by_shares(table, settings, step, std::move(shares));
  });
}

}  // namespace evenkeel
