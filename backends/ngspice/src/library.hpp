#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ngspice/sharedspice.h>

#include <bilevel/outcome/status.hpp>

namespace bilevel::networks {

/// ngspice's shared library, loaded once and never unloaded. Every use holds `turn`.
class NgspiceLibrary {
 public:
  /// Throws InvalidInput that says why the library cannot be had.
  static NgspiceLibrary& get(const std::string& path);

  std::mutex turn;
  /// Whose circuit is loaded; null for nobody's.
  const void* owner = nullptr;

  /// Replaces the circuit; false where ngspice refuses the text.
  bool load(const std::string& netlist);
  bool alter(const std::string& element, double value);
  /// What sources written as `external` are held at until the next call.
  void offer(std::span<const double> sources, std::span<const double> pulls);
  /// The operating point; forget() before the next.
  bool settle();
  /// Whether that took gmin or source stepping. ngspice 39 may then keep a conductance of gmin at every node:
  /// the circuit should be loaded anew.
  bool stepped() const { return stepped_; }
  double volts(const std::string& node);
  void forget();

  /// How the last of these failed, and a sentence that begins with "ngspice: ".
  Status status() const;
  std::string complaint() const;

 private:
  explicit NgspiceLibrary(const std::string& path);
  void command(const std::string& text);
  template <class Function>
  void find(Function*& function, const char* name);

  static int hear(char* text, int, void* self);
  static int leave(int status, NG_BOOL, NG_BOOL, int, void* self);
  static int answer(double* volts, double, char* source, int, void* self);

  std::string path_;
  void* handle_ = nullptr;
  decltype(&ngSpice_Init) init_ = nullptr;
  decltype(&ngSpice_Init_Sync) init_sync_ = nullptr;
  decltype(&ngSpice_Command) command_ = nullptr;
  decltype(&ngSpice_Circ) circ_ = nullptr;
  decltype(&ngGet_Vec_Info) vector_ = nullptr;
  int identity_ = 0;
  bool left_ = false;    // ngspice has asked to be unloaded and must not be called any more
  bool loaded_ = false;  // there is a circuit
  bool unknown_source_ = false, stepped_ = false;
  std::vector<std::string> complaints_;
  std::span<const double> sources_, pulls_;
};

}  // namespace bilevel::networks
