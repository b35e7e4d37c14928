#pragma once

#include <initializer_list>
#include <string>

#include "reading.hpp"

// What the pages of the program have in common: sections made of the
// run's result. Whatever the result lacks is left out; what it should have is named.
namespace report {

/// Where the data came from; "" where that is not said.
std::string source_of(const Reading& result);

/// A notice for each warning, one if the run did not end as it should, and one that names the `expected` keys
/// that the result does not have: a chart that is missing is then not taken for one that has nothing to show.
/// "history.seconds" is the field of an object, or of the first object of a list. What is null is there.
void add_notices(Json& blocks, const Reading& result, std::initializer_list<const char*> expected);

/// The outer gradients with their error bounds: the last certificate, a chart and a table of all.
void add_certificates(Json& sections, const Reading& result, const char* outer_name);

/// Where the data came from, their shape, and how they were split.
void add_data(Json& sections, const Reading& result);

/// The two losses as formulas, and the command that repeats the run.
void add_formulas(Json& sections, const Reading& result);
void add_command(Json& sections, const Reading& result);

/// At most this many rows of a table are in a page, and fewer where their texts are long; the result's JSON
/// has all.
inline constexpr std::size_t most_rows = 10000;

/// Takes away the rows that are too many. Returns the sentence that says so, "" if all `count` rows of the
/// result are there; `first` says which ones are.
std::string cut_rows(Json& rows, std::size_t count, const char* first);

}  // namespace report
