#include "source/files/schema_agreement.hpp"

#include <array>
#include <boost/serialization/map.hpp>
#include <boost/serialization/set.hpp>
#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/service/data_service.hpp"
#include "mesh/fail_together.hpp"
#include "plan/plan_serialization.hpp"
#include "transport/gather_lists.hpp"

BOOST_CLASS_VERSION(evenkeel::JsonlSchema, 3)

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
  archive& schema.wide_integers;
}

}  // namespace boost::serialization

namespace evenkeel {
namespace {

/// Throws InputError or LimitError unless steps accept samples with this field.
void require_valid_field(const FieldSpec& spec) {
  RaggedBatch probe({SampleShape{}});
  probe.add_field({std::string(input_ids_field), DType::int64, FieldKind::token, {}});
  if (is_counted(spec.kind)) {
    probe.add_field(Column(spec, SampleRows::from_counts(std::array{std::int64_t{0}})));
  } else {
    probe.add_field(spec);
  }
  require_valid_samples(probe);
}

}  // namespace

void require_valid_field(const FieldSpec& spec, const std::string& where) {
  try {
    require_valid_field(spec);
  } catch (const Error& error) {
    ErrorReport report = error.report();
    report.message = report.where + " " + report.message;
    report.where = where;
    throw_error(std::move(report));
  }
}

void require_valid_fields(const JsonlSchema& schema, const LineNames& names) {
  for (std::size_t i = 0; i < schema.fields.size(); ++i)
    require_valid_field(schema.fields[i], names.where(schema.origins[i].dtype));
}

JsonlSchema merge_over_ranks(const Communicator& comm, const JsonlSchema& mine, const LineNames& names) {
  GuardedWork work;
  const auto of_ranks = all_gather_values(comm, mine, work, "bytes of all ranks' fields");
  JsonlSchema merged;  // begins empty, which is the identity element of merge()
  work([&] {
    for (const JsonlSchema& schema : of_ranks) merged = merge(merged, schema, names);
    require_valid_fields(merged, names);
  });
  work.agree(comm);
  return merged;
}

}  // namespace evenkeel
