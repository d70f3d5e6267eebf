#include <evenkeel/torch/prefix_grouper.hpp>
#include <iostream>

// A prompt of two tokens with two responses: the columns of a padded row that are tokens.
int main() {
  const std::vector<std::vector<std::int64_t>> groups{{2, 3, 1}};
  const evenkeel::PrefixGrouper grouper(groups);
  const at::Tensor mask = grouper.padding_mask();
  std::cout << mask.size(0) << " row of " << mask.size(1) << " tokens\n";
  return mask.size(1) == 6 ? 0 : 1;
}
