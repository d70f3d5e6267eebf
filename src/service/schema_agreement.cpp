#include "service/schema_agreement.hpp"

#include <mpi.h>

#include <boost/mpi/packed_iarchive.hpp>
#include <boost/mpi/packed_oarchive.hpp>
#include <boost/serialization/map.hpp>
#include <boost/serialization/set.hpp>
#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/base/narrow.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/mesh/fail_together.hpp"
#include "evenkeel/mesh/mpi_call.hpp"
#include "evenkeel/plan/plan_serialization.hpp"
#include "evenkeel/service/data_service.hpp"

BOOST_CLASS_VERSION(evenkeel::JsonlSchema, 2)

namespace boost::serialization {

template <class Archive>
void serialize(Archive& archive, evenkeel::FieldOrigin& origin, unsigned /*version*/) {
  archive& origin.kind;
  archive& origin.trailing;
  archive& origin.dtype;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::JsonlSchema& schema, unsigned /*version*/) {
  archive& schema.empty;
  archive& schema.first_line;
  archive& schema.fields;
  archive& schema.origins;
  archive& schema.kind_open;
  archive& schema.element_open;
  archive& schema.ignored;
}

}  // namespace boost::serialization

namespace evenkeel {
namespace {

/// The bytes of every rank, one rank's after the other's.
struct GatheredBytes {
  std::vector<int> sizes;
  std::vector<int> offsets;
  boost::mpi::packed_iarchive::buffer_type bytes;
};

// No rank can fail between the calls alone: what takes memory is done together.
GatheredBytes gather(const boost::mpi::communicator& comm, const boost::mpi::packed_oarchive& mine) {
  GatheredBytes all;
  const int size = together(comm, [&] {
    all.sizes.resize(static_cast<std::size_t>(comm.size()));
    all.offsets.resize(all.sizes.size());
    return narrow<int>(mine.size(), "bytes of a rank's fields");
  });
  check_mpi(MPI_Allgather(&size, 1, MPI_INT, all.sizes.data(), 1, MPI_INT, MPI_Comm(comm)), "MPI_Allgather");
  together(comm, [&] {
    std::int64_t total = 0;
    for (std::size_t rank = 0; rank < all.sizes.size(); ++rank) {
      all.offsets[rank] = narrow<int>(total, "bytes of all ranks' fields");
      total += all.sizes[rank];
    }
    all.bytes.resize(static_cast<std::size_t>(total));
  });
  check_mpi(MPI_Allgatherv(mine.address(), size, MPI_PACKED, all.bytes.data(), all.sizes.data(),
                           all.offsets.data(), MPI_PACKED, MPI_Comm(comm)),
            "MPI_Allgatherv");
  return all;
}

/// Throws unless a step takes a sample with this field.
void require_valid_field(const FieldSpec& spec) {
  RaggedBatch probe({SampleShape{}});
  probe.add_field({std::string(input_ids_field), DType::int64, FieldKind::token, {}});
  probe.add_field(spec);
  require_valid_samples(probe);
}

}  // namespace

void require_valid_fields(const JsonlSchema& schema, const std::string& path) {
  for (std::size_t i = 0; i < schema.fields.size(); ++i) {
    try {
      require_valid_field(schema.fields[i]);
    } catch (const Error& error) {
      ErrorReport report = error.report();
      report.message = report.where + " " + report.message;
      report.where = path + ":" + std::to_string(schema.origins[i].dtype + 1);
      throw_error(std::move(report));
    }
  }
}

JsonlSchema merge_over_ranks(const boost::mpi::communicator& comm, const JsonlSchema& mine,
                             const std::string& path) {
  boost::mpi::packed_oarchive packed(comm);
  together(comm, [&] { packed << mine; });
  GatheredBytes all = gather(comm, packed);
  return together(comm, [&] {
    JsonlSchema merged;  // the identity
    for (const int offset : all.offsets) {
      boost::mpi::packed_iarchive archive(comm, all.bytes, boost::archive::no_header, offset);
      JsonlSchema schema;
      archive >> schema;
      merged = merge(merged, schema, path);
    }
    require_valid_fields(merged, path);
    return merged;
  });
}

}  // namespace evenkeel
