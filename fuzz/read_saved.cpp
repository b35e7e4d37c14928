// What the program has written and reads again: models, networks, kept runs. Random bytes would not get past
// a checksum or a parser, so the input is a list of edits to a valid file: it chooses the file, then nodes of
// its JSON and what becomes of each; the checksum is that of the edited text.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>

#include <fmt/format.h>

#include <bilevel/bilevel.hpp>
#include <bilevel/encoding/base64.hpp>

#include <bilevel/models/saved_model.hpp>
#include <bilevel/networks/train.hpp>

#include "edits.hpp"
#include "models/grid.hpp"
#include "networks/training/kept_training.hpp"

namespace {

using bilevel::fuzz::Choices;
using bilevel::fuzz::edited;
using bilevel::fuzz::Json;
using bilevel::fuzz::path_of;
using bilevel::fuzz::slurp;
using bilevel::fuzz::write;
using Vec = Eigen::VectorXd;
using bilevel::InvalidInput;
namespace data = bilevel::data;
namespace networks = bilevel::networks;

/// A file whose columns are those that the schema names.
std::string file_like(const data::Schema& s) {
  if (s.format == data::Format::libsvm) return "1 1:0.5 3:2\n0 2:1 7:4\n";
  std::string head, row;
  for (const data::Column& c : s.columns) {
    head += fmt::format("{}\"{}\"", head.empty() ? "" : ",", c.name);
    row +=
        fmt::format("{}{}", row.empty() ? "" : ",",
                    c.kind == data::ColumnKind::categorical && !c.levels.empty()     ? c.levels.back()
                    : c.kind == data::ColumnKind::target && !s.target_levels.empty() ? s.target_levels.front()
                                                                                     : "1.5");
  }
  return (s.header ? head + "\n" : "") + row + "\n" + row + "\n";
}

data::Dataset read_like(const data::Schema& schema) {
  data::ReadOptions options;
  options.target_optional = true;
  const std::string text = file_like(schema);
  data::Source source("input", std::string_view(text));
  data::Dataset d = data::read(source, options, &schema);
  // Everything that a model says about features goes by the schema's count of them.
  if (d.features() != schema.features) {
    std::fprintf(stderr, "%ld features where the schema counts %ld\n", static_cast<long>(d.features()),
                 static_cast<long>(schema.features));
    std::abort();
  }
  return d;
}

data::Dataset table() {
  const std::string text = "a,c,b,w,y\n1,red,2,1,no\n2,blue,1,2,yes\n4,red,3,1,maybe\n3,green,2,1,no\n";
  data::ReadOptions options;
  options.weights = "w";
  data::Source source("input", std::string_view(text));
  return data::read(source, options);
}

/// `sparse`: of LIBSVM rows.
void check_model(Choices& choose, bool sparse) {
  static const auto make = [](bool libsvm) {
    bilevel::models::SavedModel m;
    m.model = libsvm ? bilevel::models::Model::ridge : bilevel::models::Model::softmax;
    data::Dataset d = table();
    if (libsvm) {
      const std::string text = "1 1:0.5 3:2\n0 2:1 5:4\n";
      data::Source source("input", std::string_view(text));
      data::ReadOptions options;
      options.storage = data::Storage::sparse;
      d = data::read(source, options);
    }
    m.schema = d.schema;
    m.outputs = libsvm ? 1 : 3;
    if (!libsvm) m.classes = m.schema.target_levels;
    m.columns = {0, 2, 4};
    m.coefficients = Vec::LinSpaced(4 * m.outputs, -1, 1);
    m.imputed = Vec::Constant(m.schema.features, 0.5);
    m.imputes = !libsvm;
    m.hyperparameters = {"all"};
    m.log_lambda = Vec::Constant(1, -2);
    return Json::parse(m.text());
  };
  static const Json valid[] = {make(false), make(true)};
  const bilevel::models::SavedModel m =
      bilevel::models::SavedModel::load(write("model", edited(valid[sparse], choose).dump()));
  data::Dataset d = read_like(m.schema);
  if (m.imputed.size() > 0) data::impute(d, m.imputed);
  const Eigen::MatrixXd u = bilevel::models::margins(m, d);
  if (m.model.classifies() &&
      bilevel::models::probabilities(m, u).cols() != static_cast<long>(m.classes.size()))
    std::abort();
}

networks::TrainSettings network_settings(long features, long classes) {
  networks::TrainOptions task;
  task.layers = {3};
  task.epochs = 2;
  task.batch = 2;
  task.probe = 0;
  task.certify_every = -1;
  return networks::resolve_options(task, features, 6, classes, 1);
}

void check_network(Choices& choose) {
  static const Json valid = [] {
    const data::Dataset d = table();
    const networks::TrainSettings s = network_settings(d.features(), 3);
    const networks::SavedNetwork n{s.architecture,
                                   s.propagation.free,
                                   networks::initial_parameters(s.architecture, 1).cast<float>(),
                                   d.levels,
                                   Vec::Zero(d.features()),
                                   Vec::Ones(d.features()),
                                   Vec::Ones(d.features()),
                                   d.schema};
    return Json::parse(n.text("0"));
  }();
  const networks::SavedNetwork n = networks::read_network(write("network", edited(valid, choose).dump()));
  if (n.schema.features == 0) return;
  if (n.outputs(read_like(n.schema)).rows() != static_cast<long>(n.classes.size())) std::abort();
}

bilevel::Summary solved(const std::string& optimizer_name, const std::string& path, bool resume, long steps) {
  bilevel::problems::Settings settings;
  settings.phi = 3;
  const auto problem = bilevel::problems::make("quadratic", settings);
  const auto inner = bilevel::make_inner_solver<Vec>("newton", *problem);
  const auto estimator = bilevel::make_estimator<Vec>("implicit-direct", *problem, *inner);
  const auto optimizer = bilevel::make_optimizer(optimizer_name);
  bilevel::SolveOptions options;
  options.checkpoint = path;
  options.resume = resume;
  options.max_iterations = steps;
  return bilevel::solve<Vec>(*estimator, *optimizer, problem->initial_theta(), options);
}

/// `name`: of the optimiser.
void check_checkpoint(Choices& choose, const std::string& name) {
  const auto make = [&] {
    const std::string path = path_of(name);
    solved(name, path, false, 3);
    return Json::parse(slurp(path)).at("run");
  };
  static std::map<std::string, Json> valid;
  if (!valid.contains(name)) valid[name] = make();
  solved(name,
         write("checkpoint", bilevel::sealed(bilevel::checkpoint_file, edited(valid[name], choose).dump())),
         true, 6);
}

void check_grid(Choices& choose) {
  static const bilevel::models::Prepared prepared = [] {
    std::string text = "a,b,y\n";
    for (int i = 0; i < 12; ++i) text += fmt::format("{},{},{}\n", i % 5, i % 3, i % 7);
    bilevel::models::TuneOptions options;
    options.folds = 2;
    options.test = 0;
    return bilevel::models::prepare(data::read(write("grid.csv", text), {}), options);
  }();
  bilevel::models::TuneOptions options;
  options.grid = 3;
  options.iterations = 1;
  bilevel::models::TuneControl control;
  control.checkpoint = path_of("run");
  control.identity = "me";
  static const Json valid = [&] {
    bilevel::models::Grid grid(control.checkpoint + ".grid", control.identity, false);
    grid.add({10, 2, 0.1}, {Vec::Ones(3), Vec::Ones(3)});
    grid.add({0, 1, 0.1}, {Vec::Ones(3), Vec::Ones(3)});
    return Json::parse(slurp(control.checkpoint + ".grid")).at("run");
  }();
  write("run.grid", bilevel::sealed(bilevel::models::grid_file, edited(valid, choose).dump()));
  std::filesystem::remove(control.checkpoint);
  control.resume = true;
  bilevel::models::tune(prepared, options, control);
}

void check_training(Choices& choose) {
  static const networks::TrainingData rows = [] {
    networks::TrainingData d;
    d.train.inputs = Eigen::MatrixXf::Random(4, 6);
    d.train.labels = {0, 1, 0, 1, 1, 0};
    d.test = d.train;
    d.classes = {"no", "yes"};
    return d;
  }();
  static const networks::TrainSettings settings = [] {
    networks::TrainSettings s = network_settings(4, 2);
    s.persistent = true;
    return s;
  }();
  networks::TrainControl control;
  control.checkpoint = path_of("training");
  control.identity = "me";
  // The run, and the vectors after it.
  static const std::pair<Json, std::string> valid = [&] {
    bool first = true;
    control.interrupted = [&first] { return !std::exchange(first, false); };
    networks::train(rows, settings, control);
    const std::string text = slurp(control.checkpoint);
    const std::size_t end = text.find('\n');
    return std::pair(Json::parse(text.substr(0, end)).at("run"), text.substr(end + 1));
  }();
  control.interrupted = [] { return false; };
  std::string bytes = valid.second;
  if (choose.below(4) == 0) bytes.resize(choose.below(bytes.size() + 1));
  write("training", bilevel::sealed(networks::training_file, edited(valid.first, choose).dump(), bytes));
  control.resume = true;
  networks::train(rows, settings, control);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size > 60) return 0;
  Choices choose(bytes, size);
  try {
    switch (choose.below(9)) {
      case 0:
      case 1:
        check_model(choose, false);
        break;
      case 2:
        check_model(choose, true);
        break;
      case 3:
      case 4:
        check_network(choose);
        break;
      case 5:
        check_checkpoint(choose, "lbfgs");
        break;
      case 6:
        check_checkpoint(choose, "adam");
        break;
      case 7:
        check_grid(choose);
        break;
      default:
        check_training(choose);
    }
  } catch (const InvalidInput&) {
  } catch (const std::exception& error) {
    std::fprintf(stderr, "not refused but: %s\n", error.what());
    std::abort();
  }
  return 0;
}
