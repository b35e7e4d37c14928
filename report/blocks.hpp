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
Json series(std::string name, const char* style, Json points);

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

/// Which of `count` numbered things to draw so that `most` of them stand evenly between the first and the
/// last.
std::vector<std::size_t> spread(std::size_t count, std::size_t most);

}  // namespace report
