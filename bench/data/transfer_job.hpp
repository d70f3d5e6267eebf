#pragma once

#include <boost/mpi/communicator.hpp>
#include <span>
#include <vector>

#include "bench/benchmarks.hpp"
#include "evenkeel/service/data_service.hpp"

namespace evenkeel::bench {

/// A step on one rank, as far as benchmarks look at it.
struct TimedStep {
  PhaseSeconds phases;
  double seconds = 0;                    ///< all of it, by the clock around it
  std::vector<std::int64_t> bytes_from;  ///< payload received from each rank, itself included
  std::int64_t micro_batches = 0;
};

struct NamedPath {
  const char* name;
  ExchangeSettings exchange;
};
/// Every way to exchange there is; those that only differ between nodes last.
[[nodiscard]] std::span<const NamedPath> exchange_paths(bool several_nodes);

/// Samples with tokens and one wide field, so that every rank holds about the bytes that were asked for. The
/// service for benchmarks of moving bytes.
class TransferJob {
 public:
  /// Collective over `world`, which must outlive it.
  TransferJob(const boost::mpi::communicator& world, const TransferOptions& options);

  /// Collective: one step over all samples, exchanged so, which all ranks begin together.
  [[nodiscard]] TimedStep step(const ExchangeSettings& exchange = {});

  /// Collective: seconds that everything before the exchange takes this rank when nothing follows, all ranks
  /// beginning together. In a step the first ranks through go on, and where ranks outnumber cores the others
  /// then wait for a turn, which no phase of theirs can be blamed for.
  [[nodiscard]] double seconds_to_plan();

  /// Collective: `steps` steps over all samples, `depth` of them made ahead. Reading is one copy of this
  /// rank's samples. The job must outlive it.
  [[nodiscard]] DataService service_ahead(std::int64_t depth) const;
  /// The samples that this rank brings to each step.
  [[nodiscard]] const RaggedBatch& mine() const noexcept { return mine_; }

  /// Whether ranks of different nodes take part.
  [[nodiscard]] bool has_several_nodes() const noexcept { return node_.size() < world_.size(); }
  [[nodiscard]] std::int64_t num_samples() const noexcept { return samples_per_rank_ * world_.size(); }
  /// Of this rank's samples.
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

/// Collective: every rank's values at rank 0, a list a rank; nothing elsewhere.
[[nodiscard]] std::vector<std::vector<double>> at_first_rank(const boost::mpi::communicator& world,
                                                             const std::vector<double>& mine);

}  // namespace evenkeel::bench
