#include "train_page.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "blocks.hpp"
#include "run_sections.hpp"
#include "train_sections.hpp"

namespace report {
namespace {

/// One measure over the epochs. A run that diverged ends in numbers that are none: what counts is the last
/// that is one.
struct Course {
  double last = nothing, last_epoch = nothing, best = nothing, best_epoch = nothing;
  std::vector<double> all;

  double median() const {
    if (all.empty()) return nothing;
    std::vector<double> sorted = all;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
};

Course measure(const Reading& root, const char* key) {
  Course result;
  const auto epochs = root.find("epochs");
  for (std::size_t i = 0; epochs && i < epochs->size(); ++i) {
    const Reading epoch = (*epochs)[i];
    const double value = number_or_nan(epoch, key), given = number_or_nan(epoch, "epoch");
    if (!std::isfinite(value)) continue;
    const double at = std::isfinite(given) ? given : static_cast<double>(i + 1);
    result.all.push_back(value);
    result.last = value;
    result.last_epoch = at;
    if (value < result.best || !std::isfinite(result.best)) {
      result.best = value;
      result.best_epoch = at;
    }
  }
  return result;
}

/// "Training was interrupted after 7 of 25 epochs." for a run that did not end as it should.
std::string how_it_ended(const Reading& root) {
  static const std::map<std::string, const char*> words{{"interrupted", "Training was interrupted"},
                                                        {"time-limit", "Training ran out of its time"},
                                                        {"diverged", "Training diverged"},
                                                        {"not-finite", "Training diverged"}};
  const auto found = words.find(root.text_or_empty("status"));
  if (found == words.end()) return "";
  const auto epochs = root.find("epochs"), settings = root.find("settings");
  const double asked = settings ? number_or_nan(*settings, "epochs") : nothing;
  std::string text = found->second;
  if (epochs && std::isfinite(asked))
    text += fmt::format(" after {} of {}", count_word(static_cast<double>(epochs->size())),
                        counted(asked, "epoch"));
  else if (epochs)
    text += fmt::format(" after {}", counted(static_cast<double>(epochs->size()), "epoch"));
  return text + ".";
}

std::string how_well(const Reading& root) {
  const Course test = measure(root, "test_error"), train = measure(root, "train_error");
  const bool tested = std::isfinite(test.last);
  const Course& shown = tested ? test : train;
  if (!std::isfinite(shown.last)) return "";
  const auto data = root.find("data");
  const double rows = data ? number_or_nan(*data, tested ? "test_rows" : "train_rows") : nothing;
  const char* const kind = tested ? "test" : "training";
  std::string text = fmt::format("After {} the network is wrong on {} of {}",
                                 counted(shown.last_epoch, "epoch"), percent_word(shown.last),
                                 std::isfinite(rows) ? counted(rows, fmt::format("{} sample", kind))
                                                     : fmt::format("the {} samples", kind));
  if (tested && train.last_epoch == test.last_epoch)
    text += fmt::format(" and on {} of those it learned from", percent_word(train.last));
  text += ".";
  // Worth a word only where the best is a tenth better than the last.
  if (tested && test.best < 0.9 * test.last)
    text += fmt::format(" It was better before: {} after {}.", percent_word(test.best),
                        counted(test.best_epoch, "epoch"));
  return text;
}

/// May the gradients be trusted, and by how much do they miss the exact ones?
std::string trust(const Reading& root) {
  const std::string verdict = gradients_verdict(root);
  const auto probe = root.find("probe");
  if (verdict.empty() && !probe)
    return root.find("epochs") ? "Its gradients were not compared with exact ones." : "";
  std::string text = verdict == "trusted"    ? "Its gradients can be trusted"
                     : verdict == "doubtful" ? "Its gradients are doubtful"
                     : verdict.empty()       ? "Its gradients have no verdict"
                                             : "Do not trust its gradients";
  if (!probe) return text + ".";
  const double cosine = number_or_nan(*probe, "cosine"), samples = number_or_nan(*probe, "samples");
  std::string closeness;
  if (const std::string angle = angle_word(cosine); !angle.empty()) {
    closeness = std::isfinite(samples) ? fmt::format("on {}", counted(samples, "sample")) : "";
    closeness += fmt::format("{}they point within {} of the exact ones (cosine {})",
                             closeness.empty() ? "" : " ", angle, number_word(cosine));
  }
  if (const auto certificate = probe->find("certificate")) {
    const double share = number_or_nan(*certificate, "bound") / number_or_nan(*probe, "gradient_norm");
    const std::string kind = certificate->text_or_empty("kind");
    if (std::isfinite(share) && share >= 0)
      closeness +=
          fmt::format("{}the error is {} at most {} of their length", closeness.empty() ? "" : ", and ",
                      kind == "rigorous" ? "proven to be" : "estimated to be", percent_word(share));
  }
  text = fmt::format("{}{}{}.", text, closeness.empty() ? "" : ": ", closeness);
  // A newcomer reads the verdict first: what it means for the errors above stands beside it.
  const auto settings = root.find("settings");
  const double beta = settings ? number_or_nan(*settings, "beta") : nothing;
  if (verdict != "trusted" && !verdict.empty() && cosine > 0 && std::isfinite(beta))
    text += fmt::format(
        " The errors are measured and hold all the same: a nudge of finite strength (β {}) need "
        "not give the exact gradient to lead downhill. A smaller β and more steps bring it nearer.",
        number_word(beta));
  return text;
}

std::string train_headline(const Reading& root) {
  std::string text = how_it_ended(root);
  const auto add = [&](const std::string& sentence, const char* before) {
    if (!sentence.empty()) text += (text.empty() ? "" : before) + sentence;
  };
  add(how_well(root), " ");
  add(trust(root), "\n\n");
  return text;
}

Json train_facts(const Reading& root) {
  Json facts = Json::array();
  const auto network = root.find("network"), probe = root.find("probe");
  add_fact(facts, "Test error", percent_word(measure(root, "test_error").last));
  add_fact(facts, "Training error", percent_word(measure(root, "train_error").last));
  add_status(facts, "Gradients", gradients_verdict(root));
  if (probe) add_fact(facts, "Gradient cosine", number_word(number_or_nan(*probe, "cosine")));
  if (const auto epochs = root.find("epochs"))
    add_fact(facts, "Epochs", count_word(static_cast<double>(epochs->size())));
  if (network) add_fact(facts, "Parameters", count_word(number_or_nan(*network, "parameters")));
  add_fact(facts, "Samples a second", count_word(measure(root, "samples_per_second").median()));
  add_fact(facts, "Time", in_seconds(number_or_nan(root, "seconds")));
  add_status(facts, "Outcome", root.text_or_empty("status"));
  add_fact(facts, "Version", root.text_or_empty("version"));
  return facts;
}

/// What a reader has to know before believing the rest.
void add_warnings(Json& sections, const Reading& root) {
  Json blocks = Json::array();
  add_notices(blocks, root,
              {"epochs", "epochs.train_error", "epochs.test_error", "epochs.samples_per_second", "network",
               "settings", "confusion", "wrong", "data", "command_line"});
  const auto probe = root.find("probe");
  const auto certificate = probe ? probe->find("certificate") : std::nullopt;
  const std::string verdict = gradients_verdict(root);
  if (verdict == "doubtful" || verdict == "untrusted") {
    const std::string reason = certificate ? certificate->text_or_empty("reason") : "";
    blocks.push_back(
        notice_block(fmt::format("The gradients are {}{}{}", verdict, reason.empty() ? "." : ": ", reason)));
  }
  add_section(sections, "warnings", "Take care", std::move(blocks));
}

}  // namespace

Json train_page(const Json& result) {
  const Reading root(result, "");
  const std::string source = source_of(root);
  Json sections = Json::array();
  add_warnings(sections, root);
  add_learning(sections, root);
  add_gradients(sections, root);
  add_relaxation(sections, root);
  add_settings(sections, root);
  add_weights(sections, root);
  add_confusion(sections, root);
  add_wrong(sections, root);
  add_data(sections, root);
  add_command(sections, root);
  return page(source.empty() ? "A network that settles"
                             : fmt::format("A network that settles, trained on {}", source),
              train_headline(root), train_facts(root), std::move(sections));
}

}  // namespace report
