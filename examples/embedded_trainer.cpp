// A trainer that embeds Evenkeel: it owns MPI and its communicator, makes fresh samples every step, computes
// log-probs over large micro-batches, collects them, and updates over small ones. The "model" is a stand-in
// that scores a token by its label; everything else is as in a real trainer.
//
//   mpirun -n 8 embedded_trainer

#include <boost/mpi/collectives.hpp>
#include <boost/mpi/communicator.hpp>
#include <boost/mpi/environment.hpp>
#include <cmath>
#include <cstdio>
#include <functional>

#include "evenkeel/evenkeel.hpp"

namespace {

using namespace evenkeel;

constexpr std::int64_t steps = 3;
constexpr std::int64_t samples_per_rank = 40;

/// Returns what a rollout worker on this rank might produce: prompts with 8 responses of very different
/// lengths.
RaggedBatch generate(int rank, std::int64_t step) {
  std::vector<SampleShape> shapes;
  for (std::int64_t i = 0; i < samples_per_rank; ++i) {
    const std::int64_t id = (step * 64 + rank) * samples_per_rank + i;
    const std::int64_t response = id % 10 == 0 ? 1500 : 20 + id * 31 % 300;
    shapes.push_back({SampleId{id}, static_cast<std::uint64_t>(id / 8), 16 + id / 8 * 7 % 50, response});
  }
  RaggedBatch batch(std::move(shapes));
  Column& tokens = batch.add_field({"input_ids", DType::int64, FieldKind::token, {}});
  std::int64_t next = 0;
  for (std::int64_t& token : tokens.values<std::int64_t>()) token = next++ % 32000;
  return batch;
}

/// Stands in for the model: one log-prob per row.
std::vector<float> log_probs_of(const PackedMicroBatch& micro_batch) {
  std::vector<float> log_probs;
  for (const std::int64_t label : micro_batch.find("labels")->values<std::int64_t>())
    log_probs.push_back(-1.0F / static_cast<float>(2 + std::abs(label) % 7));
  return log_probs;
}

/// The log-prob pass: each sample's log-probs are returned to the rank that supplied the sample.
RaggedBatch collect_log_probs(const DataService& service, const Step& pass) {
  StepResults results(pass.micro_batches.size());
  for (std::size_t m = 0; m < pass.micro_batches.size(); ++m) {
    const std::vector<float> log_probs = log_probs_of(pass.micro_batches[m].tensors);
    results.put(m, "old_log_probs", FieldKind::response_token, std::span<const float>(log_probs));
  }
  return service.collect(pass, results);
}

/// The update pass: the mean PPO ratio over all loss tokens, weighted as in the loss. It is 1 before the
/// first optimizer step. `scale` undoes the trainer's own mean over DP ranks.
double mean_ratio(const DataService& service, const Step& pass) {
  double sum = 0;
  for (const MicroBatch& micro_batch : pass.micro_batches) {
    const std::vector<float> now = log_probs_of(micro_batch.tensors);
    const auto before = micro_batch.tensors.find("old_log_probs")->values<float>();
    const auto weights = micro_batch.tensors.find("loss_weights")->values<float>();
    for (std::size_t row = 0; row < now.size(); ++row)
      sum += micro_batch.loss.scale * weights[row] * std::exp(now[row] - before[row]);
  }
  const double total = boost::mpi::all_reduce(service.mesh().world(), sum, std::plus<>());
  return total / service.mesh().grid().sizes().dp;
}

Config two_passes(int ranks) {
  Config config;
  config.mesh.cp = ranks % 4 == 0 ? 2 : 1;
  config.micro_batch.max_tokens = 16384;
  config.profiles["log_prob"] = config.profile({});
  config.profiles["update"] = config.profile({});
  config.profiles["update"].micro_batch.max_tokens = 4096;
  return config;
}

}  // namespace

int main(int argc, char** argv) {
  const boost::mpi::environment mpi(argc, argv, boost::mpi::threading::funneled);
  const boost::mpi::communicator world;
  const boost::mpi::communicator trainers = world.split(0);  // a job may keep some ranks for other work
  try {
    DataService service(trainers, two_passes(trainers.size()));
    for (std::int64_t step = 0; step < steps; ++step) {
      Step pass = service.step(generate(trainers.rank(), step), "log_prob");
      const std::size_t wide = pass.micro_batches.size();
      const RaggedBatch old_log_probs = collect_log_probs(service, pass);
      pass = service.step(std::move(pass), "update", old_log_probs);  // tokens stay where they are
      const double ratio = mean_ratio(service, pass);
      if (trainers.rank() == 0)
        std::printf("step %lld: %zu log-prob and %zu update micro-batches, mean ratio %.6f\n",
                    static_cast<long long>(step), wide, pass.micro_batches.size(), ratio);
    }
  } catch (const Error& error) {
    // Every rank throws the same error, so one of them reports it and all exit together.
    if (trainers.rank() == 0) std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
