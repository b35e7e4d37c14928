#include "pictures.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "base64.hpp"

namespace report {
namespace {

std::size_t length(const Reading& image, const char* key) {
  const Reading value = image.at(key);
  const double number = value.number();
  if (!(number >= 1 && number <= 1024) || number != std::floor(number))
    value.fail("must be a whole number from 1 to 1024");
  return static_cast<std::size_t>(number);
}

/// What the colours mean: 128 is zero, and `range` is the number of the strongest colour. "" for ink.
std::string ramp_of(const Reading& block) {
  const auto range = block.find("range");
  if (!range) return "";
  const double reach = range->number();
  if (!(reach > 0) || !std::isfinite(reach)) range->fail("must be positive");
  return fmt::format("<p class=\"field\"><span>{}</span><span class=\"ramp\"></span><span>{}</span></p>\n",
                     number_text(-reach), number_text(reach));
}

}  // namespace

Images read_images(const Reading& block) {
  const std::string ramp = ramp_of(block);
  const Reading items = block.at("items");
  std::string list;
  bool words_anywhere = false;
  for (const Reading image : items) {
    const Reading pixels = image.at("pixels");
    const std::size_t width = length(image, "width"), height = length(image, "height");
    const std::string text = pixels.text(), words = escaped(image.text_or_empty("caption"));
    if (!is_base64(text, width * height))
      pixels.fail(fmt::format("must be {} × {} bytes in base64", height, width));
    const std::string mark = badge(image.text_or_empty("status"));
    const std::string below = words + (words.empty() || mark.empty() ? "" : " ") + mark;
    words_anywhere = words_anywhere || !below.empty();
    list += fmt::format(
        "<li><canvas width=\"{}\" height=\"{}\" role=\"img\" aria-label=\"{}\" data-pixels=\"{}\"></canvas>"
        "<span>{}</span></li>\n",
        width, height, words.empty() ? "Image" : words, text, below);
  }
  return {fmt::format("images{}{}", ramp.empty() ? "" : " signed", words_anywhere ? "" : " bare"),
          fmt::format("<ul>\n{}</ul>\n{}", list, ramp)};
}

std::vector<std::vector<double>> read_counts(const Reading& rows) {
  std::vector<std::vector<double>> counts;
  for (const Reading row : rows) {
    if (row.size() != rows.size())
      row.fail(fmt::format("has {} elements, there are {} classes", row.size(), rows.size()));
    std::vector<double>& numbers = counts.emplace_back();
    for (const Reading one : row) {
      numbers.push_back(one.json().is_null() ? 0 : one.number());
      if (!(numbers.back() >= 0 && numbers.back() < 1e15)) one.fail("must be a count");
    }
  }
  return counts;
}

std::string confusion_table(const Reading& block) {
  const Reading classes = block.at("classes"), rows = block.at("counts");
  const std::size_t size = classes.size();
  if (rows.size() != size) rows.fail(fmt::format("has {} rows, there are {} classes", rows.size(), size));
  const std::vector<std::vector<double>> counts = read_counts(rows);
  std::vector<double> all(size);
  // The strongest colour is that of the largest share of a row; one mistake in a thousand is never strong.
  double strongest = 0.02;
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = 0; j < size; ++j) all[i] += counts[i][j];
    for (std::size_t j = 0; j < size; ++j)
      if (i != j && counts[i][j] > 0) strongest = std::max(strongest, counts[i][j] / all[i]);
  }

  std::string html =
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Confusion matrix\">\n"
      "<table>\n<thead><tr><th scope=\"col\">label ↓ predicted →</th>";
  for (const Reading name : classes)
    html += fmt::format("<th scope=\"col\" class=\"number\">{}</th>", escaped(name.text()));
  html += "<th scope=\"col\" class=\"number\">wrong</th></tr></thead>\n<tbody>\n";
  for (std::size_t i = 0; i < size; ++i) {
    html += fmt::format("<tr><th scope=\"row\">{}</th>", escaped(classes[i].text()));
    for (std::size_t j = 0; j < size; ++j) {
      // By the square root, in tenths: rare mistakes are seen too.
      const double share = counts[i][j] > 0 ? counts[i][j] / all[i] / strongest : 0;
      const std::string mark = i == j      ? "right"
                               : share > 0 ? fmt::format("shade-{}", std::ceil(10 * std::sqrt(share)))
                                           : "none";
      html += fmt::format("<td class=\"number {}\">{}</td>", mark, number_text(counts[i][j]));
    }
    html += fmt::format(
        "<td class=\"number\">{}</td></tr>\n",
        all[i] > 0 ? fmt::format("{:.1f} %", 100 * (all[i] - counts[i][i]) / all[i]) : std::string(missing));
  }
  return html + "</tbody>\n</table>\n</div>\n";
}

}  // namespace report
