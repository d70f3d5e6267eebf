#pragma once

#include <boost/mpi/communicator.hpp>
#include <span>
#include <vector>

#include "bench/benchmarks.hpp"
#include "evenkeel/service/data_service.hpp"

namespace evenkeel::bench {

/// The properties of a step on one rank that benchmarks use.
struct TimedStep {
  PhaseSeconds phases;
  double seconds = 0;                    ///< total time of the step
  std::vector<std::int64_t> bytes_from;  ///< payload received from each rank, including this one
  std::int64_t micro_batches = 0;
};

struct NamedPath {
  const char* name;
  ExchangeSettings exchange;
};
/// Returns all ways to exchange; those that differ only between nodes come last.
[[nodiscard]] std::span<const NamedPath> exchange_paths(bool several_nodes);

/// Samples with tokens and one wide field, sized so that every rank holds about the requested number of
/// bytes, and a service for benchmarks that move them.
class TransferJob {
 public:
  /// Collective over `world`, which must outlive it.
  TransferJob(const boost::mpi::communicator& world, const TransferOptions& options);

  /// Collective: one step over all samples, exchanged in this way; all ranks begin together.
  [[nodiscard]] TimedStep step(const ExchangeSettings& exchange = {});

  /// Collective: returns the seconds that this rank spends on everything before the exchange; all ranks begin
  /// together. In a real step, the first ranks to finish this part continue, and if
  /// there are more ranks than cores, the others wait for a core, which cannot be attributed to their phases.
  [[nodiscard]] double seconds_to_plan();

  /// Collective: makes `steps` steps over all samples, `depth` of them ahead. Reading is one copy of this
  /// rank's samples. This object must outlive the result.
  [[nodiscard]] DataService service_ahead(std::int64_t depth) const;
  /// Returns the samples that this rank supplies for each step.
  [[nodiscard]] const RaggedBatch& mine() const noexcept { return mine_; }

  /// Returns whether ranks of different nodes take part.
  [[nodiscard]] bool has_several_nodes() const noexcept { return node_.size() < world_.size(); }
  [[nodiscard]] std::int64_t num_samples() const noexcept { return samples_per_rank_ * world_.size(); }
  /// Returns the size of this rank's samples.
  [[nodiscard]] std::int64_t payload_bytes() const noexcept;
  [[nodiscard]] std::size_t bytes_per_token() const noexcept { return bytes_per_token_; }
  [[nodiscard]] std::int64_t tokens() const noexcept { return mine_.num_tokens(); }

 private:
  [[nodiscard]] DataService& service(const ExchangeSettings& exchange);

  const boost::mpi::communicator& world_;
  boost::mpi::communicator node_;
  TransferOptions options_;
  std::int64_t samples_per_rank_;
  std::size_t bytes_per_token_ = 0;
  RaggedBatch mine_;
  std::vector<std::pair<ExchangeSettings, DataService>> services_;
};

/// Collective: returns every rank's values on rank 0, one list per rank; empty on other ranks.
[[nodiscard]] std::vector<std::vector<double>> at_first_rank(const boost::mpi::communicator& world,
                                                             const std::vector<double>& mine);

}  // namespace evenkeel::bench
