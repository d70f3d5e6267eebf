#include "exchange/gather/length_gather.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/mpi/collectives.hpp>
#include <set>
#include <string>
#include <utility>

#include "base/id_range.hpp"
#include "evenkeel/base/error.hpp"
#include "exchange/gather/field_agreement.hpp"
#include "exchange/gather/row_count_gather.hpp"
#include "support/made_up_batch.hpp"

namespace evenkeel {
namespace {

using testing_support::made_up_shape;

// Returns samples with unequal numbers per rank: rank r of p owns every id with (id * id) % p == r, so some
// ranks own none.
std::vector<SampleSummary> shapes_of(int rank, int ranks, std::int64_t samples) {
  std::vector<SampleSummary> shapes;
  for (std::int64_t id = samples - 1; id >= 0; --id) {
    if (id * id % ranks == rank) shapes.push_back({made_up_shape(id), id % 3 - 1});
  }
  return shapes;
}

TEST(GatherLengths, every_rank_gets_all_samples_in_source_order_with_their_owners) {
  const boost::mpi::communicator world;
  const std::vector<SampleSummary> mine = shapes_of(world.rank(), world.size(), 30);
  const LengthTable table = gather_lengths(world, mine, std::nullopt, std::nullopt).table;
  ASSERT_EQ(table.size(), 30);
  for (std::int64_t id = 0; id < 30; ++id) {
    const LengthEntry& entry = table[EntryId{id}];
    EXPECT_EQ(entry.shape, made_up_shape(id));
    EXPECT_EQ(entry.loss_tokens, id % 3 - 1);
    EXPECT_EQ(entry.owner, WorldRank{static_cast<int>(id * id % world.size())});
    const std::vector<SampleSummary> owners = shapes_of(entry.owner.value(), world.size(), 30);
    EXPECT_EQ(owners[static_cast<std::size_t>(entry.owner_index)].shape.id, SampleId{id});
  }
}

TEST(GatherLengths, no_samples_anywhere_give_an_empty_table) {
  const boost::mpi::communicator world;
  EXPECT_EQ(gather_lengths(world, {}, std::nullopt, std::nullopt).table.size(), 0);
}

TEST(GatherLengths, one_ranks_error_is_thrown_on_all_ranks) {
  const boost::mpi::communicator world;
  for (const int bad : std::set<int>{0, world.size() / 2, world.size() - 1}) {
    std::optional<ErrorReport> error;
    if (world.rank() == bad) error = ErrorReport{ErrorKind::input, "rollouts.jsonl:3", "malformed", "", -1};
    try {
      (void)gather_lengths(world, shapes_of(world.rank(), world.size(), 9), std::nullopt, error);
      FAIL() << "rank " << bad << " brought an error";
    } catch (const InputError& thrown) {
      EXPECT_EQ(thrown.report().rank, bad);
      EXPECT_EQ(thrown.report().where, "rollouts.jsonl:3");
    }
  }
}

TEST(GatherLengths, returns_the_fields_of_ranks_with_samples) {
  const boost::mpi::communicator world;
  const std::vector<FieldSpec> fields{{"reward", DType::float32, FieldKind::sample, {}}};
  const int owner = world.size() - 1;
  const bool is_owner = world.rank() == owner;
  const std::vector<SampleSummary> mine{{made_up_shape(7)}};
  const GatheredLengths gathered =
      gather_lengths(world, is_owner ? std::span(mine) : std::span<const SampleSummary>(),
                     is_owner ? std::optional(fields) : std::nullopt, std::nullopt);
  EXPECT_EQ(gathered.fields, fields);
  ASSERT_EQ(gathered.table.size(), 1);
  EXPECT_EQ(gathered.table[EntryId{0}].owner, WorldRank{owner});
}

TEST(GatherLengths, fields_that_differ_are_everybodys_error) {
  const boost::mpi::communicator world;
  if (world.size() == 1) return;  // there is no other rank to differ from
  const std::vector<SampleSummary> mine{{made_up_shape(world.rank())}};
  for (const int odd_one : std::set<int>{0, world.size() / 2, world.size() - 1}) {
    const DType dtype = world.rank() == odd_one ? DType::float64 : DType::float32;
    const std::vector<FieldSpec> fields{{"reward", dtype, FieldKind::sample, {}}};
    EXPECT_THROW((void)gather_lengths(world, mine, fields, std::nullopt), InputError);
  }
}

TEST(GatherRowCounts, every_rank_gets_the_rows_of_every_sample_by_entry) {
  const boost::mpi::communicator world;
  std::vector<SampleShape> shapes;
  for (const SampleSummary& sample : shapes_of(world.rank(), world.size(), 30))
    shapes.push_back(sample.shape);
  const RaggedBatch mine =
      testing_support::made_up_batch(std::move(shapes), testing_support::made_up_fields());
  const GatheredLengths gathered = gather_lengths(world, summaries_of(mine), fields_of(mine), std::nullopt);
  const std::vector<RowCounts> counts = gather_row_counts(world, gathered.table, gathered.fields, mine);
  EXPECT_EQ(counts.size(), 4U);  // one count per field
  for (const FieldSpec& spec : testing_support::made_up_fields()) {
    const std::span<const std::int64_t> rows = rows_of(counts, spec.name);
    if (!is_counted(spec.kind)) {
      EXPECT_TRUE(rows.empty()) << spec.name;
      continue;
    }
    ASSERT_EQ(std::ssize(rows), 30);
    for (std::int64_t id = 0; id < 30; ++id)
      EXPECT_EQ(rows[static_cast<std::size_t>(id)], testing_support::made_up_rows(SampleId{id}, spec.name));
  }
}

TEST(GatherFieldSums, every_rank_gets_the_sums_of_every_sample_in_the_fields_that_are_named) {
  const boost::mpi::communicator world;
  std::vector<SampleShape> shapes;
  for (std::int64_t id = world.rank() + 1; id < 20; id += world.size() + 1)
    shapes.push_back(made_up_shape(id));
  RaggedBatch mine(std::move(shapes));
  for (const auto& [name, part] : {std::pair{"calls", 1}, std::pair{"other", 2}, std::pair{"work", 3}}) {
    Column& column = mine.add_field({name, DType::int32, FieldKind::sample, {}});
    for (std::size_t i = 0; i < mine.samples().size(); ++i)
      column.values<std::int32_t>()[i] = static_cast<std::int32_t>(part * mine.samples()[i].id.value());
  }
  const GatheredLengths gathered = gather_lengths(world, summaries_of(mine), fields_of(mine), std::nullopt);
  const LengthTable& table = gathered.table;
  const auto sums = gather_field_sums(world, table, gathered.fields, {"calls", "missing", "work"}, mine);
  ASSERT_EQ(sums.size(), table.size() == 0 ? 0U : 2U);
  for (const FieldSums& of_field : sums) {
    for (const EntryId entry : ids_below<EntryId>(table.size()))
      EXPECT_EQ(of_field.sums[entry.index()],
                (of_field.field == "work" ? 3 : 1) * table[entry].shape.id.value());
  }
  EXPECT_TRUE(gather_field_sums(world, table, gathered.fields, {"missing"}, mine).empty());
}

TEST(GatherFieldSums, invalid_work_on_one_rank_is_everybodys_error) {
  const boost::mpi::communicator world;
  const int odd_one = world.size() / 2;
  RaggedBatch mine({made_up_shape(world.rank())});
  mine.add_field({"work", DType::float32, FieldKind::sample, {}}).values<float>()[0] =
      world.rank() == odd_one ? -1.0F : 1.0F;
  const GatheredLengths gathered = gather_lengths(world, summaries_of(mine), fields_of(mine), std::nullopt);
  try {
    (void)gather_field_sums(world, gathered.table, gathered.fields, {"work"}, mine);
    FAIL() << "gathered";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("has -1 in sample " + std::to_string(odd_one)));
  }
}

TEST(GatherRowCounts, identifies_equal_values_of_an_owner) {
  const boost::mpi::communicator world;
  std::vector<SampleShape> shapes;
  for (std::int64_t id = world.rank(); id < 40; id += world.size()) shapes.push_back(made_up_shape(id));
  RaggedBatch mine(std::move(shapes));
  const std::vector<std::int64_t> ones(mine.samples().size(), 1);
  for (const char* name : {"compared", "other"}) {
    Column& column =
        mine.add_field(Column({name, DType::int64, FieldKind::rows, {}}, SampleRows::from_counts(ones)));
    for (std::size_t i = 0; i < ones.size(); ++i)
      column.values<std::int64_t>()[i] = mine.samples()[i].id.value() / 10;
  }
  const GatheredLengths gathered = gather_lengths(world, summaries_of(mine), fields_of(mine), std::nullopt);
  NamedFields settings;
  settings["compared"].share = FieldSharing::equal;
  const auto counts = gather_row_counts(world, gathered.table, gathered.fields, mine, settings);
  ASSERT_EQ(counts.size(), 2U);
  EXPECT_TRUE(counts[1].firsts.empty());
  ASSERT_EQ(counts[0].firsts.size(), 40U);
  for (std::int64_t id = 0; id < 40; ++id) {
    std::int64_t first = id / 10 * 10;
    while (first % world.size() != id % world.size()) ++first;
    EXPECT_EQ(counts[0].firsts[static_cast<std::size_t>(id)], EntryId{first});
  }
}

TEST(AgreeOnFields, ranks_without_samples_learn_the_fields_of_the_others) {
  const boost::mpi::communicator world;
  const std::vector<FieldSpec> extra = testing_support::made_up_fields();
  const bool have_samples = world.rank() == world.size() - 1;
  const RaggedBatch mine = testing_support::made_up_batch(
      have_samples ? std::vector<SampleShape>{made_up_shape(5)} : std::vector<SampleShape>{},
      have_samples ? extra : std::vector<FieldSpec>{});
  const std::vector<FieldSpec> fields = agree_on_fields(world, {fields_of(mine)});
  ASSERT_EQ(fields.size(), extra.size() + 1);
  for (const FieldSpec& spec : extra) EXPECT_NE(std::ranges::find(fields, spec), fields.end()) << spec.name;
}

TEST(AgreeOnFields, a_field_that_differs_is_named_with_both_ranks) {
  const boost::mpi::communicator world;
  if (world.size() == 1) return;  // there is no other rank to differ from
  const int odd_one = world.size() - 1;
  const DType dtype = world.rank() == odd_one ? DType::float64 : DType::float32;
  const RaggedBatch mine = testing_support::made_up_batch(
      {made_up_shape(world.rank())}, std::vector<FieldSpec>{{"reward", dtype, FieldKind::sample, {}}});
  try {
    (void)agree_on_fields(world, {fields_of(mine)});
    FAIL() << "the ranks' fields differ";
  } catch (const InputError& error) {
    EXPECT_EQ(error.report().where, "field 'reward'");
    EXPECT_EQ(error.report().message,
              "differs between ranks: rank 0 has float32 values of kind sample, rank " +
                  std::to_string(odd_one) + " has float64 values of kind sample");
  }
}

TEST(AgreeOnFields, a_field_that_one_rank_lacks_is_named) {
  const boost::mpi::communicator world;
  if (world.size() == 1) return;  // there is no other rank to differ from
  std::vector<FieldSpec> extra{{"reward", DType::float32, FieldKind::sample, {}}};
  if (world.rank() == 0) extra.clear();
  EXPECT_THROW((void)agree_on_fields(
                   world, {fields_of(testing_support::made_up_batch({made_up_shape(world.rank())}, extra))}),
               InputError);
}

}  // namespace
}  // namespace evenkeel
