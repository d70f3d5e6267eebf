#include "evenkeel/exchange/sample_exchange.hpp"

#include <algorithm>
#include <optional>

#include "evenkeel/mesh/fail_together.hpp"
#include "evenkeel/plan/transfer_plan.hpp"
#include "exchange/loans.hpp"
#include "exchange/sample_layout.hpp"
#include "exchange/transfer_sides.hpp"

namespace evenkeel {
namespace {

bool receives_payload(const GridPoint& place) noexcept {
  return place.tp == 0;
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

/// The consumer's side: where in its packed tensors, laid out already, the rows of segments and samples
/// belong.
class Consumer {
 public:
  Consumer(const Mesh& mesh, const StepTransfer& step, const TransferFrame& frame,
           std::vector<PackedMicroBatch>& packed)
      : step_(step),
        side_(frame, step.micro_batches, CpRank{mesh.here().cp}),
        fields_(fields_sent_to(step, mesh.here(), mesh.grid().sizes())),
        packed_(packed) {
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
    for (const PackedMicroBatch& m : std::as_const(packed_)) {
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

/// The memory in which the tensor-parallel ranks of this place have their tensors in common; nullptr when
/// each has its own. The same on all of them.
NodeMemory* memory_in_common(const Mesh& mesh, const ExchangeOptions& options) {
  const boost::mpi::communicator& ranks = mesh.along(Axis::tp);
  if (options.tp_copies == TensorParallelCopies::own || ranks.size() == 1) return nullptr;
  NodeMemory& memory = NodeMemory::of(ranks);
  return memory.one_node() && !memory.obstacle() ? &memory : nullptr;
}

/// Gives the other tensor-parallel ranks what the first of them has received; returns the bytes that this
/// rank got so.
std::int64_t copy_to_tp_ranks(const Mesh& mesh, const Consumer& consumer, const ExchangeOptions& options) {
  const boost::mpi::communicator& ranks = mesh.along(Axis::tp);
  if (ranks.size() == 1) return 0;
  const BlockList copies = consumer.everything();
  // Ranks at other places do not see what fails here.
  fail_together(mesh.world(), try_locally([&] { broadcast_blocks(ranks, copies, 0, options); }));
  return receives_payload(mesh.here()) ? 0 : copies.bytes();
}

}  // namespace

ExchangeVolume exchange_samples(const Mesh& mesh, const StepTransfer& step,
                                const DerivedFieldOptions& derived, const ExchangeOptions& options,
                                std::vector<PackedMicroBatch>& packed) {
  end_returned_loans();
  const TransferFrame frame{step.table, step.dealt, step.cp};
  const Parcels parcels(mesh, step);
  const std::vector<BlockList> sends = outgoing(mesh, step, frame, parcels);
  NodeMemory* const in_common = memory_in_common(mesh, options);
  const bool borrows = in_common != nullptr && !receives_payload(mesh.here());

  packed.clear();
  for (const MicroBatchPlan& plan : step.micro_batches) {
    packed.push_back(borrows ? lay_out_rows(mesh, step, plan) : lay_out_micro_batch(mesh, step, plan));
  }
  std::optional<Consumer> consumer;
  if (!borrows) consumer.emplace(mesh, step, frame, packed);
  exchange_messages(mesh.world(), sends,
                    consumer ? incoming(mesh, parcels, *consumer) : std::vector<BlockList>(sends.size()),
                    options);

  ExchangeVolume volume;
  for (const BlockList& blocks : sends) volume.sent += blocks.bytes();
  volume.kept = sends[mesh.rank().index()].bytes();
  volume.sent -= volume.kept;
  if (in_common != nullptr) {
    if (consumer) consumer->complete(derived);
    fail_together(mesh.world(), share_columns(mesh.along(Axis::tp), *in_common, packed));
  } else {
    volume.broadcast = copy_to_tp_ranks(mesh, *consumer, options);
    consumer->complete(derived);
  }
  return volume;
}

}  // namespace evenkeel
