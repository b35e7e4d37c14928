#include "dataset.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>

#include <bilevel/data/moments.hpp>
#include <bilevel/data/split.hpp>

namespace training {
namespace {

namespace data = bilevel::data;
namespace fs = std::filesystem;

constexpr Index generated_rows = 4000, generated_test_rows = 1000;

/// NAME or NAME.gz in the folder.
std::string file_in(const std::string& folder, const std::string& name) {
  for (const char* ending : {"", ".gz", ".bz2"}) {
    const fs::path path = fs::path(folder) / (name + ending);
    if (fs::exists(path)) return path.string();
  }
  throw InvalidInput(
      fmt::format("{}: there is no {} (or {}.gz) in this folder; a folder must hold the four IDX files "
                  "train-images-idx3-ubyte, "
                  "train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte",
                  folder, name, name));
}

/// The share of the rows that the text asks for, where it is a number.
std::optional<double> share_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!(value > 0 && value < 1))
    throw InvalidInput(fmt::format("--test {} must be a file or a share between 0 and 1", text));
  return value;
}

/// The class of each row: the level of a text, or the number as a person would write it.
std::vector<std::string> names_of(const data::Dataset& d) {
  std::vector<std::string> names;
  for (Index i = 0; i < d.rows(); ++i) {
    const double value = d.target[i];
    if (!d.levels.empty()) {
      names.push_back(d.levels[static_cast<std::size_t>(value)]);
    } else if (value == std::round(value) && std::abs(value) < 1e15) {
      names.push_back(fmt::format("{:.0f}", value));
    } else {
      throw InvalidInput(
          fmt::format("{}: row {} has the label {}; labels are classes, whole numbers or words (is the label "
                      "in another column? "
                      "--target names it)",
                      d.source, i + 1, value));
    }
  }
  return names;
}

/// Classes in the order of their numbers where all are numbers, else of their letters.
std::vector<std::string> classes_of(const std::vector<std::string>& names) {
  std::vector<std::string> classes = names;
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  const auto number = [](const std::string& text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
  };
  if (std::all_of(classes.begin(), classes.end(),
                  [&](const std::string& c) { return number(c).has_value(); }))
    std::sort(classes.begin(), classes.end(),
              [&](const auto& a, const auto& b) { return *number(a) < *number(b); });
  return classes;
}

/// Many numbers are a quantity, as a rule: money, a score, per cent. Refuses what looks like one; the note
/// that a target of some numbers deserves. Words, and a column that is said to hold categories, are classes.
/// Where there is no column to say it of, so are numbers without a gap of which each has many rows.
std::string doubt_about(const data::Dataset& d, const std::string& file,
                        const std::vector<std::string>& classes, bool column) {
  constexpr std::size_t some = 20, many = 50, few_rows = 5, many_rows = 20;
  const std::size_t count = classes.size(), rows = static_cast<std::size_t>(d.rows());
  if (!d.levels.empty() || count <= some) return {};
  const bool gaps = d.target.maxCoeff() - d.target.minCoeff() >= static_cast<double>(count);
  if (count > many ? column || gaps || rows < many_rows * count : rows < few_rows * count)
    throw InvalidInput(fmt::format(
        "{}: the target is {} different numbers from {} to {} in {} rows, a quantity rather than classes, "
        "and train tells classes apart: bilevel tune predicts quantities; {}",
        file, count, classes.front(), classes.back(), rows,
        column ? fmt::format("--target names another column, --categorical '{}' takes each number as a class",
                             d.target_name)
               : "--labels FILE with a word a row instead of the number takes each as a class"));
  return fmt::format(
      "the target is {} different numbers from {} to {}, each taken as a class; bilevel tune predicts "
      "quantities",
      count, classes.front(), classes.back());
}

std::vector<int> indices_of(const std::vector<std::string>& names, const std::vector<std::string>& classes,
                            const std::string& source) {
  std::map<std::string, int> index;
  for (std::size_t i = 0; i < classes.size(); ++i) index[classes[i]] = static_cast<int>(i);
  std::vector<int> labels;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto found = index.find(names[i]);
    if (found == index.end())
      throw InvalidInput(
          fmt::format("{}: row {} has the label {}, which no training row has; the classes are {}", source,
                      i + 1, names[i], fmt::join(classes, ", ")));
    labels.push_back(found->second);
  }
  return labels;
}

void scale(const TrainTask& task, bool pictures, TrainData& out) {
  const Index features = out.features();
  const std::string way = task.scaling != "auto" ? task.scaling : pictures ? "unit" : "standard";
  out.shift = Eigen::VectorXd::Zero(features);
  out.factor = Eigen::VectorXd::Ones(features);
  if (way == "none") {
    out.scaling = "features as they are";
    return;
  }
  const Matrix& x = out.train.inputs;
  if (way == "unit") {
    const double largest = x.cwiseAbs().maxCoeff();
    if (largest > 0) out.factor.setConstant(1 / largest);
    out.scaling = fmt::format("features divided by {:g}, the largest of the training rows", largest);
  } else {
    out.shift = x.cast<double>().rowwise().mean();
    for (Index j = 0; j < features; ++j) {
      const double deviation = std::sqrt((x.row(j).cast<double>().array() - out.shift[j]).square().mean());
      out.factor[j] = deviation > 1e-12 * std::abs(out.shift[j]) ? 1 / deviation : 0;
    }
    out.scaling = "features standardised by the training rows";
  }
  for (Matrix* inputs : {&out.train.inputs, &out.test.inputs}) rescale(out.shift, out.factor, *inputs);
}

void require_numbers(const Part& part) {
  if (!part.inputs.allFinite())
    throw InvalidInput(fmt::format("{}: a feature is NaN or infinite", part.source));
}

/// So many of the rows, drawn by the seed; their order is kept.
std::vector<Index> drawn(std::vector<Index> rows, Index most, std::uint64_t seed) {
  if (most == 0 || most >= static_cast<Index>(rows.size())) return rows;
  const auto keep = data::draw_part(static_cast<Index>(rows.size()),
                                    static_cast<double>(most) / static_cast<double>(rows.size()), seed);
  std::vector<Index> left;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (keep[i]) left.push_back(rows[i]);
  return left;
}

TrainData generated(const TrainTask& task) {
  TrainData out;
  out.generated = true;
  out.image = {{12, 12}};
  out.scaling = "grey values from 0 to 1";
  for (int digit = 0; digit < 10; ++digit) out.classes.push_back(fmt::format("{}", digit));
  out.train.source = out.test.source = "generated pictures of digits";
  draw_digits(task.rows > 0 ? task.rows : generated_rows, 1000 + task.seed, out.train);
  draw_digits(generated_test_rows, 1000000 + task.seed, out.test);
  out.shift = Eigen::VectorXd::Zero(out.features());
  out.factor = Eigen::VectorXd::Ones(out.features());
  return out;
}

}  // namespace

Matrix columns_of(const data::Dataset& d, const std::vector<Index>& rows) {
  constexpr double most = double(Index{1} << 32);
  if (static_cast<double>(d.features()) * static_cast<double>(rows.size()) > most)
    throw InvalidInput(
        fmt::format("{}: {} rows of {} features would take more than 16 GiB as the dense inputs that a "
                    "network needs; use --rows",
                    d.source, rows.size(), d.features()));
  Matrix x = Matrix::Zero(d.features(), static_cast<Index>(rows.size()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto n = static_cast<Index>(i);
    if (d.sparse())
      for (data::SparseRows::InnerIterator it(d.sparse_rows(), rows[i]); it; ++it)
        x(it.col(), n) = static_cast<float>(it.value());
    else
      x.col(n) = d.dense_rows().row(rows[i]).transpose().cast<float>();
  }
  return x;
}

std::vector<Index> all_rows(Index count) {
  std::vector<Index> rows(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i) rows[static_cast<std::size_t>(i)] = i;
  return rows;
}

void rescale(const Eigen::VectorXd& shift, const Eigen::VectorXd& factor, Matrix& inputs) {
  const Eigen::VectorXf from = shift.cast<float>(), by = factor.cast<float>();
  for (Index n = 0; n < inputs.cols(); ++n) inputs.col(n) = (inputs.col(n) - from).cwiseProduct(by);
}

TrainData load(const TrainTask& task) {
  if (task.data.empty()) {
    if (!task.test.empty())
      throw InvalidInput("--test needs data: without DATA, train draws pictures and tests on others");
    return generated(task);
  }
  data::ReadOptions reading = task.reading, test_reading = task.reading;
  std::string file = task.data, test_file;
  double share = 0.2;
  const bool folder = fs::is_directory(task.data);
  if (folder) {
    file = file_in(task.data, "train-images-idx3-ubyte");
    if (!reading.labels.empty())
      throw InvalidInput(fmt::format("--labels {}: the folder {} has its own", reading.labels, task.data));
    reading.labels = file_in(task.data, "train-labels-idx1-ubyte");
  }
  if (folder && task.test.empty()) {
    test_file = file_in(task.data, "t10k-images-idx3-ubyte");
    test_reading.labels = file_in(task.data, "t10k-labels-idx1-ubyte");
  } else if (const auto part = share_of(task.test)) {
    share = *part;
    if (!task.test_labels.empty())
      throw InvalidInput(fmt::format(
          "--test-labels {} needs a file of test rows, and --test is a share of the data", task.test_labels));
  } else if (!task.test.empty()) {
    test_file = task.test;
    test_reading.labels = task.test_labels;
  }

  TrainData out;
  data::Dataset d = data::read(file, reading);
  if (d.target.size() == 0)
    throw InvalidInput(fmt::format("{}: there are no labels; --labels names the file that holds them", file));
  const std::vector<std::string> names = names_of(d);
  out.classes = classes_of(names);
  if (out.classes.size() < 2)
    throw InvalidInput(
        fmt::format("{}: all rows have the label {}; there is nothing to tell apart", file, out.classes[0]));
  if (out.classes.size() > 1000)
    throw InvalidInput(
        fmt::format("{}: there are {} different labels; train is for classes (is the label in another "
                    "column? --target names it)",
                    file, out.classes.size()));
  const std::string doubt =
      doubt_about(d, file, out.classes, reading.labels.empty() && !d.schema.columns.empty());
  const std::vector<int> labels = indices_of(names, out.classes, file);
  out.image = d.image;
  out.notes = d.notes;
  if (!doubt.empty()) out.notes.push_back(doubt);
  out.schema = d.schema;
  const bool pictures = d.format == data::Format::idx || d.image.has_value();
  const auto take = [&](Part& part, const data::Dataset& from, const std::vector<int>& of,
                        const std::vector<Index>& rows) {
    part.source = from.source;
    part.inputs = columns_of(from, rows);
    for (const Index i : rows) part.labels.push_back(of[static_cast<std::size_t>(i)]);
  };
  // Missing cells get the mean of the training rows.
  const auto complete = [&](data::Dataset& from, const std::vector<Index>& training) {
    if (task.reading.missing != data::Missing::mean) return;
    if (out.imputed.size() == 0) out.imputed = data::column_moments(from, training).mean;
    data::impute(from, out.imputed);
  };
  if (test_file.empty()) {
    const auto held = data::draw_part(d.rows(), share, task.seed, &labels);
    std::vector<Index> training, testing;
    for (Index i = 0; i < d.rows(); ++i)
      (held[static_cast<std::size_t>(i)] ? testing : training).push_back(i);
    training = drawn(std::move(training), task.rows, task.seed);
    complete(d, training);
    take(out.train, d, labels, training);
    take(out.test, d, labels, testing);
  } else {
    const std::vector<Index> training = drawn(all_rows(d.rows()), task.rows, task.seed);
    complete(d, training);
    take(out.train, d, labels, training);
    d = {};  // twice the memory of the training rows is enough
    data::Dataset t = data::read(test_file, test_reading, &out.schema);
    if (t.target.size() == 0)
      throw InvalidInput(fmt::format("{}: there are no labels; --test-labels names their file", test_file));
    complete(t, {});
    take(out.test, t, indices_of(names_of(t), out.classes, test_file), all_rows(t.rows()));
    out.notes.insert(out.notes.end(), t.notes.begin(), t.notes.end());
  }
  if (out.test.inputs.rows() != out.features())
    throw InvalidInput(fmt::format("{} has {} features, the training data {}", out.test.source,
                                   out.test.inputs.rows(), out.features()));
  require_numbers(out.train);
  require_numbers(out.test);
  scale(task, pictures, out);
  return out;
}

}  // namespace training
