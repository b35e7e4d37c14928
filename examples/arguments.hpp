// What every example may be told: `--name value` pairs, each with a default, and --help. Anything else is
// refused with the list of what there is.
#pragma once

#include <charconv>
#include <cmath>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <bilevel/outcome/violations.hpp>

namespace arguments {

using Defaults = std::map<std::string, std::string>;

inline std::string usage(const char* program, const Defaults& defaults) {
  std::string said = fmt::format("usage: {}", program);
  for (const auto& [name, value] : defaults)
    said += fmt::format(" [{} {}]", name, value.empty() ? "…" : value);
  return said + (defaults.empty() ? " takes no arguments" : "   (values shown are the defaults)");
}

class Told {
 public:
  /// Throws InvalidInput for a name that is not there, one without a value, and a file in a folder that is
  /// not.
  Told(int argc, char** argv, Defaults defaults) : said_(std::move(defaults)) {
    const std::string all = usage(argv[0], said_);
    for (int i = 1; i < argc; i += 2) {
      const auto named = said_.find(argv[i]);
      if (named == said_.end()) throw bilevel::InvalidInput(fmt::format("what is '{}'? {}", argv[i], all));
      if (i + 1 == argc) throw bilevel::InvalidInput(fmt::format("{} wants a value. {}", argv[i], all));
      named->second = argv[i + 1];
    }
    for (const char* name : {"--json", "--report", "--checkpoint"}) {
      const auto file = said_.find(name);
      if (file == said_.end() || file->second.empty()) continue;
      const auto folder = std::filesystem::path(file->second).parent_path();
      if (!folder.empty() && !std::filesystem::is_directory(folder))
        throw bilevel::InvalidInput(
            fmt::format("{} {}: there is no folder {}", name, file->second, folder.string()));
    }
  }

  const std::string& text(const std::string& name) const { return said_.at(name); }
  double number(const std::string& name) const { return read(name, text(name)); }
  long whole(const std::string& name, long least = 1) const { return whole(name, text(name), least); }
  /// Of numbers with commas between them.
  std::vector<long> wholes(const std::string& name, long least = 1) const {
    std::vector<long> numbers;
    const std::string& all = text(name);
    for (std::size_t at = 0; at <= all.size();) {
      const std::size_t end = std::min(all.find(',', at), all.size());
      numbers.push_back(whole(name, all.substr(at, end - at), least));
      at = end + 1;
    }
    return numbers;
  }

 private:
  static double read(const std::string& name, std::string_view text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
      throw bilevel::InvalidInput(fmt::format("{} is '{}', which is no number", name, text));
    return value;
  }
  static long whole(const std::string& name, std::string_view text, long least) {
    const double value = read(name, text);
    if (value < static_cast<double>(least) || value > 1e9 || value != std::floor(value))
      throw bilevel::InvalidInput(
          fmt::format("{} is {}, and must be a whole number of {} or more", name, text, least));
    return static_cast<long>(value);
  }

  Defaults said_;
};

/// program(Told), which returns an exit code. Those of `bilevel`: 1 the aim was missed, 2 bad input, 3 an
/// error of the program.
template <class Program>
int run(int argc, char** argv, Defaults defaults, Program program) {
  if (argc == 2 && std::string_view(argv[1]) == "--help") {
    fmt::print("{}\n", usage(argv[0], defaults));
    return 0;
  }
  try {
    return program(Told(argc, argv, std::move(defaults)));
  } catch (const bilevel::InvalidInput& error) {
    fmt::print(stderr, "{}: {}\n", argv[0], error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", argv[0], error.what());
    return 3;
  }
}

/// For a program that takes none: the exit code to end with where there are any.
inline std::optional<int> refused(int argc, char** argv) {
  if (argc < 2) return {};
  return run(argc, argv, {}, [](const Told&) { return 0; });
}

}  // namespace arguments
