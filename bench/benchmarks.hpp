#pragma once

#include <boost/mpi/communicator.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/report.hpp"

namespace evenkeel::bench {

/// The copy kernels against memcpy of the same bytes, and against loops over sequences in PyTorch.
struct PackOptions {
  bool warm = false;  ///< every call uses the same buffers; else none finds its own in a cache
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
  std::filesystem::path lengths;      ///< a length table to draw batches from; empty: none is drawn
  std::int64_t cap = 32768;           ///< tokens of a micro-batch
  int draws = 200;                    ///< batches packed under the cap
  std::size_t max_items = 1U << 20U;  ///< larger cases are left out
  int rounds = 5;
  std::string python = "python3";
};
[[nodiscard]] Report bench_plan(const PlanOptions& options);

/// Collective benchmarks: bytes from their owners into packed tensors, and whole steps.
struct TransferOptions {
  std::int64_t bytes = std::int64_t{64} << 20;  ///< of samples each rank holds, roughly
  std::int64_t samples = 0;                     ///< over all ranks; 0: 64 a rank
  std::int64_t cap = 32768;                     ///< tokens of a micro-batch
  std::int64_t prefetch = 0;                    ///< steps made ahead; 0: that is not measured
  int rounds = 11;
};
/// Collective over `world`: every exchange path, MPI_Alltoallv of the same bytes and memcpy on all ranks. The
/// report is rank 0's; the others get an empty one.
[[nodiscard]] Report bench_exchange(const boost::mpi::communicator& world, const TransferOptions& options);
/// Collective over `world`: routed experts of a MoE model to the stages that have their layers, as they are
/// and narrowed, and rows that samples count, against memcpy. The report is rank 0's.
[[nodiscard]] Report bench_layers(const boost::mpi::communicator& world, const TransferOptions& options);
/// Collective over `world`: a step's phases, which add up to it; with prefetch also how long a trainer waits.
[[nodiscard]] Report bench_step(const boost::mpi::communicator& world, const TransferOptions& options);

/// Groups of samples with one prompt: shared prefixes against repeated ones.
struct PrefixOptions {
  std::int64_t tokens = std::int64_t{1} << 20;  ///< each rank holds with prefixes repeated, roughly
  std::int64_t response = 512;                  ///< tokens of a response, at least 4
  std::int64_t cap = 65536;                     ///< tokens of a micro-batch: none of these groups is split
  int rounds = 11;
};
/// Collective over `world`: what is moved and packed for groups of 4 to 64 and prefixes of a quarter of a
/// response to 16 responses. The report is rank 0's.
[[nodiscard]] Report bench_prefix(const boost::mpi::communicator& world, const PrefixOptions& options);

/// Samples from a file that is not in the system's cache.
struct ReadOptions {
  std::filesystem::path folder;                ///< where the file is made; empty: the one for temporary files
  std::int64_t bytes = std::int64_t{1} << 30;  ///< of the file
  std::int64_t samples = 512;                  ///< of a step, over all ranks
  int rounds = 5;
};
/// Collective over `world`, of one node: all of a file in steps, in its order and shuffled, for samples of 4,
/// 32 and 256 KiB. The report is rank 0's.
[[nodiscard]] Report bench_read(const boost::mpi::communicator& world, const ReadOptions& options);

/// A job whose samples a feeder reads, against the same one that reads its files itself.
struct FeedOptions {
  std::filesystem::path folder;  ///< where files and the buffer are made; empty: the one for temporary files
  std::int64_t samples = 1024;   ///< of a step, over all ranks
  std::int64_t steps = 20;       ///< of a run
  std::int64_t prefetch = 1;     ///< steps made ahead, where they are
  int rounds = 5;
};
/// Collective over `world`, of one node: how long trainers wait for steps and how long a step takes them,
/// where they read a file themselves, when they need a step or ahead, and where one `evenkeel feed` reads it
/// and sends samples to a buffer. The report is rank 0's.
[[nodiscard]] Report bench_feed(const boost::mpi::communicator& world, const FeedOptions& options);

/// Steps formed from samples that arrive while a job trains.
struct StreamOptions {
  std::vector<std::string>
      lengths;               ///< length tables to draw groups from, beside made-up ones with a long tail
  std::int64_t groups = 64;  ///< of a step
  std::int64_t group_size = 8;
  std::int64_t steps = 30;
  std::int64_t cap = 32768;  ///< tokens of a micro-batch
  int dp = 64;
  int rounds = 11;
};
/// How long forming a step takes; how long formed steps take by their plans; and a simulated job that
/// generates and trains at the same time, against one that does both in turn. Local.
[[nodiscard]] Report bench_stream(const StreamOptions& options);

/// Samples that producers send to a buffer.
struct BufferBenchOptions {
  std::filesystem::path folder;  ///< on the disk to measure; empty: the one for temporary files
  int producers = 8;
  std::int64_t bytes = std::int64_t{256} << 20;  ///< that they send in a round
  std::int64_t held = std::int64_t{8} << 30;     ///< in the buffer whose memory is looked at; 0: none is
  double idle_seconds = 10;
  int rounds = 5;
};
/// Intake into LMDB over plain writes, into memory over a server that throws bodies away, of many fields over
/// one; and the memory of a full buffer. Local; the last starts `evenkeel buffer`, the program beside this
/// one.
[[nodiscard]] Report bench_buffer(const BufferBenchOptions& options);

/// One job for very many steps.
struct SoakOptions {
  std::int64_t steps = 10000;   ///< at least 10
  std::int64_t samples = 64;    ///< of a step, over all ranks
  std::int64_t cap = 8192;      ///< tokens of a micro-batch
  std::int64_t fail_every = 0;  ///< steps from one whose reader throws on one rank to the next; 0: none does
};
/// Collective over `world`: whether steps stay as fast as they were and take no more memory, by tenths of the
/// run. Results are brought home in every step and compared. The report is rank 0's. Throws, on every rank,
/// when a step brought other tokens home, or an error was not told to all.
[[nodiscard]] Report bench_soak(const boost::mpi::communicator& world, const SoakOptions& options);

}  // namespace evenkeel::bench
