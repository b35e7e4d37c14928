// Measures of quality against their definitions, and models written to a file and read back.

#include <bilevel/models/saved_model.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <bilevel/files/atomic_file.hpp>

#include "models/make_saved.hpp"
#include "scratch.hpp"
#include "task.hpp"
#include "models/fold_model.hpp"
#include "models/judged.hpp"

namespace bilevel::models {
namespace model_file_test {

using Json = nlohmann::ordered_json;

using bilevel::problems::kernels::Loss;

TEST(Quality, AreaUnderTheCurveIsTheShareOfOrderedPairs) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 engine(seed);
    const std::size_t n = 1 + engine() % 40;
    std::vector<double> scores(n), labels(n), weights(n);
    for (std::size_t i = 0; i < n; ++i) {
      scores[i] = static_cast<double>(engine() % (seed % 3 ? 7 : 1000));  // ties, or hardly any
      labels[i] = engine() % 2 ? 1 : -1;
      weights[i] = seed % 2 ? 1 : static_cast<double>(engine() % 5);
    }
    double ordered = 0, pairs = 0;
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t k = 0; k < n; ++k)
        if (labels[i] > 0 && labels[k] < 0) {
          const double weight = weights[i] * weights[k];
          pairs += weight;
          ordered += weight * (scores[i] > scores[k] ? 1 : scores[i] == scores[k] ? 0.5 : 0);
        }
    const auto area = area_under_curve(scores, labels, weights);
    ASSERT_EQ(area.has_value(), pairs > 0);
    if (area) {
      EXPECT_NEAR(*area, ordered / pairs, 1e-12);
    }
  }
}

/// A few rows, all of them to judge by.
bool positive(Model model) {
  return model == Model::poisson || model == Model(Loss::gamma) || model == Model(Loss::negative_binomial);
}

Prepared small(Model model, std::uint64_t seed, bool weighted) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  constexpr Index n = 25, d = 3;
  Prepared p;
  p.model = model;
  p.outputs = model == Model::softmax ? 3 : 1;
  p.target_scale = model.classifies() || positive(model) ? 1 : 4;
  Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> x(n, d);
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < d; ++j) x(i, j) = normal(engine);
  Vec y(n), w(n);
  auto classes = std::make_shared<std::vector<int>>();
  for (Index i = 0; i < n; ++i) {
    classes->push_back(
        static_cast<int>(engine() % static_cast<std::uint64_t>(std::max<Index>(2, p.outputs))));
    y[i] = positive(model)      ? static_cast<double>(1 + engine() % 5)
           : model.classifies() ? (classes->back() ? 1 : -1)
                                : normal(engine);
    w[i] = static_cast<double>(engine() % 4);
  }
  p.samples.matrix = std::make_shared<bilevel::problems::ModelMatrix>(x);
  p.samples.labels = std::make_shared<const Vec>(y);
  if (weighted) p.samples.weights = std::make_shared<const Vec>(w);
  p.samples.classes = classes;
  p.loss_parameter = 1.5 * p.target_scale;
  return p;
}

TEST(Quality, AgreesWithItsDefinitions) {
  for (const Model model : {Model::ridge, Model::logistic, Model::softmax, Model::poisson, Model::huber,
                            Model::squared_hinge, Model(Loss::gamma), Model(Loss::negative_binomial)})
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      SCOPED_TRACE(fmt::format("{} seed {}", name(model), seed));
      const Prepared p = small(model, seed, seed % 2 == 0);
      std::mt19937_64 engine(seed + 100);
      std::normal_distribution<double> normal;
      const Vec u = Vec::NullaryExpr(4 * p.outputs, [&] { return 0.5 * normal(engine); });
      // In two parts, as folds are.
      const auto first = make_loss(p, {{0, 7}}), second = make_loss(p, {{7, 15}, {15, 25}});
      Judged judged(p);
      judged.add(*first, u);
      judged.add(*second, u);
      const Quality q = judged.quality();
      double total = 0, loss = 0, right = 0, square = 0, mean = 0, spread = 0;
      const auto margin = [&](Index i, Index c) {
        double m = u[3 * p.outputs + c];
        p.samples.matrix->for_each(i, [&](Index j, double value) { m += value * u[j * p.outputs + c]; });
        return m;
      };
      const auto weight = [&](Index i) { return p.samples.weights ? (*p.samples.weights)[i] : 1.0; };
      Index weighty = 0;
      for (Index i = 0; i < 25; ++i) weighty += weight(i) > 0;
      for (Index i = 0; i < 25; ++i) total += weight(i), mean += weight(i) * (*p.samples.labels)[i];
      for (Index i = 0; i < 25; ++i) {
        const double m = margin(i, 0), y = (*p.samples.labels)[i], r = std::abs(m - y), k = 1.5;
        const int own = (*p.samples.classes)[static_cast<std::size_t>(i)];
        double each = 0;
        if (model == Model::logistic)
          each = std::log(1 + std::exp(-y * m));
        else if (model == Model::squared_hinge)
          each = 0.5 * std::pow(std::max(0.0, 1 - y * m), 2);
        else if (model == Model::poisson)
          each = std::exp(m) - y * m;
        else if (model == Model::huber)
          each = r <= k ? 0.5 * r * r : k * r - 0.5 * k * k;
        else if (model == Model(Loss::gamma))
          each = y * std::exp(-m) + m;
        else if (model == Model(Loss::negative_binomial))
          each = (y + 1 / k) * std::log(1 + k * std::exp(m)) - y * (m + std::log(k));
        else if (model == Model::softmax)
          each = std::log(std::exp(margin(i, 0)) + std::exp(margin(i, 1)) + std::exp(margin(i, 2))) -
                 margin(i, own);
        else
          each = 0.5 * r * r;
        loss += weight(i) * each;
        int best = m > 0;
        if (model == Model::softmax)
          for (int c = best = 0; c < 3; ++c)
            if (margin(i, c) > margin(i, best)) best = c;
        right += weight(i) * (best == own);
        square += weight(i) * std::pow((positive(model) ? std::exp(m) : m) - y, 2);
        spread += weight(i) * std::pow(y - mean / total, 2);
      }
      EXPECT_EQ(q.rows, weighty);
      EXPECT_NEAR(q.loss, loss / total * p.target_scale * p.target_scale, 1e-12 * (1 + std::abs(q.loss)));
      EXPECT_EQ(q.accuracy.has_value(), model.classifies());
      EXPECT_EQ(q.auc.has_value(), model == Model::logistic || model == Model::squared_hinge);
      EXPECT_EQ(q.rmse.has_value(), !model.classifies());
      if (q.accuracy) {
        EXPECT_NEAR(*q.accuracy, right / total, 1e-12);
      } else {
        EXPECT_NEAR(*q.rmse, std::sqrt(square / total) * p.target_scale, 1e-12 * *q.rmse);
        EXPECT_NEAR(*q.r2, 1 - square / spread, 1e-12 * (1 + std::abs(*q.r2)));
      }
      EXPECT_GT(q.standard_error, 0);
    }
}

class ModelFile : public testing::Test {
 protected:
  ModelFile() {
    const auto data = example_data(1);
    model.model = Model::softmax;
    model.schema = data.schema;
    model.schema.target_levels = {"no", "may, be \"so\"", "yes"};
    model.columns = {0, 3, 59};
    model.classes = model.schema.target_levels;
    model.outputs = 3;
    model.coefficients = Vec::LinSpaced(12, -1, 1.0 / 3);
    model.imputed = Vec::Constant(60, 0.1);
    model.hyperparameters = {"strong_1", "echo_1_3", "noise_12_5"};
    model.log_lambda = Vec::LinSpaced(3, -10, 1e-17);
  }
  SavedModel back(const std::string& text) { return SavedModel::load(write("model", text)); }
  std::string refused(const std::string& text) {
    try {
      back(text);
    } catch (const InvalidInput& error) {
      return error.what();
    }
    return "";
  }

  SavedModel model;
};

TEST_F(ModelFile, ComesBackAsItWas) {
  const std::string text = model.text();
  const SavedModel m = back(text);
  EXPECT_EQ(m.model, model.model);
  EXPECT_EQ(m.columns, model.columns);
  EXPECT_EQ(m.classes, model.classes);
  EXPECT_EQ(m.outputs, 3);
  EXPECT_EQ(m.coefficients, model.coefficients) << "every bit";
  EXPECT_EQ(m.imputed, model.imputed);
  EXPECT_EQ(m.hyperparameters, model.hyperparameters);
  EXPECT_EQ(m.log_lambda, model.log_lambda);
  EXPECT_EQ(m.schema.names, model.schema.names);
  EXPECT_EQ(m.schema.target_levels, model.schema.target_levels);
  ASSERT_EQ(m.schema.columns.size(), model.schema.columns.size());
  EXPECT_EQ(m.schema.columns.back().kind, bilevel::data::ColumnKind::target);
  EXPECT_EQ(m.text(), text);
}

TEST_F(ModelFile, MarginsAreTheSameDenseAndSparse) {
  auto data = example_data(2);
  data.offsets = Vec::LinSpaced(data.rows(), 0, 1);
  const Eigen::MatrixXd m = margins(model, data);
  for (Index i = 0; i < data.rows(); i += 50)
    for (Index c = 0; c < 3; ++c) {
      double expected = model.coefficients[9 + c] + data.offsets[i];
      for (Index j = 0; j < 3; ++j)
        expected +=
            data.dense_rows()(i, model.columns[static_cast<std::size_t>(j)]) * model.coefficients[j * 3 + c];
      EXPECT_NEAR(m(i, c), expected, 1e-13);
    }
  data.x = bilevel::data::SparseRows(data.dense_rows().sparseView());
  EXPECT_LE((margins(model, data) - m).norm(), 1e-12);
  const Eigen::MatrixXd p = probabilities(model, 1000 * m);
  EXPECT_TRUE(p.allFinite());
  EXPECT_LE((p.rowwise().sum().array() - 1).abs().maxCoeff(), 1e-12);
  SavedModel two;
  const Eigen::MatrixXd binary = probabilities(two, Eigen::MatrixXd(m.col(0)));
  for (Index i = 0; i < 5; ++i) EXPECT_NEAR(binary(i, 1), 1 / (1 + std::exp(-m(i, 0))), 1e-15);
}

TEST_F(ModelFile, RowsWithFewerFeaturesThanItUsesAreRefused) {
  auto data = example_data(2);
  data.x = bilevel::data::DenseRows(data.dense_rows().leftCols(40));
  EXPECT_THROW(margins(model, data), InvalidInput);
}

TEST_F(ModelFile, EndlessFilesAreNotReadToTheirEnd) {
  EXPECT_THROW(bilevel::read_file("/dev/zero", 1 << 20), InvalidInput);
  EXPECT_EQ(bilevel::read_file(write("three", "abc"), 3), "abc");
}

TEST_F(ModelFile, DamagedOnesAreRefused) {
  const std::string text = model.text();
  for (std::size_t length = 0; length + 2 < text.size(); length += 97)
    EXPECT_NE(refused(text.substr(0, length)).find("--save"), std::string::npos) << length;
  const Json good = Json::parse(text);
  const auto changed = [&](const std::function<void(Json&)>& change) {
    Json j = good;
    change(j);
    return refused(j.dump());
  };
  EXPECT_NE(changed([](Json& j) { j["version"] = 2; }).find("version 2"), std::string::npos);
  EXPECT_NE(changed([](Json& j) { j["format"] = "else"; }).find("no model"), std::string::npos);
  EXPECT_NE(changed([](Json& j) { j["model"] = "oracle"; }).find("oracle"), std::string::npos);
  EXPECT_NE(changed([](Json& j) { j["columns"][1] = 60; }).find("column 60"), std::string::npos);
  EXPECT_NE(changed([](Json& j) { j["columns"][1] = -1; }).find("column -1"), std::string::npos);
  EXPECT_NE(changed([](Json& j) { j["intercepts"].push_back(1); }), "");
  EXPECT_NE(changed([](Json& j) { j["coefficients"].erase(0); }), "");
  EXPECT_NE(changed([](Json& j) { j["coefficients"][0] = nullptr; }), "");
  EXPECT_NE(changed([](Json& j) { j["outputs"] = 0; }), "");
  EXPECT_NE(changed([](Json& j) { j["classes"].erase(0); }), "");
  EXPECT_NE(changed([](Json& j) { j["imputed"].erase(0); }), "");
  EXPECT_NE(changed([](Json& j) { j["schema"]["columns"][0]["kind"] = "odd"; }), "");
  // Sizes that do not fit one another would be read or written beyond their ends.
  const auto column = [](const char* name, const char* kind) { return Json{{"name", name}, {"kind", kind}}; };
  EXPECT_NE(changed([](Json& j) { j["schema"]["columns"].erase(0); }).find("features"), std::string::npos);
  EXPECT_NE(changed([](Json& j) { j["schema"]["features"] = 100; }).find("features"), std::string::npos);
  EXPECT_NE(changed([](Json& j) {
              j["schema"]["features"] = 100;
              j["columns"] = {0, 3, 99};
              while (j["schema"]["names"].size() < 100) j["schema"]["names"].push_back("more");
              j["imputed"] = Json::array();
            }).find("features"),
            std::string::npos);
  EXPECT_NE(changed([](Json& j) { j["schema"]["features"] = 1e300; }), "");
  EXPECT_NE(changed([](Json& j) { j["schema"]["names"].erase(0); }).find("names"), std::string::npos);
  EXPECT_NE(changed([&](Json& j) { j["schema"]["columns"].push_back(column("more", "numeric")); }), "");
  EXPECT_NE(changed([&](Json& j) { j["schema"]["columns"].push_back(column("more", "target")); }), "");
  EXPECT_NE(changed([](Json& j) { j["schema"]["columns"][1]["name"] = j["schema"]["columns"][0]["name"]; }),
            "");
  EXPECT_NE(changed([](Json& j) {
              j["schema"]["columns"][0]["kind"] = "categorical";
              j["schema"]["columns"][0]["levels"] = {"b", "a"};
              j["schema"]["columns"].erase(1);
            }).find("sorted"),
            std::string::npos);
  EXPECT_NE(changed([](Json& j) { j["schema"]["format"] = "libsvm"; }), "");
  EXPECT_NE(changed([](Json& j) { j["columns"] = {3, 0, 59}; }).find("ascend"), std::string::npos);
  EXPECT_NE(changed([](Json& j) { j["columns"][0] = 0.5; }), "");
  const std::string deep(200'000, '[');
  std::string nested = text;
  nested.replace(nested.find("\"version\": 1"), 12, "\"version\": " + deep + std::string(200'000, ']'));
  EXPECT_NE(refused(nested).find("nested"), std::string::npos) << "no stack is overflown";
  EXPECT_NE(changed([](Json& j) { j["model"] = "ridge"; }).find("one output"), std::string::npos);
  for (const auto& [key, value] : good.items())
    if (key != "program") {
      EXPECT_NE(changed([&, k = key](Json& j) { j.erase(k); }), "") << key;
    }
  EXPECT_NE(refused("[]"), "");
  EXPECT_NE(refused(std::string("\0\1\2\377", 4)), "");
  EXPECT_THROW(SavedModel::load(scratch("no_model")), InvalidInput);
}

}  // namespace model_file_test
}  // namespace bilevel::models
