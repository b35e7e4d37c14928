#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace report {

using Json = nlohmann::ordered_json;

/// `text` as valid UTF-8: U+FFFD stands for each byte that is none and for each control character but tab
/// and line break.
std::string clean(std::string_view text);

/// `text` for HTML, between tags or within a quoted attribute.
std::string escaped(std::string_view text);

/// `value` as JSON for a <script> element: no string in it can end the element or be taken for a tag.
std::string script_json(const Json& value);

/// Letters, digits, hyphens and underscores of `text`, all else as hyphens; never empty.
std::string identifier(std::string_view text);

/// Whether a status is good news or bad, in the words of the style; "" for all others.
std::string tone(std::string_view status);
/// A status for HTML, in its colour; "" where there is none.
std::string badge(std::string_view status);

/// Six significant digits, as short as they can be written.
std::string number_text(double value);

/// Stands in place of a number that there is not.
inline constexpr std::string_view missing = "–";

/// Is `text` a number as number_text or a person writes it: "12", "−0.5", "1.2e-5", "1.2·10⁻⁵", "40 %"?
bool looks_like_number(std::string_view text);

}  // namespace report
