#pragma once

#include <boost/archive/binary_iarchive.hpp>
#include <boost/archive/binary_oarchive.hpp>
#include <sstream>
#include <string>
#include <utility>

namespace evenkeel {

/// A value as the bytes of a Boost archive, so that making them, which takes memory, comes apart from sending
/// them. For ranks of one job, which read them with the same program.
template <typename T>
[[nodiscard]] std::string to_archive(const T& value) {
  std::ostringstream stream;
  boost::archive::binary_oarchive(stream, boost::archive::no_header) << value;
  return std::move(stream).str();
}

/// Reads a value from what to_archive() made of it on a rank of the same program.
template <typename T>
void from_archive(std::string bytes, T& value) {
  std::istringstream stream(std::move(bytes));
  boost::archive::binary_iarchive(stream, boost::archive::no_header) >> value;
}

}  // namespace evenkeel
