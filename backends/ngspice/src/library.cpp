#include "library.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include <dlfcn.h>

#include <bilevel/outcome/violations.hpp>

namespace bilevel::networks {
namespace {

constexpr std::size_t most_complaints = 6;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Lines that say what went wrong. ngspice reports every step of its attempts; functions return 0 all the
/// same.
bool tells(std::string_view line) {
  for (const std::string_view part :
       {"Error", "error", "singular matrix", "doAnalyses", "aborted", "can't find", "could not find",
        "unknown parameter", "not parsed", "Fatal", "fatal"})
    if (contains(line, part)) return !contains(line, "spinit");
  return false;
}

}  // namespace

NgspiceLibrary& NgspiceLibrary::get(const std::string& path) {
  static std::mutex mutex;
  // Never destroyed: ngspice calls back as long as the process lives.
  static auto& libraries = *new std::map<std::string, std::unique_ptr<NgspiceLibrary>>;
  std::string name = path;
  if (name.empty()) {
    const char* wanted = std::getenv("BILEVEL_NGSPICE_LIBRARY");
    name = wanted && *wanted ? wanted : "libngspice.so.0";
  }
  const std::lock_guard lock(mutex);
  if (const auto found = libraries.find(name); found != libraries.end()) return *found->second;
  std::unique_ptr<NgspiceLibrary> library(new NgspiceLibrary(name));
  return *libraries.emplace(name, std::move(library)).first->second;
}

template <class Function>
void NgspiceLibrary::find(Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(dlsym(handle_, name));
  if (!function) throw InvalidInput(fmt::format("ngspice: {} has no function {}", path_, name));
}

NgspiceLibrary::NgspiceLibrary(const std::string& path)
    : path_(path), handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (!handle_)
    throw InvalidInput(
        fmt::format("ngspice: its shared library cannot be loaded ({}); on Debian it is in the package "
                    "libngspice0",
                    dlerror()));
  find(init_, "ngSpice_Init");
  find(init_sync_, "ngSpice_Init_Sync");
  find(command_, "ngSpice_Command");
  find(circ_, "ngSpice_Circ");
  find(vector_, "ngGet_Vec_Info");
  if (init_(&hear, nullptr, &leave, nullptr, nullptr, nullptr, this) != 0 ||
      init_sync_(&answer, nullptr, nullptr, &identity_, this) != 0)
    throw InvalidInput(fmt::format("ngspice: {} does not start", path_));
  // Where everything else fails ngspice would look for a state in time, with capacitors that the circuit does
  // not have. Allowed before the first circuit only: later it reads one that may be gone (ngspice 39).
  command("optran 1 1 1 0 0 0");
  complaints_.clear();
}

void NgspiceLibrary::command(const std::string& text) {
  if (left_) return;
  std::string mutable_text = text;
  if (command_(mutable_text.data()) != 0 && complaints_.size() < most_complaints)
    complaints_.push_back(fmt::format("'{}' was refused", text));
}

bool NgspiceLibrary::load(const std::string& netlist) {
  owner = nullptr;
  if (loaded_) command("remcirc");
  loaded_ = false;
  complaints_.clear();
  if (left_) return false;
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < netlist.size();) {
    const std::size_t end = std::min(netlist.find('\n', at), netlist.size());
    lines.push_back(netlist.substr(at, end - at));
    at = end + 1;
  }
  std::vector<char*> pointers;
  pointers.reserve(lines.size() + 1);
  for (std::string& line : lines) pointers.push_back(line.data());
  pointers.push_back(nullptr);
  const bool accepted = circ_(pointers.data()) == 0;
  loaded_ = !left_;
  return accepted && complaints_.empty() && !left_;
}

bool NgspiceLibrary::alter(const std::string& element, double value) {
  complaints_.clear();
  command(fmt::format("alter {} = {:.17g}", element, value));
  return complaints_.empty() && !left_;
}

void NgspiceLibrary::offer(std::span<const double> sources, std::span<const double> pulls) {
  sources_ = sources;
  pulls_ = pulls;
}

bool NgspiceLibrary::settle() {
  complaints_.clear();
  unknown_source_ = stepped_ = false;
  command("op");
  const bool failed = std::any_of(complaints_.begin(), complaints_.end(), [](const std::string& line) {
    return contains(line, "aborted") || contains(line, "Error") || contains(line, "refused") ||
           contains(line, "no circuit") || contains(line, "aren't any");
  });
  return !failed && !unknown_source_ && !left_;
}

double NgspiceLibrary::volts(const std::string& node) {
  if (left_) return std::numeric_limits<double>::quiet_NaN();
  std::string name = node;
  const vector_info* found = vector_(name.data());
  return found && found->v_realdata && found->v_length > 0 ? found->v_realdata[found->v_length - 1]
                                                           : std::numeric_limits<double>::quiet_NaN();
}

void NgspiceLibrary::forget() {
  command("destroy all");
}

Status NgspiceLibrary::status() const {
  if (left_ || unknown_source_) return Status::breakdown;
  for (const std::string& line : complaints_)
    if (contains(line, "singular matrix")) return Status::singular;
  for (const std::string& line : complaints_)
    if (contains(line, "iteration limit") || contains(line, "aborted")) return Status::iteration_limit;
  return Status::breakdown;
}

std::string NgspiceLibrary::complaint() const {
  std::vector<std::string> parts = complaints_;
  if (left_) parts.push_back("it stopped for good and can be used again only by another process");
  if (unknown_source_) parts.push_back("it asked for a source that the circuit does not have");
  if (parts.empty()) parts.push_back("it returned no operating point");
  return fmt::format("ngspice: {}", fmt::join(parts, "; "));
}

int NgspiceLibrary::hear(char* text, int, void* self) {
  auto& library = *static_cast<NgspiceLibrary*>(self);
  auto& complaints = library.complaints_;
  std::string_view line = text;
  const bool error = line.starts_with("stderr ");
  line.remove_prefix(std::min(line.size(), line.find(' ') + 1));
  if (contains(line, "stepping")) library.stepped_ = true;
  if (!error || !tells(line)) return 0;
  // "Trying gmin = …" and the like stand before the news on the same line.
  if (const std::size_t at = line.find("singular matrix"); at != std::string_view::npos)
    line.remove_prefix(at);
  if (line.starts_with("doAnalyses: ")) line.remove_prefix(12);
  while (!line.empty() && line.back() == ' ') line.remove_suffix(1);
  if (std::find(complaints.begin(), complaints.end(), line) == complaints.end() &&
      (complaints.size() < most_complaints || contains(line, "aborted")))
    complaints.emplace_back(line);
  return 0;
}

/// ngspice asks the program to end it. Nothing is ended; it is only not called again.
int NgspiceLibrary::leave(int, NG_BOOL, NG_BOOL, int, void* self) {
  static_cast<NgspiceLibrary*>(self)->left_ = true;
  return 0;
}

/// Sources are called v<i> and vp<i>: see netlist().
int NgspiceLibrary::answer(double* volts, double, char* source, int, void* self) {
  auto& library = *static_cast<NgspiceLibrary*>(self);
  const bool pull = source[0] != '\0' && (source[1] == 'p' || source[1] == 'P');
  const std::span<const double> values = pull ? library.pulls_ : library.sources_;
  char* end = nullptr;
  const char* digits = source + (pull ? 2 : 1);
  const unsigned long i = std::strtoul(digits, &end, 10);
  const bool known = end != digits && *end == '\0' && i < values.size();
  *volts = known ? values[i] : 0;
  if (!known) library.unknown_source_ = true;
  return 0;
}

}  // namespace bilevel::networks
