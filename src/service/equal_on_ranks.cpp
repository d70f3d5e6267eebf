#include "service/equal_on_ranks.hpp"

#include <algorithm>
#include <array>
#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/hash.hpp"
#include "evenkeel/base/error.hpp"
#include "mesh/fail_together.hpp"
#include "transport/gather_lists.hpp"

namespace boost::serialization {

template <class Archive>
void serialize(Archive& archive, evenkeel::ConfigSetting& setting, unsigned /*version*/) {
  archive& setting.path& setting.value;
}

}  // namespace boost::serialization

namespace evenkeel {
namespace {

using Value = std::optional<std::string>;

/// Values of one key on rank 0 and on another rank; nullopt if the key is missing.
struct Difference {
  std::string path;
  Value first;
  Value other;
};

std::uint64_t hash_of(const std::vector<ConfigSetting>& settings) {
  Fnv1a hash;
  constexpr std::string_view end("\0", 1);
  for (const auto& [path, value] : settings) {
    for (const std::string_view text : {std::string_view(path), end, std::string_view(value), end})
      hash.add(text);
  }
  return hash.value();
}

bool all_equal(const Communicator& comm, std::uint64_t mine) {
  // Compute the maximum in the same all-reduce: it is the complement of the minimum of the complements.
  const auto word = static_cast<std::int64_t>(mine);
  std::array<std::int64_t, 2> least{word, ~word};
  comm.all_reduce(least, ReduceOp::min);
  return least[0] == ~least[1];
}

// Returns the settings that differ: first the settings in `first`, in their order, then the settings that
// exist only in `other`.
std::vector<Difference> differences(const std::vector<ConfigSetting>& first,
                                    const std::vector<ConfigSetting>& other) {
  std::map<std::string, std::string> left;
  for (const auto& [path, value] : other) left.emplace(path, value);
  std::vector<Difference> found;
  for (const auto& [path, value] : first) {
    const auto node = left.extract(path);
    const Value there = node ? Value(node.mapped()) : std::nullopt;
    if (there != value) found.push_back({path, value, there});
  }
  for (const auto& [path, value] : left) found.push_back({path, std::nullopt, value});
  return found;
}

std::string describe(const Difference& difference, int rank) {
  const auto text = [](const Value& value) {
    return value && value->empty() ? "empty" : value.value_or("not set");
  };
  return "is " + text(difference.first) + " on rank 0 and " + text(difference.other) + " on rank " +
         std::to_string(rank);
}

void require_equal_settings(const std::vector<ConfigSetting>& first, const std::vector<ConfigSetting>& mine,
                            int rank, std::string_view hint) {
  constexpr std::size_t max_named = 4;
  const std::vector<Difference> found = differences(first, mine);
  if (found.empty()) return;
  std::string message = describe(found[0], rank);
  for (std::size_t i = 1; i < std::min(found.size(), max_named); ++i)
    message += "; " + found[i].path + " " + describe(found[i], rank);
  if (found.size() > max_named)
    message += "; and " + std::to_string(found.size() - max_named) +
               (found.size() - max_named == 1 ? " more differs" : " more differ");
  throw ConfigError(found[0].path, message, std::string(hint));
}

}  // namespace

void require_equal_on_ranks(const Communicator& comm, const std::vector<ConfigSetting>& mine,
                            std::string_view hint) {
  if (all_equal(comm, hash_of(mine))) return;
  std::vector<ConfigSetting> first;
  GuardedWork work;
  if (comm.rank() == 0) work([&] { first = mine; });
  broadcast_value(comm, first, 0, work);
  work([&] { require_equal_settings(first, mine, comm.rank(), hint); });
  work.agree(comm);
}

}  // namespace evenkeel
