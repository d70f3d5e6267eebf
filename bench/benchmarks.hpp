#pragma once

#include <boost/mpi/communicator.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/report.hpp"

namespace evenkeel::bench {

/// Copy kernels, compared with memcpy of the same bytes and with loops over sequences in PyTorch.
struct PackOptions {
  bool warm = false;  ///< whether every call uses the same buffers; otherwise, a call never finds its buffers
                      ///< in a cache
  std::size_t sequences = 1024;
  std::size_t row_bytes = 8;
  int cp = 4;
  std::uint64_t seed = 7;
  int rounds = 41;
  std::string python = "python3";
};
[[nodiscard]] Report bench_pack(const PackOptions& options);

/// Partitioning and packing of samples under a cap: time and quality.
struct PlanOptions {
  std::filesystem::path lengths;      ///< a length table to draw batches from; if empty, no batches are drawn
  std::int64_t cap = 32768;           ///< maximum number of tokens per micro-batch
  int draws = 200;                    ///< number of batches packed under the cap
  std::size_t max_items = 1U << 20U;  ///< larger cases are skipped
  int rounds = 5;
  std::string python = "python3";
};
[[nodiscard]] Report bench_plan(const PlanOptions& options);

/// Collective benchmarks: moving bytes from their owners into packed tensors, and whole steps.
struct TransferOptions {
  std::int64_t bytes = std::int64_t{64} << 20;  ///< approximate size of the samples that each rank holds
  std::int64_t samples = 0;                     ///< number over all ranks; 0 for 64 per rank
  std::int64_t cap = 32768;                     ///< maximum number of tokens per micro-batch
  std::int64_t prefetch = 0;                    ///< number of steps made ahead; 0 to skip this measurement
  int rounds = 11;
};
/// Collective over `world`: every exchange path, MPI_Alltoallv of the same bytes, and memcpy on all ranks.
/// Rank 0 gets the report; the others get an empty one.
[[nodiscard]] Report bench_exchange(const boost::mpi::communicator& world, const TransferOptions& options);
/// Collective over `world`: sends routed experts of a MoE model to the stages that have their layers,
/// unchanged and narrowed, and rows that are counted per sample, compared with memcpy. Rank 0 gets the
/// report.
[[nodiscard]] Report bench_layers(const boost::mpi::communicator& world, const TransferOptions& options);
/// Collective over `world`: the phases of a step, which add up to its time, and with prefetching also how
/// long a trainer waits.
[[nodiscard]] Report bench_step(const boost::mpi::communicator& world, const TransferOptions& options);

/// Groups of samples with one prompt: shared prefixes compared with repeated ones.
struct PrefixOptions {
  std::int64_t tokens = std::int64_t{1}
                        << 20;  ///< approximate number held by each rank if prefixes are repeated
  std::int64_t response = 512;  ///< number of tokens per response, at least 4
  /// Maximum number of tokens per micro-batch; large enough that groups are not split.
  std::int64_t cap = 65536;
  int rounds = 11;
};
/// Collective over `world`: the amounts moved and packed for groups of 4 to 64 samples and for prefixes of a
/// quarter of a response to 16 responses. Rank 0 gets the report.
[[nodiscard]] Report bench_prefix(const boost::mpi::communicator& world, const PrefixOptions& options);

/// Samples from a file that is not in the system's cache.
struct ReadOptions {
  std::filesystem::path folder;  ///< folder of the file; empty for the folder for temporary files
  std::int64_t bytes = std::int64_t{1} << 30;  ///< of the file
  std::int64_t samples = 512;                  ///< number per step, over all ranks
  int rounds = 5;
};
/// Collective over `world`, which must be on one node: reads a whole file in steps, in its order and
/// shuffled, for samples of 4, 32 and 256 KiB. Rank 0 gets the report.
[[nodiscard]] Report bench_read(const boost::mpi::communicator& world, const ReadOptions& options);

/// A job whose samples a feeder reads, compared with the same job reading its files itself.
struct FeedOptions {
  /// Folder of the files and the buffer; empty for the folder for temporary files.
  std::filesystem::path folder;
  std::int64_t samples = 1024;  ///< number per step, over all ranks
  std::int64_t steps = 20;      ///< of a run
  std::int64_t prefetch = 1;    ///< number of steps made ahead, in cases with prefetching
  int rounds = 5;
};
/// Collective over `world`, which must be on one node: how long trainers wait for steps, and how long a step
/// takes, if they read a file themselves (on demand or ahead), and if one `evenkeel feed` reads it and sends
/// samples to a buffer. Rank 0 gets the report.
[[nodiscard]] Report bench_feed(const boost::mpi::communicator& world, const FeedOptions& options);

/// Steps formed from samples that arrive while a job trains.
struct StreamOptions {
  std::vector<std::string>
      lengths;  ///< length tables to draw groups from, in addition to synthetic ones with a long tail
  std::int64_t groups = 64;  ///< of a step
  std::int64_t group_size = 8;
  std::int64_t steps = 30;
  std::int64_t cap = 32768;  ///< maximum number of tokens per micro-batch
  int dp = 64;
  int rounds = 11;
};
/// How long it takes to form a step, how long formed steps take according to their plans, and a simulated job
/// that generates and trains at the same time, compared with one that alternates between both. Local.
[[nodiscard]] Report bench_stream(const StreamOptions& options);

/// Samples that producers send to a buffer.
struct BufferBenchOptions {
  std::filesystem::path folder;  ///< folder on the disk to measure; empty for the folder for temporary files
  int producers = 8;
  std::int64_t bytes = std::int64_t{256} << 20;  ///< number that they send per round
  std::int64_t held =
      std::int64_t{8}
      << 30;  ///< number held by the buffer whose memory is measured; 0 to skip this measurement
  double idle_seconds = 10;
  int rounds = 5;
};
/// Intake into LMDB compared with plain writes, into memory compared with a server that discards bodies, and
/// of many fields compared with one; and the memory of a full buffer. Local; the last measurement starts the
/// program `evenkeel buffer` from this program's folder.
[[nodiscard]] Report bench_buffer(const BufferBenchOptions& options);

/// One job for a very large number of steps.
struct SoakOptions {
  std::int64_t steps = 10000;   ///< at least 10
  std::int64_t samples = 64;    ///< number per step, over all ranks
  std::int64_t cap = 8192;      ///< maximum number of tokens per micro-batch
  std::int64_t fail_every = 0;  ///< interval of steps at which the reader of one rank throws; 0 for never
};
/// Collective over `world`: whether steps remain as fast as at the beginning and do not need more memory, by
/// tenths of the run. Results are collected in every step and compared. Rank 0 gets the report. Throws, on
/// every rank, if the collected tokens differ, or if an error was not reported to all ranks.
[[nodiscard]] Report bench_soak(const boost::mpi::communicator& world, const SoakOptions& options);

}  // namespace evenkeel::bench
