#include "transport/block_list.hpp"

#include <gtest/gtest.h>

#include <array>
#include <boost/mpi/communicator.hpp>
#include <numeric>

#include "transport/message_exchange.hpp"

namespace evenkeel {
namespace {

using Bytes = std::vector<std::byte>;

Bytes counting_bytes(std::size_t count, int first) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::byte>(static_cast<std::size_t>(first) + i * 7);
  return bytes;
}

TEST(BlockList, joins_neighbours_and_leaves_out_nothing) {
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

// Cuts `bytes` into blocks of `sizes` in turn, a byte apart.
BlockList cut_up(const Bytes& bytes, std::initializer_list<std::size_t> sizes) {
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

TEST(BlockList, copies_past_the_caches_as_it_copies_through_them) {
  const Bytes source = counting_bytes(5000, 7);
  const BlockList from = cut_up(source, {1, 700, 63, 64, 65, 0, 129});
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

// Rank s sends (s + 2 d) % 5 * 13 bytes to rank d, some of them none at all.
class MessageExchange : public testing::TestWithParam<std::tuple<ExchangePath, std::int64_t>> {};

TEST_P(MessageExchange, delivers_every_byte_to_its_place_in_chunks_of_any_size) {
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
    PathsAndChunks, MessageExchange,
    testing::Combine(testing::Values(ExchangePath::automatic, ExchangePath::point_to_point,
                                     ExchangePath::alltoallv, ExchangePath::shared_memory),
                     testing::Values(1, 8, 13, 100, default_max_message_bytes)));

}  // namespace
}  // namespace evenkeel
