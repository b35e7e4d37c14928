#include "data_arguments.hpp"

#include <charconv>
#include <map>

#include <fmt/format.h>

namespace app {

namespace data = bilevel::data;

void DataArguments::add_to(CLI::App& command, Purpose purpose) {
  const auto group = [&](CLI::Option* option) { option->group("Reading the data"); };
  const auto text = [&](const char* name, std::string& to, const char* what, const char* type) {
    group(command.add_option(name, to, what)->type_name(type));
  };
  const auto one_of = [&](const char* name, std::string& to, const char* what,
                          std::vector<std::string> words) {
    group(command.add_option(name, to, what)->check(CLI::IsMember(std::move(words)))->capture_default_str());
  };
  if (purpose == Purpose::classifying) {
    text("--target", options.target,
         "Column of labels: its name, or its number from 0 (-1: the last, which is the default)", "COLUMN");
    text("--labels", options.labels, "File that holds the labels instead (IDX, NPY, or one value a line)",
         "FILE");
  }
  if (purpose == Purpose::tuning) {
    text("--target", options.target,
         "Column to predict: its name, or its number from 0 (-1: the last, which is the default)", "COLUMN");
    text("--labels", options.labels, "File that holds the targets instead (IDX, NPY, or one value a line)",
         "FILE");
    text("--weights", options.weights, "Column of sample weights", "COLUMN");
    text("--offset", options.offset, "Column of offsets, added to every prediction's margin", "COLUMN");
    text("--split", options.split,
         "Column that says what a row is for: train, validation, test; or one value for each fold", "COLUMN");
  }
  one_of("--format", format, "What the file is", {"auto", "csv", "libsvm", "idx", "npy"});
  one_of("--header", header, "Does the first line hold names?", {"auto", "yes", "no"});
  text("--delimiter", delimiter, "What separates cells: a character, tab or blank (default: found out)", "C");
  group(command.add_option("--skip", options.skip, "Lines at the top to skip")
            ->type_name("N")
            ->check(CLI::NonNegativeNumber));
  if (purpose != Purpose::predicting) {
    group(command.add_option("--ignore", options.ignore, "Columns to leave out")
              ->type_name("COLUMN")
              ->delimiter(','));
    group(
        command
            .add_option("--categorical", options.categorical, "Columns of categories that look like numbers")
            ->type_name("COLUMN")
            ->delimiter(','));
  }
  text("--names", options.names, "File with one feature's name a line", "FILE");
  one_of("--missing", missing, "Missing cells: an error, or the mean of the training rows",
         {"refuse", "mean"});
  if (purpose == Purpose::predicting) return;
  group(command.add_flag("--zero-based", options.zero_based, "LIBSVM: indices start at 0"));
  group(command.add_option("--features", options.features, "LIBSVM: at least this many columns")
            ->type_name("N")
            ->check(CLI::NonNegativeNumber));
  one_of("--storage", storage, "How to keep the matrix", {"auto", "dense", "sparse"});
}

data::ReadOptions DataArguments::read_options() const {
  if (!options.target.empty() && !options.labels.empty())
    throw bilevel::InvalidInput("--target and --labels both say what to predict: give one of the two");
  data::ReadOptions read = options;
  const std::map<std::string, data::Format> formats{{"auto", data::Format::automatic},
                                                    {"csv", data::Format::csv},
                                                    {"libsvm", data::Format::libsvm},
                                                    {"idx", data::Format::idx},
                                                    {"npy", data::Format::npy}};
  read.format = formats.at(format);
  read.header = header == "yes"  ? data::Header::yes
                : header == "no" ? data::Header::no
                                 : data::Header::automatic;
  read.missing = missing == "mean" ? data::Missing::mean : data::Missing::refuse;
  read.storage = storage == "dense"    ? data::Storage::dense
                 : storage == "sparse" ? data::Storage::sparse
                                       : data::Storage::automatic;
  if (delimiter == "tab" || delimiter == "\\t") {
    read.delimiter = '\t';
  } else if (delimiter == "blank" || delimiter == " ") {
    read.delimiter = ' ';
  } else if (delimiter.size() == 1) {
    read.delimiter = delimiter[0];
  } else if (!delimiter.empty()) {
    throw bilevel::InvalidInput("--delimiter " + delimiter + ": write one character, tab or blank");
  }
  return read;
}

std::optional<double> RowsArgument::number(std::string_view option) const {
  double value = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc()) return {};
  if (end == last) return value;
  if (end + 1 != last || *end != '%') return {};
  if (!(value >= 0 && value < 100))
    throw bilevel::InvalidInput(
        fmt::format("{} {}: a share of the rows must be at least 0 and below 1", option, text));
  return value / 100;
}

std::optional<data::Dataset> RowsArgument::read(const data::ReadOptions& reading, const data::Schema& like,
                                                std::string_view option) const {
  if (!file(option)) {
    if (!labels.empty())
      throw bilevel::InvalidInput(fmt::format(
          "{0}-labels {1}: it goes with {0} FILE, not with rows drawn from the data", option, labels));
    return {};
  }
  if (reading.labels.empty() != labels.empty())
    throw bilevel::InvalidInput(
        labels.empty() ? fmt::format("the labels of {} are missing: {}-labels FILE, as --labels for the data",
                                     text, option)
                       : fmt::format("{}-labels is for data whose own labels come from --labels", option));
  data::ReadOptions options = reading;
  options.labels = labels;
  options.split.clear();
  return data::read(text, options, &like);
}

}  // namespace app
