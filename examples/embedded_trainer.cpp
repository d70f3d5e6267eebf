// A trainer that embeds Evenkeel: it owns MPI and its communicator, makes fresh samples every step, and runs
// the micro-batches it is handed. The "model" is a stand-in that counts tokens; everything else is what a
// real one does.
//
//   mpirun -n 8 embedded_trainer

#include <boost/mpi/collectives.hpp>
#include <boost/mpi/communicator.hpp>
#include <boost/mpi/environment.hpp>
#include <cstdio>
#include <functional>

#include "evenkeel/base/error.hpp"
#include "evenkeel/service/data_service.hpp"

namespace {

constexpr std::int64_t steps = 3;
constexpr std::int64_t samples_per_rank = 40;

/// What a rollout worker on this rank would hand over: samples of very different lengths, with a reward each.
evenkeel::RaggedBatch generate(int rank, std::int64_t step) {
  std::vector<evenkeel::SampleShape> shapes;
  for (std::int64_t i = 0; i < samples_per_rank; ++i) {
    const std::int64_t id = (step * 64 + rank) * samples_per_rank + i;
    const std::int64_t prompt = 16 + id * 7 % 50;
    const std::int64_t response = id % 10 == 0 ? 1500 : 20 + id * 31 % 300;
    shapes.push_back({evenkeel::SampleId{id}, static_cast<std::uint64_t>(id / 8), prompt, response});
  }
  evenkeel::RaggedBatch batch(std::move(shapes));
  auto& tokens = batch.add_field({"input_ids", evenkeel::DType::int64, evenkeel::FieldKind::token, {}});
  std::int64_t next = 0;
  for (std::int64_t& token : tokens.values<std::int64_t>()) token = next++ % 32000;
  auto& reward = batch.add_field({"reward", evenkeel::DType::float32, evenkeel::FieldKind::sample, {}});
  for (float& value : reward.values<float>()) value = 1.0F;
  return batch;
}

/// Stands in for forward and backward: the tokens that carry loss on this rank.
double forward_backward(const evenkeel::PackedMicroBatch& micro_batch) {
  double loss_tokens = 0;
  for (const float mask : micro_batch.find("loss_mask")->values<float>()) loss_tokens += mask;
  return loss_tokens;
}

double train_step(evenkeel::DataService& service, const boost::mpi::communicator& trainers,
                  std::int64_t step) {
  const evenkeel::Step data = service.step(generate(trainers.rank(), step));
  double loss_tokens = 0;
  for (const evenkeel::PackedMicroBatch& micro_batch : data.micro_batches) {
    if (!micro_batch.empty()) loss_tokens += forward_backward(micro_batch);
  }
  return boost::mpi::all_reduce(trainers, loss_tokens, std::plus<>());
}

}  // namespace

int main(int argc, char** argv) {
  const boost::mpi::environment mpi(argc, argv, boost::mpi::threading::funneled);
  const boost::mpi::communicator world;
  const boost::mpi::communicator trainers = world.split(0);  // a job may keep some ranks for other work

  evenkeel::Config config;
  config.mesh.cp = trainers.size() % 4 == 0 ? 2 : 1;
  config.micro_batch.max_tokens = 4096;
  config.balance.cost = evenkeel::CostModel::flops_7b();
  try {
    evenkeel::DataService service(trainers, config);
    for (std::int64_t step = 0; step < steps; ++step) {
      const double loss_tokens = train_step(service, trainers, step);
      if (trainers.rank() == 0)
        std::printf("step %lld: %.0f loss tokens\n", static_cast<long long>(step), loss_tokens);
    }
  } catch (const evenkeel::Error& error) {
    // Every rank throws the same error, so one of them reports it and all leave together.
    if (trainers.rank() == 0) std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
