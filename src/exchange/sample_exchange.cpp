#include "evenkeel/exchange/sample_exchange.hpp"

#include <algorithm>

#include "evenkeel/pack/pack_rows.hpp"
#include "evenkeel/plan/transfer_plan.hpp"
#include "exchange/moved_fields.hpp"
#include "exchange/transfer_sides.hpp"

namespace evenkeel {
namespace {

bool receives_payload(const GridPoint& place) noexcept {
  return place.tp == 0;
}

PipelineStage stage_of(const GridPoint& place, const GridPoint& sizes) noexcept {
  return {place.pp, sizes.pp};
}

std::vector<MovedField> fields_sent_to(const StepTransfer& step, const GridPoint& place,
                                       const GridPoint& sizes) {
  return moved_fields(step.fields, stage_of(place, sizes), step.dealt.shared);
}

/// Whether labels are derived from the tokens and those after each run.
bool needs_halo(const StepTransfer& step, const MovedField& field) {
  return !step.dealt.shared && field.spec.name == input_ids_field &&
         std::ranges::find(step.fields, labels_field, &FieldSpec::name) == step.fields.end();
}

/// What one DP rank gets from one owner: segments with their token fields, samples with the others.
struct Parcels {
  Parcels(const Mesh& mesh, const StepTransfer& step)
      : segments(plan_transfers(step.table, step.dealt.segments, mesh.rank(), DpRank{mesh.here().dp},
                                mesh.grid().num_ranks())),
        samples(plan_transfers(step.table, step.dealt.shares, mesh.rank(), DpRank{mesh.here().dp},
                               mesh.grid().num_ranks())) {}

  TransferPlan segments;
  TransferPlan samples;
};

/// The consumer's side: packed tensors, and where the rows of segments and samples belong in them.
class Consumer {
 public:
  Consumer(const Mesh& mesh, const StepTransfer& step, const TransferFrame& frame,
           std::vector<PackedMicroBatch>& packed)
      : step_(step),
        side_(frame, step.micro_batches, CpRank{mesh.here().cp}),
        fields_(fields_sent_to(step, mesh.here(), mesh.grid().sizes())),
        packed_(packed) {
    packed_.clear();
    for (const MicroBatchPlan& plan : step.micro_batches)
      packed_.push_back(lay_out_micro_batch(mesh, step, plan));
    for (const std::int64_t runs : side_.num_runs()) halos_.emplace_back(static_cast<std::size_t>(runs));
    for (const MovedField& field : fields_) {
      std::vector<const Column*>& of_field = columns_.emplace_back();
      for (const PackedMicroBatch& m : packed_) of_field.push_back(m.find(field.spec.name));
    }
  }

  /// Append the places of the rows of one segment or sample, in the order in which the owner sends them.
  void add_segment(std::int64_t segment, BlockList& blocks) {
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      if (fields_[f].moved_as != FieldKind::token) continue;
      side_.add_segment(segment, columns_[f], blocks);
      if (needs_halo(step_, fields_[f])) side_.add_halo(segment, halos_, blocks);
    }
  }
  void add_sample(std::int64_t entry, BlockList& blocks) {
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      if (fields_[f].moved_as == FieldKind::token) continue;
      side_.add_sample(entry, columns_[f], fields_[f].moved_as, blocks);
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
  std::vector<MovedField> fields_;  // of this pipeline stage
  std::vector<PackedMicroBatch>& packed_;
  std::vector<std::vector<const Column*>> columns_;  // by field, then by micro-batch
  std::vector<std::vector<std::int64_t>> halos_;     // by micro-batch
};

/// The owner's side for one consumer.
class Sender {
 public:
  Sender(const StepTransfer& step, const RaggedSide& side, const GridPoint& place, const GridPoint& sizes)
      : step_(step), side_(side), rank_(place.cp), fields_(fields_sent_to(step, place, sizes)) {}

  void add_segment(std::int64_t segment, BlockList& blocks) const {
    for (const MovedField& field : fields_) {
      if (field.moved_as != FieldKind::token) continue;
      side_.add_segment(segment, rank_, source_of(field), blocks);
      if (needs_halo(step_, field)) side_.add_halo(segment, rank_, source_of(field), blocks);
    }
  }
  void add_sample(std::int64_t entry, BlockList& blocks) const {
    for (const MovedField& field : fields_) {
      if (field.moved_as == FieldKind::token) continue;
      const Column& source = source_of(field);
      if (source.spec().kind == field.moved_as) {
        side_.add_sample(entry, rank_, source, blocks);
      } else {
        side_.add_responses(entry, rank_, source, field.shift, blocks);
      }
    }
  }

 private:
  [[nodiscard]] const Column& source_of(const MovedField& field) const {
    return step_.mine.at(step_.fields[field.source].name);
  }

  const StepTransfer& step_;
  const RaggedSide& side_;
  CpRank rank_;
  std::vector<MovedField> fields_;
};

std::vector<BlockList> outgoing(const Mesh& mesh, const StepTransfer& step, const TransferFrame& frame,
                                const Parcels& parcels) {
  const Grid& grid = mesh.grid();
  const RaggedSide side(frame, step.mine);
  std::vector<BlockList> sends(static_cast<std::size_t>(grid.num_ranks()));
  for (int rank = 0; rank < grid.num_ranks(); ++rank) {
    const GridPoint place = grid.point_of(WorldRank{rank});
    if (!receives_payload(place)) continue;
    const Sender sender(step, side, place, grid.sizes());
    BlockList& blocks = sends[static_cast<std::size_t>(rank)];
    const auto dp = static_cast<std::size_t>(place.dp);
    for (const std::int64_t segment : parcels.segments.to_dp_rank[dp]) sender.add_segment(segment, blocks);
    for (const std::int64_t entry : parcels.samples.to_dp_rank[dp]) sender.add_sample(entry, blocks);
  }
  return sends;
}

std::vector<BlockList> incoming(const Mesh& mesh, const Parcels& parcels, Consumer& consumer) {
  std::vector<BlockList> receives(static_cast<std::size_t>(mesh.grid().num_ranks()));
  if (!receives_payload(mesh.here())) return receives;
  for (std::size_t owner = 0; owner < receives.size(); ++owner) {
    for (const std::int64_t segment : parcels.segments.from_owner[owner])
      consumer.add_segment(segment, receives[owner]);
    for (const std::int64_t entry : parcels.samples.from_owner[owner])
      consumer.add_sample(entry, receives[owner]);
  }
  return receives;
}

/// The trees of a micro-batch's atoms side by side.
PrefixTree forest_of(const DealtStep& dealt, const MicroBatchPlan& plan) {
  const DealtMiniBatch& mini_batch = dealt.mini_batches[static_cast<std::size_t>(plan.mini_batch)];
  std::vector<TreeNode> nodes;
  std::vector<std::int64_t> ends;
  for (const std::int64_t a : plan.atoms) {
    const PrefixTree& tree = mini_batch.atoms[static_cast<std::size_t>(a)].group.tree;
    const std::int64_t first = std::ssize(nodes);
    for (const TreeSegment& segment : tree.segments())
      nodes.push_back({segment.parent == -1 ? -1 : first + segment.parent, segment.rows.size()});
    for (const std::int64_t end : tree.sample_ends()) ends.push_back(end == -1 ? -1 : first + end);
  }
  return {nodes, std::move(ends)};
}

/// A column of a field that samples bring, zero where they bring nothing: everything else is overwritten.
Column column_for(const MovedField& field, const PackedMicroBatch& m) {
  const FieldSpec& spec = field.spec;
  const std::int64_t rows = m.rows_of(spec.kind);
  const bool every_row_comes = spec.kind == field.moved_as;
  if (!every_row_comes || m.has_filler()) return {spec, rows};
  Column column = Column::unwritten(spec, rows);
  if (spec.kind == FieldKind::token) {
    const std::vector<std::byte> zero(spec.row_bytes());
    fill_pad_rows(m.layout, m.cp_rank, zero, column.bytes());
  }
  return column;
}

}  // namespace

PackedMicroBatch lay_out_micro_batch(const Mesh& mesh, const StepTransfer& step, const MicroBatchPlan& plan) {
  std::vector<SampleShape> samples;
  for (const std::int64_t entry : plan.entries) samples.push_back(step.table[entry].shape);
  const SequenceLayout sequences{step.alignment, plan.padded_length, step.cp};
  const CpRank rank{mesh.here().cp};
  PackedMicroBatch m = step.dealt.shared
                           ? lay_out_shared(std::move(samples), forest_of(step.dealt, plan), sequences, rank)
                           : lay_out(std::move(samples), sequences, rank);
  for (const MovedField& field : fields_sent_to(step, mesh.here(), mesh.grid().sizes())) {
    m.fields.push_back(column_for(field, m));
  }
  return m;
}

ExchangeVolume exchange_samples(const Mesh& mesh, const StepTransfer& step,
                                const DerivedFieldOptions& derived, const ExchangeOptions& options,
                                std::vector<PackedMicroBatch>& packed) {
  const TransferFrame frame{step.table, step.dealt, step.cp};
  const Parcels parcels(mesh, step);
  Consumer consumer(mesh, step, frame, packed);
  const std::vector<BlockList> sends = outgoing(mesh, step, frame, parcels);
  exchange_messages(mesh.world(), sends, incoming(mesh, parcels, consumer), options);
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
