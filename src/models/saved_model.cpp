#include <bilevel/models/saved_model.hpp>

#include <algorithm>
#include <cmath>
#include <functional>

#include <bilevel/encoding/utf8.hpp>
#include <bilevel/files/atomic_file.hpp>
#include "encoding/foreign_json.hpp"

#include <bilevel/data/moments.hpp>
#include <bilevel/models/tune_options.hpp>
#include <bilevel/version.hpp>

#include "files/read_own.hpp"
#include "make_saved.hpp"
#include "schema_json.hpp"

namespace bilevel::models {
namespace {

namespace data = bilevel::data;
using Json = nlohmann::ordered_json;

constexpr std::string_view model_format = "bilevel-model";
constexpr int model_version = 1;

Json numbers(const Vec& x) {
  Json list = Json::array();
  for (const double value : x) list.push_back(value);
  return list;
}

Vec vector(const Json& j) {
  Vec x(static_cast<Index>(j.size()));
  for (std::size_t i = 0; i < j.size(); ++i) {
    if (!j[i].is_number()) throw InvalidInput("a number is missing in a list");
    x[static_cast<Index>(i)] = j[i];
  }
  return x;
}

/// The model of a run that was to end before a fit has no coefficients.
void require_fitted(const SavedModel& m) {
  const Index expected = m.shape().size();
  if (m.outputs < 1 || m.coefficients.size() != expected)
    throw InvalidInput(fmt::format(
        "no model was fitted{}: there are {} coefficients where {} features{} and {} outputs have {}",
        m.status.empty() ? std::string() : fmt::format(", the run ended as '{}'", m.status),
        m.coefficients.size(), m.columns.size(),
        m.layers.empty() ? "" : fmt::format(", hidden layers {}", fmt::join(m.layers, "-")), m.outputs,
        expected));
}

SavedModel decoded(const std::string& text) {
  bilevel::require_shallow(text);
  const Json j = Json::parse(text);
  if (!j.is_object() || j.value("format", "") != model_format)
    throw InvalidInput("it is no model of bilevel");
  if (const auto version = bilevel::whole_number(j.at("version")); version != model_version)
    throw InvalidInput(
        fmt::format("it has version {}, this program reads version {}", version, model_version));
  SavedModel m;
  m.model = model_named(j.at("model").get<std::string>());
  if (m.model == Model::mlp) {
    m.model = model_named(j.at("last_layer").get<std::string>());
    m.layers = whole_numbers(j.at("layers"));
    m.activation = problems::activation_named(j.at("activation").get<std::string>());
    // Each unit has parameters in the file: no number of them overflows.
    const auto most = static_cast<Index>(j.at("coefficients").size());
    const auto wrong = [&](Index units) { return units < 1 || units > most; };
    if (m.layers.empty() || m.layers.size() > most_layers ||
        std::any_of(m.layers.begin(), m.layers.end(), wrong))
      throw InvalidInput("its layers do not fit its coefficients");
  }
  m.schema = decode_schema(j.at("schema"));
  m.columns = whole_numbers(j.at("columns"));
  m.classes = j.at("classes").get<std::vector<std::string>>();
  m.outputs = bilevel::whole_number(j.at("outputs"));
  const Vec coefficients = vector(j.at("coefficients")), intercepts = vector(j.at("intercepts"));
  if (m.outputs < 1 || intercepts.size() != m.outputs || coefficients.size() != m.shape().penalised())
    throw InvalidInput("its numbers of columns, outputs and coefficients do not fit together");
  for (const Index column : m.columns)
    if (column < 0 || column >= m.schema.features)
      throw InvalidInput(fmt::format("it names column {} of {}", column, m.schema.features));
  if (std::adjacent_find(m.columns.begin(), m.columns.end(), std::greater_equal<>()) != m.columns.end())
    throw InvalidInput("its columns do not ascend");
  if (m.outputs > 1 && m.model != Model::softmax)
    throw InvalidInput(fmt::format("a {} model has one output, not {}", name(m.model), m.outputs));
  if (m.model.classifies() && static_cast<Index>(m.classes.size()) != std::max<Index>(2, m.outputs))
    throw InvalidInput("its classes do not fit its outputs");
  m.coefficients.resize(coefficients.size() + intercepts.size());
  m.coefficients << coefficients, intercepts;
  m.imputed = vector(j.at("imputed"));
  if (m.imputed.size() != 0 && m.imputed.size() != m.schema.features)
    throw InvalidInput("its means for missing cells do not fit its features");
  m.imputes = j.at("missing") == "mean";
  m.status = j.value("status", "");
  m.verdict = j.value("verdict", "");
  for (const Json& p : j.at("penalties")) m.hyperparameters.push_back(p.at("name"));
  m.log_lambda.resize(static_cast<Index>(m.hyperparameters.size()));
  for (Index k = 0; k < m.log_lambda.size(); ++k)
    m.log_lambda[k] = j.at("penalties")[static_cast<std::size_t>(k)].at("log_lambda");
  return m;
}

}  // namespace

SavedModel make_saved(const Prepared& p, const Fitted& fitted) {
  return {p.model,   p.schema,     p.columns,         p.classes, p.outputs, fitted.raw, p.imputed,
          p.imputes, fitted.names, fitted.log_lambda, {},        {},        p.layers,   p.activation};
}

void require_savable(const Prepared& prepared) {
  SavedModel model = make_saved(prepared, {});
  model.hyperparameters = prepared.hyperparameters;
  model.require_utf8();
}

void SavedModel::require_utf8() const {
  const auto require = [](const std::string& text) {
    if (const std::string shown = as_utf8(text); shown != text)
      throw InvalidInput(fmt::format(
          "'{}' is no UTF-8, which a model file needs; convert the data first (iconv -f latin1 -t utf-8)",
          shown));
  };
  require(schema.target_name);
  for (const auto* list : {&classes, &hyperparameters, &schema.names, &schema.target_levels})
    for (const std::string& each : *list) require(each);
  for (const data::Column& column : schema.columns) {
    require(column.name);
    for (const std::string& level : column.levels) require(level);
  }
}

std::string SavedModel::text() const {
  const SavedModel& m = *this;
  require_fitted(m);
  require_utf8();
  Json j{{"format", model_format}, {"version", model_version}, {"program", bilevel::version}};
  j["model"] = name(m.layers.empty() ? m.model : Model::mlp);
  if (!m.layers.empty()) {
    j["last_layer"] = name(m.model);
    j["layers"] = m.layers;
    j["activation"] = name(m.activation);
  }
  j["classes"] = m.classes;
  j["outputs"] = m.outputs;
  j["penalties"] = Json::array();
  for (std::size_t k = 0; k < m.hyperparameters.size() && static_cast<Index>(k) < m.log_lambda.size(); ++k)
    j["penalties"].push_back(
        {{"name", m.hyperparameters[k]}, {"log_lambda", m.log_lambda[static_cast<Index>(k)]}});
  j["columns"] = m.columns;
  j["coefficients"] = numbers(m.coefficients.head(m.coefficients.size() - m.outputs));
  j["intercepts"] = numbers(m.coefficients.tail(m.outputs));
  j["imputed"] = numbers(m.imputed);
  j["missing"] = m.imputes ? "mean" : "refuse";
  if (!m.status.empty()) j["status"] = m.status;
  if (!m.verdict.empty()) j["verdict"] = m.verdict;
  j["schema"] = encode(m.schema);
  return j.dump(1) + "\n";
}

SavedModel SavedModel::load(const std::string& path) {
  return bilevel::read_own(bilevel::read_json_file(path), path,
                           "a model is written by bilevel tune --save FILE, in C++ by Tuned::save", decoded);
}

void SavedModel::save(const std::string& path) const {
  if (const std::string problem = bilevel::replace_file(path, text()); !problem.empty())
    throw InvalidInput(problem);
}

std::vector<std::string> SavedModel::names() const {
  std::vector<std::string> used;
  for (const Index column : columns) used.push_back(schema.names[static_cast<std::size_t>(column)]);
  return used;
}

data::Dataset SavedModel::read(const std::string& path, data::ReadOptions options) const {
  options.target_optional = true;
  if (imputes) options.missing = data::Missing::mean;
  return data::read(path, options, &schema);
}

Predictions SavedModel::predict(data::Dataset rows) const {
  if (imputes && imputed.size() > 0) data::impute(rows, imputed);
  Predictions p;
  p.notes = rows.notes;
  p.margins = bilevel::models::margins(*this, rows);
  for (Index i = 0; i < p.margins.rows(); ++i)
    if (!p.margins.row(i).allFinite())
      throw InvalidInput(fmt::format("{}: row {} gives no finite prediction: a value is missing or too large",
                                     rows.source, i + 1));
  if (model.probable()) p.probabilities = bilevel::models::probabilities(*this, p.margins);
  p.values.resize(p.margins.rows());
  for (Index i = 0; i < p.margins.rows(); ++i) {
    if (model.classifies()) {
      Index best = p.margins(i, 0) > 0 ? 1 : 0;
      if (outputs > 1) p.margins.row(i).maxCoeff(&best);
      p.values[i] = static_cast<double>(best);
    } else {
      p.values[i] = model.loss_kind().predicted(p.margins(i, 0));
    }
  }
  return p;
}

Predictions SavedModel::predict(const Eigen::MatrixXd& rows) const {
  if (rows.cols() != schema.features)
    throw InvalidInput(fmt::format("the rows have {} columns, and the model was trained on {} features",
                                   rows.cols(), schema.features));
  data::Dataset table;
  table.source = "rows in memory";
  table.x = data::DenseRows(rows);
  return predict(std::move(table));
}

Eigen::MatrixXd margins(const SavedModel& m, const data::Dataset& d) {
  require_fitted(m);
  const problems::PerceptronShape shape = m.shape();
  const Index c = shape.units(0);
  for (const Index column : m.columns)
    if (column < 0 || column >= d.features())
      throw InvalidInput(
          fmt::format("{}: has {} features, the model uses number {}", d.source, d.features(), column));
  Eigen::MatrixXd weights = Eigen::MatrixXd::Zero(d.features(), c);
  for (std::size_t j = 0; j < m.columns.size(); ++j)
    weights.row(m.columns[j]) = m.coefficients.segment(static_cast<Index>(j) * c, c).transpose();
  Eigen::MatrixXd out(d.rows(), c);
  if (d.sparse())
    out = d.sparse_rows() * weights;
  else
    out.noalias() = d.dense_rows() * weights;
  out.rowwise() += m.coefficients.segment(shape.features * c, c).transpose();
  out = problems::perceptron_margins(shape, m.coefficients, std::move(out));
  if (d.offsets.size() == d.rows()) out.colwise() += d.offsets;
  return out;
}

Eigen::MatrixXd softmax_rows(const Eigen::MatrixXd& margins) {
  Eigen::MatrixXd p = (margins.colwise() - margins.rowwise().maxCoeff()).array().exp();
  const Vec sums = p.rowwise().sum();
  p.array().colwise() /= sums.array();
  return p;
}

Eigen::MatrixXd probabilities(const SavedModel& m, const Eigen::MatrixXd& margins) {
  const Index n = margins.rows();
  if (m.outputs == 1) {
    Eigen::MatrixXd p(n, 2);
    for (Index i = 0; i < n; ++i) {
      p(i, 1) = 1 / (1 + std::exp(-margins(i, 0)));
      p(i, 0) = 1 / (1 + std::exp(margins(i, 0)));
    }
    return p;
  }
  return softmax_rows(margins);
}

}  // namespace bilevel::models
