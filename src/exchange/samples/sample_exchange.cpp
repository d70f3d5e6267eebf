#include "exchange/samples/sample_exchange.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/narrow.hpp"
#include "evenkeel/base/assertions.hpp"
#include "exchange/samples/receivers.hpp"
#include "exchange/samples/sample_layout.hpp"
#include "exchange/samples/shared_columns.hpp"
#include "exchange/samples/transfer_sides.hpp"
#include "exchange/samples/value_exchange.hpp"
#include "mesh/fail_together.hpp"
#include "plan/transfer/transfer_plan.hpp"
#include "transport/prepared_exchange.hpp"

namespace evenkeel {
namespace running_exchange {  // not anonymous, since SampleExchange::Memory has what stands here

TransferEnds ends_at(const Mesh& mesh) {
  return {mesh.rank(), mesh.data_place(), mesh.world().size()};
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
  /// `fields` are what owners send to this rank, `derived` what no sample brings, by micro-batch.
  Consumer(const Mesh& mesh, const StepTransfer& step, const TransferFrame& frame,
           std::vector<FieldTransfer> fields, std::vector<PackedMicroBatch>& packed,
           std::vector<DerivedColumns> derived)
      : side_(frame, step.micro_batches, mesh.data_place()),
        fields_(std::move(fields)),
        packed_(packed),
        derived_(std::move(derived)),
        carried_(step.fields),
        received_(fields_.size()) {
    for (const std::int64_t size : side_.halo_sizes()) halos_.emplace_back(static_cast<std::size_t>(size));
    for (const FieldTransfer& field : fields_) {
      std::vector<const Column*>& of_field = columns_.emplace_back();
      for (const PackedMicroBatch& m : packed_) of_field.push_back(m.find(field.spec.name));
      views_.push_back(view_of(field));
    }
  }

  /// Append the places of the rows of one segment or sample, in the order in which the owner sends them.
  void add_segment(SegmentId segment, BlockList& blocks) {
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      if (!rule_of(fields_[f].moved_as).is_per_token()) continue;
      const std::int64_t before = blocks.bytes();
      side_.add_segment(segment, columns_[f], blocks, views_[f]);
      if (fields_[f].with_halo) side_.add_halo(segment, halos_, blocks);
      received_[f] += blocks.bytes() - before;
    }
  }
  void add_sample(EntryId entry, BlockList& blocks) {
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      if (rule_of(fields_[f].moved_as).is_per_token()) continue;
      const std::int64_t before = blocks.bytes();
      side_.add_sample(entry, columns_[f], fields_[f].moved_as, blocks, views_[f]);
      received_[f] += blocks.bytes() - before;
    }
  }

  /// These fields of all micro-batches: what a model-parallel rank copies from another, and where to.
  [[nodiscard]] BlockList whole(std::span<const FieldTransfer> fields) const {
    BlockList blocks;
    for (std::size_t m = 0; m < packed_.size(); ++m)
      for (const FieldTransfer& field : fields) add_whole(field, m, blocks);
    return blocks;
  }

  /// The bytes of each of the fields that owners send.
  void add_received(std::vector<FieldVolume>& volumes) const {
    for (std::size_t f = 0; f < fields_.size(); ++f)
      add_volume(volumes, {fields_[f].spec.name, false, received_[f], 0});
  }
  /// The bytes of each of these fields that are copied.
  void add_copied(std::span<const FieldTransfer> fields, std::vector<FieldVolume>& volumes) const {
    for (const FieldTransfer& field : fields)
      add_volume(volumes, {field.spec.name, false, 0, whole({&field, 1}).bytes()});
  }

  /// Fields that no sample brings.
  void derive() {
    for (std::size_t m = 0; m < packed_.size(); ++m) derived_[m].add_to(packed_[m], halos_[m]);
  }

 private:
  /// What arrives is what is handed out, whatever it is on the way.
  [[nodiscard]] RowView view_of(const FieldTransfer& field) const {
    return view_of_rows(field.spec, std::nullopt, carried_[field.source].spec.dtype);
  }

  void add_whole(const FieldTransfer& field, std::size_t m, BlockList& blocks) const {
    const Column& column = *std::as_const(packed_[m]).find(field.spec.name);
    blocks.add(column.row(0), column.rows(), column.row_bytes(), view_of(field));
    if (!field.with_halo) return;
    blocks.add(std::as_bytes(std::span(halos_[m])).data(), halos_[m].size() * sizeof(std::int64_t));
  }

  PackedSide side_;
  std::vector<FieldTransfer> fields_;
  std::vector<PackedMicroBatch>& packed_;
  std::vector<DerivedColumns> derived_;  // by micro-batch
  std::span<const CarriedField> carried_;
  std::vector<RowView> views_;                       // by field
  std::vector<std::int64_t> received_;               // by field, in bytes
  std::vector<std::vector<const Column*>> columns_;  // by field, then by micro-batch
  std::vector<std::vector<std::int64_t>> halos_;     // by micro-batch
};

/// The owner's side for one consumer.
class Sender {
 public:
  Sender(const StepTransfer& step, const RaggedSide& side, std::vector<FieldTransfer> fields)
      : side_(side), fields_(std::move(fields)) {
    for (const FieldTransfer& field : fields_) {
      const CarriedField& carried = step.fields[field.source];
      // Nobody has asked what columns without rows are of.
      const bool owns_nothing = step.mine.size() == 0;
      const Column* const source =
          sources_.emplace_back(owns_nothing ? nullptr : step.mine.find(carried.name()));
      tokens_.push_back(carried.cut_by.empty() ? nullptr : step.mine.find(carried.cut_by));
      views_.push_back(source == nullptr ? plain_rows
                                         : view_of_rows(source->spec(), carried.layers, carried.spec.dtype));
    }
  }

  /// Preconditions: this rank owns what is sent, and so has its fields.
  void add_segment(SegmentId segment, CpRank rank, BlockList& blocks) const {
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      if (!rule_of(fields_[f].moved_as).is_per_token()) continue;
      EVENKEEL_PRECONDITION(cheap, sources_[f] != nullptr, fields_[f].spec.name);
      side_.add_segment(segment, rank, *sources_[f], blocks, views_[f]);
      if (fields_[f].with_halo) side_.add_halo(segment, rank, *sources_[f], blocks);
    }
  }
  void add_sample(EntryId entry, CpRank rank, BlockList& blocks) const {
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      if (rule_of(fields_[f].moved_as).is_per_token()) continue;
      EVENKEEL_PRECONDITION(cheap, sources_[f] != nullptr, fields_[f].spec.name);
      if (tokens_[f] != nullptr) {
        side_.add_rows_of_tokens(entry, rank, *sources_[f], *tokens_[f], blocks);
      } else if (sources_[f]->spec().kind == fields_[f].moved_as) {
        side_.add_sample(entry, rank, *sources_[f], blocks, views_[f]);
      } else {
        side_.add_responses(entry, rank, *sources_[f], fields_[f].shift, blocks, views_[f]);
      }
    }
  }

 private:
  const RaggedSide& side_;
  std::vector<FieldTransfer> fields_;
  std::vector<const Column*> sources_;  // by field; none on a rank that owns nothing
  std::vector<const Column*> tokens_;   // by field, of those whose rows are cut
  std::vector<RowView> views_;          // by field
};

std::vector<BlockList> outgoing(const Mesh& mesh, const StepTransfer& step, const TransferFrame& frame,
                                const Receivers& receivers, const OutgoingPlan& outgoing_plan) {
  const Grid& grid = mesh.grid();
  const RaggedSide side(frame, step.mine);
  const GroupsOfPlaces groups(step.assignment.groups);
  std::vector<BlockList> sends(static_cast<std::size_t>(mesh.world().size()));
  for (int rank = 0; rank < grid.num_ranks(); ++rank) {
    if (!receivers.receives(rank)) continue;
    const Sender sender(step, side, receivers.fields_for(rank, rank));
    const GridPoint place = grid.point_of(WorldRank{rank});
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
  std::vector<BlockList> receives(static_cast<std::size_t>(mesh.world().size()));
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

void add_bytes(std::span<const BlockList> sends, std::vector<std::int64_t>& bytes_to) {
  bytes_to.resize(sends.size());
  for (std::size_t rank = 0; rank < sends.size(); ++rank) bytes_to[rank] += sends[rank].bytes();
}

/// The memory in which model-parallel ranks have their tensors in common; nullptr when each has its own. The
/// same on all of them. Collective over `ranks` the first time.
NodeMemory* memory_in_common(const Communicator& ranks, const TransportSettings& options) {
  if (options.tp_copies == TensorParallelCopies::own || ranks.size() == 1) return nullptr;
  NodeMemory& memory = NodeMemory::of(ranks);
  return memory.obstacle() ? nullptr : &memory;
}

/// What peers copy from each other of what they have received.
struct CopiesForTwins {
  std::vector<BlockList> sends;
  std::vector<BlockList> receives;

  void add(const ModelParallelPeers& peers, const Consumer& consumer, std::vector<FieldVolume>& volumes) {
    const int self = peers.ranks.rank();
    for (int other = 0; other < peers.ranks.size(); ++other) {
      BlockList& to = sends.emplace_back();
      BlockList& from = receives.emplace_back();
      if (other == self) continue;
      to = consumer.whole(peers.fields_for(other, self));
      const std::vector<FieldTransfer> fields = peers.fields_for(self, other);
      from = consumer.whole(fields);
      consumer.add_copied(fields, volumes);
    }
  }
};

/// Whether a place has this column, where these are the fields that it is sent: derived ones included.
bool stands_at(const StepTransfer& step, std::span<const FieldTransfer> fields, const FieldSpec& column) {
  const auto brought = [&](std::string_view name) {
    return std::ranges::any_of(fields, [&](const FieldTransfer& field) { return field.spec.name == name; });
  };
  // What follows from the layout alone.
  if (brought(column.name) || column.name == position_ids_field || column.name == padding_mask_field ||
      column.name == prediction_rows_field)
    return true;
  const bool is_derived =
      std::ranges::find(step.fields, column.name, &CarriedField::name) == step.fields.end();
  return is_derived && brought(input_ids_field);
}

/// One rank's part of an exchange of samples: the constructor takes the memory that the data needs, then
/// run() communicates.
class RunningExchange {
 public:
  /// Collective, and throws only what all ranks throw.
  RunningExchange(const Mesh& mesh, const StepTransfer& step, const DerivedFieldSettings& derived,
                  const TransportSettings& options, GuardedWork& work)
      : mesh_(mesh),
        step_(step),
        derived_(derived),
        frame_{step.table, step.assignment, step.settings.cp.layout, derived.reach()},
        work_(work),
        values_(mesh, step) {
    prepare_place(options);
    to_all_.emplace(mesh.world(), sends_, receives_, options, work_.failed());
    to_all_->agree(work_.error());
  }

  /// Collective. What goes wrong is thrown by end().
  ExchangedSamples run() {
    const MessageTraffic traffic = to_all_->run();
    work_.add(to_all_->error());
    if (to_twins_) {
      to_twins_->run();
      work_.add(to_twins_->error());
    }
    work_([&] {
      if (consumer_ && !borrows_place()) consumer_->derive();
    });
    for (const Loan& loan : loans_) {
      const auto chosen = [&](const FieldSpec& column) { return loan.concerns(step_, column); };
      share_columns(mesh_.model_parallel_on_node(), *in_common_, loan.lender, chosen, packed_, work_);
    }
    if (step_.shares_equal) hand_out_values();
    moved_.volume.passed_on = traffic.passed_on;
    moved_.volume.messages = traffic.between_nodes;
    return {std::move(packed_), std::move(moved_)};
  }

  /// Collective: the last agreement. Also tells every owner that its neighbours have fetched what they need.
  void end() { work_.agree(mesh_.world()); }

 private:
  [[nodiscard]] bool copies_to_twins() const {
    return in_common_ == nullptr && mesh_.model_parallel_on_node().size() > 1;
  }

  void prepare_place(const TransportSettings& options) {
    const Communicator& peers = mesh_.model_parallel_on_node();
    work_.in_any_case([&] { in_common_ = memory_in_common(peers, options); });
    if (step_.shares_equal) work_.in_any_case([&] { values_.meet(options); });
    work_([&] { prepare(); });
    // Among peers and on the node first, so that what fails there is told to all ranks.
    if (copies_to_twins()) {
      work_.in_any_case([&] {
        to_twins_.emplace(peers, copies_.sends, copies_.receives, options, work_.failed());
        to_twins_->agree(work_.error());
      });
    }
    if (step_.shares_equal) work_.in_any_case([&] { values_.agree(options, work_); });
  }

  /// Collective over the node.
  void hand_out_values() {
    values_.run(work_);
    work_([&] { values_.hand_out(packed_); });
  }

  void prepare() {
    receivers_.emplace(mesh_, step_);
    peers_.emplace(mesh_, *receivers_);
    const OutgoingPlan outgoing_plan(mesh_, step_);
    std::vector<FieldTransfer> received = receivers_->fields_for(mesh_.rank().value(), mesh_.rank().value());
    std::vector<DerivedColumns> to_derive = lay_out_tensors(received);
    consumer_.emplace(mesh_, step_, frame_, std::move(received), packed_, std::move(to_derive));
    prepare_sends(outgoing_plan);
    receives_ = incoming(mesh_, outgoing_plan, *consumer_);
    consumer_->add_received(moved_.volumes);
    if (step_.shares_equal) prepare_values();
    count_sends();
    if (copies_to_twins()) {
      copies_.add(*peers_, *consumer_, moved_.volumes);
      moved_.volume.copied += total_bytes(copies_.receives);
    }
    if (in_common_ != nullptr) prepare_loans();
  }

  /// With columns for what comes to this rank's own tensors; returns what is derived beside them.
  std::vector<DerivedColumns> lay_out_tensors(std::span<const FieldTransfer> received) {
    const std::vector<FieldTransfer> of_place = fields_sent_to(step_, mesh_.here(), mesh_.grid().sizes());
    const std::vector<FieldSpec> brought = handed_out_fields(step_.fields);
    const OwnTensors own{in_common_ != nullptr ? received : of_place, of_place, brought, !borrows_place()};
    packed_.clear();
    std::vector<DerivedColumns> derived;
    for (const MicroBatchPlan& plan : step_.micro_batches) {
      PackedMicroBatch& m = packed_.emplace_back(lay_out_rows(mesh_, step_, plan));
      derived.push_back(add_tensors(step_, own, plan, derived_, m));
    }
    return derived;
  }

  /// What this rank owns; it receives nothing so far.
  void prepare_sends(const OutgoingPlan& outgoing_plan) {
    for (const CarriedField& field : step_.fields)
      add_volume(moved_.volumes, {field.name(), changes_field(field), 0, 0});
    sends_ = outgoing(mesh_, step_, frame_, *receivers_, outgoing_plan);
    receives_.resize(sends_.size());
  }

  void count_sends() {
    moved_.volume += volume_of(mesh_, sends_);
    add_bytes(sends_, moved_.bytes_to);
  }

  /// Beside what is sent and received already.
  void prepare_values() {
    values_.prepare(sends_, receives_);
    moved_.volume.copied += values_.copied();
    values_.add_to(moved_.volumes);
  }

  /// Where tensors are in common: what a peer has received, on its way to the others.
  struct Loan {
    int lender = 0;
    std::vector<FieldTransfer> fields;  // that this rank lends or is lent
    bool with_derived = false;          // whether fields that no sample brings are lent beside them

    [[nodiscard]] bool concerns(const StepTransfer& step, const FieldSpec& column) const {
      if (with_derived) return stands_at(step, fields, column);
      return std::ranges::any_of(fields,
                                 [&](const FieldTransfer& field) { return field.spec.name == column.name; });
    }
  };

  /// The same lenders on all peers.
  void prepare_loans() {
    const int self = peers_->ranks.rank();
    for (int lender = 0; lender < peers_->ranks.size(); ++lender) {
      if (!peers_->receives_for_others(lender) && !peers_->receives_place(lender)) continue;
      loans_.push_back({lender, peers_->fields_for(self, lender), peers_->receives_place(lender)});
    }
  }

  /// Whether fields that no sample brings come from another rank, as other columns do.
  [[nodiscard]] bool borrows_place() const {
    return in_common_ != nullptr && !receivers_->receives_place(mesh_.rank().value());
  }

  const Mesh& mesh_;
  const StepTransfer& step_;
  DerivedFieldSettings derived_;
  std::vector<PackedMicroBatch> packed_;
  ExchangeFigures moved_;
  TransferFrame frame_;
  GuardedWork& work_;
  ValueExchange values_;
  NodeMemory* in_common_ = nullptr;
  std::optional<Receivers> receivers_;
  std::optional<ModelParallelPeers> peers_;
  std::optional<Consumer> consumer_;
  std::vector<Loan> loans_;
  std::vector<BlockList> sends_;
  std::vector<BlockList> receives_;
  CopiesForTwins copies_;
  std::optional<PreparedExchange> to_twins_;
  std::optional<PreparedExchange> to_all_;
};

}  // namespace running_exchange

SampleExchange::SampleExchange(const Mesh& mesh, const StepTransfer& step,
                               const DerivedFieldSettings& derived, const TransportSettings& options,
                               GuardedWork& work) {
  end_returned_loans();
  running_ = std::make_unique<running_exchange::RunningExchange>(mesh, step, derived, options, work);
}

SampleExchange::~SampleExchange() = default;

ExchangedSamples SampleExchange::run() {
  return running_->run();
}

void SampleExchange::end() {
  running_->end();
  running_.reset();
}

}  // namespace evenkeel
