#include "evenkeel/mesh/mesh.hpp"
#include "exchange/gather/field_agreement.hpp"
#include "exchange/gather/length_gather.hpp"
#include "exchange/gather/row_count_gather.hpp"
#include "exchange/result_exchange.hpp"
#include "mesh/fail_together.hpp"

namespace evenkeel {
namespace {

BlockList blocks_of_columns(const RaggedBatch& batch, std::span<const FieldSpec> fields) {
  BlockList blocks;
  for (const FieldSpec& field : fields) {
    if (const Column* column = batch.find(field.name))
      blocks.add(column->bytes().data(), column->bytes().size());
  }
  return blocks;
}

// Returns the table entries of each owner, in the owner's order.
std::vector<std::vector<EntryId>> entries_by_owner(const LengthTable& table, int ranks) {
  std::vector<std::vector<EntryId>> entries(static_cast<std::size_t>(ranks));
  for (const EntryId e : ids_below<EntryId>(table.size())) {
    std::vector<EntryId>& of_owner = entries[table[e].owner.index()];
    const auto at = static_cast<std::size_t>(table[e].owner_index);
    if (of_owner.size() <= at) of_owner.resize(at + 1);
    of_owner[at] = e;
  }
  return entries;
}

/// Result and block lists of an exchange that gathers all samples on the root.
struct RootGather {
  RootGather(const Communicator& comm, const LengthTable& table, std::span<const FieldSpec> fields,
             std::span<const RowCounts> row_counts, const RaggedBatch& mine, int root)
      : all(comm.rank() == root ? shapes_of(table) : std::vector<SampleShape>{}),
        sends(static_cast<std::size_t>(comm.size())),
        receives(sends.size()) {
    sends[static_cast<std::size_t>(root)] = blocks_of_columns(mine, fields);
    for (const FieldSpec& field : fields) add_column(field, row_counts);
    if (comm.rank() == root) prepare_receives(table);
  }

  RaggedBatch all;
  std::vector<BlockList> sends;
  std::vector<BlockList> receives;

 private:
  void add_column(const FieldSpec& field, std::span<const RowCounts> row_counts) {
    if (is_counted(field.kind) && all.size() > 0) {
      all.add_field(Column::uninitialized(field, SampleRows::from_counts(rows_of(row_counts, field.name))));
    } else {
      all.add_field(field);
    }
  }

  static std::vector<SampleShape> shapes_of(const LengthTable& table) {
    std::vector<SampleShape> shapes;
    for (const LengthEntry& entry : table.entries()) shapes.push_back(entry.shape);
    return shapes;
  }

  void prepare_receives(const LengthTable& table) {
    const std::vector<std::vector<EntryId>> entries =
        entries_by_owner(table, static_cast<int>(receives.size()));
    for (std::size_t owner = 0; owner < entries.size(); ++owner) {
      for (const Column& column : all.fields()) {
        for (const EntryId entry : entries[owner]) {
          const RowRange rows = all.rows_of(column, entry.value());
          receives[owner].add(column.row(rows.begin),
                              static_cast<std::size_t>(rows.size()) * column.row_bytes());
        }
      }
    }
  }
};

}  // namespace

RaggedBatch gather_samples(const Communicator& comm, const RaggedBatch& mine, int root,
                           const TransportSettings& options) {
  require_ranks_of_one_group(comm);
  GuardedWork work;
  std::vector<SampleSummary> lengths;
  std::optional<std::vector<FieldSpec>> fields;
  work([&] {
    lengths = summaries_of(mine);
    fields = fields_of(mine);
  });
  const GatheredLengths gathered = gather_lengths(comm, lengths, std::move(fields), work.error());
  const std::vector<RowCounts> row_counts = gather_row_counts(comm, gathered.table, gathered.fields, mine);
  std::optional<RootGather> gathering;
  work([&] { gathering.emplace(comm, gathered.table, gathered.fields, row_counts, mine, root); });
  static const std::vector<BlockList> nothing;
  exchange_messages(comm, gathering ? gathering->sends : nothing, gathering ? gathering->receives : nothing,
                    options, work.error());
  return std::move(gathering->all);
}

}  // namespace evenkeel
