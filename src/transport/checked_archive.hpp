#pragma once

#include <boost/archive/archive_exception.hpp>
#include <boost/archive/binary_iarchive.hpp>
#include <boost/archive/binary_iarchive_impl.hpp>
#include <boost/archive/impl/basic_binary_iarchive.ipp>
#include <boost/archive/impl/basic_binary_iprimitive.ipp>
#include <boost/serialization/array_wrapper.hpp>
#include <boost/serialization/collection_size_type.hpp>
#include <cstddef>
#include <sstream>
#include <string>
#include <utility>

namespace evenkeel {

/// Boost's binary_iarchive, without a header, that believes no size: Boost makes room for as many elements as
/// bytes say, terabytes maybe, before it reads one. Throws boost::archive::archive_exception for sizes above
/// the bytes that are left, since each element takes one at least, and for a bool that is neither 0 nor 1.
class CheckedArchive final
    : public boost::archive::binary_iarchive_impl<CheckedArchive, char, std::char_traits<char>> {
  using Base = boost::archive::binary_iarchive_impl<CheckedArchive, char, std::char_traits<char>>;

 public:
  /// `bytes` must outlive it.
  explicit CheckedArchive(std::stringbuf& bytes) : Base(bytes, boost::archive::no_header), bytes_(bytes) {}

  template <typename T>
  void load(T& value) {
    Base::load(value);
  }
  void load(bool& value) {
    char byte = 0;
    Base::load(byte);
    if (byte != 0 && byte != 1) refuse();
    value = byte == 1;
  }
  void load(std::string& text) {
    std::size_t size = 0;
    Base::load(size);
    require_left(size);
    text.resize(size);
    this->load_binary(text.data(), size);
  }
  void load(boost::serialization::collection_size_type& count) {
    Base::load(count);
    require_left(std::as_const(count));
  }

 private:
  void require_left(std::size_t size) {
    const std::streamsize left = bytes_.in_avail();
    if (left < 0 ? size > 0 : size > static_cast<std::size_t>(left)) refuse();
  }
  [[noreturn]] static void refuse() {
    throw boost::archive::archive_exception(boost::archive::archive_exception::input_stream_error);
  }

  std::stringbuf& bytes_;
};

}  // namespace evenkeel

// As Boost's own has it, which has written what is read here.
BOOST_SERIALIZATION_USE_ARRAY_OPTIMIZATION(evenkeel::CheckedArchive)
