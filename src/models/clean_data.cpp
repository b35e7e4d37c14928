#include <bilevel/models/clean_data.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include <bilevel/data/moments.hpp>
#include <bilevel/data/split.hpp>

#include "classes.hpp"
#include "gather.hpp"

namespace bilevel::models {
namespace {

namespace data = bilevel::data;
using data::Dataset;
using Vec = Eigen::VectorXd;

/// Of a pool of so many rows, how many are asked for: by their number, or by their share.
Index rows_asked(double asked, std::string_view field, Index pool) {
  const double wanted = asked < 1 ? std::round(asked * static_cast<double>(pool)) : asked;
  if (wanted >= static_cast<double>(pool))
    throw InvalidInput(
        fmt::format("CleanOptions.{} = {}: there are only {} rows to take from, and some must remain", field,
                    asked, pool));
  return static_cast<Index>(wanted);
}

Classes labels_of(const Dataset& d) {
  Classes classes = classes_of(d);
  const std::size_t count = classes.values.size(), rows = static_cast<std::size_t>(d.rows());
  if (count < 2)
    throw InvalidInput(fmt::format(
        "{}: every row has the same label: there is nothing to tell apart; check ReadOptions.target",
        d.source));
  if (count > 1000 || (count > 10 ? 4 : 2) * count > rows)
    throw InvalidInput(fmt::format(
        "{}: the target '{}' has {} distinct values in {} rows: that is no class label; name the column of "
        "labels by ReadOptions.target",
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

void warn(bool drawn, CleanData& c) {
  if (drawn)
    c.warnings.push_back(
        "the trusted rows are drawn from the data themselves, so that wrong labels among them are taken for "
        "right: with labels that someone checked, give them as a table of their own (CleaningData.trusted)");
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

Violations CleanOptions::validate() const {
  Violations v("CleanOptions");
  const auto share_or_count = [&](std::string_view field, double value) {
    v.require(value >= 0 && (value < 1 || value == std::floor(value)), field, value,
              "must be a share below 1, or a whole number of rows");
  };
  share_or_count("trusted", trusted);
  share_or_count("test", test);
  v.require(rows >= 0, "rows", rows, "must be zero (all) or more");
  v.require(corrupt >= 0 && corrupt < 1, "corrupt", corrupt, "must be at least 0 and below 1");
  v.not_negative("lambda", lambda);
  v.require(threshold > 0 && threshold < 1, "threshold", threshold, "must lie between 0 and 1");
  v.not_negative("decrease", decrease);
  v.at_least("iterations", iterations, 0);
  v.not_negative("seconds", seconds);
  return v;
}

namespace {

/// One run of `prepare_clean`: each step needs those before it.
class CleanPreparation {
 public:
  CleanPreparation(CleaningData data, const CleanOptions& options);
  CleanData run();

 private:
  const Dataset& first() const { return files_[0]; }

  void part_rows();
  std::vector<Place> part(std::optional<Dataset>& own, double asked, std::string_view field,
                          std::uint64_t seed);
  void describe_source();
  Vec choose_columns();
  void number_labels();
  void choose_lambda();

  const CleanOptions& options_;
  CleaningData given_;
  bool own_trusted_, own_test_;
  std::vector<Dataset> files_;  // the data first
  Classes classes_;
  std::vector<Index> pool_;  // rows to be looked at
  std::vector<Place> trusted_, test_, rows_;
  CleanData c_;
};

CleanPreparation::CleanPreparation(CleaningData data, const CleanOptions& options)
    : options_(options), given_(std::move(data)), own_trusted_(given_.trusted), own_test_(given_.test) {
  options.validate().throw_if_any();
  if (!own_trusted_ && options.trusted == 0)
    throw InvalidInput(
        "CleanOptions.trusted is missing: name rows whose labels are right, by a table of their own, a "
        "share or a number; some rows are needed to judge the others by");
  given_.data.validate().throw_if_any();
  for (const auto* own : {&given_.trusted, &given_.test})
    if (*own) (*own)->validate().throw_if_any();
  files_.push_back(std::move(given_.data));
}

std::vector<Place> CleanPreparation::part(std::optional<Dataset>& own, double asked, std::string_view field,
                                          std::uint64_t seed) {
  if (own) {
    if (own->features() != first().features())
      throw InvalidInput(fmt::format("{} has {} features, {} has {}", own->source, own->features(),
                                     first().source, first().features()));
    files_.push_back(std::move(*own));
    return all_rows(static_cast<int>(files_.size()) - 1, files_.back().rows());
  }
  std::vector<Place> places;
  if (const Index count = rows_asked(asked, field, static_cast<Index>(pool_.size())); count > 0)
    for (const Index row : draw(pool_, count, first(), seed)) places.push_back({0, row});
  return places;
}

void CleanPreparation::part_rows() {
  pool_.resize(static_cast<std::size_t>(first().rows()));
  std::iota(pool_.begin(), pool_.end(), Index{0});
  classes_ = labels_of(first());
  test_ = part(given_.test, options_.test, "test", options_.seed ^ 0x74657374ULL);
  trusted_ = part(given_.trusted, options_.trusted, "trusted", options_.seed ^ 0x7472757374ULL);
  if (trusted_.empty())
    throw InvalidInput(fmt::format("CleanOptions.trusted = {}: some rows are needed to judge the others by",
                                   options_.trusted));
  const auto left = static_cast<Index>(pool_.size());
  if (options_.rows > left)
    throw InvalidInput(fmt::format("CleanOptions.rows = {}: only {} rows remain", options_.rows, left));
  if (options_.rows > 0 && options_.rows < left)
    pool_ = draw(pool_, options_.rows, first(), options_.seed ^ 0x726f7773ULL);
  if (pool_.size() < 2) throw InvalidInput("fewer than two rows remain to be looked at");
}

void CleanPreparation::describe_source() {
  for (const Dataset& file : files_)
    for (const std::string& note : file.notes) c_.notes.push_back(note);
  c_.source = first().source;
  c_.format = data::name(first().format);
  c_.storage = first().sparse() ? "sparse" : "dense";
  c_.target = first().target_name;
  c_.header = first().schema.header;
  c_.classes = classes_.names;
  c_.image = first().image;
  c_.file_features = first().features();
  c_.file_rows = first().rows();
  c_.training_rows = static_cast<Index>(pool_.size());
  c_.trusted_rows = static_cast<Index>(trusted_.size());
  c_.test_rows = static_cast<Index>(test_.size());
  c_.splitting =
      fmt::format("trusted {}{}, seed {}", own_trusted_ ? "from a file" : "rows drawn from the data",
                  test_.empty() ? ", no test"
                  : own_test_   ? ", test from a file"
                                : ", test rows drawn from the data",
                  options_.seed);
}

/// And what each is divided by.
Vec CleanPreparation::choose_columns() {
  data::ColumnMoments moments = data::column_moments(first(), pool_);
  if (options_.missing == data::Missing::mean) {
    const Vec means = moments.mean;
    for (Dataset& file : files_) data::impute(file, means);
    moments = data::column_moments(first(), pool_);
  } else {
    for (const Dataset& file : files_) require_numbers(file, "CleanOptions");
  }
  // A column that is constant on the training rows can only imitate the intercept.
  double brightest = 0;
  for (Index j = 0; j < first().features(); ++j)
    if (moments.deviation[j] == 0)
      c_.constant.push_back(first().names[static_cast<std::size_t>(j)]);
    else {
      c_.columns.push_back(j);
      brightest = std::max(brightest, moments.largest[j]);
    }
  if (c_.columns.empty())
    throw InvalidInput(fmt::format("{}: every feature is constant on the training rows", first().source));
  Vec scale(static_cast<Index>(c_.columns.size()));
  for (Index j = 0; j < scale.size(); ++j)
    scale[j] = c_.image ? brightest : moments.largest[c_.columns[static_cast<std::size_t>(j)]];
  c_.scaling = c_.image ? fmt::format("all pixels divided by {:g}", brightest)
                        : "each feature divided by its largest magnitude";
  return scale;
}

void CleanPreparation::number_labels() {
  for (const Index row : pool_) {
    rows_.push_back({0, row});
    c_.source_rows.push_back(row + 1);
  }
  rows_.insert(rows_.end(), trusted_.begin(), trusted_.end());
  rows_.insert(rows_.end(), test_.begin(), test_.end());
  auto numbers = std::make_shared<std::vector<int>>();
  for (const Place& place : rows_)
    numbers->push_back(class_in(classes_, files_[static_cast<std::size_t>(place.file)], place.row));
  if (options_.corrupt > 0) {
    c_.original.assign(numbers->begin(), numbers->begin() + c_.training_rows);
    const auto drawn = data::draw_part(c_.training_rows, options_.corrupt, options_.seed ^ 0x6e6f697365ULL);
    std::mt19937_64 engine(options_.seed ^ 0x6c6162656cULL);
    for (std::size_t i = 0; i < drawn.size(); ++i)
      if (drawn[i]) (*numbers)[i] = static_cast<int>(engine() % classes_.values.size());
  }
  c_.samples.classes = std::move(numbers);
}

void CleanPreparation::choose_lambda() {
  double squares = 0;
  for (Index i = 0; i < c_.training_rows; ++i)
    c_.samples.matrix->for_each(i, [&](Index, double x) { squares += x * x; });
  c_.lambda = options_.lambda > 0 ? options_.lambda
                                  : typical_lambda * squares / static_cast<double>(c_.training_rows);
}

CleanData CleanPreparation::run() {
  part_rows();
  describe_source();
  const Vec scale = choose_columns();
  number_labels();
  c_.samples.matrix = gather(files_, rows_, c_.columns, Vec::Zero(scale.size()), scale, false, c_.nonzeros);
  choose_lambda();
  warn(!own_trusted_ && options_.corrupt == 0, c_);
  return std::move(c_);
}

}  // namespace

CleanData prepare_clean(CleaningData data, const CleanOptions& options) {
  return CleanPreparation(std::move(data), options).run();
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
