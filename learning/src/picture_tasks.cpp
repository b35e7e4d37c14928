#include <bilevel/learning/picture_tasks.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <random>

#include <bilevel/data/pictures.hpp>
#include <bilevel/data/read.hpp>
#include <bilevel/files/container.hpp>

namespace bilevel::learning {

Violations PictureTaskOptions::validate() const {
  Violations v("pictures");
  v.at_least("ways", ways, 2).at_least("shots", shots, 1).at_least("queries", queries, 1);
  v.require(height >= 1 && height <= 1024, "height", height, "must lie in 1 … 1024");
  v.require(width >= 1 && width <= 1024, "width", width, "must lie in 1 … 1024");
  v.require(!rotations || height == width, "rotations", rotations,
            fmt::format("needs square pictures, and they are {} × {}", height, width));
  return v.require(test_share > 0 && test_share < 1, "test_share", test_share, "must lie between 0 and 1");
}

namespace {

using Engine = std::mt19937_64;

/// So many different numbers below `from`, in the order in which they are drawn.
void draw_distinct(Engine& engine, long count, std::uint64_t from, std::vector<std::int64_t>& out) {
  const std::size_t begin = out.size();
  while (out.size() < begin + static_cast<std::size_t>(count)) {
    const auto each = static_cast<std::int64_t>(engine() % from);
    if (std::find(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end(), each) == out.end())
      out.push_back(each);
  }
}

/// Pictures lie on the device, those of a class next to each other, all once for each way round.
class PictureTasks final : public TaskSource {
 public:
  PictureTasks(const PictureClasses& classes, const PictureTaskOptions& o, long queries, bool turned,
               std::uint64_t stream)
      : o_(o), names_(classes.names), queries_(queries), turns_(turned ? 4 : 1), stream_(stream) {
    form_ = {.input = {1, classes.height, classes.width},
             .outputs = o.ways,
             .classes = true,
             .support = o.ways * o.shots,
             .query = o.ways * queries};
    const auto each = static_cast<std::size_t>(classes.height * classes.width);
    first_.push_back(0);
    for (const auto& pictures : classes.pictures)
      first_.push_back(first_.back() + static_cast<std::int64_t>(pictures.size()));
    Tensor all = at::empty({first_.back(), classes.height, classes.width}, at::kByte);
    auto* to = all.data_ptr<std::uint8_t>();
    for (const auto& pictures : classes.pictures)
      for (const auto& picture : pictures) {
        std::memcpy(to, picture.data(), each);
        to += each;
      }
    Tensors ways_round{all};
    for (long turn = 1; turn < turns_; ++turn) ways_round.push_back(at::rot90(all, turn, {1, 2}));
    pictures_ = at::cat(ways_round).contiguous().to(o.device);
    const auto targets = [&](long rows) {
      return at::eye(o.ways, at::TensorOptions().dtype(at::kFloat).device(o.device))
          .repeat_interleave(rows, 0)
          .unsqueeze(0);
    };
    support_y_ = targets(o.shots);
    query_y_ = targets(queries);
  }

  const TaskForm& form() const override { return form_; }

  std::vector<std::string> class_names(std::uint64_t number) const override {
    Engine engine = engine_of(number);
    std::vector<std::int64_t> drawn;
    draw_distinct(engine, o_.ways, classes() * static_cast<std::uint64_t>(turns_), drawn);
    std::vector<std::string> names;
    for (const std::int64_t each : drawn)
      if (const auto which = static_cast<std::size_t>(each) % classes(); which < names_.size())
        names.push_back(names_[which]);
    return names;
  }

  Tasks draw(long count, std::uint64_t number) const override {
    Engine engine = engine_of(number);
    const std::uint64_t classes = this->classes();
    std::vector<std::int64_t> support, query, of_task, of_class;
    for (long t = 0; t < count; ++t) {
      of_task.clear();
      draw_distinct(engine, o_.ways, classes * static_cast<std::uint64_t>(turns_), of_task);
      for (const std::int64_t chosen : of_task) {
        const auto which = static_cast<std::size_t>(chosen) % classes;
        const std::int64_t turn = chosen / static_cast<std::int64_t>(classes);
        of_class.clear();
        draw_distinct(engine, o_.shots + queries_,
                      static_cast<std::uint64_t>(first_[which + 1] - first_[which]), of_class);
        for (std::size_t i = 0; i < of_class.size(); ++i)
          (i < static_cast<std::size_t>(o_.shots) ? support : query)
              .push_back(turn * first_.back() + first_[which] + of_class[i]);
      }
    }
    const auto rows = [&](const std::vector<std::int64_t>& numbers) {
      const Tensor where = at::tensor(numbers, at::kLong).to(o_.device);
      return pictures_.index_select(0, where)
          .to(at::kFloat)
          .div_(255)
          .view({count, -1, 1, form_.input[1], form_.input[2]});
    };
    return {rows(support), support_y_.expand({count, -1, -1}), rows(query), query_y_.expand({count, -1, -1})};
  }

 private:
  Engine engine_of(std::uint64_t number) const {
    std::seed_seq seeds{stream_, number & 0xffffffffU, number >> 32};
    return Engine(seeds);
  }
  std::uint64_t classes() const { return first_.size() - 1; }

  PictureTaskOptions o_;
  std::vector<std::string> names_;
  long queries_, turns_;
  std::uint64_t stream_;
  TaskForm form_;
  std::vector<std::int64_t> first_;  // of each class, and one past the last
  Tensor pictures_, support_y_, query_y_;
};

/// Pictures of each class that can be judged by; throws where there is none.
long queries_for(const PictureClasses& classes, const PictureTaskOptions& o, std::string_view what,
                 const std::string& source) {
  const auto count = static_cast<long>(classes.pictures.size());
  if (o.ways > count)
    throw InvalidInput(
        fmt::format("{}: a task has {} classes (`ways`), and there are {} {}; ask for fewer `ways`, "
                    "or add classes",
                    source, o.ways, count, what));
  long least = o.shots + o.queries;
  for (std::size_t i = 0; i < classes.pictures.size(); ++i) {
    const auto own = static_cast<long>(classes.pictures[i].size());
    if (own < o.shots + 1)
      throw InvalidInput(
          fmt::format("{}: class {} has {} picture{}, and {} to adapt to (`shots`) and one to be judged by "
                      "are needed; add "
                      "pictures, take the class away, or ask for fewer `shots`",
                      source, i < classes.names.size() ? classes.names[i] : fmt::format("{}", i + 1), own,
                      own == 1 ? "" : "s", o.shots));
    least = std::min(least, own);
  }
  return least - o.shots;
}

/// Of what can be had in memory, and of files that are no folder of class folders.
void require_pictures(const PictureClasses& classes, const PictureTaskOptions& o, const std::string& source) {
  if (classes.height < 1 || classes.width < 1)
    throw InvalidInput(fmt::format("{}: pictures of {} × {}", source, classes.height, classes.width));
  if (o.rotations && classes.height != classes.width)
    throw InvalidInput(fmt::format(
        "{}: pictures of {} × {} turned by a quarter do not lie on each other; bring them to a square, or "
        "do without rotations (`rotations`)",
        source, classes.height, classes.width));
  const auto each = static_cast<std::size_t>(classes.height * classes.width);
  for (const auto& pictures : classes.pictures)
    for (const auto& picture : pictures)
      if (picture.size() != each)
        throw InvalidInput(fmt::format("{}: a picture has {} pixels, and {} × {} are {}", source,
                                       picture.size(), classes.height, classes.width, each));
}

/// An IDX file of pictures, so many of each class in a row.
PictureClasses read_idx_classes(const std::string& path, Index of_class, std::string_view kind) {
  data::ReadOptions reading;
  reading.format = data::Format::idx;
  reading.target_optional = true;
  const data::Dataset all = data::read(path, reading);
  if (!all.image || all.rows() % of_class != 0)
    throw InvalidInput(fmt::format("{}: these are not pictures, {} of each class", path, of_class));
  PictureClasses classes;
  classes.height = all.image->first;
  classes.width = all.image->second;
  const auto& x = all.dense_rows();
  for (Index row = 0; row < all.rows(); ++row) {
    if (row % of_class == 0) {
      classes.pictures.emplace_back();
      classes.names.push_back(fmt::format("{} {}", kind, row / of_class + 1));
    }
    std::vector<std::uint8_t> picture(static_cast<std::size_t>(x.cols()));
    for (Index k = 0; k < x.cols(); ++k) {
      if (!(x(row, k) >= 0 && x(row, k) <= 255))
        throw InvalidInput(fmt::format("{}: picture {} has the value {:g}, and bytes of 0 … 255 are needed",
                                       path, row + 1, x(row, k)));
      picture[static_cast<std::size_t>(k)] = static_cast<std::uint8_t>(x(row, k));
    }
    classes.pictures.back().push_back(std::move(picture));
  }
  return classes;
}

}  // namespace

std::vector<std::string> omniglot_files(const std::string& folder) {
  std::vector<std::string> found(2);
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.find("idx3") == std::string::npos) continue;
    if (name.find("background") != std::string::npos) found[0] = entry.path().string();
    if (name.find("evaluation") != std::string::npos) found[1] = entry.path().string();
  }
  if (found[0].empty() || found[1].empty()) found.clear();
  return found;
}

TaskData picture_tasks(const PictureClasses& training, const PictureClasses& test, const std::string& source,
                       const PictureTaskOptions& options) {
  options.validate().throw_if_any();
  if (training.height != test.height || training.width != test.width)
    throw InvalidInput(fmt::format("{}: training and test pictures differ in size", source));
  require_pictures(training, options, source);
  require_pictures(test, options, source);
  const long queries = std::min(queries_for(training, options, "to learn from", source),
                                queries_for(test, options, "for the test", source));
  TaskData data;
  data.source = source;
  data.training = std::make_shared<PictureTasks>(training, options, queries, options.rotations, 1);
  data.test = std::make_shared<PictureTasks>(test, options, queries, false, 2);
  data.training_classes = static_cast<long>(training.pictures.size());
  data.test_classes = static_cast<long>(test.pictures.size());
  std::uint64_t sum = checksum("");
  for (const PictureClasses* part : {&training, &test})
    for (const auto& pictures : part->pictures)
      for (const auto& each : pictures)
        sum = checksum({reinterpret_cast<const char*>(each.data()), each.size()}, sum);
  data.fingerprint = fmt::format("pictures {:016x} {}-way {}-shot {} queries {}", sum, options.ways,
                                 options.shots, queries, options.rotations ? "turned" : "upright");
  return data;
}

TaskData picture_tasks(const std::string& folder, const PictureTaskOptions& options) {
  options.validate().throw_if_any();
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error))
    throw InvalidInput(fmt::format(
        "{}: {}; name one of class folders with pictures, the one "
        "with Omniglot's IDX files, or sinusoids",
        folder,
        std::filesystem::exists(folder, error) ? "this is a file, and tasks are drawn from a folder"
                                               : "there is no such folder"));
  if (const auto files = omniglot_files(folder); !files.empty()) {
    constexpr Index drawers = 20;
    return picture_tasks(read_idx_classes(files[0], drawers, "character"),
                         read_idx_classes(files[1], drawers, "character"), folder, options);
  }
  const data::ClassPictures all =
      data::read_class_pictures(folder, {.height = options.height, .width = options.width});
  const auto count = all.classes.size();
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  Engine engine(options.seed);
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[engine() % i]);
  const auto kept =
      std::clamp<std::size_t>(static_cast<std::size_t>(options.test_share * static_cast<double>(count) + 0.5),
                              std::min(count, static_cast<std::size_t>(options.ways)), count);
  if (count - kept < static_cast<std::size_t>(options.ways))
    throw InvalidInput(
        fmt::format("{}: it has {} classes, of which {} are kept for the test, and {} are left to learn "
                    "from, fewer than the {} "
                    "of a task (`ways`); ask for fewer `ways`, or add classes",
                    folder, count, kept, count - kept, options.ways));
  PictureClasses parts[2];
  std::vector<int> place(count);
  for (std::size_t i = 0; i < count; ++i) {
    PictureClasses& part = parts[i < kept];
    place[order[i]] = static_cast<int>(part.names.size());
    part.names.push_back(all.classes[order[i]]);
    part.pictures.emplace_back();
  }
  std::vector<bool> tested(count);
  for (std::size_t i = 0; i < kept; ++i) tested[order[i]] = true;
  for (Index i = 0; i < all.size(); ++i) {
    const auto label = static_cast<std::size_t>(all.labels[static_cast<std::size_t>(i)]);
    const auto picture = all.picture(i);
    parts[tested[label]].pictures[static_cast<std::size_t>(place[label])].emplace_back(picture.begin(),
                                                                                       picture.end());
  }
  for (PictureClasses& part : parts) {
    part.height = all.height;
    part.width = all.width;
  }
  TaskData data = picture_tasks(parts[0], parts[1], folder, options);
  data.inverted = all.inverted;
  data.notes = all.notes;
  return data;
}

}  // namespace bilevel::learning
