#include "exchange/samples/value_exchange.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "evenkeel/base/assertions.hpp"
#include "exchange/samples/shared_columns.hpp"
#include "plan/transfer/node_receivers.hpp"
#include "plan/transfer/transfer_plan.hpp"

namespace evenkeel {
namespace {

void add_rows(const Column& column, RowRange rows, BlockList& blocks) {
  blocks.add(column.row(rows.begin), static_cast<std::size_t>(rows.size()) * column.row_bytes());
}

const RowCounts& counts_of(std::span<const RowCounts> counts, const std::string& field) {
  const auto found = std::ranges::find(counts, field, &RowCounts::field);
  EVENKEEL_PRECONDITION(cheap, found != counts.end(), field);
  return *found;
}

}  // namespace

void ValueExchange::choose_path(const TransportSettings& options) {
  const Communicator& node = mesh_.node();
  if (node.size() > 1 && moves_without_messages(node, options)) memory_ = &NodeMemory::get(node);
}

void ValueExchange::prepare(std::vector<BlockList>& sends, std::vector<BlockList>& receives) {
  pools_.resize(1);
  groups_.emplace(step_.assignment.groups);
  for (std::size_t f = 0; f < step_.fields.size(); ++f) {
    if (step_.fields[f].shares_equal) add_field(f);
  }
  to_others_.resize(static_cast<std::size_t>(mesh_.node().size()));
  from_holders_.resize(to_others_.size());
  for (Field& field : fields_) {
    send(field, step_.mine.find(field.spec.name), sends);
    if (!field.wanted) continue;
    lay_out(field);
    if (field.holder == mesh_.rank().value()) receive(field, receives);
    if (memory_ == nullptr) prepare_copies(field);
  }
}

void ValueExchange::add_field(std::size_t f) {
  Field& field = fields_.emplace_back();
  field.spec = step_.fields[f].spec;
  field.counts = &counts_of(step_.row_counts, field.spec.name);
  field.holders = node_holders(mesh_.grid(), mesh_.nodes(), step_.fields, f);
  field.wanted = field.holders[mesh_.rank().index()] >= 0;
  const std::span<const int> nodes = mesh_.nodes();
  for (std::size_t rank = 0; rank < field.holders.size(); ++rank) {
    if (nodes[rank] == nodes[mesh_.rank().index()])
      field.holder = std::max(field.holder, field.holders[rank]);
  }
}

// Adds to `sends` the values that each holder gets from this rank, in the order of the holder's pool.
void ValueExchange::send(const Field& field, const Column* source, std::vector<BlockList>& sends) const {
  if (source == nullptr) return;
  for (int holder = 0; holder < mesh_.grid().num_ranks(); ++holder) {
    if (field.holders[static_cast<std::size_t>(holder)] != holder) continue;
    const ValuePool pool(*field.counts, entries_at(ranks_of(field, holder)));
    for (const EntryId value : pool.values()) {
      const LengthEntry& entry = step_.table[value];
      if (entry.owner != mesh_.rank()) continue;
      add_rows(*source, source->samples()[entry.owner_index], sends[static_cast<std::size_t>(holder)]);
    }
  }
}

// Creates the pool for the column that this rank reads. This is the holder's pool if this rank is the holder
// or reads the holder's memory; otherwise, the pool has only the values that this rank needs.
void ValueExchange::lay_out(Field& field) {
  const int self = mesh_.rank().value();
  const bool is_holder = field.holder == self;
  const std::vector<int> ranks =
      is_holder || memory_ != nullptr ? ranks_of(field, field.holder) : std::vector<int>{self};
  field.pool = ValuePool(*field.counts, entries_at(ranks));
  if (is_holder || memory_ == nullptr)
    pools_.front().fields.push_back(Column::uninitialized(field.spec, field.pool.rows()));
}

void ValueExchange::receive(const Field& field, std::vector<BlockList>& receives) const {
  for (const EntryId value : field.pool.values())
    add_rows(*column_of(field), field.pool.rows_of(value), receives[step_.table[value].owner.index()]);
}

void ValueExchange::prepare_copies(const Field& field) {
  const auto add = [&](const ValuePool& wanted, BlockList& blocks) {
    for (const EntryId value : wanted.values())
      add_rows(*std::as_const(*this).column_of(field), field.pool.rows_of(value), blocks);
  };
  if (field.holder != mesh_.rank().value()) {
    add(field.pool, from_holders_[static_cast<std::size_t>(rank_in_node(field.holder))]);
    return;
  }
  for (const int rank : ranks_of(field, field.holder)) {
    if (rank == field.holder) continue;
    add(ValuePool(*field.counts, entries_at({&rank, 1})),
        to_others_[static_cast<std::size_t>(rank_in_node(rank))]);
  }
}

void ValueExchange::agree(const TransportSettings& options, const GuardedWork& work) {
  const Communicator& node = mesh_.node();
  if (memory_ != nullptr || node.size() == 1) return;
  copies_.emplace(node, to_others_, from_holders_, options, work.failed());
  copies_->agree(work.error());
}

void ValueExchange::run(GuardedWork& work) {
  if (copies_) {
    copies_->run();
    work.add(copies_->error());
  }
  if (memory_ == nullptr) return;
  for (const Field& field : fields_) {
    if (field.holder >= 0) borrow(field, work);
  }
}

// Collective over the node, including ranks that do not get the field.
void ValueExchange::borrow(const Field& field, GuardedWork& work) {
  const auto chosen = [&](const FieldSpec& column) { return field.wanted && column.name == field.spec.name; };
  share_columns(mesh_.node(), *memory_, rank_in_node(field.holder), chosen, pools_, work);
}

void ValueExchange::add_columns_to(std::vector<PackedMicroBatch>& micro_batches) {
  for (const Field& field : fields_) {
    if (!field.wanted) continue;
    Column* const column = column_of(field);
    if (column == nullptr) return;  // The holder has failed and will report its error at the next agreement.
    for (std::size_t m = 0; m < micro_batches.size(); ++m) {
      PackedMicroBatch& micro_batch = micro_batches[m];
      std::vector<RowRange> ranges(micro_batch.samples.size());
      const std::vector<EntryId>& entries = step_.micro_batches[m].entries;
      std::ranges::transform(entries, ranges.begin(),
                             [&](EntryId entry) { return field.pool.rows_of(entry); });
      micro_batch.fields.push_back(
          column->make_borrowing_copy(SampleRows::shared(std::move(ranges), field.pool.rows().rows())));
    }
  }
}

void ValueExchange::add_to(std::vector<FieldVolume>& volumes) const {
  for (const Field& field : fields_) {
    FieldVolume volume{field.spec.name, true, 0, 0};
    if (field.wanted) {
      const auto bytes = field.pool.rows().rows() * static_cast<std::int64_t>(field.spec.row_bytes());
      if (field.holder == mesh_.rank().value()) {
        volume.received = bytes;
      } else if (memory_ == nullptr) {
        volume.copied = bytes;
      }
    }
    add_volume(volumes, volume);
  }
}

std::int64_t ValueExchange::copied_bytes() const {
  return total_bytes(from_holders_);
}

std::vector<EntryId> ValueExchange::entries_at(std::span<const int> ranks) const {
  const Grid& grid = mesh_.grid();
  std::set<DataPlace> places;
  for (const int rank : ranks) places.insert(data_place_of(grid.point_of(WorldRank{rank}), grid.sizes()));
  std::set<std::size_t> numbers;
  for (const DataPlace place : places) {
    for (const auto& membership : groups_->of(place)) numbers.insert(membership.group);
  }
  std::vector<EntryId> entries;
  for (const std::size_t group : numbers) {
    const auto share = step_.assignment.shares[static_cast<std::int64_t>(group)];
    entries.insert(entries.end(), share.begin(), share.end());
  }
  return entries;
}

std::vector<int> ValueExchange::ranks_of(const Field& field, int holder) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < mesh_.grid().num_ranks(); ++rank) {
    if (field.holders[static_cast<std::size_t>(rank)] == holder) ranks.push_back(rank);
  }
  return ranks;
}

int ValueExchange::rank_in_node(int rank) const {
  const std::span<const int> nodes = mesh_.nodes();
  const auto before = nodes.first(static_cast<std::size_t>(rank));
  return static_cast<int>(std::ranges::count(before, nodes[static_cast<std::size_t>(rank)]));
}

}  // namespace evenkeel
