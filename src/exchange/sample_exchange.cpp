#include "evenkeel/exchange/sample_exchange.hpp"

#include <algorithm>
#include <unordered_map>

#include "evenkeel/plan/stage_fields.hpp"
#include "evenkeel/plan/transfer_plan.hpp"

namespace evenkeel {
namespace {

/// Where a sample stands among a consumer's packed micro-batches.
struct Slot {
  std::size_t micro_batch = 0;
  std::int64_t sequence = 0;
  std::int64_t first_run = 0;  ///< the sequence's first entry in the micro-batch's halo
};

SequenceCut cut_of(const SampleShape& shape, std::int64_t alignment, CpGroup cp, CpRank rank) {
  return {shape.prompt, shape.length(), align_up(shape.length(), alignment), cp, rank};
}

bool derives_labels(std::span<const FieldSpec> fields) {
  return std::ranges::find(fields, labels_field, &FieldSpec::name) == fields.end();
}

/// The consumer's side: allocates packed tensors and says where each sample's rows belong in them.
class Consumer {
 public:
  Consumer(const Mesh& mesh, const StepTransfer& step, std::vector<PackedMicroBatch>& packed)
      : step_(step),
        rank_(mesh.here().cp),
        stage_fields_(fields_for_stage(step.fields, {mesh.here().pp, mesh.grid().sizes().pp})),
        packed_(packed) {
    packed_.clear();
    for (const MicroBatchPlan& plan : step.micro_batches) allocate(plan);
  }

  /// Appends the places of one sample's rows, in the order in which the owner sends them.
  void add_places(std::int64_t entry, BlockList& blocks) {
    const Slot& slot = slots_.at(entry);
    PackedMicroBatch& micro_batch = packed_[slot.micro_batch];
    const SequenceCut cut = cut_of(step_.table[entry].shape, step_.alignment, step_.cp, rank_);
    const std::int64_t first_row = micro_batch.layout.local_range(slot.sequence).begin;
    for (std::size_t f = 0; f < stage_fields_.size(); ++f) {
      Column& column = micro_batch.fields[f];
      const FieldKind kind = step_.fields[stage_fields_[f]].kind;
      const std::int64_t base = kind == FieldKind::sample ? slot.sequence : first_row;
      for (const RowMove& move : rows_to_move(kind, cut)) add_rows(column, base + move.target, move, blocks);
      if (column.spec().name != input_ids_field) continue;
      for (const RowMove& move : halo_to_move(cut)) add_halo(slot, move, blocks);
    }
  }

  /// Everything that was received, as one list: what the other tensor-parallel ranks copy.
  [[nodiscard]] BlockList everything() const {
    BlockList blocks;
    for (const PackedMicroBatch& micro_batch : packed_) {
      for (const Column& column : micro_batch.fields)
        blocks.add(column.bytes().data(), column.bytes().size());
    }
    for (const std::vector<std::int64_t>& halo : halos_) {
      blocks.add(std::as_bytes(std::span(halo)).data(), halo.size() * sizeof(std::int64_t));
    }
    return blocks;
  }

  void complete(const DerivedFieldOptions& options) {
    for (std::size_t m = 0; m < packed_.size(); ++m) complete_fields(packed_[m], halos_[m], options);
  }

 private:
  void allocate(const MicroBatchPlan& plan) {
    std::vector<SampleShape> samples;
    for (const std::int64_t entry : plan.entries) samples.push_back(step_.table[entry].shape);
    PackedMicroBatch micro_batch = lay_out(std::move(samples), step_.alignment, step_.cp, rank_);
    for (const std::size_t f : stage_fields_) {
      FieldSpec spec = step_.fields[f];
      const bool per_sample = spec.kind == FieldKind::sample;
      if (!per_sample) spec.kind = FieldKind::token;
      micro_batch.fields.emplace_back(
          std::move(spec), per_sample ? micro_batch.layout.size() : micro_batch.layout.local_rows());
    }
    std::int64_t runs = 0;
    for (std::size_t i = 0; i < plan.entries.size(); ++i) {
      slots_[plan.entries[i]] = {packed_.size(), static_cast<std::int64_t>(i), runs};
      const SequenceCut cut = cut_of(micro_batch.samples[i], step_.alignment, step_.cp, rank_);
      runs += static_cast<std::int64_t>(rows_to_move(FieldKind::token, cut).size());
    }
    halos_.emplace_back(static_cast<std::size_t>(runs));
    packed_.push_back(std::move(micro_batch));
  }

  static void add_rows(Column& column, std::int64_t row, const RowMove& move, BlockList& blocks) {
    blocks.add(column.row(row), static_cast<std::size_t>(move.source.size()) * column.spec().row_bytes());
  }

  void add_halo(const Slot& slot, const RowMove& move, BlockList& blocks) {
    if (!derives_labels(step_.fields)) return;
    std::vector<std::int64_t>& halo = halos_[slot.micro_batch];
    std::int64_t& token = halo[static_cast<std::size_t>(slot.first_run + move.target)];
    blocks.add(std::as_writable_bytes(std::span(&token, 1)).data(), sizeof(token));
  }

  const StepTransfer& step_;
  CpRank rank_;
  std::vector<std::size_t> stage_fields_;
  std::vector<PackedMicroBatch>& packed_;
  std::vector<std::vector<std::int64_t>> halos_;  // per micro-batch, one token a run
  std::unordered_map<std::int64_t, Slot> slots_;  // by table entry
};

/// The owner's side: the rows of its samples that the consumer at (cp, stage) needs.
class Owner {
 public:
  explicit Owner(const StepTransfer& step) : step_(step), sends_halo_(derives_labels(step.fields)) {
    for (const FieldSpec& field : step.fields) columns_.push_back(step.mine.find(field.name));
  }

  void add_rows(std::int64_t entry, CpRank cp_rank, std::span<const std::size_t> fields,
                BlockList& blocks) const {
    const LengthEntry& sample = step_.table[entry];
    const SequenceCut cut = cut_of(sample.shape, step_.alignment, step_.cp, cp_rank);
    for (const std::size_t f : fields) {
      const Column& column = *columns_[f];
      const std::int64_t base = step_.mine.rows_of(column.spec().kind, sample.owner_index).begin;
      for (const RowMove& move : rows_to_move(column.spec().kind, cut)) add(column, base, move, blocks);
      if (!sends_halo_ || column.spec().name != input_ids_field) continue;
      for (const RowMove& move : halo_to_move(cut)) add(column, base, move, blocks);
    }
  }

 private:
  static void add(const Column& column, std::int64_t base, const RowMove& move, BlockList& blocks) {
    blocks.add(column.row(base + move.source.begin),
               static_cast<std::size_t>(move.source.size()) * column.spec().row_bytes());
  }

  const StepTransfer& step_;
  bool sends_halo_;
  std::vector<const Column*> columns_;
};

bool receives_payload(const GridPoint& place) noexcept {
  return place.tp == 0;
}

std::vector<BlockList> outgoing(const Mesh& mesh, const StepTransfer& step, const TransferPlan& transfers) {
  const Grid& grid = mesh.grid();
  const Owner owner(step);
  std::vector<BlockList> sends(static_cast<std::size_t>(grid.num_ranks()));
  for (int rank = 0; rank < grid.num_ranks(); ++rank) {
    const GridPoint place = grid.point_of(WorldRank{rank});
    if (!receives_payload(place)) continue;
    const std::vector<std::size_t> fields = fields_for_stage(step.fields, {place.pp, grid.sizes().pp});
    BlockList& blocks = sends[static_cast<std::size_t>(rank)];
    for (const std::int64_t entry : transfers.to_dp_rank[static_cast<std::size_t>(place.dp)]) {
      owner.add_rows(entry, CpRank{place.cp}, fields, blocks);
    }
  }
  return sends;
}

std::vector<BlockList> incoming(const Mesh& mesh, const TransferPlan& transfers, Consumer& consumer) {
  std::vector<BlockList> receives(transfers.from_owner.size());
  if (!receives_payload(mesh.here())) return receives;
  for (std::size_t owner = 0; owner < receives.size(); ++owner) {
    for (const std::int64_t entry : transfers.from_owner[owner]) consumer.add_places(entry, receives[owner]);
  }
  return receives;
}

}  // namespace

ExchangeVolume exchange_samples(const Mesh& mesh, const StepTransfer& step,
                                const DerivedFieldOptions& derived, const ExchangeOptions& options,
                                std::vector<PackedMicroBatch>& packed) {
  const TransferPlan transfers = plan_transfers(step.table, step.assignment, mesh.rank(),
                                                DpRank{mesh.here().dp}, mesh.grid().num_ranks());
  Consumer consumer(mesh, step, packed);
  const std::vector<BlockList> sends = outgoing(mesh, step, transfers);
  exchange_messages(mesh.world(), sends, incoming(mesh, transfers, consumer), options);
  const BlockList copies = consumer.everything();
  broadcast_blocks(mesh.along(Axis::tp), copies, 0, options);
  consumer.complete(derived);

  ExchangeVolume volume;
  for (const BlockList& blocks : sends) volume.sent += blocks.bytes();
  volume.kept = sends[mesh.rank().index()].bytes();
  volume.sent -= volume.kept;
  if (!receives_payload(mesh.here())) volume.broadcast = copies.bytes();
  return volume;
}

}  // namespace evenkeel
