#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "evenkeel/mesh/communicator.hpp"

namespace evenkeel {

/// A group that consists only of this process, for programs that read sources without MPI.
class OneProcess final : public NonMpiRanks {
 public:
  [[nodiscard]] static Communicator make() { return Communicator(std::make_shared<const OneProcess>()); }

  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  void broadcast(std::span<std::byte> /*bytes*/, int /*root*/) const override {}
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) const override {
    std::ranges::copy(mine, all.begin());
  }
  void all_gather_lists(const std::byte* mine, const ListSizes& lists, std::byte* all) const override {
    const auto bytes_of = [&](int values) { return static_cast<std::size_t>(values) * lists.bytes_each; };
    std::copy_n(mine, bytes_of(lists.sizes[0]), all + bytes_of(lists.offsets[0]));
  }
  void all_reduce(std::span<std::int64_t> /*values*/, Extreme /*which*/) const override {}
  [[nodiscard]] Communicator duplicate() const override { return make(); }
  [[nodiscard]] Communicator split(int color, int /*key*/) const override {
    return color < 0 ? Communicator() : make();
  }
  [[nodiscard]] Communicator split_by_node() const override { return make(); }
  [[nodiscard]] bool allows_threads() const override { return true; }
  void all_to_all(std::span<const std::byte> /*out*/, std::span<const std::int64_t> /*out_bytes*/,
                  std::span<std::byte> /*in*/, std::span<const std::int64_t> /*in_bytes*/) const override {}
};

}  // namespace evenkeel
