#include "exchange/result_exchange.hpp"

#include <algorithm>
#include <string>

#include "base/id_range.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "exchange/gather/field_agreement.hpp"
#include "exchange/samples/transfer_sides.hpp"
#include "mesh/fail_together.hpp"
#include "pack/sample_fields.hpp"
#include "plan/micro_batches/micro_batch_layout.hpp"
#include "plan/transfer/transfer_plan.hpp"
#include "transport/gather_lists.hpp"

namespace evenkeel {
namespace {

bool reports_results(const GridPoint& place, const GridPoint& sizes) noexcept {
  return place.tp == 0 && place.pp == sizes.pp - 1;
}

TransferFrame make_frame(const ResultTransfer& step) {
  return {step.table, step.assignment, step.settings};
}

// Returns whether this CP member sends its results of this kind. If CP ranks do not divide the rows of this
// kind, or if samples are delivered whole, all members of a group have the same rows, and only the first
// member sends them.
bool sends_field(const TransferFrame& frame, FieldKind kind, CpRank member) noexcept {
  const bool is_cut = rule_of(kind).is_cut() && frame.settings.delivery == Delivery::packed;
  return is_cut || member == CpRank{0};
}

const Column* find(const MicroBatchResults& results, const std::string& name) {
  const auto found =
      std::ranges::find_if(results.fields, [&](const Column& c) { return c.spec().name == name; });
  return found == results.fields.end() ? nullptr : &*found;
}

// Returns the number of rows that a micro-batch's tensors have on one CP rank after lay_out(), including
// filler and padding.
std::int64_t local_rows(const MicroBatchPlan& plan, const ResultTransfer& step) {
  if (plan.shape) return plan.shape->rows;
  const SequenceLayout sequences = sequence_layout_of(plan, step.settings);
  const std::int64_t filler = sequences.padded_length > 0 ? sequences.padded_length : sequences.alignment;
  const std::int64_t rows = rows_of(plan, step.settings);
  return (rows == 0 ? filler : rows) / sequences.cp.size;
}

std::int64_t num_samples(const MicroBatchPlan& plan, const PlanSettings& settings) {
  if (plan.shape) return plan.shape->sequences;
  return std::ssize(plan.entries) + (rows_of(plan, settings) == 0 ? 1 : 0);
}

// Returns the number of response tokens that a group member predicts in a micro-batch with shared prefixes.
std::int64_t num_predictions(const MicroBatchPlan& plan, const TransferFrame& frame, CpRank rank) {
  std::int64_t predictions = 0;
  for (const EntryId entry : plan.entries) {
    for (const SegmentId segment : frame.assignment.segments.path_of(entry)) {
      for (const RowCopy& move :
           rows_to_copy(FieldKind::response_token, frame.cut_of(segment, entry, rank))) {
        predictions += move.source.size();
      }
    }
  }
  return predictions;
}

// Returns the number of rows that a result of this kind must have in a micro-batch. For a counted kind
// (is_counted()), whose samples may have any number of rows, returns the number of samples instead.
std::int64_t required_rows(FieldKind kind, const MicroBatchPlan& plan, const ResultTransfer& step,
                           DataPlace place) {
  if (!rule_of(kind).is_cut()) return num_samples(plan, step.settings);
  if (rule_of(kind).is_per_response_token() && step.assignment.has_shared_prefixes())
    return num_predictions(plan, make_frame(step), plan.context.rank_of(place));
  return local_rows(plan, step);
}

void require_matching_column(const Column* column, const FieldSpec& spec, std::int64_t rows,
                             std::size_t micro_batch) {
  const std::string where = "result '" + spec.name + "' of micro-batch " + std::to_string(micro_batch);
  if (column == nullptr)
    throw InputError(where, "is missing; micro-batch 0 has it", "Add it to every micro-batch");
  if (column->spec() != spec)
    throw InputError(
        where,
        "is " + description_of(column->spec()) + ", but in micro-batch 0 it is " + description_of(spec),
        "Use the same dtype, kind and shape in every micro-batch");
  if (is_counted(spec.kind) && column->samples().size() != rows) {
    throw InputError(where, "has " + std::string(name_of(spec.kind)) + " for " +
                                format_plain_count(column->samples().size(), "sample") +
                                ", but the micro-batch has " + std::to_string(rows));
  }
  if (!is_counted(spec.kind) && column->rows() != rows && spec.row_bytes() != 0) {
    throw InputError(where, "has " + format_plain_count(column->rows(), "row") + "; a field of kind " +
                                std::string(name_of(spec.kind)) + " needs " + std::to_string(rows));
  }
}

void require_valid_results(const ResultTransfer& step, std::span<const MicroBatchResults> results,
                           DataPlace place) {
  if (results.size() != step.micro_batches.size()) {
    throw InputError("results",
                     "cover " + format_plain_count(std::ssize(results), "micro-batch", "micro-batches") +
                         "; the step has " + std::to_string(step.micro_batches.size()),
                     "Put results for every micro-batch of this step");
  }
  for (std::size_t m = 0; m < results.size(); ++m) {
    for (const Column& column : results[m].fields) {
      const std::string& name = column.spec().name;
      if (find(results[0], name) != nullptr) continue;
      throw InputError("result '" + name + "' of micro-batch " + std::to_string(m),
                       "is missing in micro-batch 0", "Add it to every micro-batch");
    }
    const MicroBatchPlan& plan = step.micro_batches[m];
    for (const Column& column : results[0].fields) {
      const FieldSpec& spec = column.spec();
      require_matching_column(find(results[m], spec.name), spec, required_rows(spec.kind, plan, step, place),
                              m);
    }
  }
}

// Returns the fields of the results. Precondition: `results` is not empty, since every place has at least one
// (possibly empty) micro-batch per step.
std::vector<FieldSpec> specs_of(std::span<const MicroBatchResults> results) {
  EVENKEEL_PRECONDITION(cheap, !results.empty());
  std::vector<FieldSpec> specs;
  for (const Column& column : results[0].fields) specs.push_back(column.spec());
  return specs;
}

/// Result columns of one rank, by field and then by micro-batch.
using ResultColumns = std::vector<std::vector<const Column*>>;

ResultColumns columns_of(std::span<const FieldSpec> fields, std::span<const MicroBatchResults> results) {
  ResultColumns columns;
  for (const FieldSpec& field : fields) {
    std::vector<const Column*>& of_field = columns.emplace_back();
    for (const MicroBatchResults& m : results) of_field.push_back(find(m, field.name));
  }
  return columns;
}

// Calls visit(entry) for each sample for which the rank at `place` sends rows of counted fields, in an order
// that all ranks can compute.
template <typename Visit>
void for_each_sent_entry(const Mesh& mesh, const ResultTransfer& step, const GroupsOfPlaces& groups,
                         const GridPoint& place, Visit visit) {
  if (!reports_results(place, mesh.grid().sizes())) return;
  for (const auto& [group, member] : groups.memberships_of(data_place_of(place, mesh.grid().sizes()))) {
    if (member != CpRank{0}) continue;
    for (const EntryId entry : step.assignment.shares[static_cast<std::int64_t>(group)]) visit(entry);
  }
}

// Returns the number of rows in each counted field for each sample that this rank sends, ordered by sample
// and then by field.
std::vector<std::int64_t> own_row_counts(const Mesh& mesh, const ResultTransfer& step,
                                         std::span<const FieldSpec> fields,
                                         std::span<const MicroBatchResults> results) {
  std::vector<std::int64_t> counts;
  if (!reports_results(mesh)) return counts;
  const TransferFrame frame = make_frame(step);
  const PackedSide side(frame, step.micro_batches, mesh.data_place());
  const ResultColumns columns = columns_of(fields, results);
  for_each_sent_entry(mesh, step, GroupsOfPlaces(step.assignment.groups), mesh.here(), [&](EntryId entry) {
    for (std::size_t f = 0; f < fields.size(); ++f) {
      if (is_counted(fields[f].kind)) counts.push_back(side.counted_rows(entry, columns[f]).size());
    }
  });
  return counts;
}

// Collective: returns the number of rows of each sample in each counted result. Initially, only the ranks
// that computed a result know these numbers. Communicates only if any result is counted.
std::vector<RowCounts> gather_result_counts(const Mesh& mesh, const ResultTransfer& step,
                                            std::span<const FieldSpec> fields,
                                            std::span<const MicroBatchResults> results, GuardedWork& work) {
  std::vector<RowCounts> counts;
  if (std::ranges::none_of(fields, [](const FieldSpec& field) { return is_counted(field.kind); }))
    return counts;
  std::vector<std::int64_t> mine;
  work([&] { mine = own_row_counts(mesh, step, fields, results); });
  const GatheredLists<std::int64_t> all = all_gather_lists<std::int64_t>(
      mesh.world(), mine, work.error(), "numbers of rows of results of one step");
  work([&] {
    for (const FieldSpec& field : fields) {
      if (is_counted(field.kind))
        counts.push_back(
            {field.name, std::vector<std::int64_t>(static_cast<std::size_t>(step.table.size()))});
    }
    const GroupsOfPlaces groups(step.assignment.groups);
    for (int rank = 0; rank < mesh.grid().num_ranks(); ++rank) {
      auto next = all.list_of(static_cast<std::size_t>(rank)).begin();
      for_each_sent_entry(mesh, step, groups, mesh.grid().point_of(WorldRank{rank}), [&](EntryId entry) {
        for (RowCounts& of_field : counts) of_field.rows[entry.index()] = *next++;
      });
    }
  });
  return counts;
}

// Returns this rank's samples in their original order, with a column of zeros per field.
RaggedBatch make_zero_results(const LengthTable& table, WorldRank owner, std::span<const FieldSpec> fields,
                              std::span<const RowCounts> row_counts) {
  std::vector<EntryId> owned;
  for (const EntryId entry : ids_below<EntryId>(table.size())) {
    if (table[entry].owner == owner) owned.push_back(entry);
  }
  std::ranges::sort(owned, {}, [&](EntryId entry) { return table[entry].owner_index; });
  std::vector<SampleShape> shapes;
  for (const EntryId entry : owned) shapes.push_back(table[entry].shape);
  RaggedBatch batch(std::move(shapes));
  for (const FieldSpec& field : fields) {
    const std::span<const std::int64_t> by_entry = rows_of(row_counts, field.name);
    if (!is_counted(field.kind)) {
      batch.add_field(field);
      continue;
    }
    std::vector<std::int64_t> counts;
    for (const EntryId entry : owned) counts.push_back(by_entry[entry.index()]);
    batch.add_field(Column(field, SampleRows::from_counts(counts)));
  }
  return batch;
}

std::vector<BlockList> outgoing_blocks(const Mesh& mesh, const ResultTransfer& step,
                                       const TransferFrame& frame, const TransferPlan<EntryId>& transfers,
                                       std::span<const FieldSpec> fields,
                                       std::span<const MicroBatchResults> results) {
  std::vector<BlockList> sends(transfers.from_owner.size());
  if (!reports_results(mesh)) return sends;
  const PackedSide side(frame, step.micro_batches, mesh.data_place());
  const ResultColumns columns = columns_of(fields, results);
  std::vector<std::size_t> sent;
  for (std::size_t f = 0; f < fields.size(); ++f) {
    // Skip rows of zero bytes: there is nothing to send, and their number has not been checked.
    if (fields[f].row_bytes() > 0) sent.push_back(f);
  }
  for (std::size_t owner = 0; owner < sends.size(); ++owner) {
    for (const EntryId entry : transfers.from_owner[owner]) {
      for (const std::size_t f : sent) {
        if (sends_field(frame, fields[f].kind, side.rank_of(entry)))
          side.add_sample(entry, columns[f], fields[f].kind, sends[owner]);
      }
    }
  }
  return sends;
}

void add_incoming_blocks(const TransferFrame& frame, const RaggedSide& side, const RaggedBatch& mine,
                         std::span<const FieldSpec> fields, std::span<const EntryId> entries, CpRank member,
                         BlockList& blocks) {
  for (const EntryId entry : entries) {
    for (const FieldSpec& field : fields) {
      if (sends_field(frame, field.kind, member)) side.add_sample(entry, member, mine.at(field.name), blocks);
    }
  }
}

std::vector<BlockList> incoming_blocks(const Mesh& mesh, const TransferFrame& frame, const RaggedBatch& mine,
                                       const TransferPlan<EntryId>& transfers,
                                       std::span<const FieldSpec> fields) {
  const Grid& grid = mesh.grid();
  const RaggedSide side(frame, mine);
  const GroupsOfPlaces groups(frame.assignment.groups);
  std::vector<BlockList> receives(static_cast<std::size_t>(mesh.world().size()));
  for (int rank = 0; rank < grid.num_ranks(); ++rank) {
    const GridPoint place = grid.point_of(WorldRank{rank});
    if (!reports_results(place, grid.sizes())) continue;
    for (const auto& [group, member] : groups.memberships_of(data_place_of(place, grid.sizes())))
      add_incoming_blocks(frame, side, mine, fields, transfers.to_group[group], member,
                          receives[static_cast<std::size_t>(rank)]);
  }
  return receives;
}

}  // namespace

bool reports_results(const Mesh& mesh) noexcept {
  return reports_results(mesh.here(), mesh.grid().sizes());
}

RaggedBatch return_results(const Mesh& mesh, const ResultTransfer& step,
                           std::span<const MicroBatchResults> results, const TransportSettings& options,
                           CallKey call, const std::optional<ErrorReport>& error) {
  GuardedWork work(error);
  FieldAgreementInput brought{{}, std::move(call)};
  work([&] {
    if (!reports_results(mesh)) return;
    require_valid_results(step, results, mesh.data_place());
    brought.fields = specs_of(results);
  });
  const std::vector<FieldSpec> fields = agree_on_fields(mesh.world(), std::move(brought), work.error());
  const std::vector<RowCounts> row_counts = gather_result_counts(mesh, step, fields, results, work);

  std::optional<RaggedBatch> mine;
  std::vector<BlockList> sends;
  std::vector<BlockList> receives;
  work([&] {
    mine = make_zero_results(step.table, mesh.rank(), fields, row_counts);
    const TransferFrame frame = make_frame(step);
    const TransferPlan<EntryId> transfers =
        plan_transfers(step.table, step.assignment.shares, step.assignment.groups,
                       {mesh.rank(), mesh.data_place(), mesh.world().size()});
    sends = outgoing_blocks(mesh, step, frame, transfers, fields, results);
    receives = incoming_blocks(mesh, frame, *mine, transfers, fields);
  });
  exchange_messages(mesh.world(), sends, receives, options, work.error());
  return *std::move(mine);
}

}  // namespace evenkeel
