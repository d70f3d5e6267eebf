// The proof of docs/training.md in C++: a small libtorch model is trained with Evenkeel, data-parallel and
// context-parallel, and also on rank 0 alone, in one padded batch. Losses and gradients of every step must be
// equal.
//
//   mpirun -n 4 training_libtorch

#include <torch/torch.h>

#include <algorithm>
#include <boost/mpi/communicator.hpp>
#include <boost/mpi/environment.hpp>
#include <cmath>
#include <cstdio>
#include <optional>
#include <random>

#include "evenkeel/evenkeel.hpp"
#include "evenkeel/torch/packed_attention.hpp"

namespace {

using namespace evenkeel;
namespace F = torch::nn::functional;

constexpr std::int64_t steps = 10;
constexpr std::int64_t vocabulary = 64;
constexpr std::int64_t width = 16;
constexpr std::int64_t layers = 2;
constexpr std::int64_t longest = 128;

/// All samples of a step, which every rank can make. The loss is the mean over all response tokens.
struct Samples {
  std::vector<SampleShape> shapes;
  std::vector<std::vector<std::int64_t>> tokens;
};

Samples samples_of(std::int64_t step) {
  std::mt19937_64 random(static_cast<std::uint64_t>(step) + 1);
  Samples samples;
  for (std::int64_t i = 0; i < 12; ++i) {
    const auto prompt = static_cast<std::int64_t>(1 + random() % 20);
    const auto response = static_cast<std::int64_t>(random() % (i == 0 ? 80 : 30));
    samples.shapes.push_back({SampleId{step * 12 + i}, static_cast<std::uint64_t>(i), prompt, response});
    std::vector<std::int64_t>& tokens = samples.tokens.emplace_back();
    for (std::int64_t t = 0; t < prompt + response; ++t)
      tokens.push_back(t < 2 ? static_cast<std::int64_t>(random() % vocabulary)
                             : (tokens[t - 1] * 3 + tokens[t - 2]) % vocabulary);
  }
  return samples;
}

/// Returns the samples that this rank supplies.
RaggedBatch share_of(const Samples& samples, int rank, int ranks) {
  std::vector<SampleShape> shapes;
  std::vector<std::int64_t> rows;
  for (std::size_t i = static_cast<std::size_t>(rank); i < samples.shapes.size();
       i += static_cast<std::size_t>(ranks)) {
    shapes.push_back(samples.shapes[i]);
    rows.insert(rows.end(), samples.tokens[i].begin(), samples.tokens[i].end());
  }
  RaggedBatch batch(std::move(shapes));
  std::ranges::copy(
      rows,
      batch.add_field({"input_ids", DType::int64, FieldKind::token, {}}).values<std::int64_t>().begin());
  return batch;
}

/// Parameters, and everything except attention, which is passed in: attend(q, k, v).
struct Model {
  std::vector<at::Tensor> parameters;

  explicit Model() {
    torch::manual_seed(1);
    add({vocabulary, width});
    add({longest, width});
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      add({3 * width, width});
      add({width, width});
    }
    add({vocabulary, width});
  }
  void add(at::IntArrayRef shape) {
    parameters.push_back((0.3 * at::randn(shape, at::kDouble)).requires_grad_());
  }

  /// Log-probabilities [..., vocabulary] of tokens [...].
  template <typename Attend>
  at::Tensor log_probs(const at::Tensor& tokens, const at::Tensor& positions, Attend&& attend) const {
    at::Tensor x = F::embedding(tokens, parameters[0]) + F::embedding(positions, parameters[1]);
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      const auto at = static_cast<std::size_t>(2 + 2 * layer);
      const std::vector<at::Tensor> qkv = F::linear(x, parameters[at]).chunk(3, -1);
      x = x + F::linear(attend(qkv[0], qkv[1], qkv[2]), parameters[at + 1]).tanh();
    }
    return F::linear(x, parameters.back()).log_softmax(-1);
  }

  at::Tensor gradient() const {
    std::vector<at::Tensor> parts;
    for (const at::Tensor& p : parameters) parts.push_back(p.grad().flatten());
    return at::cat(parts);
  }
  void update(const at::Tensor& gradient) {
    const torch::NoGradGuard no_gradient;
    std::int64_t begin = 0;
    for (at::Tensor& p : parameters) {
      p -= 0.5 * gradient.slice(0, begin, begin + p.numel()).view_as(p);
      begin += p.numel();
      p.mutable_grad() = at::Tensor();
    }
  }
};

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& sees) {
  const at::Tensor scores = q.matmul(k.transpose(-2, -1)) / std::sqrt(static_cast<double>(width));
  return scores.masked_fill(~sees, -1e30).softmax(-1).matmul(v);
}

/// Returns the rows of all CP ranks, one rank after another; gradients are summed on the way back.
struct GatherRows : torch::autograd::Function<GatherRows> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const boost::mpi::communicator& cp) {
    context->saved_data["cp"] = reinterpret_cast<std::int64_t>(&cp);
    const at::Tensor own = x.contiguous();
    at::Tensor all = at::empty({x.size(0) * cp.size(), x.size(1)}, at::kDouble);
    const auto count = static_cast<int>(own.numel());
    MPI_Allgather(own.data_ptr(), count, MPI_DOUBLE, all.data_ptr(), count, MPI_DOUBLE, cp);
    return all;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto& cp = *reinterpret_cast<const boost::mpi::communicator*>(context->saved_data["cp"].toInt());
    const at::Tensor all = gradients.front().contiguous();
    at::Tensor own = at::empty({all.size(0) / cp.size(), all.size(1)}, at::kDouble);
    MPI_Reduce_scatter_block(all.data_ptr(), own.data_ptr(), static_cast<int>(own.numel()), MPI_DOUBLE,
                             MPI_SUM, cp);
    return {own, at::Tensor()};
  }
};

at::Tensor tensor_of(const PackedMicroBatch& batch, std::string_view field) {
  return to_tensor(batch.find(field)->values<std::int64_t>());
}

/// Each row's weight in the loss, in double; loss_weights has it rounded to float.
at::Tensor weights_of(const MicroBatch& micro_batch) {
  const PackedMicroBatch& batch = micro_batch.tensors;
  at::Tensor weights = at::zeros({batch.layout.local_rows()}, at::kDouble);
  const auto mask = batch.find(loss_mask_field)->values<float>();
  for (std::size_t i = 0; i < micro_batch.loss.token_weights.size(); ++i) {
    const RowRange rows = batch.layout.local_range(static_cast<std::int64_t>(i));
    for (std::int64_t row = rows.begin; row < rows.end; ++row)
      if (mask[static_cast<std::size_t>(row)] != 0) weights[row] = micro_batch.loss.token_weights[i];
  }
  return weights;
}

/// Returns this rank's part of the loss.
at::Tensor loss_of(const Model& model, const MicroBatch& micro_batch, const boost::mpi::communicator& cp) {
  const PackedMicroBatch& batch = micro_batch.tensors;
  const PackedLayout& layout = batch.layout;
  const at::Tensor positions = tensor_of(batch, position_ids_field);
  const auto attend = [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    const at::Tensor keys = merge_cp_rows(layout, GatherRows::apply(k, cp));  // in the order of the sequences
    const at::Tensor values = merge_cp_rows(layout, GatherRows::apply(v, cp));
    std::vector<at::Tensor> out;
    for (std::int64_t i = 0; i < layout.size(); ++i) {
      const RowRange mine = layout.local_range(i);
      const std::int64_t begin = layout.cu_seqlens_padded()[static_cast<std::size_t>(i)];
      const std::int64_t end = begin + layout.aligned_length(i);
      const at::Tensor sees =
          at::arange(end - begin) <= positions.slice(0, mine.begin, mine.end).unsqueeze(1);
      out.push_back(attention(q.slice(0, mine.begin, mine.end), keys.slice(0, begin, end),
                              values.slice(0, begin, end), sees));
    }
    return at::cat(out);
  };
  const at::Tensor log_probs = model.log_probs(tensor_of(batch, input_ids_field), positions, attend);
  const at::Tensor labels = tensor_of(batch, labels_field).clamp_min(0).unsqueeze(-1);
  return -(weights_of(micro_batch) * log_probs.gather(-1, labels).squeeze(-1)).sum() * micro_batch.loss.scale;
}

/// Returns the same loss for one padded batch, without Evenkeel: the mean over all response tokens.
at::Tensor plain_loss(const Model& model, const Samples& samples) {
  const auto count = static_cast<std::int64_t>(samples.shapes.size());
  at::Tensor tokens = at::zeros({count, longest}, at::kLong);
  at::Tensor predicts = at::zeros({count, longest - 1}, at::kDouble);
  for (std::int64_t i = 0; i < count; ++i) {
    const SampleShape& shape = samples.shapes[static_cast<std::size_t>(i)];
    tokens[i].slice(0, 0, shape.length()) =
        at::tensor(samples.tokens[static_cast<std::size_t>(i)], at::kLong);
    predicts[i].slice(0, shape.prompt - 1, shape.length() - 1) = 1;
  }
  const at::Tensor positions = at::arange(longest);
  const at::Tensor sees =
      positions <= positions.unsqueeze(1);  // padding stands on the right: no token sees it
  const at::Tensor log_probs =
      model.log_probs(tokens, positions.expand({count, longest}),
                      [&](auto& q, auto& k, auto& v) { return attention(q, k, v, sees); });
  const at::Tensor losses =
      -log_probs.slice(1, 0, -1).gather(-1, tokens.slice(1, 1).unsqueeze(-1)).squeeze(-1);
  return (losses * predicts).sum() / predicts.sum();
}

/// Trains both; returns the largest relative difference of losses and gradients, which is known only on rank
/// 0.
double train(const boost::mpi::communicator& world) {
  Config config;
  config.mesh.cp = world.size() % 2 == 0 ? 2 : 1;
  config.micro_batch.max_tokens = longest;
  DataService service(world, config);
  const boost::mpi::communicator& cp = service.mesh().along(Axis::cp);
  Model model;
  Model plain;
  double farthest = 0;
  for (std::int64_t number = 0; number < steps; ++number) {
    const Samples samples = samples_of(number);
    const Step step = service.step(share_of(samples, world.rank(), world.size()));
    at::Tensor loss = at::zeros({1}, at::kDouble);
    for (const MicroBatch& micro_batch : step.micro_batches) {
      const at::Tensor part = loss_of(model, micro_batch, cp);
      part.backward();
      loss += part.detach();
    }
    at::Tensor sums = at::cat({loss, model.gradient()});
    MPI_Allreduce(MPI_IN_PLACE, sums.data_ptr(), static_cast<int>(sums.numel()), MPI_DOUBLE, MPI_SUM, world);
    sums /= service.mesh().grid().sizes().dp;  // losses are scaled for a mean over DP ranks
    model.update(sums.slice(0, 1));
    if (world.rank() != 0) continue;

    const at::Tensor expected = plain_loss(plain, samples);
    expected.backward();
    const at::Tensor gradient = plain.gradient();
    plain.update(gradient);
    const double its = expected.item<double>();
    const double far = ((sums.slice(0, 1) - gradient).abs().max() / gradient.abs().max()).item<double>();
    farthest = std::max({farthest, far, std::abs(sums[0].item<double>() - its) / its});
    std::printf("step %lld: %zu micro-batches, loss %.9f\n", static_cast<long long>(number),
                step.micro_batches.size(), its);
  }
  return farthest;
}

}  // namespace

int main(int argc, char** argv) {
  const boost::mpi::environment mpi(argc, argv, boost::mpi::threading::funneled);
  const boost::mpi::communicator world;
  at::set_num_threads(1);
  const double farthest = train(world);
  const bool equal = farthest <= 1e-9;
  if (world.rank() == 0)
    std::printf("losses and gradients %s\n", equal ? "are those of plain training" : "DIFFER");
  return equal ? 0 : 1;
}
