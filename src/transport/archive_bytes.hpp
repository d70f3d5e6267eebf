#pragma once

#include <boost/archive/archive_exception.hpp>
#include <boost/archive/binary_oarchive.hpp>
#include <sstream>
#include <string>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "transport/checked_archive.hpp"

namespace evenkeel {

/// A value as the bytes of a Boost archive, so that making them, which takes memory, comes apart from sending
/// them. For ranks of one job, which read them with the same program.
template <typename T>
[[nodiscard]] std::string to_archive(const T& value) {
  std::ostringstream stream;
  boost::archive::binary_oarchive(stream, boost::archive::no_header) << value;
  return std::move(stream).str();
}

/// Throws InputError where the bytes are not what to_archive() has made of such a value; what is read may
/// then be there in part. Takes no more memory than `sizeof` of an element for each byte. Numbers may be any.
template <typename T>
void from_archive(std::string bytes, T& value) {
  try {
    std::stringbuf stream(std::move(bytes), std::ios::in);
    CheckedArchive(stream) >> value;
  } catch (const boost::archive::archive_exception& error) {
    throw InputError("a message from another rank", std::string("cannot be read: ") + error.what(),
                     "Start the same program on all ranks");
  }
}

}  // namespace evenkeel
