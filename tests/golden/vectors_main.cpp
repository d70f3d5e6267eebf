#include <fstream>
#include <iostream>

#include "golden/families.hpp"

using evenkeel::golden::json;

// evenkeel-vectors FILE.json: runs the input of every case of a golden file and prints what Evenkeel
// computes.
int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: evenkeel-vectors FILE.json\n";
    return 2;
  }
  std::ifstream file(argv[1]);
  if (!file) {
    std::cerr << "evenkeel-vectors: cannot open " << argv[1] << '\n';
    return 2;
  }
  const json document = json::parse(file);
  const std::string name = document.at("family");
  const auto family = evenkeel::golden::families().find(name);
  if (family == evenkeel::golden::families().end()) {
    std::cerr << "evenkeel-vectors: unknown family '" << name << "'\n";
    return 2;
  }
  json cases = json::array();
  for (const json& entry : document.at("cases")) {
    cases.push_back({{"name", entry.at("name")},
                     {"actual", evenkeel::golden::run_case(family->second, entry.at("input"))}});
  }
  std::cout << json{{"family", name}, {"cases", cases}} << '\n';
}
