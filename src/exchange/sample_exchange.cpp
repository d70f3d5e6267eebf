#include "evenkeel/exchange/sample_exchange.hpp"

#include <algorithm>

#include "evenkeel/plan/stage_fields.hpp"
#include "evenkeel/plan/transfer_plan.hpp"
#include "exchange/transfer_sides.hpp"

namespace evenkeel {
namespace {

bool derives_labels(std::span<const FieldSpec> fields) {
  return std::ranges::find(fields, labels_field, &FieldSpec::name) == fields.end();
}

bool receives_payload(const GridPoint& place) noexcept {
  return place.tp == 0;
}

PipelineStage stage_of(const Mesh& mesh) noexcept {
  return {mesh.here().pp, mesh.grid().sizes().pp};
}

/// The consumer's side: packed tensors, and where each sample's rows belong in them.
class Consumer {
 public:
  Consumer(const Mesh& mesh, const StepTransfer& step, const TransferFrame& frame,
           std::vector<PackedMicroBatch>& packed)
      : step_(step),
        side_(frame, step.micro_batches, CpRank{mesh.here().cp}),
        fields_(fields_for_stage(step.fields, stage_of(mesh))),
        packed_(packed) {
    packed_.clear();
    for (const MicroBatchPlan& plan : step.micro_batches)
      packed_.push_back(lay_out_micro_batch(mesh, step, plan));
    for (const std::int64_t runs : side_.num_runs()) halos_.emplace_back(static_cast<std::size_t>(runs));
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      std::vector<const Column*>& of_field = columns_.emplace_back();
      for (const PackedMicroBatch& m : packed_) of_field.push_back(&m.fields[f]);
    }
  }

  /// Appends the places of one sample's rows, in the order in which the owner sends them.
  void add_places(std::int64_t entry, BlockList& blocks) {
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      const FieldSpec& spec = step_.fields[fields_[f]];
      side_.add_field(entry, columns_[f], spec.kind, blocks);
      if (spec.name == input_ids_field && derives_labels(step_.fields)) side_.add_halo(entry, halos_, blocks);
    }
  }

  /// Everything that was received, as one list: what the other tensor-parallel ranks copy.
  [[nodiscard]] BlockList everything() const {
    BlockList blocks;
    for (const PackedMicroBatch& m : packed_) {
      for (const Column& column : m.fields) blocks.add(column.bytes().data(), column.bytes().size());
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
  const StepTransfer& step_;
  PackedSide side_;
  std::vector<std::size_t> fields_;  // of this pipeline stage
  std::vector<PackedMicroBatch>& packed_;
  std::vector<std::vector<const Column*>> columns_;  // by field, then by micro-batch
  std::vector<std::vector<std::int64_t>> halos_;     // by micro-batch, one token a run
};

RaggedSide owned_side(const StepTransfer& step, const TransferFrame& frame) {
  std::vector<const Column*> columns;
  for (const FieldSpec& field : step.fields) columns.push_back(step.mine.find(field.name));
  return {frame, step.mine, std::move(columns)};
}

std::vector<BlockList> outgoing(const Mesh& mesh, const StepTransfer& step, const TransferFrame& frame,
                                const TransferPlan& transfers) {
  const Grid& grid = mesh.grid();
  const RaggedSide side = owned_side(step, frame);
  const bool with_halo = derives_labels(step.fields);
  std::vector<BlockList> sends(static_cast<std::size_t>(grid.num_ranks()));
  for (int rank = 0; rank < grid.num_ranks(); ++rank) {
    const GridPoint place = grid.point_of(WorldRank{rank});
    if (!receives_payload(place)) continue;
    const CpRank cp_rank{place.cp};
    const std::vector<std::size_t> fields = fields_for_stage(step.fields, {place.pp, grid.sizes().pp});
    BlockList& blocks = sends[static_cast<std::size_t>(rank)];
    for (const std::int64_t entry : transfers.to_dp_rank[static_cast<std::size_t>(place.dp)]) {
      for (const std::size_t f : fields) {
        side.add_field(entry, cp_rank, f, blocks);
        if (with_halo && step.fields[f].name == input_ids_field) side.add_halo(entry, cp_rank, f, blocks);
      }
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

PackedMicroBatch lay_out_micro_batch(const Mesh& mesh, const StepTransfer& step, const MicroBatchPlan& plan) {
  std::vector<SampleShape> samples;
  for (const std::int64_t entry : plan.entries) samples.push_back(step.table[entry].shape);
  PackedMicroBatch m =
      lay_out(std::move(samples), {step.alignment, plan.padded_length, step.cp}, CpRank{mesh.here().cp});
  for (const std::size_t f : fields_for_stage(step.fields, stage_of(mesh))) {
    FieldSpec spec = step.fields[f];
    const bool per_sample = spec.kind == FieldKind::sample;
    if (!per_sample) spec.kind = FieldKind::token;
    m.fields.emplace_back(std::move(spec), per_sample ? m.layout.size() : m.layout.local_rows());
  }
  return m;
}

ExchangeVolume exchange_samples(const Mesh& mesh, const StepTransfer& step,
                                const DerivedFieldOptions& derived, const ExchangeOptions& options,
                                std::vector<PackedMicroBatch>& packed) {
  const TransferFrame frame{step.table, step.dealt, step.cp};
  const TransferPlan transfers = plan_transfers(step.table, step.dealt.shares, mesh.rank(),
                                                DpRank{mesh.here().dp}, mesh.grid().num_ranks());
  Consumer consumer(mesh, step, frame, packed);
  const std::vector<BlockList> sends = outgoing(mesh, step, frame, transfers);
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
