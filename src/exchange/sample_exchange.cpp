#include "exchange/sample_exchange.hpp"

#include <algorithm>
#include <optional>

#include "base/narrow.hpp"
#include "evenkeel/base/assertions.hpp"
#include "exchange/sample_layout.hpp"
#include "exchange/shared_columns.hpp"
#include "exchange/transfer_sides.hpp"
#include "mesh/fail_together.hpp"
#include "plan/node_receivers.hpp"
#include "plan/transfer_plan.hpp"
#include "transport/prepared_exchange.hpp"

namespace evenkeel {
namespace {

TransferEnds ends_at(const Mesh& mesh) {
  return {mesh.rank(), mesh.data_place(), mesh.everyone().size()};
}

/// What a group gets from one owner: segments with their token fields, samples with the others.
struct OutgoingPlan {
  OutgoingPlan(const Mesh& mesh, const StepTransfer& step)
      : segments(plan_transfers(step.table, step.assignment.segments, step.assignment.groups, ends_at(mesh))),
        samples(plan_transfers(step.table, step.assignment.shares, step.assignment.groups, ends_at(mesh))) {}

  TransferPlan<SegmentId> segments;
  TransferPlan<EntryId> samples;
};

/// The consumer's side: where in its packed tensors, laid out already, the rows of segments and samples
/// belong.
class Consumer {
 public:
  Consumer(const Mesh& mesh, const StepTransfer& step, const TransferFrame& frame,
           std::vector<PackedMicroBatch>& packed)
      : step_(step),
        side_(frame, step.micro_batches, mesh.data_place()),
        fields_(fields_sent_to(step, mesh.here(), mesh.grid().sizes())),
        packed_(packed) {
    for (const std::int64_t size : side_.halo_sizes()) halos_.emplace_back(static_cast<std::size_t>(size));
    for (const FieldTransfer& field : fields_) {
      std::vector<const Column*>& of_field = columns_.emplace_back();
      for (const PackedMicroBatch& m : packed_) of_field.push_back(m.find(field.spec.name));
    }
  }

  /// Append the places of the rows of one segment or sample, in the order in which the owner sends them.
  void add_segment(SegmentId segment, BlockList& blocks) {
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      if (fields_[f].moved_as != FieldKind::token) continue;
      side_.add_segment(segment, columns_[f], blocks);
      if (fields_[f].with_halo) side_.add_halo(segment, halos_, blocks);
    }
  }
  void add_sample(EntryId entry, BlockList& blocks) {
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      if (fields_[f].moved_as == FieldKind::token) continue;
      side_.add_sample(entry, columns_[f], fields_[f].moved_as, blocks);
    }
  }

  /// What the model-parallel rank at `place` needs of what this one has, and what this one needs itself.
  [[nodiscard]] BlockList needed_at(const GridPoint& place, const GridPoint& sizes) const {
    const std::vector<FieldTransfer> fields = fields_sent_to(step_, place, sizes);
    BlockList blocks;
    for (std::size_t m = 0; m < packed_.size(); ++m) {
      for (const FieldTransfer& field : fields) {
        const auto bytes = std::as_const(packed_[m]).find(field.spec.name)->bytes();
        blocks.add(bytes.data(), bytes.size());
        if (!field.with_halo) continue;
        blocks.add(std::as_bytes(std::span(halos_[m])).data(), halos_[m].size() * sizeof(std::int64_t));
      }
    }
    return blocks;
  }

  void complete(const DerivedFieldSettings& options) {
    for (std::size_t m = 0; m < packed_.size(); ++m)
      complete_fields(packed_[m], step_.fields, halos_[m], options);
  }

 private:
  const StepTransfer& step_;
  PackedSide side_;
  std::vector<FieldTransfer> fields_;  // of this pipeline stage
  std::vector<PackedMicroBatch>& packed_;
  std::vector<std::vector<const Column*>> columns_;  // by field, then by micro-batch
  std::vector<std::vector<std::int64_t>> halos_;     // by micro-batch
};

/// The owner's side for one consumer.
class Sender {
 public:
  Sender(const StepTransfer& step, const RaggedSide& side, const GridPoint& place, const GridPoint& sizes)
      : side_(side), fields_(fields_sent_to(step, place, sizes)) {
    for (const FieldTransfer& field : fields_)
      sources_.push_back(step.mine.find(step.fields[field.source].name));
  }

  /// Preconditions: this rank owns what is sent, and so has its fields.
  void add_segment(SegmentId segment, CpRank rank, BlockList& blocks) const {
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      if (fields_[f].moved_as != FieldKind::token) continue;
      EVENKEEL_PRECONDITION(cheap, sources_[f] != nullptr, fields_[f].spec.name);
      side_.add_segment(segment, rank, *sources_[f], blocks);
      if (fields_[f].with_halo) side_.add_halo(segment, rank, *sources_[f], blocks);
    }
  }
  void add_sample(EntryId entry, CpRank rank, BlockList& blocks) const {
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      if (fields_[f].moved_as == FieldKind::token) continue;
      EVENKEEL_PRECONDITION(cheap, sources_[f] != nullptr, fields_[f].spec.name);
      if (sources_[f]->spec().kind == fields_[f].moved_as) {
        side_.add_sample(entry, rank, *sources_[f], blocks);
      } else {
        side_.add_responses(entry, rank, *sources_[f], fields_[f].shift, blocks);
      }
    }
  }

 private:
  const RaggedSide& side_;
  std::vector<FieldTransfer> fields_;
  std::vector<const Column*> sources_;  // by field; none on a rank that owns nothing
};

std::vector<BlockList> outgoing(const Mesh& mesh, const StepTransfer& step, const TransferFrame& frame,
                                std::span<const int> receivers, const OutgoingPlan& outgoing_plan) {
  const Grid& grid = mesh.grid();
  const RaggedSide side(frame, step.mine);
  const GroupsOfPlaces groups(step.assignment.groups);
  std::vector<BlockList> sends(static_cast<std::size_t>(mesh.everyone().size()));
  for (int rank = 0; rank < grid.num_ranks(); ++rank) {
    if (receivers[static_cast<std::size_t>(rank)] != rank) continue;
    const GridPoint place = grid.point_of(WorldRank{rank});
    const Sender sender(step, side, place, grid.sizes());
    BlockList& blocks = sends[static_cast<std::size_t>(rank)];
    // All segments before all samples, as the consumer expects them.
    for (const auto& [group, member] : groups.of(data_place_of(place, grid.sizes())))
      for (const SegmentId segment : outgoing_plan.segments.to_group[group])
        sender.add_segment(segment, member, blocks);
    for (const auto& [group, member] : groups.of(data_place_of(place, grid.sizes())))
      for (const EntryId entry : outgoing_plan.samples.to_group[group])
        sender.add_sample(entry, member, blocks);
  }
  return sends;
}

std::vector<BlockList> incoming(const Mesh& mesh, const OutgoingPlan& outgoing_plan, Consumer& consumer) {
  std::vector<BlockList> receives(static_cast<std::size_t>(mesh.everyone().size()));
  for (std::size_t owner = 0; owner < receives.size(); ++owner) {
    for (const SegmentId segment : outgoing_plan.segments.from_owner[owner])
      consumer.add_segment(segment, receives[owner]);
    for (const EntryId entry : outgoing_plan.samples.from_owner[owner])
      consumer.add_sample(entry, receives[owner]);
  }
  return receives;
}

ExchangeVolume volume_of(const Mesh& mesh, std::span<const BlockList> sends) {
  ExchangeVolume volume;
  const std::span<const int> nodes = mesh.nodes();
  for (std::size_t rank = 0; rank < sends.size(); ++rank) {
    const bool is_self = rank == mesh.rank().index();
    (is_self ? volume.kept : volume.sent) += sends[rank].bytes();
    if (nodes[rank] != nodes[mesh.rank().index()]) volume.between_nodes += sends[rank].bytes();
  }
  return volume;
}

// Nobody else counts what data ranks send.
void add_from_data_ranks(const Mesh& mesh, std::span<const BlockList> receives, ExchangeVolume& volume,
                         std::vector<std::int64_t>* bytes_from) {
  const std::span<const int> nodes = mesh.nodes();
  const auto first = static_cast<std::size_t>(mesh.grid().num_ranks());
  if (bytes_from != nullptr) bytes_from->resize(receives.size() - first);
  for (std::size_t rank = first; rank < receives.size(); ++rank) {
    const std::int64_t bytes = receives[rank].bytes();
    volume.sent += bytes;
    if (nodes[rank] != nodes[mesh.rank().index()]) volume.between_nodes += bytes;
    if (bytes_from != nullptr) (*bytes_from)[rank - first] += bytes;
  }
}

void add_bytes(std::span<const BlockList> sends, std::vector<std::int64_t>& bytes_to) {
  bytes_to.resize(sends.size());
  for (std::size_t rank = 0; rank < sends.size(); ++rank) bytes_to[rank] += sends[rank].bytes();
}

/// The model-parallel ranks of this node and the one of them that receives.
struct ModelParallelPeers {
  ModelParallelPeers(const Mesh& mesh, std::span<const int> receivers)
      : ranks(mesh.model_parallel_on_node()),
        receives(receivers[mesh.rank().index()] == mesh.rank().value()) {
    const Grid& grid = mesh.grid();
    for (int rank = 0; rank < grid.num_ranks(); ++rank) {
      if (receivers[static_cast<std::size_t>(rank)] != receivers[mesh.rank().index()]) continue;
      if (receivers[static_cast<std::size_t>(rank)] == rank) receiver = narrow<int>(places.size(), "ranks");
      places.push_back(grid.point_of(WorldRank{rank}));
    }
  }

  const Communicator& ranks;
  std::vector<GridPoint> places;  // by rank of `ranks`
  int receiver = 0;               // among `ranks`
  bool receives;                  // this rank is it
};

/// The memory in which model-parallel ranks have their tensors in common; nullptr when each has its own. The
/// same on all of them. Collective over `ranks` the first time.
NodeMemory* memory_in_common(const Communicator& ranks, const TransportSettings& options) {
  if (options.tp_copies == TensorParallelCopies::own || ranks.size() == 1) return nullptr;
  NodeMemory& memory = NodeMemory::of(ranks);
  return memory.obstacle() ? nullptr : &memory;
}

/// What the receiver's peers get of what it has received.
struct CopiesForTwins {
  std::vector<BlockList> sends;
  std::vector<BlockList> receives;

  void add(const ModelParallelPeers& peers, const Consumer& consumer, const GridPoint& sizes) {
    sends.resize(peers.places.size());
    receives.resize(peers.places.size());
    if (!peers.receives) {
      const auto self = static_cast<std::size_t>(peers.ranks.rank());
      receives[static_cast<std::size_t>(peers.receiver)] = consumer.needed_at(peers.places[self], sizes);
    }
    for (std::size_t other = 0; peers.receives && other < sends.size(); ++other) {
      if (static_cast<int>(other) != peers.receiver)
        sends[other] = consumer.needed_at(peers.places[other], sizes);
    }
  }
};

/// The columns that a place has, of those its receiver has, derived ones included.
bool stands_at(const StepTransfer& step, std::span<const FieldTransfer> fields, const FieldSpec& column) {
  const auto brought = [&](std::string_view name) {
    return std::ranges::any_of(fields, [&](const FieldTransfer& field) { return field.spec.name == name; });
  };
  if (brought(column.name) || column.name == position_ids_field || column.name == prediction_rows_field)
    return true;
  const bool is_derived = std::ranges::find(step.fields, column.name, &FieldSpec::name) == step.fields.end();
  return is_derived && brought(input_ids_field);
}

/// One rank's part of an exchange of samples: first all that takes memory, then all that communicates.
class SampleExchange {
 public:
  /// Collective, and throws only what all ranks throw.
  SampleExchange(const Mesh& mesh, const StepTransfer& step, const DerivedFieldSettings& derived,
                 const TransportSettings& options, std::vector<PackedMicroBatch>& packed,
                 const GuardedWork& before)
      : mesh_(mesh),
        step_(step),
        derived_(derived),
        packed_(packed),
        frame_{step.table, step.assignment, step.settings.cp.layout},
        work_(before) {
    if (mesh.has_place()) {
      prepare_place(options);
    } else {
      work_([&] { prepare_sends(OutgoingPlan(mesh_, step_), node_receivers(mesh_.grid(), mesh_.nodes())); });
    }
    to_all_.emplace(mesh.everyone(), sends_, receives_, options, work_.failed());
    to_all_->agree(work_.error());
  }

  /// Collective. What goes wrong is thrown by end().
  ExchangeVolume run() {
    const MessageTraffic traffic = to_all_->run();
    work_.add(to_all_->error());
    if (to_twins_) {
      to_twins_->run();
      work_.add(to_twins_->error());
    }
    work_([&] {
      if (consumer_) consumer_->complete(derived_);
    });
    if (in_common_ != nullptr) {
      const auto wanted = [this](const FieldSpec& column) { return stands_at(step_, fields_, column); };
      share_columns(mesh_.model_parallel_on_node(), *in_common_, peers_->receiver, wanted, packed_, work_);
    }
    volume_.passed_on = traffic.passed_on;
    volume_.messages = traffic.between_nodes;
    return volume_;
  }

  /// Collective: the last agreement. Also tells every owner that its neighbours have fetched what they need.
  void end(const std::function<void()>& finish) {
    work_([&] {
      if (finish) finish();
    });
    work_.agree(mesh_.everyone());
  }

 private:
  [[nodiscard]] bool copies_to_twins() const {
    return in_common_ == nullptr && mesh_.model_parallel_on_node().size() > 1;
  }

  void prepare_place(const TransportSettings& options) {
    const Communicator& peers = mesh_.model_parallel_on_node();
    work_.in_any_case([&] { in_common_ = memory_in_common(peers, options); });
    work_([&] { prepare(); });
    // Among peers first, so that what fails there is told to all ranks.
    if (!copies_to_twins()) return;
    work_.in_any_case([&] {
      to_twins_.emplace(peers, copies_.sends, copies_.receives, options, work_.failed());
      to_twins_->agree(work_.error());
    });
  }

  void prepare() {
    const GridPoint& sizes = mesh_.grid().sizes();
    const std::vector<int> receivers = node_receivers(mesh_.grid(), mesh_.nodes());
    peers_.emplace(mesh_, receivers);
    const bool borrows = in_common_ != nullptr && !peers_->receives;
    const OutgoingPlan outgoing_plan(mesh_, step_);
    packed_.clear();
    for (const MicroBatchPlan& plan : step_.micro_batches) {
      packed_.push_back(borrows ? lay_out_rows(mesh_, step_, plan)
                                : lay_out_micro_batch(mesh_, step_, plan, derived_));
    }
    if (!borrows) consumer_.emplace(mesh_, step_, frame_, packed_);
    prepare_sends(outgoing_plan, receivers);
    if (peers_->receives) receives_ = incoming(mesh_, outgoing_plan, *consumer_);
    add_from_data_ranks(mesh_, receives_, volume_, step_.bytes_from_data_ranks);
    if (copies_to_twins()) {
      copies_.add(*peers_, *consumer_, sizes);
      volume_.copied = total_bytes(copies_.receives);
    }
    if (in_common_ != nullptr) fields_ = fields_sent_to(step_, mesh_.here(), sizes);
  }

  /// What this rank owns; it receives nothing so far.
  void prepare_sends(const OutgoingPlan& outgoing_plan, std::span<const int> receivers) {
    sends_ = outgoing(mesh_, step_, frame_, receivers, outgoing_plan);
    receives_.resize(sends_.size());
    volume_ = volume_of(mesh_, sends_);
    if (step_.bytes_to != nullptr) add_bytes(sends_, *step_.bytes_to);
  }

  const Mesh& mesh_;
  const StepTransfer& step_;
  DerivedFieldSettings derived_;
  std::vector<PackedMicroBatch>& packed_;
  TransferFrame frame_;
  GuardedWork work_;
  NodeMemory* in_common_ = nullptr;
  std::optional<ModelParallelPeers> peers_;
  std::optional<Consumer> consumer_;
  std::vector<FieldTransfer> fields_;  // where tensors are in common: what this rank's place is sent
  std::vector<BlockList> sends_;
  std::vector<BlockList> receives_;
  CopiesForTwins copies_;
  ExchangeVolume volume_;
  std::optional<PreparedExchange> to_twins_;
  std::optional<PreparedExchange> to_all_;
};

}  // namespace

ExchangeVolume& ExchangeVolume::operator+=(const ExchangeVolume& other) noexcept {
  sent += other.sent;
  between_nodes += other.between_nodes;
  kept += other.kept;
  copied += other.copied;
  passed_on += other.passed_on;
  messages += other.messages;
  return *this;
}

ExchangeVolume exchange_samples(const Mesh& mesh, const StepTransfer& step,
                                const DerivedFieldSettings& derived, const TransportSettings& options,
                                std::vector<PackedMicroBatch>& packed, const GuardedWork& before,
                                const std::function<void()>& finish) {
  end_returned_loans();
  SampleExchange exchange(mesh, step, derived, options, packed, before);
  const ExchangeVolume volume = exchange.run();
  exchange.end(finish);
  return volume;
}

}  // namespace evenkeel
