#include "transport/block_list.hpp"

#include <gtest/gtest.h>

#include <array>
#include <boost/mpi/communicator.hpp>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "batch/row_view.hpp"
#include "evenkeel/batch/field.hpp"
#include "transport/messages/message_exchange.hpp"

namespace evenkeel {
namespace {

using Bytes = std::vector<std::byte>;

Bytes counting_bytes(std::size_t count, int first) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::byte>(static_cast<std::size_t>(first) + i * 7);
  return bytes;
}

TEST(BlockList, merges_neighbors_without_losing_bytes) {
  const Bytes bytes = counting_bytes(10, 1);
  BlockList list;
  list.add(bytes.data(), 3);
  list.add(bytes.data() + 3, 2);
  list.add(bytes.data() + 7, 0);
  list.add(bytes.data() + 8, 2);
  EXPECT_EQ(list.num_blocks(), 2U);
  EXPECT_EQ(list.bytes(), 7);
}

TEST(BlockList, equal_bytes_give_equal_chunks_however_they_are_cut_into_blocks) {
  const Bytes bytes = counting_bytes(100, 1);
  BlockList one;
  one.add(bytes.data(), 40);
  BlockList many;
  for (std::size_t i = 0; i < 20; ++i) many.add(bytes.data() + 5 * i, 2);
  for (const std::int64_t max_bytes : {1, 3, 7, 20, 39, 40, 41}) {
    const auto expected = static_cast<std::size_t>((40 + max_bytes - 1) / max_bytes);
    const auto chunks_of_one = one.chunks(max_bytes);
    const auto chunks_of_many = many.chunks(max_bytes);
    ASSERT_EQ(chunks_of_one.size(), expected);
    ASSERT_EQ(chunks_of_many.size(), expected);
    for (std::size_t i = 0; i < expected; ++i) {
      int size_of_one = 0;
      int size_of_many = 0;
      MPI_Type_size(chunks_of_one[i].get(), &size_of_one);
      MPI_Type_size(chunks_of_many[i].get(), &size_of_many);
      EXPECT_EQ(size_of_one, size_of_many);
    }
  }
  EXPECT_TRUE(BlockList().chunks(10).empty());
}

TEST(BlockList, copies_between_differently_cut_lists) {
  const Bytes source = counting_bytes(30, 5);
  Bytes target(40);
  BlockList from;
  from.add(source.data(), 11);
  from.add(source.data() + 12, 18);
  BlockList to;
  to.add(target.data() + 1, 4);
  to.add(target.data() + 6, 25);
  from.copy_to(to, from.bytes());
  Bytes sent(source.begin(), source.begin() + 11);
  sent.insert(sent.end(), source.begin() + 12, source.end());
  Bytes received(target.begin() + 1, target.begin() + 5);
  received.insert(received.end(), target.begin() + 6, target.begin() + 31);
  EXPECT_EQ(sent, received);
  EXPECT_EQ(target[0], std::byte{0});
  EXPECT_EQ(target[5], std::byte{0});
}

// Splits `bytes` into blocks of `sizes` in turn, one byte apart.
BlockList split_into_blocks(const Bytes& bytes, std::initializer_list<std::size_t> sizes) {
  BlockList blocks;
  auto size = sizes.begin();
  for (std::size_t at = 0; at + *size <= bytes.size();) {
    blocks.add(bytes.data() + at, *size);
    at += *size + 1;
    if (++size == sizes.end()) size = sizes.begin();
  }
  return blocks;
}

Bytes joined(const BlockList& blocks) {
  Bytes bytes;
  for (const BlockList::Block& block : blocks.blocks()) {
    bytes.insert(bytes.end(), block.address, block.address + block.bytes);
  }
  return bytes;
}

TEST(BlockList, copies_that_bypass_caches_give_the_same_bytes) {
  const Bytes source = counting_bytes(5000, 7);
  const BlockList from = split_into_blocks(source, {1, 700, 63, 64, 65, 0, 129});
  for (const std::int64_t total : {from.bytes(), std::int64_t{1} << 30}) {
    Bytes target(8000);
    BlockList to;
    std::size_t at = 3;
    for (std::size_t left = static_cast<std::size_t>(from.bytes()); left > 0;) {
      const std::size_t piece = std::min<std::size_t>(left, 333);
      to.add(target.data() + at, piece);
      at += piece + 2;
      left -= piece;
    }
    from.copy_to(to, total);
    EXPECT_EQ(joined(to), joined(from));
  }
}

/// Returns rows [4 layers, 3] of int16, in which each element is a number below 128 that encodes its
/// position.
Column numbered_rows(std::int64_t rows, int first) {
  Column column({"x", DType::int16, FieldKind::token, {4, 3}}, rows);
  std::int64_t number = first;
  for (std::int16_t& value : column.values<std::int16_t>()) value = static_cast<std::int16_t>(++number % 128);
  return column;
}

/// Returns the elements of these layers, row by row.
template <typename T>
std::vector<T> elements_of(const Column& rows, const std::vector<std::int64_t>& layers) {
  std::vector<T> elements;
  for (std::int64_t row = 0; row < rows.rows(); ++row) {
    for (const std::int64_t layer : layers) {
      const auto values =
          rows.values<std::int16_t>().subspan(static_cast<std::size_t>(row * 12 + layer * 3), 3);
      elements.insert(elements.end(), values.begin(), values.end());
    }
  }
  return elements;
}

template <typename T>
std::vector<T> values_of(const Column& column) {
  return {column.values<T>().begin(), column.values<T>().end()};
}

TEST(BlockList, of_views_counts_sent_bytes_and_merges_adjacent_rows) {
  const Column rows = numbered_rows(10, 0);
  const RowView view = view_of_rows(rows.spec(), std::vector<std::int64_t>{1, 2}, DType::uint8);
  BlockList list;
  list.add(rows.row(0), 3, rows.row_bytes(),
           view_of_rows(rows.spec(), std::vector<std::int64_t>{}, DType::uint8));
  EXPECT_TRUE(list.is_plain()) << "a stage without layers";
  EXPECT_TRUE(list.empty());
  list.add(rows.row(0), 3, rows.row_bytes(), view);
  list.add(rows.row(3), 0, rows.row_bytes(), view);
  list.add(rows.row(3), 2, rows.row_bytes(), view);
  list.add(rows.row(6), 1, rows.row_bytes(), view);
  EXPECT_EQ(list.bytes(), 6 * 6);
  EXPECT_EQ(list.num_blocks(), 2U);
  list.add(rows.row(7), 1, rows.row_bytes(), RowView());
  EXPECT_EQ(list.bytes(), 6 * 6 + 24);
  EXPECT_EQ(list.num_blocks(), 3U) << "rows as they are";
  EXPECT_EQ(list.views().size(), 1U);
  EXPECT_FALSE(list.is_plain());
}

// Elements may be misaligned: three bytes precede them in the message.
void expect_copied_through_views(DType way, std::int64_t total) {
  const std::vector<std::int64_t> layers{3, 0};
  const Column rows = numbered_rows(50, 3);
  const Bytes odd = counting_bytes(5, 9);
  BlockList from;
  from.add(odd.data(), 3);
  from.add(rows.row(0), 50, rows.row_bytes(), view_of_rows(rows.spec(), layers, way));
  from.add(odd.data() + 3, 2);
  Column wide({"x", DType::int16, FieldKind::token, {2, 3}}, 50);
  const RowView put = view_of_rows(wide.spec(), std::nullopt, way);
  Bytes around(5);
  BlockList to;
  to.add(around.data(), 3);
  to.add(wide.row(0), 20, wide.row_bytes(), put);
  to.add(wide.row(20), 30, wide.row_bytes(), put);
  to.add(around.data() + 3, 2);
  Bytes way_bytes(static_cast<std::size_t>(from.bytes()));
  BlockList message;
  message.add(way_bytes.data(), way_bytes.size());

  from.copy_to(to, total);
  EXPECT_EQ(values_of<std::int16_t>(wide), elements_of<std::int16_t>(rows, layers));
  EXPECT_EQ(around, odd);
  std::ranges::fill(wide.bytes(), std::byte{0});
  std::ranges::fill(around, std::byte{0});
  from.copy_to(message, total);
  message.copy_to(to, total);
  EXPECT_EQ(values_of<std::int16_t>(wide), elements_of<std::int16_t>(rows, layers)) << "over a message";
  EXPECT_EQ(around, odd);
}

TEST(BlockList, copies_rows_of_views_together_with_plain_bytes) {
  for (const DType way : {DType::uint8, DType::int16, DType::int64}) {
    for (const std::int64_t total : {std::int64_t{0}, std::int64_t{1} << 30})
      expect_copied_through_views(way, total);
  }
}

/// The message that one rank sends another through a view, after some bytes without a view: the layers and
/// the number of rows depend on both ranks.
struct ViewedMessage {
  ViewedMessage(int from, int to)
      : layers(to % 3 == 0   ? std::vector<std::int64_t>{0, 1}
               : to % 3 == 1 ? std::vector<std::int64_t>{3, 1}
                             : std::vector<std::int64_t>{0, 1, 2, 3}),
        way(to % 2 == 0 ? DType::uint8 : DType::int16),
        rows(numbered_rows((from + to) % 4 == 3       ? 0
                           : (from + 2 * to) % 3 == 0 ? 4000
                                                      : 7,
                           17 * from + to)),
        odd(counting_bytes(static_cast<std::size_t>((from + to) % 3), from)) {}

  std::vector<std::int64_t> layers;
  DType way;
  Column rows;  // in the shared heap if there are many
  Bytes odd;
};

TEST(MessageExchange, sends_rows_of_views_on_every_path) {
  const boost::mpi::communicator world;
  for (const ExchangePath path : {ExchangePath::automatic, ExchangePath::point_to_point,
                                  ExchangePath::alltoallv, ExchangePath::shared_memory}) {
    for (const NodeAggregation aggregate : {NodeAggregation::automatic, NodeAggregation::always}) {
      const TransportSettings settings{path, 1000, TensorParallelCopies::own, aggregate};
      prepare_exchange(world, settings);
      std::vector<ViewedMessage> out;
      std::vector<ViewedMessage> expected;
      std::vector<Column> columns;
      std::vector<Bytes> odd;
      for (int other = 0; other < world.size(); ++other) {
        out.emplace_back(world.rank(), other);
        const ViewedMessage& message = expected.emplace_back(other, world.rank());
        columns.emplace_back(FieldSpec{"x", DType::int16, FieldKind::token, {std::ssize(message.layers), 3}},
                             message.rows.rows());
        odd.emplace_back(message.odd.size());
      }
      std::vector<BlockList> sends(out.size());
      std::vector<BlockList> receives(out.size());
      for (std::size_t other = 0; other < out.size(); ++other) {
        const ViewedMessage& sent = out[other];
        sends[other].add(sent.odd.data(), sent.odd.size());
        sends[other].add(sent.rows.row(0), sent.rows.rows(), sent.rows.row_bytes(),
                         view_of_rows(sent.rows.spec(), sent.layers, sent.way));
        const Column& column = columns[other];
        receives[other].add(odd[other].data(), odd[other].size());
        receives[other].add(column.row(0), column.rows(), column.row_bytes(),
                            view_of_rows(column.spec(), std::nullopt, expected[other].way));
      }
      exchange_messages(world, sends, receives, settings);
      for (std::size_t other = 0; other < out.size(); ++other) {
        EXPECT_EQ(values_of<std::int16_t>(std::as_const(columns[other])),
                  elements_of<std::int16_t>(std::as_const(expected[other]).rows, expected[other].layers))
            << "from rank " << other << " on path " << static_cast<int>(path);
        EXPECT_EQ(odd[other], expected[other].odd);
      }
    }
  }
}

// Rank s sends (s + 2 d) % 5 * 13 bytes to rank d; sometimes 0 bytes.
class BytesExchange : public testing::TestWithParam<std::tuple<ExchangePath, std::int64_t>> {};

TEST_P(BytesExchange, delivers_every_byte_to_its_place_in_chunks_of_any_size) {
  const boost::mpi::communicator world;
  const auto [path, max_bytes] = GetParam();
  const auto bytes_between = [](int from, int to) {
    return static_cast<std::size_t>((from + 2 * to) % 5 * 13);
  };
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<Bytes> out(ranks);
  std::vector<Bytes> in(ranks);
  std::vector<BlockList> sends(ranks);
  std::vector<BlockList> receives(ranks);
  for (int other = 0; other < world.size(); ++other) {
    const auto at = static_cast<std::size_t>(other);
    out[at] = counting_bytes(bytes_between(world.rank(), other), 31 * world.rank() + other);
    in[at] = Bytes(bytes_between(other, world.rank()));
    const std::size_t half = out[at].size() / 2;
    sends[at].add(out[at].data(), half);
    sends[at].add(out[at].data() + half, out[at].size() - half);
    receives[at].add(in[at].data(), in[at].size());
  }
  exchange_messages(world, sends, receives, {path, max_bytes});
  for (int other = 0; other < world.size(); ++other) {
    const auto at = static_cast<std::size_t>(other);
    EXPECT_EQ(in[at], counting_bytes(bytes_between(other, world.rank()), 31 * other + world.rank()));
  }
}

INSTANTIATE_TEST_SUITE_P(
    PathsAndChunks, BytesExchange,
    testing::Combine(testing::Values(ExchangePath::automatic, ExchangePath::point_to_point,
                                     ExchangePath::alltoallv, ExchangePath::shared_memory),
                     testing::Values(1, 8, 13, 100, default_max_message_bytes)));

}  // namespace
}  // namespace evenkeel
