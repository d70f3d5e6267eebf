#include "exchange/samples/sample_exchange.hpp"

#include <algorithm>
#include <functional>
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
namespace {

TransferEnds transfer_ends(const Mesh& mesh) {
  return {mesh.rank(), mesh.data_place(), mesh.world().size()};
}

/// Transfers between owners and groups: token fields are sent by segment, all other fields by sample.
struct SampleTransfers {
  SampleTransfers(const Mesh& mesh, const StepTransfer& step)
      : segments(plan_transfers(step.table, step.assignment.segments, step.assignment.groups,
                                transfer_ends(mesh))),
        samples(plan_transfers(step.table, step.assignment.shares, step.assignment.groups,
                               transfer_ends(mesh))) {}

  TransferPlan<SegmentId> segments;
  TransferPlan<EntryId> samples;
};

/// The consumer's side of a transfer. Determines where the rows of segments and samples belong in the
/// consumer's packed tensors, which must already be laid out.
class Consumer {
 public:
  /// `fields` are the fields that owners send to this rank. `derived` has the derived columns of each
  /// micro-batch.
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

  /// Appends the destinations of one segment's rows, in the order in which the owner sends them. add_sample()
  /// does the same for a sample.
  void add_segment(SegmentId segment, BlockList& blocks) {
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      if (!rule_of(fields_[f].moved_as).is_per_token()) continue;
      const std::int64_t before = blocks.bytes();
      side_.add_segment(segment, columns_[f], blocks, views_[f]);
      if (fields_[f].needs_halo) side_.add_halo(segment, halos_, blocks);
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

  /// Returns the bytes of these fields in all micro-batches, for use as the source or the destination of a
  /// copy between model-parallel ranks.
  [[nodiscard]] BlockList blocks_of_fields(std::span<const FieldTransfer> fields) const {
    BlockList blocks;
    for (std::size_t m = 0; m < packed_.size(); ++m)
      for (const FieldTransfer& field : fields) add_field_blocks(field, m, blocks);
    return blocks;
  }

  /// Adds to `volumes` the bytes of each field that this rank receives from owners.
  void add_received_volumes(std::vector<FieldVolume>& volumes) const {
    for (std::size_t f = 0; f < fields_.size(); ++f)
      add_volume(volumes, {fields_[f].spec.name, false, received_[f], 0});
  }
  /// Adds to `volumes` the bytes of these fields, which are copied from a peer.
  void add_copied_volumes(std::span<const FieldTransfer> fields, std::vector<FieldVolume>& volumes) const {
    for (const FieldTransfer& field : fields)
      add_volume(volumes, {field.spec.name, false, 0, blocks_of_fields({&field, 1}).bytes()});
  }

  /// Adds the derived columns to the micro-batches. Precondition: the received rows and halos have arrived.
  void derive() {
    for (std::size_t m = 0; m < packed_.size(); ++m) derived_[m].add_remaining_columns(packed_[m], halos_[m]);
  }

 private:
  /// Returns the view that converts from the transfer type to the type of the consumer's column.
  [[nodiscard]] RowView view_of(const FieldTransfer& field) const {
    return view_of_rows(field.spec, std::nullopt, carried_[field.source].spec.dtype);
  }

  void add_field_blocks(const FieldTransfer& field, std::size_t m, BlockList& blocks) const {
    const Column& column = *std::as_const(packed_[m]).find(field.spec.name);
    blocks.add(column.row(0), column.rows(), column.row_bytes(), view_of(field));
    if (!field.needs_halo) return;
    blocks.add(std::as_bytes(std::span(halos_[m])).data(), halos_[m].size() * sizeof(std::int64_t));
  }

  PackedSide side_;
  std::vector<FieldTransfer> fields_;
  std::vector<PackedMicroBatch>& packed_;
  std::vector<DerivedColumns> derived_;  // columns to derive, by micro-batch
  std::span<const CarriedField> carried_;
  std::vector<RowView> views_;                       // conversion of each row, by field
  std::vector<std::int64_t> received_;               // bytes received from owners, by field
  std::vector<std::vector<const Column*>> columns_;  // destinations, by field and then by micro-batch
  std::vector<std::vector<std::int64_t>> halos_;     // halo tokens, by micro-batch
};

/// The owner's side of the transfers to one consumer.
class Sender {
 public:
  Sender(const StepTransfer& step, const RaggedSide& side, std::vector<FieldTransfer> fields)
      : side_(side), fields_(std::move(fields)) {
    for (const FieldTransfer& field : fields_) {
      const CarriedField& carried = step.fields[field.source];
      // Ignore the columns of a rank without samples, since the ranks have not agreed on the types of these
      // columns.
      const bool owns_nothing = step.mine.size() == 0;
      const Column* const source =
          sources_.emplace_back(owns_nothing ? nullptr : step.mine.find(carried.name()));
      tokens_.push_back(carried.cut_by.empty() ? nullptr : step.mine.find(carried.cut_by));
      views_.push_back(source == nullptr ? plain_rows
                                         : view_of_rows(source->spec(), carried.layers, carried.spec.dtype));
    }
  }

  /// Appends the rows that member `rank` of the group gets. add_sample() does the same for a sample.
  /// Precondition: this rank owns the segment or sample, and therefore has its fields.
  void add_segment(SegmentId segment, CpRank rank, BlockList& blocks) const {
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      if (!rule_of(fields_[f].moved_as).is_per_token()) continue;
      EVENKEEL_PRECONDITION(cheap, sources_[f] != nullptr, fields_[f].spec.name);
      side_.add_segment(segment, rank, *sources_[f], blocks, views_[f]);
      if (fields_[f].needs_halo) side_.add_halo(segment, rank, *sources_[f], blocks);
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
  std::vector<const Column*> sources_;  // source column, by field; null on a rank without samples
  std::vector<const Column*> tokens_;   // by field; token ranges that cut the field, or null
  std::vector<RowView> views_;          // selection and conversion of each row, by field
};

std::vector<BlockList> outgoing_blocks(const Mesh& mesh, const StepTransfer& step, const TransferFrame& frame,
                                       const Receivers& receivers, const SampleTransfers& outgoing_plan) {
  const Grid& grid = mesh.grid();
  const RaggedSide side(frame, step.mine);
  const GroupsOfPlaces groups(step.assignment.groups);
  std::vector<BlockList> sends(static_cast<std::size_t>(mesh.world().size()));
  for (int rank = 0; rank < grid.num_ranks(); ++rank) {
    if (!receivers.is_receiver(rank)) continue;
    const Sender sender(step, side, receivers.fields_for(rank, rank));
    const GridPoint place = grid.point_of(WorldRank{rank});
    BlockList& blocks = sends[static_cast<std::size_t>(rank)];
    // Send all segments before all samples, since the consumer expects this order.
    for (const auto& [group, member] : groups.memberships_of(data_place_of(place, grid.sizes())))
      for (const SegmentId segment : outgoing_plan.segments.to_group[group])
        sender.add_segment(segment, member, blocks);
    for (const auto& [group, member] : groups.memberships_of(data_place_of(place, grid.sizes())))
      for (const EntryId entry : outgoing_plan.samples.to_group[group])
        sender.add_sample(entry, member, blocks);
  }
  return sends;
}

std::vector<BlockList> incoming_blocks(const Mesh& mesh, const SampleTransfers& outgoing_plan,
                                       Consumer& consumer) {
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

/// Returns the memory in which model-parallel ranks share tensors, or null if each rank has its own tensors.
/// The result is null on all of `ranks` or on none of them. The first call is collective over `ranks`.
NodeMemory* shared_tensor_memory(const Communicator& ranks, const TransportSettings& options) {
  if (options.tp_copies == TensorParallelCopies::own || ranks.size() == 1) return nullptr;
  NodeMemory& memory = NodeMemory::get(ranks);
  return memory.unavailability() ? nullptr : &memory;
}

/// Copies of received data between model-parallel peers.
struct PeerCopies {
  std::vector<BlockList> sends;
  std::vector<BlockList> receives;

  void add(const ModelParallelPeers& peers, const Consumer& consumer, std::vector<FieldVolume>& volumes) {
    const int self = peers.ranks.rank();
    for (int other = 0; other < peers.ranks.size(); ++other) {
      BlockList& to = sends.emplace_back();
      BlockList& from = receives.emplace_back();
      if (other == self) continue;
      to = consumer.blocks_of_fields(peers.fields_for(other, self));
      const std::vector<FieldTransfer> fields = peers.fields_for(self, other);
      from = consumer.blocks_of_fields(fields);
      consumer.add_copied_volumes(fields, volumes);
    }
  }
};

/// Returns whether a place that gets `fields` from owners has this column. Derived columns count, too.
bool place_has_column(const StepTransfer& step, std::span<const FieldTransfer> fields,
                      const FieldSpec& column) {
  const auto is_received = [&](std::string_view name) {
    return std::ranges::any_of(fields, [&](const FieldTransfer& field) { return field.spec.name == name; });
  };
  // The three columns named here depend only on the layout, not on `fields`.
  if (is_received(column.name) || column.name == position_ids_field || column.name == padding_mask_field ||
      column.name == prediction_rows_field)
    return true;
  const bool is_derived =
      std::ranges::find(step.fields, column.name, &CarriedField::name) == step.fields.end();
  return is_derived && is_received(input_ids_field);
}

/// One rank's part of an exchange of samples. The constructor allocates all memory; run() transfers the
/// samples.
class RunningExchange {
 public:
  /// Collective. Throws only errors that all ranks throw.
  RunningExchange(const Mesh& mesh, const StepTransfer& step, const DerivedFieldSettings& derived,
                  const TransportSettings& options, GuardedWork& work)
      : mesh_(mesh),
        step_(step),
        derived_(derived),
        frame_{step.table, step.assignment, step.settings, derived.reach()},
        work_(work),
        values_(mesh, step) {
    prepare_place(options);
    world_exchange_.emplace(mesh.world(), sends_, receives_, options, work_.is_skipping_parts());
    world_exchange_->agree(work_.error());
  }

  /// Collective. Throws only if communication fails; other errors go to `work`.
  ExchangedSamples run() {
    const MessageTraffic traffic = world_exchange_->run();
    work_.add(world_exchange_->error());
    if (peer_exchange_) {
      peer_exchange_->run();
      work_.add(peer_exchange_->error());
    }
    work_([&] {
      if (consumer_ && !borrows_derived_fields()) consumer_->derive();
    });
    for (const Loan& loan : loans_) {
      const auto chosen = [&](const FieldSpec& column) { return loan.needs_column(step_, column); };
      share_columns(mesh_.model_parallel_on_node(), *shared_memory_, loan.lender, chosen, packed_, work_);
    }
    if (step_.shares_equal) exchange_values();
    figures_.volume.forwarded = traffic.forwarded;
    figures_.volume.messages = traffic.between_nodes;
    return {std::move(packed_), std::move(figures_)};
  }

 private:
  [[nodiscard]] bool copies_to_peers() const {
    return shared_memory_ == nullptr && mesh_.model_parallel_on_node().size() > 1;
  }

  void prepare_place(const TransportSettings& options) {
    const Communicator& peers = mesh_.model_parallel_on_node();
    work_.run_always([&] { shared_memory_ = shared_tensor_memory(peers, options); });
    if (step_.shares_equal) work_.run_always([&] { values_.choose_path(options); });
    work_([&] { prepare(); });
    // Agree on errors among peers and inside nodes first. The constructor's agreement among all ranks then
    // reports these errors to every rank.
    if (copies_to_peers()) {
      work_.run_always([&] {
        peer_exchange_.emplace(peers, copies_.sends, copies_.receives, options, work_.is_skipping_parts());
        peer_exchange_->agree(work_.error());
      });
    }
    if (step_.shares_equal) work_.run_always([&] { values_.agree(options, work_); });
  }

  /// Collective over the node: adds the columns of values that are stored once per node.
  void exchange_values() {
    values_.run(work_);
    work_([&] { values_.add_columns_to(packed_); });
  }

  void prepare() {
    receivers_.emplace(mesh_, step_);
    peers_.emplace(mesh_, *receivers_);
    const SampleTransfers outgoing_plan(mesh_, step_);
    std::vector<FieldTransfer> received = receivers_->fields_for(mesh_.rank().value(), mesh_.rank().value());
    std::vector<DerivedColumns> to_derive = lay_out_tensors(received);
    consumer_.emplace(mesh_, step_, frame_, std::move(received), packed_, std::move(to_derive));
    prepare_sends(outgoing_plan);
    receives_ = incoming_blocks(mesh_, outgoing_plan, *consumer_);
    consumer_->add_received_volumes(figures_.volumes);
    if (step_.shares_equal) prepare_values();
    record_sent_bytes();
    if (copies_to_peers()) {
      copies_.add(*peers_, *consumer_, figures_.volumes);
      figures_.volume.copied += total_bytes(copies_.receives);
    }
    if (shared_memory_ != nullptr) prepare_loans();
  }

  /// Creates the columns of the fields that this rank receives from owners or copies from peers. Returns the
  /// columns to derive, by micro-batch.
  std::vector<DerivedColumns> lay_out_tensors(std::span<const FieldTransfer> received) {
    const std::vector<FieldTransfer> place_fields = fields_sent_to(step_, mesh_.here(), mesh_.grid().sizes());
    const std::vector<FieldSpec> brought = delivered_fields(step_.fields);
    const OwnTensors own{shared_memory_ != nullptr ? received : place_fields, place_fields, brought,
                         !borrows_derived_fields()};
    packed_.clear();
    std::vector<DerivedColumns> derived;
    for (const MicroBatchPlan& plan : step_.micro_batches) {
      PackedMicroBatch& m = packed_.emplace_back(lay_out_rows(mesh_, step_, plan));
      derived.push_back(add_tensors(step_, own, plan, derived_, m));
    }
    return derived;
  }

  /// Lists the bytes that this rank sends. Initializes `receives_` with empty lists, which the result of
  /// incoming_blocks() replaces.
  void prepare_sends(const SampleTransfers& outgoing_plan) {
    for (const CarriedField& field : step_.fields)
      add_volume(figures_.volumes, {field.name(), is_field_changed(field), 0, 0});
    sends_ = outgoing_blocks(mesh_, step_, frame_, *receivers_, outgoing_plan);
    receives_.resize(sends_.size());
  }

  void record_sent_bytes() {
    figures_.volume += volume_of(mesh_, sends_);
    add_bytes(sends_, figures_.bytes_to);
  }

  /// Adds the values that are stored once per node to `sends_` and `receives_`, and counts their bytes.
  void prepare_values() {
    values_.prepare(sends_, receives_);
    figures_.volume.copied += values_.copied_bytes();
    values_.add_to(figures_.volumes);
  }

  /// Columns that one peer receives from owners or derives itself, and lends to the other peers. Used if
  /// peers share tensors.
  struct Loan {
    int lender = 0;
    // Fields that this rank borrows; on the lender, the fields that it receives for itself.
    std::vector<FieldTransfer> fields;
    bool includes_derived = false;  // whether derived fields are lent as well

    [[nodiscard]] bool needs_column(const StepTransfer& step, const FieldSpec& column) const {
      if (includes_derived) return place_has_column(step, fields, column);
      return std::ranges::any_of(fields,
                                 [&](const FieldTransfer& field) { return field.spec.name == column.name; });
    }
  };

  /// Lists the loans. All peers list the same lenders in the same order.
  void prepare_loans() {
    const int self = peers_->ranks.rank();
    for (int lender = 0; lender < peers_->ranks.size(); ++lender) {
      if (!peers_->receives_for_others(lender) && !peers_->receives_place_fields(lender)) continue;
      loans_.push_back({lender, peers_->fields_for(self, lender), peers_->receives_place_fields(lender)});
    }
  }

  /// Returns whether this rank borrows derived fields instead of computing them.
  [[nodiscard]] bool borrows_derived_fields() const {
    return shared_memory_ != nullptr && !receivers_->receives_place_fields(mesh_.rank().value());
  }

  const Mesh& mesh_;
  const StepTransfer& step_;
  DerivedFieldSettings derived_;
  std::vector<PackedMicroBatch> packed_;
  ExchangeFigures figures_;
  TransferFrame frame_;
  GuardedWork& work_;
  ValueExchange values_;
  NodeMemory* shared_memory_ = nullptr;
  std::optional<Receivers> receivers_;
  std::optional<ModelParallelPeers> peers_;
  std::optional<Consumer> consumer_;
  std::vector<Loan> loans_;
  std::vector<BlockList> sends_;
  std::vector<BlockList> receives_;
  PeerCopies copies_;
  std::optional<PreparedExchange> peer_exchange_;
  std::optional<PreparedExchange> world_exchange_;
};

}  // namespace

ExchangedSamples exchange_samples(const Mesh& mesh, const StepTransfer& step,
                                  const DerivedFieldSettings& derived, const TransportSettings& options,
                                  GuardedWork& work, const std::function<void(ExchangedSamples&)>& own_work) {
  end_returned_loans();
  // Other ranks may read these tensors until all ranks agree below, even if this rank fails.
  ExchangedSamples made;
  RunningExchange exchange(mesh, step, derived, options, work);
  made = exchange.run();
  if (own_work) work([&] { own_work(made); });
  work.agree(mesh.world());
  return made;
}

}  // namespace evenkeel
