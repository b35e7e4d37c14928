#include <bilevel/models/clean_data.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>

#include <bilevel/data/moments.hpp>
#include <bilevel/data/split.hpp>

#include <bilevel/models/classes.hpp>
#include <bilevel/models/gather.hpp>

namespace bilevel::models {
namespace {

namespace data = bilevel::data;
namespace problems = bilevel::problems;
using data::Dataset;
using Vec = Eigen::VectorXd;

/// Of a pool of so many rows, how many the text asks for: a count, or a share; nothing where it names a file.
std::optional<Index> rows_asked(const std::string& text, std::string_view option, Index pool) {
  double value = 0;
  if (text.ends_with('%')) {
    const auto part = bilevel::models::share(text, option);
    if (!part) return {};
    value = *part;
  } else {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return {};
  }
  const bool share = value < 1;
  if (!(value >= 0) || (!share && value != std::floor(value)))
    throw InvalidInput(
        fmt::format("{} {}: write a share below 1, a whole number of rows, or a file", option, text));
  const double wanted = share ? std::round(value * static_cast<double>(pool)) : value;
  if (wanted >= static_cast<double>(pool))
    throw InvalidInput(
        fmt::format("{} {}: there are only {} rows to take from, and some must remain", option, text, pool));
  return static_cast<Index>(wanted);
}

bool is_number(const std::string& text) {
  return rows_asked(text, "", std::numeric_limits<Index>::max() / 2).has_value();
}

Classes labels_of(const Dataset& d) {
  Classes classes = classes_of(d);
  const std::size_t count = classes.values.size(), rows = static_cast<std::size_t>(d.rows());
  if (count < 2)
    throw InvalidInput(fmt::format(
        "{}: every row has the same label: there is nothing to tell apart; check --target", d.source));
  if (count > 1000 || (count > 10 ? 4 : 2) * count > rows)
    throw InvalidInput(fmt::format(
        "{}: the target '{}' has {} distinct values in {} rows: that is no class label; name the column of "
        "labels by --target",
        d.source, d.target_name, count, d.rows()));
  return classes;
}

int class_in(const Classes& classes, const Dataset& d, Index row) {
  const int number = classes.of(d.target[row]);
  if (number < 0)
    throw InvalidInput(fmt::format("{}: row {} has the label '{}', which no row of the data has", d.source,
                                   row + 1, d.target[row]));
  return number;
}

/// Takes rows out of the pool, the classes in their shares.
std::vector<Index> draw(std::vector<Index>& pool, Index count, const Dataset& d, std::uint64_t seed) {
  const auto size = static_cast<Index>(pool.size());
  Vec target(size);
  for (Index i = 0; i < size; ++i) target[i] = d.target[pool[static_cast<std::size_t>(i)]];
  const auto strata = data::strata_of(target);
  const auto drawn =
      data::draw_part(size, static_cast<double>(count) / static_cast<double>(size), seed, &strata);
  std::vector<Index> taken, rest;
  for (std::size_t i = 0; i < pool.size(); ++i) (drawn[i] ? taken : rest).push_back(pool[i]);
  pool = std::move(rest);
  return taken;
}

void warn(const CleanTask& task, CleanData& c) {
  if (is_number(task.trusted) && task.corrupt == 0)
    c.warnings.push_back(
        "the trusted rows are drawn from the data themselves, so that wrong labels among them are taken for "
        "right: with labels that someone checked, give them as a file (--trusted FILE)");
  std::vector<Index> seen(c.classes.size(), 0);
  for (Index i = c.trusted().first; i < c.trusted().second; ++i)
    ++seen[static_cast<std::size_t>((*c.samples.classes)[static_cast<std::size_t>(i)])];
  std::vector<std::string> absent;
  for (std::size_t k = 0; k < seen.size(); ++k)
    if (seen[k] == 0) absent.push_back(c.classes[k]);
  if (!absent.empty())
    c.warnings.push_back(fmt::format(
        "no trusted row has the label {}: nothing speaks for such labels, and rows that have them will look "
        "wrong; trust some",
        fmt::join(absent, ", ")));
  else if (c.trusted_rows < static_cast<Index>(10 * c.classes.size()))
    c.warnings.push_back(
        fmt::format("{} trusted rows are few for {} classes: the weights may follow their "
                    "chance features; trust more",
                    c.trusted_rows, c.classes.size()));
}

}  // namespace

void CleanTask::validate() const {
  WrongOptions wrong;
  wrong.require(!trusted.empty(), "trusted",
                "is missing:", "name rows whose labels are right, by a file, a share or a number");
  wrong.require(rows >= 0, "rows", rows, "must be zero (all) or more");
  wrong.require(corrupt >= 0 && corrupt < 1, "corrupt", corrupt, "must be at least 0 and below 1");
  wrong.require(lambda >= 0 && std::isfinite(lambda), "lambda", lambda, "must be zero or more and finite");
  wrong.require(threshold > 0 && threshold < 1, "threshold", threshold, "must lie between 0 and 1");
  wrong.require(decrease >= 0 && std::isfinite(decrease), "decrease", decrease,
                "must be zero or more and finite");
  wrong.require(iterations >= 0, "iterations", iterations, "must be zero or more");
  wrong.throw_if_any();
}

CleanData prepare_clean(const CleanTask& task) {
  task.validate();
  CleanData c;
  std::vector<Dataset> files;
  files.push_back(data::read(task.data, task.reading));
  const auto further = [&](const std::string& path, const std::string& labels, std::string_view option) {
    files.push_back(read_further(task.reading, files[0].schema, path, labels, option));
    return all_rows(static_cast<int>(files.size()) - 1, files.back().rows());
  };
  const auto unused = [&](const std::string& labels, std::string_view option, std::string_view owner) {
    if (!labels.empty())
      throw InvalidInput(fmt::format("{} {}: it goes with {} FILE, not with rows drawn from the data", option,
                                     labels, owner));
  };

  std::vector<Index> pool(static_cast<std::size_t>(files[0].rows()));
  std::iota(pool.begin(), pool.end(), Index{0});
  const Classes classes = labels_of(files[0]);
  const auto part = [&](const std::string& text, const std::string& labels, const std::string& option,
                        std::uint64_t seed) {
    const auto count = rows_asked(text, option, static_cast<Index>(pool.size()));
    if (!count) return further(text, labels, option + "-labels");
    unused(labels, option + "-labels", option);
    std::vector<Place> places;
    if (*count > 0)
      for (const Index row : draw(pool, *count, files[0], seed)) places.push_back({0, row});
    return places;
  };
  const std::vector<Place> test = part(task.test, task.test_labels, "--test", task.seed ^ 0x74657374ULL);
  const std::vector<Place> trusted =
      part(task.trusted, task.trusted_labels, "--trusted", task.seed ^ 0x7472757374ULL);
  if (trusted.empty())
    throw InvalidInput(
        fmt::format("--trusted {}: some rows are needed to judge the others by", task.trusted));
  if (task.rows > static_cast<Index>(pool.size()))
    throw InvalidInput(fmt::format("--rows {}: only {} rows remain", task.rows, pool.size()));
  if (task.rows > 0 && task.rows < static_cast<Index>(pool.size())) {
    pool = draw(pool, task.rows, files[0], task.seed ^ 0x726f7773ULL);
  }
  if (pool.size() < 2) throw InvalidInput("fewer than two rows remain to be looked at");

  const Dataset& first = files[0];
  for (const Dataset& file : files)
    for (const std::string& note : file.notes) c.notes.push_back(note);
  c.source = first.source;
  c.format = data::name(first.format);
  c.storage = first.sparse() ? "sparse" : "dense";
  c.target = first.target_name;
  c.header = first.schema.header;
  c.classes = classes.names;
  c.image = first.image;
  c.file_features = first.features();
  c.file_rows = first.rows();
  c.training_rows = static_cast<Index>(pool.size());
  c.trusted_rows = static_cast<Index>(trusted.size());
  c.test_rows = static_cast<Index>(test.size());
  c.splitting = fmt::format("trusted {}{}, seed {}",
                            is_number(task.trusted) ? "rows drawn from the data" : "from a file",
                            test.empty()           ? ", no test"
                            : is_number(task.test) ? ", test rows drawn from the data"
                                                   : ", test from a file",
                            task.seed);

  data::ColumnMoments moments = data::column_moments(first, pool);
  if (task.reading.missing == data::Missing::mean) {
    const Vec means = moments.mean;
    for (Dataset& file : files) data::impute(file, means);
    moments = data::column_moments(first, pool);
  }
  // A column that is constant on the training rows can only imitate the intercept.
  double brightest = 0;
  for (Index j = 0; j < first.features(); ++j)
    if (moments.deviation[j] == 0)
      c.constant.push_back(first.names[static_cast<std::size_t>(j)]);
    else {
      c.columns.push_back(j);
      brightest = std::max(brightest, moments.largest[j]);
    }
  if (c.columns.empty())
    throw InvalidInput(fmt::format("{}: every feature is constant on the training rows", first.source));
  Vec scale(static_cast<Index>(c.columns.size()));
  for (Index j = 0; j < scale.size(); ++j)
    scale[j] = c.image ? brightest : moments.largest[c.columns[static_cast<std::size_t>(j)]];
  c.scaling = c.image ? fmt::format("all pixels divided by {:g}", brightest)
                      : "each feature divided by its largest magnitude";

  std::vector<Place> rows;
  for (const Index row : pool) {
    rows.push_back({0, row});
    c.source_rows.push_back(row + 1);
  }
  rows.insert(rows.end(), trusted.begin(), trusted.end());
  rows.insert(rows.end(), test.begin(), test.end());
  auto numbers = std::make_shared<std::vector<int>>();
  for (const Place& place : rows)
    numbers->push_back(class_in(classes, files[static_cast<std::size_t>(place.file)], place.row));
  if (task.corrupt > 0) {
    c.original.assign(numbers->begin(), numbers->begin() + c.training_rows);
    const auto drawn = data::draw_part(c.training_rows, task.corrupt, task.seed ^ 0x6e6f697365ULL);
    std::mt19937_64 engine(task.seed ^ 0x6c6162656cULL);
    for (std::size_t i = 0; i < drawn.size(); ++i)
      if (drawn[i]) (*numbers)[i] = static_cast<int>(engine() % classes.values.size());
  }
  c.samples.classes = std::move(numbers);
  c.samples.matrix = gather(files, rows, c.columns, Vec::Zero(scale.size()), scale, false, c.nonzeros);
  double squares = 0;
  for (Index i = 0; i < c.training_rows; ++i)
    c.samples.matrix->for_each(i, [&](Index, double x) { squares += x * x; });
  c.lambda = task.lambda > 0 ? task.lambda : typical_lambda * squares / static_cast<double>(c.training_rows);
  warn(task, c);
  return c;
}

std::vector<unsigned char> CleanData::picture(Index training_row) const {
  std::vector<unsigned char> bytes(static_cast<std::size_t>(file_features), 0);
  samples.matrix->for_each(training_row, [&](Index j, double value) {
    bytes[static_cast<std::size_t>(columns[static_cast<std::size_t>(j)])] =
        static_cast<unsigned char>(std::clamp(std::round(255 * value), 0.0, 255.0));
  });
  return bytes;
}

}  // namespace bilevel::models
