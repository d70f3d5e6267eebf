#include "exchange/result_exchange.hpp"

#include <algorithm>
#include <string>

#include "evenkeel/base/error.hpp"
#include "exchange/field_agreement.hpp"
#include "exchange/transfer_sides.hpp"
#include "mesh/fail_together.hpp"
#include "plan/micro_batch_layout.hpp"
#include "plan/transfer_plan.hpp"

namespace evenkeel {
namespace {

bool reports_results(const GridPoint& place, const GridPoint& sizes) noexcept {
  return place.tp == 0 && place.pp == sizes.pp - 1;
}

TransferFrame frame_of(const ResultTransfer& step) {
  return {step.table, step.assignment, step.settings.cp.layout};
}

// A sample's own row is the same on all members of its group; the first one sends it.
bool sends_field(FieldKind kind, CpRank member) noexcept {
  return kind != FieldKind::sample || member == CpRank{0};
}

const Column* find(const MicroBatchResults& results, const std::string& name) {
  const auto found =
      std::ranges::find_if(results.fields, [&](const Column& c) { return c.spec().name == name; });
  return found == results.fields.end() ? nullptr : &*found;
}

// Rows of a micro-batch's tensors, filler counted, as lay_out makes them.
std::int64_t local_rows(const MicroBatchPlan& plan, const ResultTransfer& step) {
  const SequenceLayout sequences = sequences_of(plan, step.settings);
  const std::int64_t filler = plan.padded_length > 0 ? plan.padded_length : sequences.alignment;
  return (plan.aligned_tokens == 0 ? filler : plan.aligned_tokens) / sequences.cp.size;
}

std::int64_t num_samples(const MicroBatchPlan& plan) {
  return std::ssize(plan.entries) + (plan.aligned_tokens == 0 ? 1 : 0);
}

// Response tokens that a member of its group predicts in a micro-batch with shared prefixes.
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

std::int64_t rows_wanted(FieldKind kind, const MicroBatchPlan& plan, const ResultTransfer& step,
                         DataPlace place) {
  if (kind == FieldKind::sample) return num_samples(plan);
  if (kind == FieldKind::response_token && step.assignment.shared())
    return num_predictions(plan, frame_of(step), plan.context.rank_of(place));
  return local_rows(plan, step);
}

void require_column(const Column* column, const FieldSpec& spec, std::int64_t rows, std::size_t micro_batch) {
  const std::string where = "result '" + spec.name + "' of micro-batch " + std::to_string(micro_batch);
  if (column == nullptr)
    throw InputError(where, "is missing; other micro-batches have it", "Put it for every micro-batch");
  if (column->spec() != spec)
    throw InputError(where, "has another dtype, kind or shape than in micro-batch 0");
  if (column->rows() != rows && spec.row_bytes() != 0) {
    throw InputError(where, "has " + std::to_string(column->rows()) + " rows; its kind, " +
                                std::string(name_of(spec.kind)) + ", needs " + std::to_string(rows));
  }
}

void require_results(const ResultTransfer& step, std::span<const MicroBatchResults> results,
                     DataPlace place) {
  if (results.size() != step.micro_batches.size()) {
    throw InputError("results", "of " + std::to_string(results.size()) + " micro-batches for a step of " +
                                    std::to_string(step.micro_batches.size()));
  }
  for (std::size_t m = 0; m < results.size(); ++m) {
    if (results[m].fields.size() != results[0].fields.size()) {
      throw InputError("results of micro-batch " + std::to_string(m),
                       "have other fields than those of micro-batch 0",
                       "Put the same fields for every micro-batch");
    }
    const MicroBatchPlan& plan = step.micro_batches[m];
    for (const Column& column : results[0].fields) {
      const FieldSpec& spec = column.spec();
      const std::int64_t rows = rows_wanted(spec.kind, plan, step, place);
      require_column(find(results[m], spec.name), spec, rows, m);
    }
  }
}

std::vector<FieldSpec> specs_of(std::span<const MicroBatchResults> results) {
  std::vector<FieldSpec> specs;
  for (const Column& column : results[0].fields) specs.push_back(column.spec());
  return specs;
}

// This rank's samples in the order in which it brought them, with a zero column a field.
RaggedBatch owned_samples(const LengthTable& table, WorldRank owner, std::span<const FieldSpec> fields) {
  std::vector<LengthEntry> owned;
  std::ranges::copy_if(table.entries(), std::back_inserter(owned),
                       [&](const LengthEntry& e) { return e.owner == owner; });
  std::ranges::sort(owned, {}, &LengthEntry::owner_index);
  std::vector<SampleShape> shapes;
  for (const LengthEntry& entry : owned) shapes.push_back(entry.shape);
  RaggedBatch batch(std::move(shapes));
  for (const FieldSpec& field : fields) batch.add_field(field);
  return batch;
}

std::vector<BlockList> outgoing(const Mesh& mesh, const ResultTransfer& step, const TransferFrame& frame,
                                const TransferPlan<EntryId>& transfers, std::span<const FieldSpec> fields,
                                std::span<const MicroBatchResults> results) {
  std::vector<BlockList> sends(transfers.from_owner.size());
  if (!reports_results(mesh)) return sends;
  const PackedSide side(frame, step.micro_batches, mesh.data_place());
  std::vector<std::vector<const Column*>> columns;  // by field, then by micro-batch
  std::vector<std::size_t> sent;
  for (std::size_t f = 0; f < fields.size(); ++f) {
    std::vector<const Column*>& of_field = columns.emplace_back();
    for (const MicroBatchResults& m : results) of_field.push_back(find(m, fields[f].name));
    // Rows without bytes may be any number: nobody can count them.
    if (fields[f].row_bytes() > 0) sent.push_back(f);
  }
  for (std::size_t owner = 0; owner < sends.size(); ++owner) {
    for (const EntryId entry : transfers.from_owner[owner]) {
      for (const std::size_t f : sent) {
        if (sends_field(fields[f].kind, side.rank_of(entry)))
          side.add_sample(entry, columns[f], fields[f].kind, sends[owner]);
      }
    }
  }
  return sends;
}

void add_incoming(const RaggedSide& side, const RaggedBatch& mine, std::span<const FieldSpec> fields,
                  std::span<const EntryId> entries, CpRank member, BlockList& blocks) {
  for (const EntryId entry : entries) {
    for (const FieldSpec& field : fields) {
      if (sends_field(field.kind, member)) side.add_sample(entry, member, mine.at(field.name), blocks);
    }
  }
}

std::vector<BlockList> incoming(const Mesh& mesh, const TransferFrame& frame, const RaggedBatch& mine,
                                const TransferPlan<EntryId>& transfers, std::span<const FieldSpec> fields) {
  const Grid& grid = mesh.grid();
  const RaggedSide side(frame, mine);
  const GroupsOfPlaces groups(frame.assignment.groups);
  std::vector<BlockList> receives(static_cast<std::size_t>(mesh.everyone().size()));
  for (int rank = 0; rank < grid.num_ranks(); ++rank) {
    const GridPoint place = grid.point_of(WorldRank{rank});
    if (!reports_results(place, grid.sizes())) continue;
    for (const auto& [group, member] : groups.of(data_place_of(place, grid.sizes())))
      add_incoming(side, mine, fields, transfers.to_group[group], member,
                   receives[static_cast<std::size_t>(rank)]);
  }
  return receives;
}

}  // namespace

bool reports_results(const Mesh& mesh) noexcept {
  return mesh.has_place() && reports_results(mesh.here(), mesh.grid().sizes());
}

RaggedBatch return_results(const Mesh& mesh, const ResultTransfer& step,
                           std::span<const MicroBatchResults> results, const TransportSettings& options,
                           CallKey call, const std::optional<ErrorReport>& error) {
  GuardedWork work(error);
  FieldsBrought brought{{}, std::move(call)};
  work([&] {
    if (!reports_results(mesh)) return;
    require_results(step, results, mesh.data_place());
    brought.fields = specs_of(results);
  });
  const std::vector<FieldSpec> fields = agree_on_fields(mesh.everyone(), std::move(brought), work.error());

  std::optional<RaggedBatch> mine;
  std::vector<BlockList> sends;
  std::vector<BlockList> receives;
  work([&] {
    mine = owned_samples(step.table, mesh.rank(), fields);
    const TransferFrame frame = frame_of(step);
    const TransferPlan<EntryId> transfers =
        plan_transfers(step.table, step.assignment.shares, step.assignment.groups,
                       {mesh.rank(), mesh.data_place(), mesh.everyone().size()});
    sends = outgoing(mesh, step, frame, transfers, fields, results);
    receives = incoming(mesh, frame, *mine, transfers, fields);
  });
  exchange_messages(mesh.everyone(), sends, receives, options, work.error());
  return *std::move(mine);
}

}  // namespace evenkeel
