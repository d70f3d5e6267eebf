// Megatron's indexed datasets: two bytes specify the length of the index, and the rest is the data.
#include "fuzz/target.hpp"
#include "io/megatron/indexed_dataset.hpp"

namespace evenkeel::fuzz {

void run(Bytes input) {
  Numbers numbers(input);
  const std::int64_t length = numbers.below(1 << 16);
  if (input.size() < 2) return;
  const std::string files = text_of(input.subspan(2));
  const std::size_t index = std::min(static_cast<std::size_t>(length), files.size());
  const std::filesystem::path data = file_with(std::string_view(files).substr(index), "data.bin");
  static_cast<void>(file_with(std::string_view(files).substr(0, index), "data.idx"));
  const IndexedDataset dataset(data.parent_path() / "data");
  std::int64_t tokens = 0;
  for (std::int64_t s = 0; s < dataset.num_sequences(); ++s) {
    const RowRange sequence{s, s + 1};
    tokens += dataset.tokens_in(sequence);
    static_cast<void>(dataset.read_bytes(sequence));
  }
  for (std::int64_t d = 0; d < dataset.num_documents(); ++d) {
    require(dataset.document(d).end <= dataset.num_sequences(), "a document ends within the dataset");
  }
  require(tokens == dataset.num_tokens(), "the sequences have all tokens of the dataset");
}

}  // namespace evenkeel::fuzz
