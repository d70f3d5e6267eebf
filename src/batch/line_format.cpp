#include "evenkeel/batch/dtype.hpp"

namespace evenkeel {

std::string_view name_of(LineFormat format) noexcept {
  switch (format) {
    case LineFormat::rows:
      return "rows";
    case LineFormat::text:
      return "text";
    case LineFormat::bytes:
      return "bytes";
    case LineFormat::axes:
      return "axes";
    case LineFormat::runs:
      return "runs";
  }
  return "unknown format";
}

}  // namespace evenkeel
