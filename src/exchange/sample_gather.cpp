#include "evenkeel/exchange/field_agreement.hpp"
#include "evenkeel/exchange/length_gather.hpp"
#include "evenkeel/exchange/result_exchange.hpp"

namespace evenkeel {
namespace {

BlockList whole_columns(const RaggedBatch& batch, std::span<const FieldSpec> fields) {
  BlockList blocks;
  for (const FieldSpec& field : fields) {
    if (const Column* column = batch.find(field.name))
      blocks.add(column->bytes().data(), column->bytes().size());
  }
  return blocks;
}

// Table entries of each owner, in the order in which the owner holds them.
std::vector<std::vector<std::int64_t>> entries_by_owner(const LengthTable& table, int ranks) {
  std::vector<std::vector<std::int64_t>> entries(static_cast<std::size_t>(ranks));
  for (std::int64_t e = 0; e < table.size(); ++e) {
    std::vector<std::int64_t>& of_owner = entries[table[e].owner.index()];
    const auto at = static_cast<std::size_t>(table[e].owner_index);
    if (of_owner.size() <= at) of_owner.resize(at + 1);
    of_owner[at] = e;
  }
  return entries;
}

}  // namespace

RaggedBatch gather_samples(const boost::mpi::communicator& comm, const RaggedBatch& mine, int root,
                           const ExchangeOptions& options) {
  const auto [table, fields] = gather_lengths(comm, lengths_of(mine), fields_of(mine), std::nullopt);
  std::vector<BlockList> sends(static_cast<std::size_t>(comm.size()));
  std::vector<BlockList> receives(sends.size());
  sends[static_cast<std::size_t>(root)] = whole_columns(mine, fields);

  std::vector<SampleShape> shapes;
  if (comm.rank() == root) {
    for (const LengthEntry& entry : table.entries()) shapes.push_back(entry.shape);
  }
  RaggedBatch all(std::move(shapes));
  for (const FieldSpec& field : fields) all.add_field(field);
  if (comm.rank() == root) {
    const std::vector<std::vector<std::int64_t>> entries = entries_by_owner(table, comm.size());
    for (std::size_t owner = 0; owner < entries.size(); ++owner) {
      for (const Column& column : all.fields()) {
        for (const std::int64_t entry : entries[owner]) {
          const RowRange rows = all.rows_of(column.spec().kind, entry);
          receives[owner].add(column.row(rows.begin),
                              static_cast<std::size_t>(rows.size()) * column.spec().row_bytes());
        }
      }
    }
  }
  exchange_messages(comm, sends, receives, options);
  return all;
}

}  // namespace evenkeel
