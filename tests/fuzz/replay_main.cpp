// replay FOLDER CHANGED: runs a fuzz target without a fuzzer, with every file of a folder and then with
// CHANGED random modifications of them, which are the same every time. If an input ends the program, it is in
// the file last-input in the working folder.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Input = std::vector<std::uint8_t>;

Input read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// One input with some bytes changed, removed, duplicated, or replaced by bytes of another input.
class Changes {
 public:
  explicit Changes(std::vector<Input> inputs) : inputs_(std::move(inputs)) {}

  Input next() {
    Input input = any();
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) change(input);
    return input;
  }

 private:
  std::size_t below(std::size_t end) { return end == 0 ? 0 : random_() % end; }
  const Input& any() { return inputs_[below(inputs_.size())]; }

  void change(Input& input) {
    constexpr std::uint8_t telling[] = {0,   1,   0x7f, 0x80, 0xff, '"',  '-', '{',
                                        '}', '[', ']',  ':',  ',',  '\n', '9', ' '};
    const std::size_t at = below(input.size() + 1);
    const std::size_t end = std::min(input.size(), at + 1 + below(8));
    const auto place = [&](std::size_t index) { return input.begin() + static_cast<std::ptrdiff_t>(index); };
    switch (below(6)) {
      case 0:
        if (at < input.size()) input[at] ^= static_cast<std::uint8_t>(1U << below(8));
        return;
      case 1:
        if (at < input.size()) input[at] = telling[below(std::size(telling))];
        return;
      case 2:
        input.erase(place(at), place(end));
        return;
      case 3:
        input.insert(place(at), telling[below(std::size(telling))]);
        return;
      case 4: {
        const Input part(place(at), place(end));
        input.insert(place(at), part.begin(), part.end());
        return;
      }
      default: {
        const Input& other = any();
        const std::size_t from = below(other.size() + 1);
        const std::size_t to = std::min(other.size(), from + 1 + below(64));
        input.insert(place(at), other.begin() + static_cast<std::ptrdiff_t>(from),
                     other.begin() + static_cast<std::ptrdiff_t>(to));
      }
    }
  }

  std::vector<Input> inputs_;
  std::mt19937_64 random_{1};
};

void call(const Input& input) {
  static_cast<void>(LLVMFuzzerTestOneInput(input.data(), input.size()));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: replay FOLDER CHANGED\n";
    return 2;
  }
  std::vector<std::filesystem::path> files(std::filesystem::directory_iterator(argv[1]), {});
  std::ranges::sort(files);
  std::vector<Input> inputs;
  for (const std::filesystem::path& file : files) {
    std::cout << file.filename().string() << std::endl;  // written before the program may end
    call(inputs.emplace_back(read(file)));
  }
  if (inputs.empty()) {
    std::cerr << "there is no input in " << argv[1] << "\n";
    return 1;
  }
  const std::int64_t read_as_they_are = evenkeel::fuzz::num_read;
  if (read_as_they_are == 0) {
    std::cerr << "every input in " << argv[1] << " is refused, so that none gets far\n";
    return 1;
  }
  Changes changes(std::move(inputs));
  const long changed = std::stol(argv[2]);
  for (long i = 0; i < changed; ++i) {
    const Input input = changes.next();
    std::ofstream("last-input", std::ios::binary)
        .write(reinterpret_cast<const char*>(input.data()), static_cast<std::streamsize>(input.size()));
    call(input);
  }
  std::filesystem::remove("last-input");
  std::cout << files.size() << " inputs, " << read_as_they_are << " of them read, and " << changed
            << " changed ones, " << evenkeel::fuzz::num_read - read_as_they_are
            << " of them read: no defect\n";
}
