#include "io/jsonl/json_text.hpp"

#include <new>

namespace evenkeel {

// Of a std::string, padded_string would claim characters that it found no memory for; of a view it has
// none then.
JsonText::JsonText(std::string_view text) : padded_(text) {
  if (padded_.size() < text.size()) throw std::bad_alloc();
  simdjson::dom::object object;
  const auto error = parser_.parse(padded_).get(object);
  if (error == simdjson::MEMALLOC) throw std::bad_alloc();
  if (!error) object_ = object;
}

}  // namespace evenkeel
