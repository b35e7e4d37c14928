#include "edits.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <unistd.h>

namespace bilevel::fuzz {

std::string path_of(const std::string& name) {
  static const std::string folder = [] {
    const auto path = std::filesystem::temp_directory_path() / fmt::format("bilevel_fuzz_{}", ::getpid());
    std::filesystem::create_directory(path);
    std::atexit([] {
      std::error_code ignored;
      std::filesystem::remove_all(
          std::filesystem::temp_directory_path() / fmt::format("bilevel_fuzz_{}", ::getpid()), ignored);
    });
    return path.string();
  }();
  return folder + "/" + name;
}

std::string write(const std::string& name, std::string_view text) {
  std::string path = path_of(name);
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

namespace {

void edit(Json& root, Choices& choose) {
  Json *node = &root, *parent = nullptr;
  while (node->is_structured() && !node->empty() && choose.below(8) != 0) {
    parent = node;
    auto child = node->begin();
    std::advance(child, static_cast<std::ptrdiff_t>(choose.below(node->size())));
    node = &*child;
  }
  const Json odd[] = {nullptr,
                      true,
                      -1,
                      0,
                      1,
                      2,
                      60,
                      0.5,
                      1e300,
                      -1e-300,
                      2147483648,
                      9223372036854775807,
                      18446744073709551615U,
                      "",
                      "x",
                      "AAAAAAAA8D8=",
                      Json::array(),
                      Json::object()};
  switch (choose.below(8)) {
    case 0:
    case 1:
      *node = odd[choose.below(std::size(odd))];
      break;
    case 2:  // the node goes
      if (parent == nullptr) break;
      if (parent->is_array())
        parent->erase(static_cast<std::size_t>(node - &(*parent)[0]));
      else
        for (auto child = parent->begin(); child != parent->end(); ++child)
          if (&*child == node) {
            parent->erase(child);
            break;
          }
      break;
    case 3:  // once more
      if (parent != nullptr && parent->is_array()) parent->push_back(Json(*node));
      break;
    case 4:  // what stands elsewhere beside it
      if (parent != nullptr) {
        auto other = parent->begin();
        std::advance(other, static_cast<std::ptrdiff_t>(choose.below(parent->size())));
        const Json copy = *other;
        *node = copy;
      }
      break;
    default:
      if (node->is_number_integer())
        *node = static_cast<long>(node->get<std::uint64_t>() + choose.below(7) - 3);  // may wrap around
      else if (node->is_number())
        *node = node->get<double>() * (choose.below(2) ? -1e10 : 1e-10);
      else if (node->is_string()) {
        auto text = node->get<std::string>();
        // A group of base64 more or less.
        if (choose.below(2) == 0)
          text.insert(0, "AAAAAAAA8D8AAAAAAADwPwAAAAAAAPA/");
        else
          text = text.substr(std::min<std::size_t>(text.size(), 4 * choose.below(20)));
        *node = text;
      } else if (node->is_array() && !node->empty()) {
        node->erase(choose.below(node->size()));
      }
  }
}

}  // namespace

Json edited(Json j, Choices& choose) {
  do edit(j, choose);
  while (choose.left());
  return j;
}

}  // namespace bilevel::fuzz
