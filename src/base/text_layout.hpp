#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace evenkeel {

/// `text` in a color for what must not be overlooked, if the reader can be shown colors.
[[nodiscard]] std::string in_alarm(const std::string& text, bool is_colored);

/// 1234567 as "1,234,567".
[[nodiscard]] std::string grouped(std::int64_t number);

/// "1 sample", "2,048 samples": the plural is `thing` and an s, unless it is named.
[[nodiscard]] std::string counted(std::int64_t number, std::string_view thing, std::string_view things = {});

/// The same without commas, for errors: a number that one may look for or copy.
[[nodiscard]] std::string number_of(std::int64_t number, std::string_view thing,
                                    std::string_view things = {});

/// 1536 as "1.5 KiB", in KiB, MiB or GiB.
[[nodiscard]] std::string bytes_text(std::int64_t bytes);

}  // namespace evenkeel
