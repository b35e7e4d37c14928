// replay CORPUS COUNT SEED: runs a fuzz target on every file of a folder and on COUNT mutations of them,
// where there is no libFuzzer. The same seed gives the same inputs.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);

namespace {

/// What files of these formats trip over.
constexpr const char* tokens[] = {"nan", "inf",     "-1",          "0",          "1e400", "\"",   "\"\"",
                                  ",",   ";",       "\t",          " ",          "\n",    "\r\n", ":",
                                  "#",   "?",       "99999999999", "2147483648", "qid:1", "0:1",  "(",
                                  ")",   "'shape'", "True",        "<f8",        "NA",    "1.5",  "x"};

class Mutator {
 public:
  Mutator(std::vector<std::string> corpus, std::uint64_t seed) : corpus_(std::move(corpus)), engine_(seed) {}

  std::string next() {
    std::string bytes = corpus_[below(corpus_.size())];
    for (std::size_t times = 1 + below(6); times > 0; --times) mutate(bytes);
    return bytes;
  }

 private:
  std::size_t below(std::size_t bound) {
    return bound == 0 ? 0 : static_cast<std::size_t>(engine_() % bound);
  }

  void mutate(std::string& bytes) {
    const std::size_t at = below(bytes.size() + 1);
    const std::size_t length = std::min(bytes.size() - at, 1 + below(8));
    switch (below(8)) {
      case 0:
        if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1:
        if (at < bytes.size()) bytes[at] = static_cast<char>(engine_());
        break;
      case 2:
        bytes.erase(at, length);
        break;
      case 3:
        bytes.insert(at, bytes.substr(at, length));
        break;
      case 4:
        bytes.insert(at, tokens[below(std::size(tokens))]);
        break;
      case 5:
        bytes.replace(at, length, tokens[below(std::size(tokens))]);
        break;
      case 6: {
        const std::string& other = corpus_[below(corpus_.size())];
        bytes = bytes.substr(0, at) + other.substr(below(other.size() + 1));
        break;
      }
      default:
        bytes.resize(at);
    }
  }

  std::vector<std::string> corpus_;
  std::mt19937_64 engine_;
};

void run(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    std::fprintf(stderr, "usage: replay CORPUS COUNT SEED\n");
    return 2;
  }
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(arguments[1])) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());  // the order of a folder differs between machines
  std::vector<std::string> corpus;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    run(corpus.back());
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "%s: no file in it\n", arguments[1]);
    return 2;
  }
  const auto mutations = std::strtoull(arguments[2], nullptr, 10);
  const auto seed = std::strtoull(arguments[3], nullptr, 10);
  std::printf("%zu files and %llu mutations, seed %llu\n", corpus.size(), mutations, seed);
  Mutator mutator(corpus, seed);
  for (unsigned long long k = 0; k < mutations; ++k) {
    const std::string bytes = mutator.next();
    // Kept on the disk while it runs, so that an input that ends the program is there afterwards.
    if (const char* const keep = std::getenv("BILEVEL_FUZZ_KEEP"))
      std::ofstream(keep, std::ios::binary) << bytes;
    run(bytes);
  }
  return 0;
}
