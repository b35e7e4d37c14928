#include <algorithm>
#include <array>
#include <fstream>
#include <memory>

#include <unistd.h>

#include <bilevel/networks/saved_network.hpp>

#include <bilevel/models/saved_model.hpp>
#include "commands.hpp"
#include "data_arguments.hpp"
#include "json_output.hpp"
#include "terminal.hpp"

namespace app {
namespace {

using bilevel::Index;

struct PredictArguments {
  std::string model, data, output;
  DataArguments reading;
};

int deliver(const PredictArguments& a, const std::string& text, Index rows,
            const std::vector<std::string>& notes) {
  for (const std::string& note : notes) say(stderr, "bilevel: note: {}\n", note);
  if (a.output.empty()) {
    // A file or a program gets the names of classes as they are.
    write_raw(stdout, ::isatty(STDOUT_FILENO) == 1 ? visible(text) : text);
  } else {
    write_text(a.output, text);
    say("{} predictions written to {}\n", rows, a.output);
  }
  return ok;
}

int run_network(const PredictArguments& a) {
  const bilevel::networks::SavedNetwork network = bilevel::networks::read_network(a.model);
  const bilevel::models::Predictions said =
      network.predictions(network.read(a.data, a.reading.read_options()));
  const bool probable = said.probabilities.size() > 0;
  std::string text = "prediction";
  for (const std::string& each : network.classes)
    text += "," + csv_cell((probable ? "probability of " : "output of ") + each);
  text += "\n";
  for (Index i = 0; i < said.values.size(); ++i) {
    text += csv_cell(network.classes[static_cast<std::size_t>(said.values[i])]);
    for (const double each : (probable ? said.probabilities : said.margins).row(i))
      text += fmt::format(",{}", each);
    text += "\n";
  }
  return deliver(a, text, said.values.size(), said.notes);
}

/// A learner of bilevel meta says what it is at its beginning; what follows is no JSON.
bool is_learner(const std::string& path) {
  constexpr std::string_view beginning = "{\"format\":\"bilevel-learner\",";
  std::string found(beginning.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(found.data(), static_cast<std::streamsize>(found.size()));
  return found == beginning;
}

bilevel::models::SavedModel read_model(const std::string& path) {
  try {
    return bilevel::models::SavedModel::load(path);
  } catch (const bilevel::InvalidInput&) {
    if (!is_learner(path)) throw;
    throw bilevel::InvalidInput(fmt::format(
        "{}: it is a learner, which adapts to a task before it answers: use bilevel meta adapt", path));
  }
}

int run_model(const PredictArguments& a) {
  auto model = read_model(a.model);
  const bilevel::data::ReadOptions reading = a.reading.read_options();
  model.imputes = model.imputes || reading.missing == bilevel::data::Missing::mean;
  const bilevel::models::Predictions said = model.predict(model.read(a.data, reading));
  if (!model.verdict.empty() && (model.status != "converged" || model.verdict != "trusted"))
    say(stderr, "bilevel: note: the tuning of this model ended as '{}', its last gradient was {}\n",
        model.status, model.verdict);

  std::string text;
  const bool classifier = model.model.classifies();
  const bool probable = model.model.probable();
  text += "prediction";
  if (probable)
    for (const std::string& each : model.classes) text += "," + csv_cell("probability of " + each);
  else if (classifier)
    text += ",margin";
  text += "\n";
  for (Index i = 0; i < said.values.size(); ++i) {
    if (!classifier) {
      text += fmt::format("{}\n", said.values[i]);
      continue;
    }
    text += csv_cell(model.classes[static_cast<std::size_t>(said.values[i])]);
    if (probable)
      for (const double each : said.probabilities.row(i)) text += fmt::format(",{}", each);
    else
      text += fmt::format(",{}", said.margins(i, 0));
    text += "\n";
  }
  return deliver(a, text, said.values.size(), said.notes);
}

/// Readers advise options by which a training file is read; here that has been settled.
int run(const PredictArguments& a) {
  require_outputs("predict", {a.output}, {a.model, a.data});
  try {
    return bilevel::networks::is_network(a.model) ? run_network(a) : run_model(a);
  } catch (const bilevel::InvalidInput& error) {
    const std::string_view said = error.what();
    const bool of_training = std::ranges::any_of(
        std::array{"target", "labels", "weights", "ignore", "categorical"},
        [&](std::string_view field) { return said.find(fmt::format("ReadOptions.{}", field)) != said.npos; });
    if (!of_training) throw;
    throw bilevel::InvalidInput(
        fmt::format("{} (options of tune: predict reads columns as the training file had them, so correct "
                    "this file, or tune again with them)",
                    said));
  }
}

}  // namespace

std::function<int()> add_predict(CLI::App& program) {
  auto a = std::make_shared<PredictArguments>();
  CLI::App& command = *program.add_subcommand(
      "predict", "Apply a model or a network that bilevel tune or bilevel train has saved");
  command
      .add_option("model", a->model,
                  "The model, from bilevel tune --save, or the network, from bilevel train --save")
      ->required()
      ->type_name("MODEL");
  command
      .add_option("data", a->data,
                  "Rows to predict, in the form of the training file; a target is not needed")
      ->required()
      ->type_name("DATA");
  command.add_option("--output", a->output, "Write the predictions there (default: standard output)")
      ->type_name("FILE");
  a->reading.add_to(command, DataArguments::Purpose::predicting);
  command.footer(
      "Examples:\n  bilevel predict model.json new.csv\n  bilevel predict model.json new.svm --output p.csv\n"
      "  bilevel predict net.json t10k-images-idx3-ubyte.gz --output p.csv");
  return [a] { return run(*a); };
}

}  // namespace app
