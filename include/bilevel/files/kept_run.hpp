#pragma once

#include <string>
#include <vector>

namespace bilevel {

/// The files in which a run is kept while it lasts: its checkpoint, and those with further endings beside it.
/// Each begins with {"format":"bilevel-… and holds the run's identity, alone or before words of its own. An
/// empty name stands for nowhere.
class KeptRun {
 public:
  explicit KeptRun(const std::string& checkpoint, const std::vector<std::string>& endings = {});

  const std::vector<std::string>& files() const { return files_; }
  /// Whether any of them is there.
  bool exists() const;
  /// Throws InvalidInput where one of them is another file of a person's.
  void require_ours() const;
  /// Before a run begins: throws InvalidInput where the place is another file of a person's, or keeps a run
  /// that is another one or not to be resumed, which is never lost unasked. What runs that were killed while
  /// they wrote have left there is removed.
  void require_place(bool resume, const std::string& identity) const;
  /// Once the run is over.
  void forget() const;

 private:
  /// Those that are there; throws where one is not ours.
  std::vector<std::string> there() const;

  std::vector<std::string> files_;
};

}  // namespace bilevel
