#include <cstdlib>
#include <filesystem>
#include <map>

#include <gtest/gtest.h>

#include <bilevel/data/read.hpp>

// Every file of the folder of real data has the counts that its README states.
namespace bilevel::data {
namespace real_data_test {

std::string folder() {
  const char* const chosen = std::getenv("BILEVEL_DATA");
  return chosen != nullptr ? chosen : BILEVEL_DATA_DEFAULT;
}

class RealData : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(folder() + "/README.md")) {
      GTEST_SKIP() << "no data in " << folder() << "; set BILEVEL_DATA to the folder that has them";
    }
  }
  static Dataset load(const std::string& file, const ReadOptions& options = {},
                      const Schema* like = nullptr) {
    return read(folder() + "/" + file, options, like);
  }
  static std::map<double, Index> classes(const Dataset& data) {
    std::map<double, Index> counts;
    for (const double value : data.target) ++counts[value];
    return counts;
  }
  static void expect_shape(const Dataset& data, Index rows, Index features) {
    EXPECT_EQ(data.rows(), rows) << data.source;
    EXPECT_EQ(data.features(), features) << data.source;
    EXPECT_EQ(static_cast<Index>(data.names.size()), features) << data.source;
  }
};

struct LibsvmFile {
  const char* path;
  Index rows, features, entries, positive;  // positive: rows whose label is 1, -1: not stated
};

TEST_F(RealData, Libsvm) {
  for (const LibsvmFile& file : {LibsvmFile{"ijcnn1/ijcnn1.trn.bz2", 49990, 22, 649870, 4853},
                                 {"ijcnn1/ijcnn1.tst.bz2", 91701, 22, 1192113, 8712},
                                 {"a9a/a9a", 32561, 123, 451592, 7841},
                                 {"a9a/a9a.t", 16281, 123, 225731, 3846},
                                 {"mushrooms/agaricus.txt.train", 6513, 126, 143286, -1},
                                 {"mushrooms/agaricus.txt.test", 1611, 126, 35442, -1},
                                 {"reuters/reuters.trn.bz2", 7770, 8315, 339837, 538},
                                 {"reuters/reuters.tst.bz2", 3299, 8315, 136821, 179},
                                 {"sector/sector.scale.bz2", 6412, 55197, 1045412, -1},
                                 {"sector/sector.t.scale.bz2", 3207, 55197, 524492, -1},
                                 {"20news/20news_w1000.train.svm.gz", 11256, 1000, 329602, -1},
                                 {"20news/20news_w1000.test.svm.gz", 7489, 1000, 216777, -1},
                                 {"20news/20news_w100.svm.gz", 16242, 100, 65451, -1},
                                 {"leukemia/leukemia.train.svm.gz", 38, 7129, -1, 11},
                                 {"leukemia/leukemia.test.svm.gz", 34, 7129, -1, 14},
                                 {"housing/housing_scale", 506, 13, 6578, -1}}) {
    ReadOptions options;
    options.features = file.features;
    options.storage = Storage::sparse;
    const Dataset data = load(file.path, options);
    EXPECT_EQ(data.format, Format::libsvm);
    expect_shape(data, file.rows, file.features);
    if (file.entries >= 0) {
      EXPECT_EQ(data.nonzeros(), file.entries) << file.path;
    }
    if (file.positive >= 0) {
      EXPECT_EQ(classes(data)[1], file.positive) << file.path;
    }
  }
}

TEST_F(RealData, LibsvmStorage) {
  EXPECT_FALSE(load("ijcnn1/ijcnn1.trn.bz2").sparse());
  EXPECT_FALSE(load("leukemia/leukemia.train.svm.gz").sparse());
  EXPECT_TRUE(load("sector/sector.t.scale.bz2").sparse());
  const Dataset train = load("a9a/a9a");
  EXPECT_TRUE(train.sparse());
  expect_shape(load("a9a/a9a.t", {}, &train.schema), 16281, 123);
}

TEST_F(RealData, LibsvmNames) {
  ReadOptions options;
  options.names = folder() + "/20news/20news_w100.vocab.txt";
  const Dataset data = load("20news/20news_w100.svm.gz", options);
  expect_shape(data, 16242, 100);
  EXPECT_EQ(classes(data).size(), 4u);
  options.names = folder() + "/20news/20news_w1000.vocab.txt";
  expect_shape(load("20news/20news_w1000.train.svm.gz", options), 11256, 1000);
}

TEST_F(RealData, Idx) {
  ReadOptions options;
  options.labels = folder() + "/mnist/train-labels-idx1-ubyte.gz";
  const Dataset train = load("mnist/train-images-idx3-ubyte.gz", options);
  expect_shape(train, 60000, 784);
  EXPECT_EQ(*train.image, (std::pair<Index, Index>{28, 28}));
  EXPECT_EQ(classes(train).size(), 10u);
  EXPECT_EQ(classes(train)[0], 5923);
  EXPECT_EQ(train.dense_rows().maxCoeff(), 255);
  options.labels = folder() + "/mnist/t10k-labels-idx1-ubyte.gz";
  const Dataset test = load("mnist/t10k-images-idx3-ubyte.gz", options, &train.schema);
  expect_shape(test, 10000, 784);
  EXPECT_EQ(classes(test)[1], 1135);
  ReadOptions bare;
  bare.target_optional = true;
  expect_shape(load("omniglot/omniglot-background-28x28-idx3-ubyte.gz", bare), 19280, 784);
  expect_shape(load("omniglot/omniglot-evaluation-28x28-idx3-ubyte.gz", bare), 13180, 784);
}

TEST_F(RealData, Csv) {
  const Dataset covtype = load("covtype/covtype.20k.data");
  expect_shape(covtype, 20000, 54);
  EXPECT_EQ(
      classes(covtype),
      (std::map<double, Index>{{1, 2942}, {2, 6022}, {3, 2160}, {4, 2160}, {5, 2396}, {6, 2160}, {7, 2160}}));
  const Dataset abalone = load("abalone/abalone.data");
  expect_shape(abalone, 4177, 10);
  EXPECT_EQ(abalone.names[0], "c0=F");
  EXPECT_EQ(abalone.origins[2], "c0");
  const Dataset cpusmall = load("cpusmall/227_cpu_small.tsv.gz");
  expect_shape(cpusmall, 8192, 12);
  EXPECT_EQ(cpusmall.names[0], "lread");
  EXPECT_EQ(cpusmall.target_name, "target");
  expect_shape(load("sklearn/digits.csv.gz"), 1797, 64);

  ReadOptions options;
  options.skip = 1;
  options.header = Header::no;
  const Dataset cancer = load("sklearn/breast_cancer.csv", options);
  expect_shape(cancer, 569, 30);
  EXPECT_EQ(classes(cancer).size(), 2u);
  expect_shape(load("sklearn/wine_data.csv", options), 178, 13);
  expect_shape(load("sklearn/iris.csv", options), 150, 4);
  // Their first line is no header and no row; it must not be taken for either.
  EXPECT_THROW(load("sklearn/breast_cancer.csv"), InvalidInput);
  EXPECT_THROW(load("sklearn/iris.csv"), InvalidInput);

  options = {};
  options.labels = folder() + "/sklearn/diabetes_target.csv.gz";
  const Dataset diabetes = load("sklearn/diabetes_data_raw.csv.gz", options);
  expect_shape(diabetes, 442, 10);
  EXPECT_EQ(diabetes.target[0], 151);

  EXPECT_EQ(load("omniglot/characters.tsv").rows(), 1623);
}

}  // namespace real_data_test
}  // namespace bilevel::data
