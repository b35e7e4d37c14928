#pragma once

#include <string>
#include <vector>

#include <bilevel/models/clean_data.hpp>

namespace bilevel::models {

/// Throws InvalidInput where there is no line for each row: IDX, NPY, labels in a file of their own.
void require_lines(const CleanTask& task, const std::string& format);

/// The text of the task's file, unpacked, without the lines of the rows numbered (from 1, ascending); its
/// header, blank lines and comments stay.
std::string text_without(const CleanTask& task, const CleanData& data, const std::vector<Index>& rows);

}  // namespace bilevel::models
