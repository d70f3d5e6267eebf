#include "evenkeel/base/ids.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <concepts>
#include <type_traits>

#include "base/id_range.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

template <typename From, typename To>
constexpr bool can_become = std::is_constructible_v<To, From> || std::is_convertible_v<From, To> ||
                            std::is_assignable_v<To&, From> || std::equality_comparable_with<From, To>;

/// Whether none of the listed types converts to the first one or vice versa.
template <typename One, typename... Others>
constexpr bool stands_apart = (... && (!can_become<One, Others> && !can_become<Others, One>));

static_assert(stands_apart<EntryId, UnitId, SegmentId, MiniBatchId, SampleId, WorldRank, DpRank, CpRank>);
static_assert(stands_apart<UnitId, SegmentId, MiniBatchId, SampleId, WorldRank, DpRank, CpRank>);
static_assert(stands_apart<SegmentId, MiniBatchId, SampleId, WorldRank, DpRank, CpRank>);
static_assert(stands_apart<MiniBatchId, SampleId, WorldRank, DpRank, CpRank>);

/// Whether numbers and ids can be converted to each other only explicitly.
template <typename I>
constexpr bool only_on_request =
    std::is_constructible_v<I, std::int64_t> && !std::is_convertible_v<std::int64_t, I> &&
    !std::is_convertible_v<I, std::int64_t>;
static_assert(only_on_request<EntryId> && only_on_request<UnitId> && only_on_request<SegmentId> &&
              only_on_request<MiniBatchId>);

/// Whether ids are as cheap as the numbers they contain.
template <typename I>
constexpr bool is_a_number = std::is_trivially_copyable_v<I> && sizeof(I) == sizeof(std::int64_t);
static_assert(is_a_number<EntryId> && is_a_number<UnitId> && is_a_number<SegmentId> &&
              is_a_number<MiniBatchId>);

TEST(IdRange, includes_its_first_id_and_excludes_its_end) {
  EXPECT_THAT(numbers_of(ids_between(SegmentId{3}, SegmentId{6})), ElementsAre(3, 4, 5));
  EXPECT_THAT(numbers_of(ids_between(SegmentId{3}, SegmentId{3})), IsEmpty());
  EXPECT_THAT(numbers_of(ids_below<EntryId>(2)), ElementsAre(0, 1));
}

}  // namespace
}  // namespace evenkeel
