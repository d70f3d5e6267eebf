#pragma once

#include <string>

#include "buffer/intake/received_samples.hpp"
#include "stream/settings.hpp"

namespace evenkeel::testing_support {

/// Returns a sample's line.
inline std::string rollout_line(const std::string& uid, int index, int version = 0, int tokens = 3) {
  std::string ids;
  for (int i = 0; i < tokens; ++i) ids += (i == 0 ? "" : ", ") + std::to_string(i);
  return R"({"uid": ")" + uid + R"(", "index": )" + std::to_string(index) + R"(, "version": )" +
         std::to_string(version) + R"(, "prompt_ids": [7], "response_ids": [)" + ids + "]}\n";
}

inline stream::StreamSettings groups_of(std::int64_t size) {
  stream::StreamSettings settings;
  settings.group_size = size;
  return settings;
}

inline ReceivedSamples received(const std::string& lines, const DeclaredFormats& formats = stream_formats()) {
  RequestBody body;
  body.write(lines);
  return ReceivedSamples(std::move(body), SampleForm::lines, formats);
}

}  // namespace evenkeel::testing_support
