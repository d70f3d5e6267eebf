#pragma once

#include <string_view>

namespace evenkeel {

/// Contents of the files in src/page/template, which CMake embeds.
extern const std::string_view page_html;
extern const std::string_view page_style;
extern const std::string_view page_script;

}  // namespace evenkeel
