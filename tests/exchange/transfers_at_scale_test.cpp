// Makes steps on 16,384 ranks in one process: what every owner sends, what every consumer expects, and the
// bytes themselves, which are copied from columns to packed tensors like exchange_samples sends them.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "exchange/made_up_step.hpp"
#include "exchange/samples/transfer_sides.hpp"
#include "plan/micro_batches/micro_batch_layout.hpp"
#include "plan/transfer/field_transfers.hpp"
#include "plan/transfer/transfer_plan.hpp"
#include "support/made_up_table.hpp"

namespace evenkeel {
namespace {

using testing_support::made_up_batch;

constexpr int num_ranks = 4096;

/// The data that one consumer expects from one owner.
struct Expected {
  WorldRank owner{0};
  std::vector<SegmentId> segments;
  std::vector<EntryId> samples;
};

/// The memory that may be read or written.
class Places {
 public:
  void add(std::span<const std::byte> bytes) {
    if (!bytes.empty()) ends_[bytes.data()] = bytes.data() + bytes.size();
  }
  [[nodiscard]] bool hold(const BlockList::Block& block) const {
    const auto after = ends_.upper_bound(block.address);
    return after != ends_.begin() && block.address + block.bytes <= std::prev(after)->second;
  }

 private:
  std::map<const std::byte*, const std::byte*> ends_;
};

/// Samples owned by `num_ranks` ranks in turn; each rank is one position of the grid: tp and pp are 1.
class Step {
 public:
  Step(LengthTable table, PlanSettings settings)
      : table_(std::move(table)),
        settings_(std::move(settings)),
        assignment_(assign_step({table_, settings_})),
        plan_(plan_step({table_, settings_})),
        frame_{table_, assignment_, settings_},
        moved_(field_transfers(carried_fields(fields_), {}, false)),
        expected_(num_ranks) {
    std::vector<std::vector<SampleShape>> shapes(num_ranks);
    for (const LengthEntry& entry : table_.entries()) shapes[entry.owner.index()].push_back(entry.shape);
    for (std::vector<SampleShape>& of_rank : shapes)
      batches_.push_back(made_up_batch(std::move(of_rank), std::span(fields_).first(2)));
  }

  /// Plans the transfers of a rank: the bytes of its messages as an owner, and what it expects as a consumer.
  void plan_transfers_of(int rank) {
    const TransferEnds ends{WorldRank{rank}, DataPlace{rank}, num_ranks};
    const auto segments = plan_transfers(table_, assignment_.segments, assignment_.groups, ends);
    const auto samples = plan_transfers(table_, assignment_.shares, assignment_.groups, ends);
    send(rank, segments, samples);
    for (std::size_t owner = 0; owner < num_ranks; ++owner) {
      if (segments.from_owner[owner].empty() && samples.from_owner[owner].empty()) continue;
      expected_[static_cast<std::size_t>(rank)].push_back(
          {WorldRank{static_cast<int>(owner)}, segments.from_owner[owner], samples.from_owner[owner]});
    }
  }

  /// Copies what a position receives to its destination, and checks all of it.
  void receive_at(int place) {
    const std::vector<MicroBatchPlan>& plans =
        plan_.ranks[static_cast<std::size_t>(place / settings_.cp.size)].micro_batches;
    const PackedSide side(frame_, plans, DataPlace{place});
    std::vector<PackedMicroBatch> packed;
    for (const MicroBatchPlan& plan : plans) packed.push_back(laid_out(plan, DataPlace{place}));
    std::vector<std::vector<std::int64_t>> halos;
    for (const std::int64_t size : side.halo_sizes()) halos.emplace_back(static_cast<std::size_t>(size));
    copy_to(place, side, packed, halos);
    if (testing::Test::HasFatalFailure()) return;
    for (std::size_t m = 0; m < packed.size(); ++m) {
      complete_fields(packed[m], fields_, halos[m], {testing_support::pad_token, testing_support::label_pad});
      testing_support::expect_tokens_and_derived_fields(packed[m]);
      testing_support::expect_made_up_field(packed[m], fields_[0]);
      testing_support::expect_made_up_field(packed[m], fields_[1]);
      for (const SampleShape& sample : packed[m].samples)
        if (!testing_support::is_filler(sample)) parts_[sample.id] += 1.0 / plans[m].context.size;
    }
  }

  void expect_all_has_come() const {
    EXPECT_TRUE(messages_.empty()) << messages_.size() << " messages that nobody expects";
    ASSERT_EQ(std::ssize(parts_), table_.size());
    for (const auto& [sample, parts] : parts_)
      ASSERT_NEAR(parts, 1, 1e-9) << "sample " << sample.value() << " is not on one group of places";
  }

 private:
  using Ends = std::pair<int, int>;  // owner, consumer

  void send(int owner, const TransferPlan<SegmentId>& segments, const TransferPlan<EntryId>& samples) {
    const RaggedBatch& batch = batches_[static_cast<std::size_t>(owner)];
    const RaggedSide side(frame_, batch);
    Places columns;
    for (const Column& column : batch.fields()) columns.add(column.bytes());
    std::map<int, BlockList> to;  // by consumer
    for_each_member(segments, [&](SegmentId segment, int consumer, CpRank member) {
      for (const FieldTransfer& field : moved_) {
        if (field.moved_as != FieldKind::token) continue;
        const Column& column = batch.at(field.spec.name);
        side.add_segment(segment, member, column, to[consumer]);
        if (field.needs_halo) side.add_halo(segment, member, column, to[consumer]);
      }
    });
    for_each_member(samples, [&](EntryId entry, int consumer, CpRank member) {
      for (const FieldTransfer& field : moved_)
        if (field.moved_as != FieldKind::token)
          side.add_sample(entry, member, batch.at(field.spec.name), to[consumer]);
    });
    for (auto& [consumer, blocks] : to) {
      for (const BlockList::Block& block : blocks.blocks())
        ASSERT_TRUE(columns.hold(block)) << "rank " << owner << " sends what is not its own";
      messages_[{owner, consumer}] = std::move(blocks);
    }
  }

  template <typename I, typename Visit>
  void for_each_member(const TransferPlan<I>& plan, Visit visit) const {
    for (std::size_t g = 0; g < plan.to_group.size(); ++g) {
      const ContextGroup& group = assignment_.groups[g];
      for (int member = 0; member < group.size && !plan.to_group[g].empty(); ++member)
        for (const I id : plan.to_group[g]) visit(id, group.first.value() + member, CpRank{member});
    }
  }

  PackedMicroBatch laid_out(const MicroBatchPlan& plan, DataPlace place) const {
    PackedMicroBatch m = lay_out({table_, settings_}, assignment_, plan, plan.context.rank_of(place));
    for (const FieldTransfer& field : moved_) m.fields.emplace_back(field.spec, m.rows_of(field.spec.kind));
    return m;
  }

  void copy_to(int place, const PackedSide& side, std::vector<PackedMicroBatch>& packed,
               std::vector<std::vector<std::int64_t>>& halos) {
    std::vector<std::vector<const Column*>> columns(moved_.size());
    Places places;
    for (std::size_t m = 0; m < packed.size(); ++m) {
      for (std::size_t f = 0; f < moved_.size(); ++f) {
        columns[f].push_back(&packed[m].fields[f]);
        places.add(std::as_const(packed[m].fields[f]).bytes());
      }
      places.add(std::as_bytes(std::span(halos[m])));
    }
    std::vector<BlockList::Block> written;
    for (const Expected& from : expected_[static_cast<std::size_t>(place)]) {
      const BlockList blocks = blocks_for(from, side, columns, halos);
      const auto message = messages_.find({from.owner.value(), place});
      ASSERT_NE(message, messages_.end()) << from.owner.value() << " sends nothing to " << place;
      ASSERT_EQ(message->second.bytes(), blocks.bytes()) << from.owner.value() << " to " << place;
      message->second.copy_to(blocks, blocks.bytes());
      messages_.erase(message);
      written.insert(written.end(), blocks.blocks().begin(), blocks.blocks().end());
    }
    expect_written_once(place, written, places);
  }

  BlockList blocks_for(const Expected& from, const PackedSide& side,
                       const std::vector<std::vector<const Column*>>& columns,
                       std::vector<std::vector<std::int64_t>>& halos) const {
    BlockList blocks;
    for (const SegmentId segment : from.segments) {
      for (std::size_t f = 0; f < moved_.size(); ++f) {
        if (moved_[f].moved_as != FieldKind::token) continue;
        side.add_segment(segment, columns[f], blocks);
        if (moved_[f].needs_halo) side.add_halo(segment, halos, blocks);
      }
    }
    for (const EntryId entry : from.samples)
      for (std::size_t f = 0; f < moved_.size(); ++f)
        if (moved_[f].moved_as != FieldKind::token)
          side.add_sample(entry, columns[f], moved_[f].moved_as, blocks);
    return blocks;
  }

  static void expect_written_once(int place, std::vector<BlockList::Block>& written, const Places& places) {
    std::ranges::sort(written, {}, &BlockList::Block::address);
    for (std::size_t i = 0; i < written.size(); ++i) {
      ASSERT_TRUE(places.hold(written[i])) << "bytes of place " << place << " outside of its tensors";
      if (i > 0) {
        ASSERT_LE(written[i - 1].address + written[i - 1].bytes, written[i].address) << "place " << place;
      }
    }
  }

  LengthTable table_;
  PlanSettings settings_;
  StepAssignment assignment_;
  StepPlan plan_;
  TransferFrame frame_;
  std::vector<FieldSpec> fields_{{"advantages", DType::float32, FieldKind::response_token, {}},
                                 {"rewards", DType::float64, FieldKind::sample, {2}},
                                 {std::string(input_ids_field), DType::int64, FieldKind::token, {}}};
  std::vector<FieldTransfer> moved_;
  std::vector<RaggedBatch> batches_;             // by owner
  std::map<Ends, BlockList> messages_;           // not received yet
  std::vector<std::vector<Expected>> expected_;  // by consumer
  std::map<SampleId, double> parts_;  // the fraction of each sample received so far, over all positions
};

void expect_every_row_where_it_belongs(LengthTable table, PlanSettings settings) {
  Step step(std::move(table), std::move(settings));
  for (int rank = 0; rank < num_ranks && !testing::Test::HasFatalFailure(); ++rank)
    step.plan_transfers_of(rank);
  for (int place = 0; place < num_ranks && !testing::Test::HasFatalFailure(); ++place) step.receive_at(place);
  if (!testing::Test::HasFatalFailure()) step.expect_all_has_come();
}

TEST(TransfersAtScale, send_every_row_once_to_each_of_4096_ranks_that_needs_it) {
  PlanSettings settings;
  settings.cp = {8, CpLayout::zigzag};
  settings.dp = num_ranks / settings.cp.size;
  settings.micro_batch.max_tokens = 512;
  for (int rank = 0; rank < num_ranks; ++rank) settings.dp_of_rank.push_back(rank / settings.cp.size);
  expect_every_row_where_it_belongs(testing_support::made_up_table(2 * num_ranks, num_ranks), settings);
}

TEST(TransfersAtScale, send_every_row_once_to_each_member_of_flexible_groups_on_4096_ranks) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < 2 * num_ranks; ++i)
    lengths.push_back(i % 100 == 0 ? 300 + 37 * i % 900 : 7919 * i % 40);
  PlanSettings settings;
  settings.dp = num_ranks;
  settings.strategy = ContextTreeSettings{num_ranks};
  settings.balance.cost = CostModel::flops_7b();
  settings.micro_batch.max_tokens = 64;
  expect_every_row_where_it_belongs(testing_support::table_of(lengths, num_ranks), settings);
}

}  // namespace
}  // namespace evenkeel
