#pragma once

#include <string>
#include <vector>

#include "reading.hpp"

// What pages are made of: blocks of docs/report.md, and numbers in words.
namespace report {

Json text_block(std::string text);
Json code_block(std::string text);
Json notice_block(std::string text);
/// `items` are pairs of a name and a cell.
Json facts_block(Json items);
Json table_block(std::string title, Json columns, Json rows, std::string caption = "");
/// With a field to search in.
Json long_table_block(std::string title, Json columns, Json rows, std::string caption);
Json chart_block(std::string title, std::string x, std::string y, Json series, std::string caption = "");
/// The blocks side by side; the block itself where there is but one.
Json columns_block(Json blocks);
Json series(std::string name, const char* style, Json points);
/// For a chart with categories.
Json category_series(std::string name, const char* style, Json values);
/// A cell of a table that is a status.
Json status_cell(std::string status);

/// `blocks` are an array, or one; a section without any is left out.
void add_section(Json& sections, const char* id, std::string title, Json blocks);
Json page(std::string title, std::string lead, Json facts, Json sections);

/// The number `key` of an object, NaN where it is missing or null.
double number_or_nan(const Reading& object, const char* key);
/// The text, the number or the truth value `key` of an object in words, "" where it is missing or null.
std::string word_or_empty(const Reading& object, const char* key);
bool truth_or(const Reading& object, const char* key, bool otherwise);

/// `digits` significant digits; "–" for what is not finite.
std::string number_word(double value, int digits = 4);
/// "60,000".
std::string count_word(double count);
/// "rows", "classes", "penalties".
std::string plural(const std::string& noun);
/// "1 row", "60,000 rows".
std::string counted(double count, const std::string& noun);
/// "0.25 s", "31 s", "12 min".
std::string duration(double seconds);
/// "0.3 s" for a finite number of seconds, else "".
std::string in_seconds(double seconds);

/// A pair for `facts`; nothing is added where `text` is empty or "–".
void add_fact(Json& facts, const char* name, const std::string& text);
/// The same, for a status.
void add_status(Json& facts, const char* name, const std::string& status);

/// Which of `count` numbered things to draw so that `most` of them stand evenly between the first and the
/// last.
std::vector<std::size_t> spread(std::size_t count, std::size_t most);

}  // namespace report
