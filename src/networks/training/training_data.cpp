#include <bilevel/networks/training_data.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>

#include <bilevel/data/moments.hpp>
#include <bilevel/data/pictures.hpp>
#include <bilevel/data/split.hpp>

#include "inputs.hpp"
#include "networks/by_name.hpp"

namespace bilevel::networks {
namespace {

namespace fs = std::filesystem;

constexpr double usual_test_share = 0.2;
constexpr std::array<std::string_view, 4> scalings{"auto", "none", "unit", "standard"};

/// NAME or NAME.gz in the folder; empty where there is none.
std::string find_in(const std::string& folder, const std::string& name) {
  for (const char* ending : {"", ".gz", ".bz2"}) {
    const fs::path path = fs::path(folder) / (name + ending);
    if (fs::exists(path)) return path.string();
  }
  return {};
}

std::string file_in(const std::string& folder, const std::string& name) {
  if (std::string file = find_in(folder, name); !file.empty()) return file;
  throw InvalidInput(fmt::format(
      "{}: there is no {} (or {}.gz) in this folder; a folder must hold the four IDX files "
      "train-images-idx3-ubyte, "
      "train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, or a folder of "
      "pictures for each class",
      folder, name, name));
}

bool has_folders(const std::string& folder) {
  const fs::directory_iterator entries(folder);
  return std::any_of(begin(entries), end(entries), [](const auto& each) { return each.is_directory(); });
}

/// A folder with one folder of pictures for each class; where these lie in train/ and test/, the latter are
/// the test rows.
TrainingData read_picture_folders(const TrainingFiles& files, const SplitOptions& options) {
  if (!files.reading.labels.empty() || !files.test_labels.empty())
    throw InvalidInput(fmt::format("`labels` {}: the names of the folders in {} are the labels",
                                   files.reading.labels.empty() ? files.test_labels : files.reading.labels,
                                   files.data));
  std::string folder = files.data, test = files.test;
  const fs::path train_part = fs::path(folder) / "train", test_part = fs::path(folder) / "test";
  if (fs::is_directory(train_part) && fs::is_directory(test_part)) {
    folder = train_part.string();
    if (test.empty() && !options.test_share) test = test_part.string();
  }
  const data::ClassPictures pictures = data::read_class_pictures(folder);
  data::Dataset rows = data::dataset(pictures);
  if (test.empty()) return training_data(std::move(rows), options);
  const auto paper = pictures.inverted ? data::Paper::white : data::Paper::black;
  return training_data(std::move(rows),
                       data::dataset(data::read_class_pictures(test, {.paper = paper, .least_classes = 1})),
                       options);
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
                      "in another column? `target` names it)",
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
        "and training tells classes apart: tune predicts quantities; {}",
        file, count, classes.front(), classes.back(), rows,
        column ? fmt::format("`target` names another column, `categorical` '{}' takes each number as a class",
                             d.target_name)
               : "`labels` FILE with a word a row instead of the number takes each as a class"));
  return fmt::format(
      "the target is {} different numbers from {} to {}, each taken as a class; tune predicts quantities",
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

void scale(Scaling way, bool pictures, TrainingData& out) {
  const Index features = out.features();
  if (way == Scaling::automatic) way = pictures ? Scaling::unit : Scaling::standard;
  out.shift = Eigen::VectorXd::Zero(features);
  out.factor = Eigen::VectorXd::Ones(features);
  if (way == Scaling::none) {
    out.scaling = "features as they are";
    return;
  }
  const Eigen::MatrixXf& x = out.train.inputs;
  if (way == Scaling::unit) {
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
  for (Eigen::MatrixXf* inputs : {&out.train.inputs, &out.test.inputs})
    rescale(out.shift, out.factor, *inputs);
}

void require_numbers(const LabelledSamples& part) {
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

/// Rows and what is known about their classes.
struct Classified {
  std::vector<std::string> classes;
  std::vector<int> labels;
  std::string doubt;
};

Classified classified(const data::Dataset& d, bool labels_apart) {
  Classified c;
  if (d.target.size() == 0)
    throw InvalidInput(
        fmt::format("{}: there are no labels; `labels` names the file that holds them", d.source));
  const std::vector<std::string> names = names_of(d);
  c.classes = classes_of(names);
  if (c.classes.size() < 2)
    throw InvalidInput(fmt::format("{}: all rows have the label {}; there is nothing to tell apart", d.source,
                                   c.classes[0]));
  if (c.classes.size() > 1000)
    throw InvalidInput(
        fmt::format("{}: there are {} different labels; training is for classes (is the label in another "
                    "column? `target` names it)",
                    d.source, c.classes.size()));
  c.doubt = doubt_about(d, d.source, c.classes, !labels_apart && !d.schema.columns.empty());
  c.labels = indices_of(names, c.classes, d.source);
  return c;
}

void take(LabelledSamples& part, const data::Dataset& from, const std::vector<int>& labels,
          const std::vector<Index>& rows) {
  part.source = from.source;
  part.inputs = columns_of(from, rows);
  for (const Index i : rows) part.labels.push_back(labels[static_cast<std::size_t>(i)]);
}

/// Missing cells get the mean of the training rows.
void complete(data::Dataset& from, const std::vector<Index>& training, TrainingData& out) {
  if (out.imputed.size() == 0) out.imputed = data::column_moments(from, training).mean;
  data::impute(from, out.imputed);
}

/// `test`: makes the test rows, encoded like the others, once those have been let go; null: a share of the
/// rows.
TrainingData prepared(data::Dataset d, bool labels_apart, const SplitOptions& options,
                      const std::function<data::Dataset(const data::Schema&)>& test) {
  options.validate().throw_if_any();
  TrainingData out;
  const Classified known = classified(d, labels_apart);
  out.classes = known.classes;
  out.image = d.image;
  out.notes = d.notes;
  if (!known.doubt.empty()) out.notes.push_back(known.doubt);
  out.schema = d.schema;
  const bool pictures = d.format == data::Format::idx || d.image.has_value();
  if (!test) {
    const auto held =
        data::draw_part(d.rows(), options.test_share.value_or(usual_test_share), options.seed, &known.labels);
    std::vector<Index> training, testing;
    for (Index i = 0; i < d.rows(); ++i)
      (held[static_cast<std::size_t>(i)] ? testing : training).push_back(i);
    training = drawn(std::move(training), options.rows, options.seed);
    if (options.impute) complete(d, training, out);
    take(out.train, d, known.labels, training);
    take(out.test, d, known.labels, testing);
  } else {
    const std::vector<Index> training = drawn(all_rows(d.rows()), options.rows, options.seed);
    if (options.impute) complete(d, training, out);
    take(out.train, d, known.labels, training);
    d = {};  // twice the memory of the training rows is enough
    data::Dataset t = test(out.schema);
    if (t.target.size() == 0)
      throw InvalidInput(fmt::format("{}: there are no labels; `test_labels` names their file", t.source));
    if (options.impute) complete(t, {}, out);
    take(out.test, t, indices_of(names_of(t), out.classes, t.source), all_rows(t.rows()));
    out.notes.insert(out.notes.end(), t.notes.begin(), t.notes.end());
  }
  if (out.test.inputs.rows() != out.features())
    throw InvalidInput(fmt::format("{} has {} features, the training data {}", out.test.source,
                                   out.test.inputs.rows(), out.features()));
  require_numbers(out.train);
  require_numbers(out.test);
  scale(options.scaling, pictures, out);
  return out;
}

}  // namespace

std::string_view name(Scaling scaling) {
  return scalings[static_cast<std::size_t>(scaling)];
}
Scaling scaling_of(std::string_view name) {
  return by_name<Scaling>("scaling", name, scalings);
}

Violations SplitOptions::validate() const {
  Violations v("split");
  v.require(!test_share || (*test_share > 0 && *test_share < 1), "test_share", test_share.value_or(0),
            "must lie between 0 and 1");
  v.require(rows >= 0, "rows", rows, "must be zero or more");
  return v;
}

Violations TrainingData::validate() const {
  Violations v("TrainingData");
  const auto known = static_cast<Index>(classes.size());
  v.at_least("classes", known, 2).at_least("train.rows", train.rows(), 1);
  const auto part = [&](const std::string& name, const LabelledSamples& samples) {
    v.require(static_cast<Index>(samples.labels.size()) == samples.rows(), name + ".labels",
              samples.labels.size(), fmt::format("must be as many as there are rows, {}", samples.rows()));
    const auto wrong = std::find_if(samples.labels.begin(), samples.labels.end(),
                                    [&](int label) { return label < 0 || label >= known; });
    if (wrong != samples.labels.end())
      v.require(false, fmt::format("{}.labels[{}]", name, wrong - samples.labels.begin()), *wrong,
                fmt::format("must be the number of a class, 0 … {}", known - 1));
    v.require(samples.inputs.allFinite(), name + ".inputs", "a matrix", "must hold neither NaN nor infinity");
  };
  part("train", train);
  part("test", test);
  if (test.rows() > 0)
    v.require(test.inputs.rows() == features(), "test.inputs", fmt::format("{} features", test.inputs.rows()),
              fmt::format("must have the {} of the training rows", features()));
  // An imputed mean for each feature, or none.
  for (const auto& [name, size] : {std::pair{"shift", shift.size()},
                                   {"factor", factor.size()},
                                   {"imputed", imputed.size() > 0 ? imputed.size() : features()}})
    v.require(size == features(), name, fmt::format("{} numbers", size),
              fmt::format("must be one for each of the {} features", features()));
  return v;
}

double TrainingData::feature_size() const {
  return static_cast<double>(train.inputs.norm()) / std::sqrt(static_cast<double>(train.inputs.size()));
}

Eigen::MatrixXf columns_of(const data::Dataset& d, const std::vector<Index>& rows) {
  constexpr double most = double(Index{1} << 32);
  if (static_cast<double>(d.features()) * static_cast<double>(rows.size()) > most)
    throw InvalidInput(
        fmt::format("{}: {} rows of {} features would take more than 16 GiB as the dense inputs that a "
                    "network needs; use fewer (`rows`)",
                    d.source, rows.size(), d.features()));
  Eigen::MatrixXf x = Eigen::MatrixXf::Zero(d.features(), static_cast<Index>(rows.size()));
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

void rescale(const Eigen::VectorXd& shift, const Eigen::VectorXd& factor, Eigen::MatrixXf& inputs) {
  const Eigen::VectorXf from = shift.cast<float>(), by = factor.cast<float>();
  for (Index n = 0; n < inputs.cols(); ++n) inputs.col(n) = (inputs.col(n) - from).cwiseProduct(by);
}

TrainingData training_data(const Eigen::MatrixXd& rows, const std::vector<std::string>& labels,
                           const SplitOptions& options) {
  if (static_cast<Index>(labels.size()) != rows.rows())
    throw InvalidInput(fmt::format("there are {} rows and {} labels", rows.rows(), labels.size()));
  data::Dataset d;
  d.source = "rows in memory";
  d.x = data::DenseRows(rows);
  d.levels = labels;
  std::sort(d.levels.begin(), d.levels.end());
  d.levels.erase(std::unique(d.levels.begin(), d.levels.end()), d.levels.end());
  d.target.resize(rows.rows());
  for (Index i = 0; i < rows.rows(); ++i)
    d.target[i] = static_cast<double>(
        std::lower_bound(d.levels.begin(), d.levels.end(), labels[static_cast<std::size_t>(i)]) -
        d.levels.begin());
  return training_data(std::move(d), options);
}

TrainingData training_data(data::Dataset rows, const SplitOptions& options) {
  return prepared(std::move(rows), false, options, nullptr);
}

TrainingData training_data(data::Dataset rows, data::Dataset test, const SplitOptions& options) {
  return prepared(std::move(rows), false, options, [&](const data::Schema&) { return std::move(test); });
}

TrainingData read_training_data(const TrainingFiles& files, SplitOptions options) {
  data::ReadOptions reading = files.reading, test_reading = files.reading;
  std::string file = files.data, test_file = files.test;
  test_reading.labels = files.test_labels;
  if (options.test_share && !files.test.empty())
    throw InvalidInput("`test` names test rows, and `test_share` asks for a share of the data");
  if (files.test.empty() && !files.test_labels.empty())
    throw InvalidInput(
        fmt::format("`test_labels` {} needs a file of test rows, and `test` names none", files.test_labels));
  if (fs::is_directory(files.data)) {
    if (find_in(files.data, "train-images-idx3-ubyte").empty() && has_folders(files.data))
      return read_picture_folders(files, options);
    file = file_in(files.data, "train-images-idx3-ubyte");
    if (!reading.labels.empty())
      throw InvalidInput(fmt::format("`labels` {}: the folder {} has its own", reading.labels, files.data));
    reading.labels = file_in(files.data, "train-labels-idx1-ubyte");
    if (files.test.empty() && !options.test_share) {
      test_file = file_in(files.data, "t10k-images-idx3-ubyte");
      test_reading.labels = file_in(files.data, "t10k-labels-idx1-ubyte");
    }
  }
  options.impute = files.reading.missing == data::Missing::mean;
  const auto test = [&](const data::Schema& like) { return data::read(test_file, test_reading, &like); };
  return prepared(data::read(file, reading), !reading.labels.empty(), options,
                  test_file.empty() ? std::function<data::Dataset(const data::Schema&)>() : test);
}

}  // namespace bilevel::networks
