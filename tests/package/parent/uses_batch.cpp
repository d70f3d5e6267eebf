#include <evenkeel/batch/ragged_batch.hpp>
#include <iostream>

#if EVENKEEL_ASSERTION_LEVEL != 0
#error "how Evenkeel checks its own contracts has reached a program that uses it"
#endif

int main() {
  const evenkeel::RaggedBatch batch({{evenkeel::SampleId{0}, 0, 3, 4}});
  std::cout << batch.num_tokens() << " tokens\n";
  return batch.num_tokens() == 7 ? 0 : 1;
}
