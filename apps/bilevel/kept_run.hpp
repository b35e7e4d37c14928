#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bilevel/encoding/utf8.hpp>
#include <bilevel/files/kept_run.hpp>
#include <bilevel/outcome/status.hpp>

#include "terminal.hpp"
#include <bilevel/models/tune.hpp>

namespace app {

/// Where a run is kept while it lasts: the file given, or one named by what the run is. Refuses a place that
/// cannot be written.
std::string place_of(std::string_view command, const std::string& given, const std::string& identity);
/// Says so where there is no run to resume.
void say_where_none_is_kept(const bilevel::KeptRun& kept, bool resume);
/// What a run is told: where it is kept, whether to go on, its progress, and Ctrl-C, which is caught from
/// here on. Its files stay until they are forgotten. That the place is free is for the run to look at.
bilevel::models::TuneControl control_of(const bilevel::KeptRun& kept, bool resume, std::string identity,
                                        Progress& progress);

using bilevel::unfinished;

/// Writes each output that has a path, the others too where one fails, and throws what went wrong last of
/// all.
using Output = std::pair<std::string, std::function<std::string()>>;
void write_outputs(const std::vector<Output>& outputs);

using bilevel::as_utf8;

}  // namespace app
