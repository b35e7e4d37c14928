#pragma once

#include <charconv>
#include <optional>
#include <string>

#include <bilevel/data/read.hpp>
#include <bilevel/models/clean.hpp>
#include <bilevel/models/example.hpp>
#include <bilevel/models/tune.hpp>

namespace bilevel::models {

/// The share or number that a text is, or nothing where it names a file.
inline std::optional<double> number_in(const std::string& text) {
  double value = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  return error == std::errc() && end == last ? std::optional(value) : std::nullopt;
}

inline std::optional<bilevel::data::Dataset> further(const std::string& text,
                                                     bilevel::data::ReadOptions reading,
                                                     const bilevel::data::Schema& like) {
  if (text.empty() || number_in(text)) return {};
  reading.split.clear();
  return bilevel::data::read(text, reading, &like);
}

/// A run of `tune` on files, rows to judge by and rows for the test by a file or a share: empty, as for the
/// program, means folds.
struct Task : TuneOptions {
  std::string data;
  bool example = false;
  bilevel::data::ReadOptions reading;
  std::string validation, test = "0.2", groups;

  TuneOptions options() const {
    TuneOptions o = *this;
    o.TuneOptions::validation = number_in(validation);
    o.TuneOptions::test = number_in(test).value_or(0);
    if (!groups.empty()) o.TuneOptions::groups = read_groups(groups);
    o.missing = reading.missing;
    o.storage = reading.storage;
    return o;
  }
  TuningData read() const {
    TuningData all(example ? example_data(seed) : bilevel::data::read(data, reading));
    all.validation = further(validation, reading, all.data.schema);
    all.test = further(test, reading, all.data.schema);
    return all;
  }
};

inline Prepared prepare(const Task& task) {
  return prepare(task.read(), task.options());
}
inline Tuned tune(const Task& task, const Prepared& prepared, const TuneControl& control) {
  return tune(prepared, task.options(), control);
}

/// The same of `clean`.
struct CleanTask : CleanOptions {
  std::string data;
  bilevel::data::ReadOptions reading;
  std::string trusted, test = "0";

  CleanOptions options() const {
    CleanOptions o = *this;
    o.CleanOptions::trusted = number_in(trusted).value_or(0);
    o.CleanOptions::test = number_in(test).value_or(0);
    o.missing = reading.missing;
    return o;
  }
};

inline CleanData prepare_clean(const CleanTask& task) {
  CleaningData all(bilevel::data::read(task.data, task.reading));
  all.test = further(task.test, task.reading, all.data.schema);
  all.trusted = further(task.trusted, task.reading, all.data.schema);
  return prepare_clean(std::move(all), task.options());
}
inline Cleaned clean(const CleanTask& task, const CleanData& data, const TuneControl& control) {
  return clean(data, task.options(), control);
}

}  // namespace bilevel::models
