#pragma once

#include <filesystem>

#include "buffer/http/http_listener.hpp"
#include "buffer/values/value_store.hpp"

namespace evenkeel {

/// Server for a store of values. docs/formats.md describes its API calls and frames.
class ValueServer : public HttpListener {
 public:
  /// Clients may save and load files only in the folder `checkpoints`, and not at all if it is empty.
  ValueServer(ValueStore& store, const ServerSettings& settings,
              const std::filesystem::path& checkpoints = {});
};

}  // namespace evenkeel
