// Rows in the cut that a recurrent layer needs: tokens are in zigzag, as attention needs them, and are moved
// to the flat cut over MPI; each rank continues the sequences that the previous rank began. The "layer" adds
// up the tokens of a sequence so far; afterwards, the sums are moved back to zigzag, next to their tokens.
//
//   mpirun -n 4 hybrid_rows

#include <mpi.h>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/communicator.hpp>
#include <boost/mpi/environment.hpp>
#include <cstdio>
#include <functional>
#include <numeric>
#include <vector>

#include "evenkeel/evenkeel.hpp"

namespace {

using namespace evenkeel;

using Values = std::vector<std::int64_t>;
using Route = RowRoute<std::int32_t>;

/// Returns what a rollout worker on this rank might produce. Token t of a sample is t + 1.
RaggedBatch generate(int rank) {
  std::vector<SampleShape> shapes;
  for (std::int64_t i = 0; i < 12; ++i)
    shapes.push_back({SampleId{rank * 12 + i}, 0, 4, 10 + (rank * 12 + i) * 29 % 300});
  RaggedBatch batch(std::move(shapes));
  Column& tokens = batch.add_field({"input_ids", DType::int64, FieldKind::token, {}});
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const RowRange rows = batch.rows_of(FieldKind::token, i);
    for (std::int64_t row = rows.begin; row < rows.end; ++row)
      tokens.values<std::int64_t>()[static_cast<std::size_t>(row)] = row - rows.begin + 1;
  }
  return batch;
}

std::vector<int> offsets_of(const std::vector<std::int32_t>& counts) {
  std::vector<int> offsets(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), 0);
  return offsets;
}

/// Collective over the micro-batch's group.
Values moved(MPI_Comm group, const Route& route, std::span<const std::int64_t> rows) {
  Values out(route.send_rows.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = rows[static_cast<std::size_t>(route.send_rows[i])];
  Values in(route.receive_rows.size());
  MPI_Alltoallv(out.data(), route.send_counts.data(), offsets_of(route.send_counts).data(), MPI_INT64_T,
                in.data(), route.receive_counts.data(), offsets_of(route.receive_counts).data(), MPI_INT64_T,
                group);
  Values landed(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) landed[static_cast<std::size_t>(route.receive_rows[i])] = in[i];
  return landed;
}

/// Collective over the group: adds up the tokens of each run of rows, one rank after another. In the flat
/// cut, only the first run of a rank continues a sequence, from the last run on the previous rank.
void add_up(MPI_Comm group, const std::vector<SequenceRun>& runs, Values& rows) {
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(group, &rank);
  MPI_Comm_size(group, &size);
  std::int64_t state = 0;
  if (rank > 0) MPI_Recv(&state, 1, MPI_INT64_T, rank - 1, 0, group, MPI_STATUS_IGNORE);
  for (const SequenceRun& run : runs) {
    if (run.first == 0) state = 0;
    for (std::int64_t row = run.rows.begin; row < run.rows.begin + run.tokens; ++row)
      rows[static_cast<std::size_t>(row)] = state += rows[static_cast<std::size_t>(row)];
  }
  if (rank + 1 < size) MPI_Send(&state, 1, MPI_INT64_T, rank + 1, 0, group);
}

/// Returns the number of true rows that contain the sum 1 + 2 + ... of the tokens up to their own.
std::int64_t right_rows(const PackedMicroBatch& m, const Values& sums) {
  std::int64_t right = 0;
  for (const PackedRun& run : packed_runs(m.layout, m.cp_rank)) {
    for (std::int64_t i = 0; i < run.sequence.size(); ++i) {
      const std::int64_t token = run.sequence.begin + i + 1;
      if (sums[static_cast<std::size_t>(run.local + i)] == token * (token + 1) / 2) ++right;
    }
  }
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  const boost::mpi::environment mpi(argc, argv);
  const boost::mpi::communicator world;
  try {
    Config config;
    config.mesh.cp = world.size() % 2 == 0 ? 2 : 1;
    config.micro_batch.max_tokens = 2048;
    DataService service(world, config);
    const Step step = service.step(generate(world.rank()));
    std::int64_t right = 0;
    for (const MicroBatch& m : step.micro_batches) {
      if (m.tensors.empty()) continue;
      const MPI_Comm group = service.mesh().context(m.context);
      const Route to_flat = m.route<std::int32_t>(RowCut::zigzag, RowCut::flat);
      Values rows = moved(group, to_flat, m.tensors.find("input_ids")->values<std::int64_t>());
      add_up(group, m.sequence_runs(RowCut::flat), rows);
      right += right_rows(m.tensors, moved(group, to_flat.reversed(), rows));
    }
    right = boost::mpi::all_reduce(world, right, std::plus<>());
    if (world.rank() == 0)
      std::printf("%lld of %lld tokens have the sum of their sequence so far\n",
                  static_cast<long long>(right), static_cast<long long>(step.num_tokens));
    return right == step.num_tokens ? 0 : 1;
  } catch (const Error& error) {
    if (world.rank() == 0) std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
