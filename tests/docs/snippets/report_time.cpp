// Around the measured costs of docs/micro-batches.md.
#include "evenkeel/service/data_service.hpp"

void report(evenkeel::DataService& service, const evenkeel::Step& step, std::size_t m, double seconds) {
  @SNIPPET@
}
