#include <algorithm>
#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>

#include <bilevel/data/pictures.hpp>
#include <bilevel/data/read.hpp>
#include <bilevel/learning/saved_learner.hpp>

#include "bilevel/json_output.hpp"
#include "bilevel/terminal.hpp"
#include "meta.hpp"

namespace app {
namespace {

using bilevel::InvalidInput;
using namespace bilevel::learning;
namespace data = bilevel::data;

struct AdaptArguments {
  std::string learner, known, fresh, output;
  long inner_steps = 0;
};

/// A column of the data, or all of them, as the rows of the one task.
Tensor rows_of(const bilevel::data::DenseRows& x) {
  Tensor rows = at::empty({1, x.rows(), x.cols()}, at::kFloat);
  float* to = rows.data_ptr<float>();
  for (bilevel::Index i = 0; i < x.rows(); ++i)
    for (bilevel::Index k = 0; k < x.cols(); ++k) *to++ = static_cast<float>(x(i, k));
  return rows;
}

Tensor target_of(const data::Dataset& rows) {
  Tensor y = at::empty({1, rows.rows(), 1}, at::kFloat);
  for (bilevel::Index i = 0; i < rows.rows(); ++i)
    y.data_ptr<float>()[i] = static_cast<float>(rows.target[i]);
  return y;
}

void require_features(const data::Dataset& rows, const TaskForm& form) {
  if (rows.features() != form.input[0])
    throw InvalidInput(fmt::format("{}: has {} columns of inputs, the learner takes {}", rows.source,
                                   rows.features(), form.input[0]));
}

/// As data::read, without its hints, which name options of other commands.
data::Dataset read_rows(const std::string& path, const data::ReadOptions& reading, long inputs,
                        const data::Schema* schema = nullptr) {
  if (std::filesystem::is_directory(path))
    throw InvalidInput(
        fmt::format("{}: this is a folder, and the learner takes rows of numbers: name a table (CSV) with {} "
                    "column{} of inputs{}",
                    path, inputs, inputs == 1 ? "" : "s", schema ? "" : ", then one of what to predict"));
  try {
    return data::read(path, reading, schema);
  } catch (const InvalidInput& error) {
    const std::string said = error.what();
    throw InvalidInput(
        fmt::format("{}; the learner takes a table of numbers (CSV) with {} column{} of inputs{}",
                    said.substr(0, said.find(';')), inputs, inputs == 1 ? "" : "s",
                    schema ? ", named as in the file that it adapts to" : ", then one of what to predict"));
  }
}

/// Adapts to rows of x and y; answers further x, or a grid between the first and the last where none are
/// given.
std::string adapt_to_rows(const AdaptArguments& a, const SavedLearner& learner, Adapted& adapted) {
  data::ReadOptions reading;
  reading.storage = data::Storage::dense;
  const auto inputs = static_cast<long>(learner.form.input[0]);
  const data::Dataset known = read_rows(a.known, reading, inputs);
  require_features(known, learner.form);
  Tasks task{rows_of(known.dense_rows()), target_of(known), {}, {}};
  if (!a.fresh.empty()) {
    reading.target_optional = true;
    const data::Dataset fresh = read_rows(a.fresh, reading, inputs, &known.schema);
    require_features(fresh, learner.form);
    task.query_x = rows_of(fresh.dense_rows());
  } else {
    if (learner.form.input[0] != 1)
      throw InvalidInput("meta adapt: name a file with the rows to answer, after the one to adapt to");
    task.query_x = at::linspace(task.support_x.min().item<double>(), task.support_x.max().item<double>(), 101,
                                task.support_x.options())
                       .view({1, -1, 1});
  }
  task.query_y = at::zeros({1, task.query_x.size(1), 1});
  adapted = learner.adapt(task);
  std::string text = a.fresh.empty() ? "x,prediction\n" : "prediction\n";
  for (std::int64_t i = 0; i < adapted.after.size(1); ++i) {
    if (a.fresh.empty()) text += fmt::format("{:.6g},", task.query_x[0][i][0].item<float>());
    text += fmt::format("{:.7g}\n", adapted.after[0][i][0].item<float>());
  }
  return text;
}

Tensor pictures_of(const std::vector<std::uint8_t>& pixels, const TaskForm& form) {
  return at::tensor(at::ArrayRef<std::uint8_t>(pixels), at::kByte)
      .to(at::kFloat)
      .div_(255)
      .view({1, -1, 1, form.input[1], form.input[2]});
}

/// Adapts to the pictures of class folders; says which class further pictures show.
std::string adapt_to_pictures(const AdaptArguments& a, const SavedLearner& learner, Adapted& adapted) {
  if (a.fresh.empty())
    throw InvalidInput(
        "meta adapt: name the pictures to answer, a file or a folder, after the folder to adapt to");
  if (learner.form.input[0] != 1)
    throw InvalidInput(
        fmt::format("{}: this learner looks at pictures of {} colours, and those of files are grey",
                    a.learner, learner.form.input[0]));
  if (!std::filesystem::is_directory(a.known))
    throw InvalidInput(fmt::format(
        "{}: {}, and the learner takes pictures: name a folder with a folder of pictures for each class",
        a.known, std::filesystem::exists(a.known) ? "this is a file" : "there is no such folder"));
  data::PicturesOptions reading{.height = learner.form.input[1], .width = learner.form.input[2]};
  // As those that it was learned from, where these had to be inverted: the few of a task may not show it.
  if (learner.inverted) reading.paper = data::Paper::white;
  const data::ClassPictures known = data::read_class_pictures(a.known, reading);
  reading.paper = known.inverted ? data::Paper::white : data::Paper::black;
  std::vector<std::string> files;
  std::vector<std::uint8_t> pixels;
  const auto add = [&](const std::filesystem::path& file) {
    const auto picture = data::read_picture(file.string(), reading);
    pixels.insert(pixels.end(), picture.begin(), picture.end());
    files.push_back(file.string());
  };
  if (std::filesystem::is_directory(a.fresh)) {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(a.fresh))
      if (entry.is_regular_file() && !entry.path().filename().string().starts_with("."))
        found.push_back(entry.path());
    std::sort(found.begin(), found.end());
    for (const auto& each : found) add(each);
    if (files.empty()) throw InvalidInput(fmt::format("{}: the folder holds no pictures", a.fresh));
  } else {
    add(a.fresh);
  }
  const auto classes = static_cast<std::int64_t>(known.classes.size());
  Tasks task{pictures_of(known.pixels, learner.form), at::zeros({1, known.size(), classes}),
             pictures_of(pixels, learner.form),
             at::zeros({1, static_cast<std::int64_t>(files.size()), classes})};
  for (bilevel::Index i = 0; i < known.size(); ++i)
    task.support_y[0][i][known.labels[static_cast<std::size_t>(i)]] = 1;
  adapted = learner.adapt(task);
  const Tensor probabilities = at::softmax(adapted.after, 2), best = adapted.after.argmax(2);
  std::string text = "file,prediction";
  for (const std::string& each : known.classes) text += "," + csv_cell("probability of " + each);
  text += "\n";
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    text += csv_cell(files[i]) + "," +
            csv_cell(known.classes[static_cast<std::size_t>(best[0][row].item<long>())]);
    for (std::int64_t k = 0; k < classes; ++k)
      text += fmt::format(",{:.4g}", probabilities[0][row][k].item<float>());
    text += "\n";
  }
  return text;
}

int run(const AdaptArguments& a) {
  require_outputs("meta adapt", {a.output}, {a.learner, a.known, a.fresh});
  SavedLearner learner = read_learner(a.learner);
  if (a.inner_steps > 0) learner.adaptation.inner_steps = a.inner_steps;
  Adapted adapted;
  const std::string text =
      learner.form.pictures() ? adapt_to_pictures(a, learner, adapted) : adapt_to_rows(a, learner, adapted);
  if (!std::isfinite(adapted.loss_after) || !adapted.after.isfinite().all().item<bool>())
    throw InvalidInput(
        fmt::format("{}: adapting to it gives numbers that are not finite ({}); are its values far from "
                    "those that the learner was learned from?",
                    a.known, adapted.message));
  say(stderr, "bilevel: adapted to {}: loss {:.4g} → {:.4g}, inner gradient {:.2g} left\n", a.known,
      adapted.loss_before, adapted.loss_after, adapted.residual);
  if (a.output.empty()) {
    write_raw(stdout, text);
  } else {
    write_text(a.output, text);
    say("written {}\n", a.output);
  }
  return ok;
}

}  // namespace

std::function<int()> add_adapt(CLI::App& meta) {
  auto a = std::make_shared<AdaptArguments>();
  CLI::App& command =
      *meta.add_subcommand("adapt", "Adapt a saved learner to a task of your own, and let it answer");
  command.add_option("learner", a->learner, "From bilevel meta --save")->required()->type_name("LEARNER");
  command
      .add_option("known", a->known,
                  "What to adapt to: rows of x and y (CSV), or a folder of class folders with pictures")
      ->required()
      ->type_name("DATA");
  command
      .add_option(
          "new", a->fresh,
          "What to answer: rows of x (default: a grid between the least and the largest), or a picture, or a "
          "folder of them")
      ->type_name("NEW");
  command.add_option("--inner-steps", a->inner_steps, "Of adaptation (default: those it was learned with)")
      ->type_name("N");
  command.add_option("--output", a->output, "Write the answers there (default: standard output)")
      ->type_name("FILE");
  return [a] { return run(*a); };
}

}  // namespace app
