#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bilevel/outcome/status.hpp>

#include "terminal.hpp"
#include <bilevel/models/tune.hpp>

namespace app {

/// What a run is told: where it is kept while it lasts (`given`, or a name made from what it is), whether to
/// go on, its progress, and Ctrl-C, which is caught from here on. Beside it the run keeps files with these
/// endings. Refuses a place that cannot be written, is another file of the person's, or keeps a run that is
/// another one or not to be resumed: that is never lost unasked. Says where --resume finds nothing.
bilevel::models::TuneControl control_of(std::string_view command, const std::string& given, bool resume,
                               std::string identity, Progress& progress,
                               const std::vector<std::string>& endings = {});
/// The same of a place that was named, without the rest: throws InvalidInput where it keeps another run or
/// one that is not to be resumed, and says where there is none to resume.
void require_place(const std::string& path, bool resume, const std::string& identity,
                   const std::vector<std::string>& endings = {});
/// The checkpoint and the files beside it; and removing them when the run is over.
std::vector<std::string> kept_files(const std::string& checkpoint, const std::vector<std::string>& endings);
void forget(const std::string& checkpoint, const std::vector<std::string>& endings = {});

/// Whether a run that ended so can be taken up again.
bool unfinished(bilevel::Status status);

/// Writes each output that has a path, the others too where one fails, and throws what went wrong last of
/// all.
using Output = std::pair<std::string, std::function<std::string()>>;
void write_outputs(const std::vector<Output>& outputs);

/// A text that JSON can hold: bytes that are no UTF-8 are replaced.
std::string as_utf8(const std::string& text);

}  // namespace app
