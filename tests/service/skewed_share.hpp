#pragma once

#include <boost/mpi/communicator.hpp>
#include <cstdint>
#include <utility>
#include <vector>

#include "support/made_up_batch.hpp"

namespace evenkeel::test {

/// Returns `count` samples of this rank with 1 to 600 tokens, few of them long; they differ in every step.
inline RaggedBatch skewed_share(const boost::mpi::communicator& comm, std::int64_t step, std::int64_t count,
                                std::uint64_t seed) {
  std::vector<SampleShape> shapes;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t id = (count * step + i) * comm.size() + comm.rank();
    const auto draw = testing_support::mix(static_cast<std::uint64_t>(id), seed) % 600;
    shapes.push_back({SampleId{id}, 0, 1, static_cast<std::int64_t>(draw * draw / 600)});
  }
  return testing_support::made_up_batch(std::move(shapes), testing_support::made_up_fields());
}

}  // namespace evenkeel::test
