#include "plan/transfer/value_pool.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace evenkeel {
namespace {

using testing::ElementsAre;
using ValueEntries = std::vector<EntryId>;

// Entry 3 has the value of entry 0, and entry 4 that of entry 2.
const RowCounts counts{
    "image", {2, 2, 5, 2, 5}, {EntryId{0}, EntryId{1}, EntryId{2}, EntryId{0}, EntryId{2}}};

TEST(ValuePool, has_each_distinct_value_once_for_any_order_of_entries) {
  for (const ValueEntries& entries :
       {ValueEntries{EntryId{3}, EntryId{2}, EntryId{0}},
        ValueEntries{EntryId{4}, EntryId{0}, EntryId{3}, EntryId{3}, EntryId{2}}}) {
    const ValuePool pool(counts, entries);
    EXPECT_THAT(pool.value_entries(), ElementsAre(EntryId{0}, EntryId{2}));
    EXPECT_EQ(pool.rows(), SampleRows::from_offsets({0, 2, 7}));
    EXPECT_EQ(pool.rows_of(EntryId{3}), (RowRange{0, 2}));
    EXPECT_EQ(pool.rows_of(EntryId{4}), (RowRange{2, 7}));
  }
}

TEST(ValuePool, contains_the_first_entry_of_each_value_even_if_not_requested) {
  const ValuePool pool(counts, ValueEntries{EntryId{4}, EntryId{1}});
  EXPECT_THAT(pool.value_entries(), ElementsAre(EntryId{1}, EntryId{2}));
  EXPECT_EQ(pool.rows_of(EntryId{4}), (RowRange{2, 7}));
}

TEST(ValuePool, of_no_entries_is_empty) {
  EXPECT_EQ(ValuePool(counts, {}).rows().rows(), 0);
  EXPECT_TRUE(ValuePool(counts, {}).value_entries().empty());
}

}  // namespace
}  // namespace evenkeel
