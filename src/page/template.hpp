#pragma once

#include <string_view>

namespace evenkeel {

/// The files of src/page/template, made into code by CMake.
extern const std::string_view page_html;
extern const std::string_view page_style;
extern const std::string_view page_script;

}  // namespace evenkeel
