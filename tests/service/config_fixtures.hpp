#pragma once

#include "evenkeel/service/config.hpp"

namespace evenkeel::test {

/// A configuration in which every member differs from its default, consistent in itself.
inline Config changed_config() {
  Config config;
  config.mesh = {2, 4, 3, 5, 7, RankOrder("pp-dp-cp-tp")};
  config.source = {SourceKind::jsonl, "/data/a \"quoted\": name #1.jsonl", 18446744073709551615u, 77};
  config.batch = {512, 3, true, 99, true};
  config.balance = {BalanceAlgorithm::lpt, CostModel{12345678901, 17, 4096}, true, false};
  config.micro_batch = {4096, 12, 2, 6, MicroBatchOrder::cost};
  config.pack = {CpLayout::contiguous, 32, 48, 151643, -1};
  config.loss = {LossAggregation::prompt_mean, Reduction::mean, Reduction::sum, FullyMasked::skip, 2048};
  config.exchange = {ExchangePath::alltoallv};
  return config;
}

}  // namespace evenkeel::test
