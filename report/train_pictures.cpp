#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base64.hpp"
#include "blocks.hpp"
#include "pictures.hpp"
#include "train_sections.hpp"

// Weights, confusions and wrong samples: what the network looks for, and what it takes for what.
namespace report {
namespace {

/// So many bytes of pixels a section, so that a page stays small.
constexpr std::size_t most_pixels = 400000;

struct Shape {
  std::size_t rows = 0, columns = 0;

  std::size_t size() const { return rows * columns; }
};

/// The shape of pictures; none where a side is missing, or is one that no page can show.
std::optional<Shape> shape_of(double rows, double columns) {
  const auto fits = [](double side) { return side >= 1 && side <= 1024 && side == std::floor(side); };
  if (!fits(rows) || !fits(columns)) return std::nullopt;
  return Shape{static_cast<std::size_t>(rows), static_cast<std::size_t>(columns)};
}

std::optional<Shape> input_shape(const Reading& result) {
  const auto data = result.find("data");
  const auto image = data ? data->find("image") : std::nullopt;
  if (!image || image->size() != 2) return std::nullopt;
  return shape_of((*image)[0].number(), (*image)[1].number());
}

std::vector<double> pixels_of(const Reading& image, const Shape& shape) {
  if (image.size() != shape.size())
    image.fail(fmt::format("has {} elements, a picture of {} × {} has {}", image.size(), shape.rows,
                           shape.columns, shape.size()));
  return numbers_of(image);
}

/// A picture for a block of images; `byte` says how a number is drawn, `neutral` stands for what is none.
template <typename Byte>
Json picture(const std::vector<double>& numbers, const Shape& shape, double neutral, Byte byte) {
  std::string bytes;
  for (const double number : numbers)
    bytes += static_cast<char>(static_cast<unsigned char>(byte(std::isfinite(number) ? number : neutral)));
  return {{"width", shape.columns}, {"height", shape.rows}, {"pixels", base64(bytes)}};
}

/// The names of `count` classes: those of the data, or their numbers.
std::vector<std::string> class_names(const Reading& result, std::size_t count) {
  const auto data = result.find("data");
  const auto classes = data ? data->find("classes") : std::nullopt;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i)
    names.push_back(classes && classes->size() == count ? (*classes)[i].text() : fmt::format("{}", i));
  return names;
}

struct Mistake {
  std::size_t label, predicted;
  double count, share;
};

}  // namespace

void add_weights(Json& sections, const Reading& result) {
  constexpr std::size_t most = 64;
  const auto weights = result.find("weights");
  const auto images = weights ? weights->find("images") : std::nullopt;
  if (!images || images->size() == 0) return;
  const auto shape = shape_of(number_or_nan(*weights, "rows"), number_or_nan(*weights, "columns"));
  if (!shape) return;
  const std::size_t shown =
      std::min({images->size(), most, std::max<std::size_t>(1, most_pixels / shape->size())});
  std::vector<std::vector<double>> all;
  std::vector<double> sizes;
  for (std::size_t i = 0; i < shown; ++i) {
    all.push_back(pixels_of((*images)[i], *shape));
    for (const double weight : all.back())
      if (std::isfinite(weight)) sizes.push_back(std::abs(weight));
  }
  if (sizes.empty()) return;
  // One scale for all, so that they can be compared; a few large weights would make all others pale.
  std::sort(sizes.begin(), sizes.end());
  const double largest = sizes.back(), usual = sizes[(sizes.size() - 1) * 99 / 100];
  const double reach = usual > 0 ? usual : largest > 0 ? largest : 1;
  Json items = Json::array();
  for (const std::vector<double>& one : all)
    items.push_back(picture(one, *shape, 0, [&](double weight) {
      return 128 + static_cast<int>(std::lround(127 * std::clamp(weight / reach, -1.0, 1.0)));
    }));
  std::string caption =
      "Each picture belongs to a unit of the first hidden layer: what lies on positive weights excites "
      "it, what lies on negative ones calms it.";
  if (largest > reach)
    caption +=
        fmt::format(" One weight in a hundred is beyond the scale, the largest {}.", number_word(largest, 3));
  if (shown < images->size()) caption += fmt::format(" The first {} of {}.", shown, images->size());
  Json block{{"type", "images"},
             {"title", "Weights of the first layer"},
             {"range", std::stod(fmt::format("{:.2g}", reach))},
             {"items", std::move(items)},
             {"caption", std::move(caption)}};
  add_section(sections, "weights", "What the first layer looks for", std::move(block));
}

void add_confusion(Json& sections, const Reading& result) {
  constexpr std::size_t most_classes = 26, most_mistakes = 10;
  const auto confusion = result.find("confusion");
  if (!confusion || confusion->size() == 0) return;
  const std::size_t size = confusion->size();
  const std::vector<std::string> names = class_names(result, size);
  const std::vector<std::vector<double>> counts = read_counts(*confusion);
  std::vector<Mistake> mistakes;
  double all = 0, wrong = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const std::vector<double>& row = counts[i];
    const double sum = std::accumulate(row.begin(), row.end(), 0.0);
    for (std::size_t j = 0; j < size; ++j)
      if (i != j && row[j] > 0) mistakes.push_back({i, j, row[j], row[j] / sum});
    all += sum;
    wrong += sum - row[i];
  }
  std::stable_sort(mistakes.begin(), mistakes.end(),
                   [](const Mistake& a, const Mistake& b) { return a.count > b.count; });
  Json blocks = Json::array(), rows = Json::array();
  std::string text = fmt::format("{} of {} are wrong", count_word(wrong), counted(all, "sample"));
  if (!mistakes.empty())
    text += fmt::format("; most often “{}” is taken for “{}”", names[mistakes[0].label],
                        names[mistakes[0].predicted]);
  blocks.push_back(text_block(text + "."));
  if (size <= most_classes)
    blocks.push_back({{"type", "confusion"},
                      {"title", "Labels and predictions"},
                      {"classes", names},
                      {"counts", counts},
                      {"caption", "The stronger the colour of a mistake, the larger its share of the row."}});
  for (std::size_t k = 0; k < std::min(mistakes.size(), most_mistakes); ++k) {
    const Mistake& one = mistakes[k];
    rows.push_back({fmt::format("{} → {}", names[one.label], names[one.predicted]), count_word(one.count),
                    percent_word(one.share)});
  }
  if (!rows.empty())
    blocks.push_back(table_block("The most frequent mistakes",
                                 {"Label → predicted", "Times", "Of the label’s samples"}, std::move(rows)));
  add_section(sections, "confusion", "What is taken for what", std::move(blocks));
}

void add_wrong(Json& sections, const Reading& result) {
  constexpr std::size_t most = 60;
  const auto wrong = result.find("wrong");
  if (!wrong || wrong->size() == 0) return;
  const auto shape = input_shape(result);
  Json items = Json::array(), rows = Json::array();
  const auto or_missing = [](std::string word) { return word.empty() ? std::string(missing) : word; };
  for (std::size_t i = 0; i < std::min(wrong->size(), most); ++i) {
    const Reading sample = (*wrong)[i];
    const std::string index = word_or_empty(sample, "index");
    const std::string label = or_missing(word_or_empty(sample, "label")),
                      predicted = or_missing(word_or_empty(sample, "predicted"));
    rows.push_back({or_missing(index), label, predicted});
    const auto image = sample.find("image");
    if (!image || !shape || (items.size() + 1) * shape->size() > std::max(most_pixels, shape->size()))
      continue;
    // Ink is 1 and paper 0.
    items.push_back(picture(pixels_of(*image, *shape), *shape, 0, [](double ink) {
      return static_cast<int>(std::lround(255 * std::clamp(ink, 0.0, 1.0)));
    }));
    items.back()["caption"] =
        fmt::format("{} → {}{}", label, predicted, index.empty() ? "" : fmt::format("\nsample {}", index));
  }
  const std::size_t shown = items.empty() ? rows.size() : items.size();
  const std::string cut = shown < wrong->size() ? fmt::format("The first {} of {}.", shown,
                                                              count_word(static_cast<double>(wrong->size())))
                                                : "";
  Json block;
  if (items.empty())
    block = long_table_block("Samples that the network gets wrong", {"Sample", "Label", "Predicted"},
                             std::move(rows), cut);
  else
    block = {{"type", "images"},
             {"title", "Samples that the network gets wrong"},
             {"items", std::move(items)},
             {"caption", fmt::format("Label → predicted.{}{}", cut.empty() ? "" : " ", cut)}};
  add_section(sections, "wrong", "Wrong samples", std::move(block));
}

}  // namespace report
