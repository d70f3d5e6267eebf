#pragma once

#include "evenkeel/c/config.h"
#include "evenkeel/config/config.hpp"

struct evenkeel_config {
  evenkeel::Config config;
};
