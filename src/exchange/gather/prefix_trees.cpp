#include "exchange/gather/prefix_trees.hpp"

#include <optional>
#include <unordered_map>
#include <utility>

#include "mesh/fail_together.hpp"
#include "plan/units/segments.hpp"
#include "transport/gather_lists.hpp"

namespace evenkeel {
namespace {

using Tokens = std::span<const std::int64_t>;

/// Builds the trees of the groups whose first entry this rank owns. Uses the tokens (or segment keys) of all
/// samples of these groups, and receives them for samples that other ranks own.
class TreeBuilder {
 public:
  TreeBuilder(const Communicator& comm, const LengthTable& table, const RaggedBatch& mine,
              std::span<const std::vector<EntryId>> groups, std::int64_t ahead)
      : comm_(comm), table_(table), mine_(mine), groups_(groups), ahead_(ahead) {
    if (mine.find(segment_ids_field) != nullptr) declared_keys_ = token_keys(mine, ahead);
  }

  /// Lists the data to send and receive, and allocates memory for samples of other owners. Local.
  void prepare() {
    sends_.resize(static_cast<std::size_t>(comm_.size()));
    receives_.resize(sends_.size());
    for (const std::vector<EntryId>& group : groups_) {
      const WorldRank builder = builder_of(group);
      for (const EntryId entry : group) {
        const WorldRank owner = table_[entry].owner;
        if (owner == builder) continue;
        if (owner == me()) add(own_tokens(entry), sends_[builder.index()]);
        if (builder == me()) {
          std::vector<std::int64_t>& tokens = received_[entry];
          tokens.resize(static_cast<std::size_t>(table_[entry].shape.length()));
          add(tokens, receives_[owner.index()]);
        }
      }
    }
  }

  [[nodiscard]] const std::vector<BlockList>& sends() const noexcept { return sends_; }
  [[nodiscard]] const std::vector<BlockList>& receives() const noexcept { return receives_; }

  /// Returns this rank's trees as numbers, one tree after another: the number of segments; the parent and the
  /// number of tokens of each segment; and, for each sample, the last segment of its path.
  [[nodiscard]] std::vector<std::int64_t> serialized_trees() const {
    std::vector<std::int64_t> numbers;
    for (const std::vector<EntryId>& group : groups_) {
      if (builder_of(group) != me()) continue;
      std::vector<Tokens> samples;
      for (const EntryId entry : group) samples.push_back(tokens_of(entry));
      const PrefixTree tree = PrefixTree::from_tokens(samples, ahead_);
      numbers.push_back(tree.size());
      for (const TreeSegment& segment : tree.segments())
        numbers.insert(numbers.end(), {segment.parent, segment.rows.size()});
      numbers.insert(numbers.end(), tree.sample_ends().begin(), tree.sample_ends().end());
    }
    return numbers;
  }

  [[nodiscard]] WorldRank builder_of(std::span<const EntryId> group) const {
    return table_[group.front()].owner;
  }

 private:
  [[nodiscard]] WorldRank me() const { return WorldRank{comm_.rank()}; }
  [[nodiscard]] Tokens own_tokens(EntryId entry) const {
    const RowRange rows = mine_.rows_of(FieldKind::token, table_[entry].owner_index);
    const Tokens all =
        declared_keys_ ? Tokens(*declared_keys_) : mine_.at(input_ids_field).values<std::int64_t>();
    return all.subspan(static_cast<std::size_t>(rows.begin), static_cast<std::size_t>(rows.size()));
  }
  [[nodiscard]] Tokens tokens_of(EntryId entry) const {
    return table_[entry].owner == me() ? own_tokens(entry) : Tokens(received_.at(entry));
  }
  static void add(Tokens tokens, BlockList& blocks) {
    blocks.add(std::as_bytes(tokens).data(), tokens.size_bytes());
  }

  const Communicator& comm_;
  const LengthTable& table_;
  const RaggedBatch& mine_;
  std::span<const std::vector<EntryId>> groups_;
  std::int64_t ahead_;
  std::optional<std::vector<std::int64_t>> declared_keys_;
  std::unordered_map<EntryId, std::vector<std::int64_t>> received_;
  std::vector<BlockList> sends_;
  std::vector<BlockList> receives_;
};

/// Reads and removes the first tree in `numbers`, which has `samples` samples.
PrefixTree read_tree(std::span<const std::int64_t>& numbers, std::size_t samples) {
  std::vector<TreeNode> nodes(static_cast<std::size_t>(numbers[0]));
  numbers = numbers.subspan(1);
  for (TreeNode& node : nodes) {
    node = {numbers[0], numbers[1]};
    numbers = numbers.subspan(2);
  }
  std::vector<std::int64_t> ends(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(samples));
  numbers = numbers.subspan(samples);
  return {nodes, std::move(ends)};
}

}  // namespace

std::vector<SharedGroup> gather_prefix_trees(const Communicator& comm, const LengthTable& table,
                                             const RaggedBatch& mine, std::int64_t ahead,
                                             const TransportSettings& options) {
  GuardedWork work;
  std::vector<std::vector<EntryId>> groups;
  std::optional<TreeBuilder> builder;
  work([&] {
    groups = entries_by_uid(table);
    builder.emplace(comm, table, mine, groups, ahead).prepare();
  });
  // If the builder is null, `work` has an error, so the exchange throws it and does not use the lists.
  static const std::vector<BlockList> nothing;
  exchange_messages(comm, builder ? builder->sends() : nothing, builder ? builder->receives() : nothing,
                    options, work.error());
  std::vector<std::int64_t> serialized_trees;
  work([&] { serialized_trees = builder->serialized_trees(); });
  const auto all =
      all_gather_lists<std::int64_t>(comm, serialized_trees, work.error(), "words of prefix trees");

  std::vector<SharedGroup> trees;
  work([&] {
    std::vector<std::span<const std::int64_t>> rest;
    for (std::size_t rank = 0; rank + 1 < all.offsets.size(); ++rank) rest.push_back(all.list_of(rank));
    for (std::vector<EntryId>& group : groups) {
      PrefixTree tree = read_tree(rest[builder->builder_of(group).index()], group.size());
      trees.push_back({std::move(group), std::move(tree)});
    }
  });
  work.agree(comm);
  return trees;
}

}  // namespace evenkeel
