#pragma once

#include <boost/serialization/map.hpp>
#include <boost/serialization/string.hpp>

#include "evenkeel/plan/filter.hpp"

namespace boost::serialization {

template <class Archive>
void serialize(Archive& archive, evenkeel::ArrivalFigures& figures, unsigned /*version*/) {
  archive& figures.received& figures.duplicates& figures.trained& figures.formed& figures.waiting;
  archive& figures.dropped& figures.received_tokens& figures.trained_tokens& figures.staleness& figures
      .waited;
}

}  // namespace boost::serialization
