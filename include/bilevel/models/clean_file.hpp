#pragma once

#include <string>
#include <vector>

#include <bilevel/models/clean_data.hpp>

namespace bilevel::models {

/// Throws InvalidInput where there is no line for each row: IDX, NPY, labels in a file of their own.
void require_lines(const std::string& path, const bilevel::data::ReadOptions& reading,
                   const std::string& format);

/// The text of the file that `data` was read from, unpacked, without the lines of the rows numbered (from 1,
/// ascending); its header, blank lines and comments stay.
std::string text_without(const std::string& path, const bilevel::data::ReadOptions& reading,
                         const CleanData& data, const std::vector<Index>& rows);

}  // namespace bilevel::models
