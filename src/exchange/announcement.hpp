#pragma once

#include <boost/mpi/communicator.hpp>
#include <boost/mpi/datatype.hpp>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "exchange/field_digest.hpp"

namespace evenkeel {

/// What a rank tells the others before anything else of a collective call: four words.
struct Announcement {
  std::int64_t count = 0;  ///< of what it will send, or -1 where it brings an error instead
  FieldDigest fields;
  std::int64_t call = 0;  ///< hash of the call's words

  template <class Archive>
  void serialize(Archive& archive, unsigned /*version*/) {
    archive& count;
    archive& fields;
    archive& call;
  }
};

/// Collective over `comm`, one all-gather: every rank's announcement, by rank. `call` says in words what this
/// rank is about to do. Where these differ, every rank throws the same InputError with rank 0's words and
/// those of the first rank that differs; else, where ranks bring errors, all throw the lowest such rank's.
[[nodiscard]] std::vector<Announcement> announce(const boost::mpi::communicator& comm, std::int64_t count,
                                                 const FieldDigest& fields, std::string_view call,
                                                 const std::optional<ErrorReport>& my_error);

/// The fields' part of announcements, by rank.
[[nodiscard]] std::vector<FieldDigest> digests_of(const std::vector<Announcement>& announced);

}  // namespace evenkeel

BOOST_IS_MPI_DATATYPE(evenkeel::Announcement)
