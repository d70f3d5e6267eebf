#include "io/jsonl/number_list.hpp"

#include <bit>
#include <cstddef>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace evenkeel {
namespace {

using Bits = std::uint64_t;  // one bit per byte of a block; the lowest bit is the first byte

constexpr int block_bytes = 64;

/// Positions, in a block, of the characters that occur in lists of whole numbers.
struct IntegerCharacters {
  Bits digits = 0;
  Bits zeros = 0;
  Bits commas = 0;
  Bits spaces = 0;
};

/// Positions, in a block, of the characters that occur only in negative numbers and in numbers that are not
/// whole.
struct OtherCharacters {
  Bits minuses = 0;
  Bits points = 0;
  Bits exponents = 0;  ///< positions of 'e'
};

#if defined(__SSE2__)

/// Calls `look` for each 16-byte part of a block. Passes the part's bytes, and a function that converts the
/// result of a comparison to the part's bits in the block.
template <typename Look>
void for_each_part(const char* block, Look look) noexcept {
  for (int part = 0; part < block_bytes / 16; ++part) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 16 * part));
    look(bytes, [&](__m128i found) {
      return static_cast<Bits>(static_cast<unsigned>(_mm_movemask_epi8(found))) << (16 * part);
    });
  }
}

IntegerCharacters classify_integer_characters(const char* block) noexcept {
  IntegerCharacters at;
  for_each_part(block, [&](__m128i bytes, auto bits) {
    const __m128i above = _mm_sub_epi8(bytes, _mm_set1_epi8('0'));
    at.digits |= bits(_mm_cmpeq_epi8(_mm_min_epu8(above, _mm_set1_epi8(9)), above));
    at.zeros |= bits(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('0')));
    at.commas |= bits(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(',')));
    at.spaces |= bits(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(' ')));
  });
  return at;
}

OtherCharacters classify_other_characters(const char* block) noexcept {
  OtherCharacters at;
  for_each_part(block, [&](__m128i bytes, auto bits) {
    at.minuses |= bits(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('-')));
    at.points |= bits(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('.')));
    at.exponents |= bits(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('e')));
  });
  return at;
}

#else

template <typename Is>
Bits match_bits(const char* block, Is is) noexcept {
  Bits bits = 0;
  for (int i = 0; i < block_bytes; ++i) bits |= static_cast<Bits>(is(block[i]) ? 1 : 0) << i;
  return bits;
}

IntegerCharacters classify_integer_characters(const char* block) noexcept {
  return {match_bits(block, [](char c) { return '0' <= c && c <= '9'; }),
          match_bits(block, [](char c) { return c == '0'; }),
          match_bits(block, [](char c) { return c == ','; }),
          match_bits(block, [](char c) { return c == ' '; })};
}

OtherCharacters classify_other_characters(const char* block) noexcept {
  return {match_bits(block, [](char c) { return c == '-'; }),
          match_bits(block, [](char c) { return c == '.'; }),
          match_bits(block, [](char c) { return c == 'e'; })};
}

#endif

/// Shifts bits by one position, toward later bytes. Carries the last bit of a block to the next block.
class CarryShift {
 public:
  explicit CarryShift(bool first = false) noexcept : carry_(first ? 1 : 0) {}
  Bits operator()(Bits bits) noexcept {
    const Bits moved = bits << 1U | carry_;
    carry_ = bits >> 63U;
    return moved;
  }
  [[nodiscard]] bool has_carry() const noexcept { return carry_ != 0; }

 private:
  Bits carry_;
};

/// Finds the ends of runs of digits that begin at given bytes. A run may continue in the next block.
class Runs {
 public:
  /// Returns a mask of the bytes just after each run. Adding `begins` to `digits` causes a carry that
  /// propagates through each run and ends at the byte after it.
  Bits ends(Bits begins, Bits digits) noexcept {
    const Bits sum = begins + digits;
    const Bits whole = sum + carry_;
    carry_ = (sum < digits ? 1 : 0) | (whole < sum ? 1 : 0);
    previous_run_digits_ = run_digits_;
    run_digits_ = digits & ~whole;
    return whole & ~digits;
  }

  [[nodiscard]] bool has_carry() const noexcept { return carry_ != 0; }

  /// Returns whether a run in the latest block has more than 15 digits so far. Sets `wide` if a run has more
  /// than 7 digits so far.
  [[nodiscard]] bool has_long_run(bool& wide) const noexcept {
    // The loop keeps only the bits of digits that follow at least 7 other digits of the same run.
    Bits low = previous_run_digits_;
    Bits high = run_digits_;
    for (const unsigned length : {1U, 2U, 4U}) {
      high &= high << length | low >> (64U - length);
      low &= low << length;
    }
    if (high == 0) return false;
    wide = true;
    constexpr unsigned length = 8;
    return (high & (high << length | low >> (64U - length))) != 0;
  }

 private:
  Bits carry_ = 0;
  Bits run_digits_ = 0;
  Bits previous_run_digits_ = 0;
};

/// Scans a list block by block. A number is an optional minus sign and digits at a position where a number
/// may begin, optionally followed by a point and digits, and by an e, a minus sign and digits. Commas and
/// spaces may occur only where scan_number_list() allows them.
class ListScan {
 public:
  /// scan_whole_numbers() and scan_numbers() scan a block and return whether all bytes of `within` are plain.
  /// `within` is the whole block unless the list ends in the block. In that case, the last byte of `within`
  /// is the closing bracket, which, like a comma, ends a number.
  bool scan_whole_numbers(const IntegerCharacters& at, Bits within) noexcept {
    const Bits begins = find_number_begins(at) & within;
    const Bits ends = whole_runs_.ends(begins & at.digits, at.digits);
    const Bits wrong = (begins & ~at.digits) | (at.spaces & ~behind_comma_) | (at.commas & ~ends) |
                       (after_zero_(begins & at.zeros) & at.digits);
    list.count += std::popcount(at.commas);
    return wrong == 0 && !whole_runs_.has_long_run(list.has_wide);
  }

  bool scan_numbers(const IntegerCharacters& at, const OtherCharacters& other, Bits within) noexcept {
    const Bits begins = find_number_begins(at) & within;
    const Bits signs = begins & other.minuses;
    const Bits wholes = ((begins & ~other.minuses) | after_sign_(signs)) & within;
    const Bits whole_ends = whole_runs_.ends(wholes & at.digits, at.digits);
    const Bits fractions = after_point_(other.points);
    const Bits fraction_ends = fraction_runs_.ends(fractions & at.digits, at.digits);
    const Bits power_signs = after_exponent_(other.exponents);
    const Bits powers = after_power_sign_(power_signs & other.minuses);
    const Bits power_ends = power_runs_.ends(powers & at.digits, at.digits);
    Bits wrong = (wholes | fractions | powers) & ~at.digits;
    wrong |= power_signs & ~other.minuses;
    wrong |= at.spaces & ~behind_comma_;
    wrong |= other.minuses & ~(begins | power_signs);
    wrong |= other.points & ~whole_ends;
    wrong |= other.exponents & ~(whole_ends | fraction_ends);
    wrong |= at.commas & ~(whole_ends | fraction_ends | power_ends);
    wrong |= after_zero_(wholes & at.zeros) & at.digits;
    list.count += std::popcount(at.commas);
    list.has_reals = list.has_reals || (other.points | other.exponents) != 0;
    list.has_negatives = list.has_negatives || signs != 0;
    bool is_wide_power = false;
    return wrong == 0 && !whole_runs_.has_long_run(list.has_wide) && !power_runs_.has_long_run(is_wide_power);
  }

  /// Returns whether scan_whole_numbers() can scan the next block: the latest block ended outside a number,
  /// or within the digits of a whole number.
  [[nodiscard]] bool can_scan_whole_numbers() const noexcept {
    return !after_sign_.has_carry() && !after_point_.has_carry() && !after_exponent_.has_carry() &&
           !after_power_sign_.has_carry() && !fraction_runs_.has_carry() && !power_runs_.has_carry();
  }

  NumberList list;

 private:
  Bits find_number_begins(const IntegerCharacters& at) noexcept {
    behind_comma_ = after_comma_(at.commas);
    return (behind_comma_ & ~at.spaces) | after_space_(at.spaces);
  }

  Bits behind_comma_ = 0;
  CarryShift after_comma_{true};
  CarryShift after_space_;
  CarryShift after_sign_;
  CarryShift after_point_;
  CarryShift after_exponent_;
  CarryShift after_power_sign_;
  CarryShift after_zero_;
  Runs whole_runs_;
  Runs fraction_runs_;
  Runs power_runs_;
};

}  // namespace

std::optional<NumberList> scan_number_list(const char* begin) noexcept {
  if (*begin == ']') return NumberList{begin + 1};
  ListScan scan;
  for (const char* block = begin;; block += block_bytes) {
    IntegerCharacters at = classify_integer_characters(block);
    OtherCharacters other;
    Bits rest = ~(at.digits | at.commas | at.spaces);
    const bool has_others =
        !scan.can_scan_whole_numbers() || (rest != 0 && block[std::countr_zero(rest)] != ']');
    if (has_others) {
      other = classify_other_characters(block);
      rest &= ~(other.minuses | other.points | other.exponents);
    }
    Bits within = ~Bits{0};
    if (rest != 0) {
      if (block[std::countr_zero(rest)] != ']') return std::nullopt;
      const Bits end = rest & -rest;
      const Bits before = end - 1;
      for (Bits* bits :
           {&at.digits, &at.zeros, &at.commas, &at.spaces, &other.minuses, &other.points, &other.exponents})
        *bits &= before;
      at.commas |= end;
      within = before | end;
    }
    if (has_others ? !scan.scan_numbers(at, other, within) : !scan.scan_whole_numbers(at, within))
      return std::nullopt;
    if (rest == 0) continue;
    scan.list.end = block + std::countr_zero(rest) + 1;
    return scan.list;
  }
}

}  // namespace evenkeel
