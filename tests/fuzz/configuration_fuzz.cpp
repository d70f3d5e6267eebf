// Configurations as users write them: the meaning is the same after they were written out and read again.
#include "evenkeel/config/config.hpp"
#include "fuzz/target.hpp"

namespace evenkeel::fuzz {

void run(Bytes input) {
  const Config config = parse_config(text_of(input), "job.yaml");
  const std::string text = to_yaml(config);
  require(parse_config(text, "written.yaml") == config, "a configuration that was written is read as it was");
  require(to_yaml(parse_config(text, "written.yaml")) == text,
          "a configuration that was read again is written as before");
}

}  // namespace evenkeel::fuzz
