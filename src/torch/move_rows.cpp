#include "torch/move_rows.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

namespace evenkeel {
namespace {

std::vector<std::int64_t> shape_with_rows(const at::Tensor& x, std::int64_t rows) {
  std::vector<std::int64_t> shape{rows};
  for (const std::int64_t size : x.sizes().slice(1)) shape.push_back(size);
  return shape;
}

/// The only autograd function of this module. All code that moves tokens uses it.
struct MoveRows : torch::autograd::Function<MoveRows> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& source, const at::Tensor& target, std::int64_t target_rows,
                            double pad) {
    context->save_for_backward({source, target});
    context->saved_data["rows"] = x.size(0);
    at::Tensor moved = at::full(shape_with_rows(x, target_rows), pad, x.options());
    return moved.index_copy_(0, target, x.index_select(0, source));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& gradient = gradients.front();
    const std::int64_t rows = context->saved_data["rows"].toInt();
    const at::Tensor summed = at::zeros(shape_with_rows(gradient, rows), gradient.options())
                                  .index_add(0, saved[0], gradient.index_select(0, saved[1]));
    return {summed, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor move_rows(const at::Tensor& x, const at::Tensor& source, const at::Tensor& target,
                     std::int64_t target_rows, double pad) {
  return MoveRows::apply(x, source.to(x.device()), target.to(x.device()), target_rows, pad);
}

}  // namespace evenkeel
