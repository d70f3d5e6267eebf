#pragma once

#include <boost/serialization/string.hpp>
#include <boost/serialization/version.hpp>

#include "evenkeel/base/error.hpp"

BOOST_CLASS_VERSION(evenkeel::ErrorReport, 1)

namespace boost::serialization {

template <class Archive>
void serialize(Archive& archive, evenkeel::ErrorReport& report, unsigned /*version*/) {
  archive& report.kind;
  archive& report.where;
  archive& report.message;
  archive& report.hint;
  archive& report.rank;
}

}  // namespace boost::serialization
