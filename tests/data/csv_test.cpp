#include <cmath>
#include <random>

#include "texts.hpp"

namespace bilevel::data::testing {
namespace csv_test {

TEST(Csv, HeaderNumbersAndTarget) {
  const Dataset data = read_text("a,b,y\n1,2.5,3\n-4,+5e-1,6\n");
  EXPECT_EQ(data.format, Format::csv);
  EXPECT_FALSE(data.sparse());
  EXPECT_EQ(data.names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(data.origins, data.names);
  EXPECT_EQ(data.target_name, "y");
  EXPECT_EQ(data.dense_rows(), (DenseRows(2, 2) << 1, 2.5, -4, 0.5).finished());
  EXPECT_EQ(data.target, Eigen::Vector2d(3, 6));
  EXPECT_TRUE(data.levels.empty());
  EXPECT_TRUE(data.notes.empty());
}

TEST(Csv, TheSameTableInEveryDress) {
  const Dataset expected = read_text("1,2,3\n4,5,6\n");
  for (const std::string_view text :
       {"1,2,3\n4,5,6", "1,2,3\r\n4,5,6\r\n",
        "\xef\xbb\xbf"
        "1,2,3\n4,5,6\n",
        "\n\n1,2,3\n\n  \n4,5,6\n\n", "1\t2\t3\n4\t5\t6\n", "1;2;3\n4;5;6\n", "1 2 3\n4 5 6\n",
        "  1   2\t3 \n4 5 6  \n", " 1 , 2,3 \n4,\"5\",6\n", "1.0,2e0,3\n4.,5,600e-2\n"}) {
    ReadOptions options;
    if (text.find("  1   2\t") == 0) options.delimiter = ' ';
    const Dataset data = read_text(text, options);
    EXPECT_EQ(data.dense_rows(), expected.dense_rows()) << text;
    EXPECT_EQ(data.target, expected.target) << text;
    EXPECT_EQ(data.names, (std::vector<std::string>{"c0", "c1"})) << text;
  }
}

TEST(Csv, QuotesHoldDelimitersQuotesAndLines) {
  const Dataset data =
      read_text("\"a,b\",y\n\"x \"\"y\"\"\",1\n\"two\nlines\",2\n\"x \"\"y\"\"\",3\n5\" disk,4\n");
  EXPECT_EQ(data.names, (std::vector<std::string>{"a,b=5\" disk", "a,b=two\nlines", "a,b=x \"y\""}));
  EXPECT_EQ(data.dense_rows(), (DenseRows(4, 3) << 0, 0, 1, 0, 1, 0, 0, 0, 1, 1, 0, 0).finished());
}

TEST(Csv, RolesByNameAndByIndex) {
  ReadOptions options;
  options.target = "y";
  options.weights = "w";
  options.offset = "4";
  options.split = "-1";
  options.ignore = {"id"};
  const Dataset data = read_text("id,y,a,w,o,fold\nq,1,10,0.5,7,b\nr,2,20,0,8,a\ns,3,30,2,9,b\n", options);
  EXPECT_EQ(data.names, (std::vector<std::string>{"a"}));
  EXPECT_EQ(data.dense_rows(), (DenseRows(3, 1) << 10, 20, 30).finished());
  EXPECT_EQ(data.target, Eigen::Vector3d(1, 2, 3));
  EXPECT_EQ(data.weights, Eigen::Vector3d(0.5, 0, 2));
  EXPECT_EQ(data.offsets, Eigen::Vector3d(7, 8, 9));
  EXPECT_EQ(data.split_levels, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(data.split, (std::vector<int>{1, 0, 1}));
}

TEST(Csv, CategoriesBecomeOneColumnALevel) {
  ReadOptions options;
  options.categorical = {"zip"};
  const Dataset data = read_text("n,colour,zip,y\n1,red,7,yes\n2,blue,8,no\n3,red,7,yes\n", options);
  EXPECT_EQ(data.names, (std::vector<std::string>{"n", "colour=blue", "colour=red", "zip=7", "zip=8"}));
  EXPECT_EQ(data.origins, (std::vector<std::string>{"n", "colour", "colour", "zip", "zip"}));
  EXPECT_EQ(data.dense_rows(), (DenseRows(3, 5) << 1, 0, 1, 1, 0, 2, 1, 0, 0, 1, 3, 0, 1, 1, 0).finished());
  EXPECT_EQ(data.levels, (std::vector<std::string>{"no", "yes"}));
  EXPECT_EQ(data.target, Eigen::Vector3d(1, 0, 1));
  EXPECT_EQ(data.schema.columns[1].levels, (std::vector<std::string>{"blue", "red"}));
}

TEST(Csv, MissingCellsOnRequest) {
  ReadOptions options;
  options.missing = Missing::mean;
  const Dataset data = read_text("a,b,c,y\n1,red,?,1\nNA,,n/a,2\n3,red,NULL,3\n", options);
  EXPECT_EQ(data.names, (std::vector<std::string>{"a", "b=missing", "b=red", "c"}));
  EXPECT_TRUE(std::isnan(data.dense_rows()(1, 0)));
  EXPECT_TRUE(data.dense_rows().col(3).array().isNaN().all());
  EXPECT_EQ(data.dense_rows().col(1), Eigen::Vector3d(0, 1, 0));
  ASSERT_EQ(data.notes.size(), 3u);
  EXPECT_EQ(data.notes[0], "1 cell of 'a' is missing");
  EXPECT_EQ(data.notes[2], "all cells of 'c' are missing");
}

TEST(Csv, FurtherFilesAreEncodedAsTheFirst) {
  ReadOptions options;
  options.target = "y";
  const Dataset first = read_text("y,colour,n\nyes,red,1\nno,blue,2\nno,green,3\n", options);
  // Other order, one column more, an unknown level.
  const Dataset second = read_text("n,extra,colour,y\n5,0,green,yes\n6,0,pink,yes\n", options, &first.schema);
  EXPECT_EQ(second.names, first.names);
  EXPECT_EQ(second.dense_rows(), (DenseRows(2, 4) << 0, 1, 0, 5, 0, 0, 0, 6).finished());
  EXPECT_EQ(second.target, Eigen::Vector2d(1, 1));
  EXPECT_EQ(second.levels, first.levels);
  ASSERT_EQ(second.notes.size(), 2u);
  EXPECT_NE(second.notes[0].find("'extra' was not in the first file"), std::string::npos);
  EXPECT_NE(second.notes[1].find("1 cell of 'colour' holds a level"), std::string::npos);

  EXPECT_NE(complaint("n,y\n1,yes\n", options, &first.schema).find("no column 'colour'"), std::string::npos);
  EXPECT_NE(complaint("y,colour,n\nperhaps,red,1\n", options, &first.schema)
                .find("no row whose target is 'perhaps'"),
            std::string::npos);
  EXPECT_NE(complaint("y,colour,n\nyes,red,x\n", options, &first.schema).find("first file had numbers"),
            std::string::npos);
  EXPECT_NE(complaint("colour,n\nred,1\n", options, &first.schema).find("no column 'y'"), std::string::npos);

  ReadOptions predict;
  predict.target_optional = true;
  const Dataset without = read_text("colour,n\nred,1\n", predict, &first.schema);
  EXPECT_EQ(without.target.size(), 0);
  EXPECT_EQ(without.dense_rows(), (DenseRows(1, 4) << 0, 0, 1, 1).finished());
  const Dataset unusable = read_text("y,colour,n\n?,red,1\n", predict, &first.schema);
  EXPECT_EQ(unusable.target.size(), 0);
  EXPECT_NE(unusable.notes.back().find("not used"), std::string::npos);
  predict.header = Header::no;
  EXPECT_EQ(read_text("red,1\nblue,4\n", predict, &first.schema).dense_rows(),
            (DenseRows(2, 4) << 0, 0, 1, 1, 1, 0, 0, 4).finished());
}

TEST(Csv, LabelsAndNamesFromFiles) {
  const TemporaryFile labels("labels", "cat\ndog\ncat\n");
  const TemporaryFile names("names", "height\nwidth\n");
  ReadOptions options;
  options.labels = labels.path();
  options.names = names.path();
  const Dataset data = read_text("1,2\n3,4\n5,6\n", options);
  EXPECT_EQ(data.names, (std::vector<std::string>{"height", "width"}));
  EXPECT_EQ(data.levels, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(data.target, Eigen::Vector3d(0, 1, 0));
  EXPECT_EQ(data.features(), 2);
  expect_complaint("1,2\n3,4\n", options, "more labels than");
  expect_complaint("1,2\n3,4\n5,6\n7,8\n", options, "has 3 labels", "4 rows");
  options.labels.clear();
  EXPECT_EQ(read_text("1,2,0\n3,4,1\n", options).names, (std::vector<std::string>{"height", "width"}));
  expect_complaint("1,2,3,0\n", options, "has 4 columns", "2 lines");
}

TEST(Csv, StorageSparseOnRequest) {
  ReadOptions options;
  options.storage = Storage::sparse;
  const Dataset data = read_text("0,2,3\n4,0,6\n", options);
  ASSERT_TRUE(data.sparse());
  EXPECT_EQ(data.nonzeros(), 2);
  EXPECT_EQ(DenseRows(data.sparse_rows()), (DenseRows(2, 2) << 0, 2, 4, 0).finished());
}

// A number written with enough digits comes back bit for bit, whichever way it is written.
TEST(Csv, NumbersAreRoundedCorrectly) {
  constexpr unsigned seed = 20240607;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 engine(seed);
  std::string text;
  std::vector<double> expected;
  const auto add = [&](const std::string& written) {
    text += written + ",0\n";
    expected.push_back(std::strtod(written.c_str(), nullptr));
  };
  for (int k = 0; k < 20000; ++k) {
    const double value =
        std::ldexp(static_cast<double>(engine() >> 11), static_cast<int>(engine() % 160) - 130);
    add(fmt::format("{}{:.{}e}", k % 2 == 0 ? "-" : "", value, 1 + k % 17));
    add(fmt::format("{:.{}f}", std::fmod(value, 1e6), k % 25));
    add(fmt::format("{:.{}g}", value, 1 + k % 20));
  }
  for (const char* odd : {"0", "-0", "1e22", "9007199254740993", "123456789012345678901234567890", "1e-400",
                          "-1e-999", "0.000000000000000000000000000001", "4.9e-324", "1.7976931348623157e308",
                          "00012.500", "18446744073709551616", "9999999999999999999"}) {
    add(odd);
  }
  const Dataset data = read_text(text);
  ASSERT_EQ(data.rows(), static_cast<Index>(expected.size()));
  for (std::size_t k = 0; k < expected.size(); ++k) {
    ASSERT_EQ(data.dense_rows()(static_cast<Index>(k), 0), expected[k]) << k;
  }
}

// Tables of random texts and numbers, written with all the quoting there is, come back as they were.
TEST(Csv, RandomTablesComeBack) {
  constexpr unsigned seed = 4711;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 engine(seed);
  const auto below = [&](std::size_t bound) { return static_cast<std::size_t>(engine() % bound); };
  const std::vector<std::string> pool = {"plain", "with space", "a,b;c",  "say \"hi\"", "two\nlines",
                                         "\"",    "tab\there",  "x\r\ny", "ü"};
  for (int repeat = 0; repeat < 300; ++repeat) {
    const char delimiter = ",;\t"[below(3)];
    const char* const line_end = below(2) == 0 ? "\n" : "\r\n";
    const std::size_t rows = 1 + below(8), columns = 1 + below(5);
    std::vector<bool> categorical(columns);
    for (std::size_t c = 0; c < columns; ++c) categorical[c] = below(2) == 0;
    std::vector<std::vector<std::string>> texts(rows, std::vector<std::string>(columns));
    std::vector<std::vector<double>> numbers(rows, std::vector<double>(columns));
    std::string file;
    for (std::size_t c = 0; c < columns; ++c) file += fmt::format("col{}{}", c, delimiter);
    file += std::string("y") + line_end;
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t c = 0; c < columns; ++c) {
        if (categorical[c]) {
          texts[i][c] = pool[below(pool.size())];
          std::string quoted;
          for (const char character : texts[i][c])
            quoted += character == '"' ? "\"\"" : std::string(1, character);
          file += "\"" + quoted + "\"";
        } else {
          numbers[i][c] = std::ldexp(static_cast<double>(engine() >> 40), -12) - 100;
          const std::string written = fmt::format("{}", numbers[i][c]);
          file += below(3) == 0 ? "\"" + written + "\"" : written;
        }
        file += delimiter;
      }
      file += std::to_string(i);
      if (i + 1 < rows || below(2) == 0) file += line_end;
    }
    ReadOptions options;
    options.delimiter = delimiter;
    const Dataset data = read_text(file, options);
    ASSERT_EQ(data.rows(), static_cast<Index>(rows)) << file;
    for (std::size_t i = 0; i < rows; ++i) {
      ASSERT_EQ(data.target[static_cast<Index>(i)], static_cast<double>(i));
      for (Index j = 0; j < data.features(); ++j) {
        const auto c = static_cast<std::size_t>(data.origins[static_cast<std::size_t>(j)].back() - '0');
        const std::string& name = data.names[static_cast<std::size_t>(j)];
        const double value = data.dense_rows()(static_cast<Index>(i), j);
        ASSERT_EQ(value, categorical[c] ? (name == fmt::format("col{}={}", c, texts[i][c]) ? 1.0 : 0.0)
                                        : numbers[i][c])
            << file << " feature " << name;
      }
    }
  }
}

}  // namespace csv_test
}  // namespace bilevel::data::testing
