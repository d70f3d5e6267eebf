#include "exchange/announcement.hpp"

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <boost/serialization/string.hpp>
#include <string>

#include "evenkeel/base/hash.hpp"
#include "evenkeel/mesh/fail_together.hpp"

namespace evenkeel {
namespace {

constexpr std::int64_t failed = -1;

// `other` is the first rank that says something else than rank 0.
[[noreturn]] void throw_different_calls(const boost::mpi::communicator& comm, std::string_view call,
                                        std::size_t other) {
  std::vector<std::string> calls;
  boost::mpi::all_gather(comm, std::string(call), calls);
  throw InputError("collective call",
                   "ranks do not make the same one: rank 0 makes " + calls[0] + ", rank " +
                       std::to_string(other) + " makes " + calls[other],
                   "Make the same calls in the same order on every rank");
}

}  // namespace

std::vector<Announcement> announce(const boost::mpi::communicator& comm, std::int64_t count,
                                   const FieldDigest& fields, std::string_view call,
                                   const std::optional<ErrorReport>& my_error) {
  const Announcement mine{my_error ? failed : count, fields, static_cast<std::int64_t>(fnv1a_64(call))};
  std::vector<Announcement> announced;
  boost::mpi::all_gather(comm, mine, announced);
  const auto different =
      std::ranges::find_if(announced, [&](const Announcement& a) { return a.call != announced[0].call; });
  if (different != announced.end())
    throw_different_calls(comm, call, static_cast<std::size_t>(different - announced.begin()));
  if (std::ranges::find(announced, failed, &Announcement::count) != announced.end())
    fail_together(comm, my_error);
  return announced;
}

std::vector<FieldDigest> digests_of(const std::vector<Announcement>& announced) {
  std::vector<FieldDigest> digests;
  digests.reserve(announced.size());
  for (const Announcement& of_rank : announced) digests.push_back(of_rank.fields);
  return digests;
}

}  // namespace evenkeel
