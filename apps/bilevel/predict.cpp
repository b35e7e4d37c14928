#include <cmath>
#include <memory>

#include <unistd.h>

#include <bilevel/data/moments.hpp>
#include <bilevel/data/read.hpp>
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
  if (network.schema.features == 0)
    throw bilevel::InvalidInput(fmt::format(
        "{}: this network was trained on drawn pictures, which no file looks like; train it on data",
        a.model));
  bilevel::data::ReadOptions options = a.reading.read_options();
  options.target_optional = true;
  if (network.imputed.size() > 0) options.missing = bilevel::data::Missing::mean;
  bilevel::data::Dataset data = bilevel::data::read(a.data, options, &network.schema);
  if (network.imputed.size() > 0) bilevel::data::impute(data, network.imputed);
  const Eigen::MatrixXd u = network.outputs(data).cast<double>().transpose();
  const bool probable = network.architecture.read_out == bilevel::networks::ReadOut::cross_entropy;
  const Eigen::MatrixXd shown = probable ? bilevel::models::softmax_rows(u) : u;
  std::string text = "prediction";
  for (const std::string& each : network.classes)
    text += "," + csv_cell((probable ? "probability of " : "output of ") + each);
  text += "\n";
  for (Index i = 0; i < u.rows(); ++i) {
    if (!u.row(i).allFinite())
      throw bilevel::InvalidInput(fmt::format(
          "{}: row {} gives no finite prediction: a value is missing or too large", a.data, i + 1));
    Index best = 0;
    u.row(i).maxCoeff(&best);
    text += csv_cell(network.classes[static_cast<std::size_t>(best)]);
    for (Index c = 0; c < u.cols(); ++c) text += fmt::format(",{}", shown(i, c));
    text += "\n";
  }
  return deliver(a, text, u.rows(), data.notes);
}

int run(const PredictArguments& a) {
  require_outputs("predict", {a.output}, {a.model, a.data});
  if (bilevel::networks::is_network(a.model)) return run_network(a);
  auto model = bilevel::models::SavedModel::load(a.model);
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
