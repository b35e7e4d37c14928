#include "page.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "assets.hpp"
#include "base64.hpp"
#include "chart.hpp"
#include "pictures.hpp"
#include "reading.hpp"
#include "text.hpp"

namespace report {
namespace {

/// The base64 of a hash in hexadecimal, as Content-Security-Policy wants it.
std::string base64_of_hash(std::string_view hexadecimal) {
  const auto value = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hexadecimal.size(); i += 2)
    bytes += static_cast<char>(16 * value(hexadecimal[i]) + value(hexadecimal[i + 1]));
  return base64(bytes);
}

/// Nothing may be loaded, and only the scripts and the style that were embedded may run: a tag that slipped
/// into the page would still do nothing.
std::string security_policy() {
  return fmt::format(
      "default-src 'none'; script-src 'sha256-{}' 'sha256-{}'; style-src 'sha256-{}'; "
      "base-uri 'none'; form-action 'none'",
      base64_of_hash(assets::charts_hash), base64_of_hash(assets::script_hash),
      base64_of_hash(assets::style_hash));
}

std::string paragraphs(const std::string& text) {
  std::string html;
  std::size_t from = 0;
  while (from < text.size()) {
    const std::size_t end = std::min(text.find("\n\n", from), text.size());
    if (end > from)
      html += fmt::format("<p>{}</p>\n", escaped(std::string_view(text).substr(from, end - from)));
    from = std::max(end + 1, text.find_first_not_of('\n', end));
    if (from == std::string::npos) break;
  }
  return html;
}

/// Tables of more rows than this show so many; tables.js has the others.
constexpr std::size_t rows_at_once = 200;

/// Adds `word` with a space before it; nothing where there is none.
void add_word(std::string& html, const std::string& word) {
  if (!html.empty() && !word.empty()) html += ' ';
  html += word;
}

class Writer {
 public:
  explicit Writer(const Reading& page) : page_(page) {}
  std::string write();

 private:
  struct Section {
    Reading content;
    std::string id, title, status;
    int level;
  };

  void read_sections();
  std::string navigation() const;
  std::string section(const Section& section);
  std::string block(const Reading& block, bool within_columns = false);
  std::string cell(const Reading& cell) const;
  Json data_cell(const Reading& cell) const;
  std::string target(const std::string& link) const;
  std::string facts(const Reading& items) const;
  std::string heading(const Reading& block) const;
  std::string caption(const Reading& block, const std::string& more = "") const;
  std::string table(const Reading& block);
  std::string chart(const Reading& block);
  std::string images(const Reading& block) const;
  std::string confusion(const Reading& block) const;
  std::size_t add_data(const Json& value);

  Reading page_;
  std::vector<Section> sections_;
  std::map<std::string, std::string> id_of_;  // as it is in the page, for each as it was given
  std::vector<std::string> data_;             // JSON of charts and of long tables; equal ones written once
};

void Writer::read_sections() {
  std::set<std::string> used;
  for (const Reading content : page_.at("sections")) {
    int level = 1;
    if (const auto given = content.find("level")) {
      if (given->number() != 1 && given->number() != 2) given->fail("must be 1 or 2");
      level = static_cast<int>(given->number());
    }
    const std::string title = content.text("title"), given = content.text_or_empty("id");
    const std::string wanted = identifier(given.empty() ? title : given);
    std::string id = wanted;
    for (int copy = 2; !used.insert(id).second; ++copy) id = fmt::format("{}-{}", wanted, copy);
    id_of_.emplace(given, id);
    sections_.push_back({content, id, title, content.text_or_empty("status"), level});
  }
}

std::string Writer::navigation() const {
  std::string html = "<nav aria-label=\"Contents\">\n<details open>\n<summary>Contents</summary>\n<ol>\n";
  for (const Section& section : sections_) {
    const bool known = section.status == "holds" || section.status == "fails";
    html += fmt::format(
        "<li class=\"level{}\"><a href=\"#{}\">{}{}</a></li>\n", section.level, section.id,
        known ? fmt::format("<span class=\"mark {0}\" title=\"{0}\"></span>", section.status) : "",
        escaped(section.title));
  }
  return html + "</ol>\n</details>\n</nav>\n";
}

/// The id of the section that `link` leads to. Only a section of this page can be linked to; "" for any
/// other link, which is left out.
std::string Writer::target(const std::string& link) const {
  const auto found = link.starts_with('#') ? id_of_.find(link.substr(1)) : id_of_.end();
  return found == id_of_.end() ? "" : found->second;
}

std::string Writer::cell(const Reading& cell) const {
  const Json& json = cell.json();
  if (json.is_number()) return number_text(json.get<double>());
  if (json.is_string()) return escaped(json.get_ref<const std::string&>());
  if (!json.is_object()) cell.fail("must be a string, a number or an object");
  const std::string status = cell.text_or_empty("status"), id = target(cell.text_or_empty("link"));
  std::string html = escaped(cell.text_or_empty("text"));
  if (!id.empty()) html = fmt::format("<a href=\"#{}\">{}</a>", id, html);
  add_word(html, badge(status));
  return html;
}

/// What tables.js makes the same cell of.
Json Writer::data_cell(const Reading& cell) const {
  const Json& json = cell.json();
  if (json.is_number()) return number_text(json.get<double>());
  if (json.is_string()) return cell.text();
  if (!json.is_object()) cell.fail("must be a string, a number or an object");
  Json result{{"text", cell.text_or_empty("text")}};
  if (const std::string id = target(cell.text_or_empty("link")); !id.empty()) result["link"] = id;
  if (const std::string status = cell.text_or_empty("status"); !status.empty()) {
    result["status"] = status;
    result["tone"] = tone(status);
  }
  return result;
}

std::string Writer::facts(const Reading& items) const {
  std::string html = "<dl>\n";
  for (const Reading pair : items) {
    if (pair.size() != 2) pair.fail("must be a pair of a name and a text");
    html += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", cell(pair[0]), cell(pair[1]));
  }
  return html + "</dl>\n";
}

std::string Writer::heading(const Reading& block) const {
  const std::string label = block.text_or_empty("label"), title = block.text_or_empty("title");
  if (label.empty() && title.empty()) return "";
  const std::string shown =
      label.empty() ? "" : fmt::format("<span class=\"label\">{}</span> ", escaped(label));
  return fmt::format("<p class=\"heading\">{}{}</p>\n", shown, escaped(title));
}

std::string Writer::caption(const Reading& block, const std::string& more) const {
  std::string html = escaped(block.text_or_empty("caption"));
  add_word(html, escaped(more));
  if (const auto source = block.find("source")) add_word(html, cell(*source));
  return html.empty() ? "" : fmt::format("<figcaption>{}</figcaption>\n", html);
}

std::string Writer::table(const Reading& block) {
  const Reading columns = block.at("columns"), rows = block.at("rows");
  // Numbers are aligned to the right; prose gets room.
  std::vector<bool> right(columns.size(), rows.size() > 0), prose(columns.size());
  for (const Reading row : rows) {
    if (row.size() != columns.size())
      row.fail(fmt::format("has {} cells, the table {} columns", row.size(), columns.size()));
    for (std::size_t j = 0; j < right.size(); ++j) {
      const Json& value = row.json()[j];
      const std::string* const text = value.get_ptr<const std::string*>();
      right[j] = right[j] && (value.is_number() || (text && (*text == missing || looks_like_number(*text))));
      prose[j] = prose[j] || (text && text->size() > 24);
    }
  }
  const auto mark = [&](std::size_t j) {
    return right[j] ? " class=\"number\"" : prose[j] ? " class=\"prose\"" : "";
  };

  const std::string name = block.text_or_empty("title");
  const auto search = block.find("search");
  const bool cut = rows.size() > rows_at_once, searchable = (search && search->truth()) || cut;
  const std::size_t first = std::min(rows.size(), rows_at_once);
  std::string further;
  if (cut) {
    Json others = Json::array();
    for (std::size_t i = first; i < rows.size(); ++i) {
      const Reading row = rows[i];
      Json cells = Json::array();
      for (const Reading one : row) cells.push_back(data_cell(one));
      others.push_back(std::move(cells));
    }
    further = fmt::format(" data-rows=\"{}\"", add_data(others));
  }

  std::string html = fmt::format("<figure class=\"table{}{}\"{}>\n{}", columns.size() > 6 ? " many" : "",
                                 searchable ? " searchable" : "", further, heading(block));
  if (searchable)
    html += fmt::format("<div class=\"tools\"><span class=\"count\">{} of {} shown</span></div>\n", first,
                        rows.size());
  html += fmt::format("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\n",
                      escaped(name.empty() ? "Table" : name));
  html += "<table>\n<thead><tr>";
  for (std::size_t j = 0; j < columns.size(); ++j)
    html += fmt::format("<th scope=\"col\"{}>{}</th>", mark(j), escaped(columns[j].text()));
  html += "</tr></thead>\n<tbody>\n";
  for (std::size_t i = 0; i < first; ++i) {
    const Reading row = rows[i];
    html += "<tr>";
    for (std::size_t j = 0; j < row.size(); ++j) html += fmt::format("<td{}>{}</td>", mark(j), cell(row[j]));
    html += "</tr>\n";
  }
  return html + "</tbody>\n</table>\n</div>\n" + caption(block) + "</figure>\n";
}

/// The place of `value` in the page's data.
std::size_t Writer::add_data(const Json& value) {
  const std::string text = script_json(value);
  const auto known = std::find(data_.begin(), data_.end(), text);
  const auto place = static_cast<std::size_t>(known - data_.begin());
  if (known == data_.end()) data_.push_back(text);
  return place;
}

std::string Writer::chart(const Reading& block) {
  const Chart chart = read_chart(block);
  std::string html =
      fmt::format("<figure class=\"chart\" data-chart=\"{}\">\n{}", add_data(chart.drawing), heading(block));
  html += fmt::format("<div class=\"plot\"><canvas role=\"img\" aria-label=\"{}\"></canvas></div>\n",
                      escaped(chart.spoken));
  html += "<ul class=\"legend\"></ul>\n";
  if (!chart.field_name.empty())
    html +=
        fmt::format("<p class=\"field\">{} <span>{}</span><span class=\"ramp\"></span><span>{}</span></p>\n",
                    escaped(chart.field_name), escaped(chart.field_smallest), escaped(chart.field_largest));
  return html + caption(block, chart.omitted) + "</figure>\n";
}

std::string Writer::images(const Reading& block) const {
  const Images images = read_images(block);
  return fmt::format("<figure class=\"{}\">\n{}{}{}</figure>\n", images.classes, heading(block), images.html,
                     caption(block));
}

std::string Writer::confusion(const Reading& block) const {
  return fmt::format("<figure class=\"table confusion\">\n{}{}{}</figure>\n", heading(block),
                     confusion_table(block), caption(block));
}

std::string Writer::block(const Reading& block, bool within_columns) {
  const Reading type = block.at("type");
  const std::string name = type.text();
  if (name == "text") return paragraphs(block.text("text"));
  if (name == "code")
    return fmt::format("<div class=\"code\"><pre>{}</pre></div>\n", escaped(block.text("text")));
  if (name == "facts") return facts(block.at("items"));
  if (name == "table") return table(block);
  if (name == "chart") return chart(block);
  if (name == "images") return images(block);
  if (name == "confusion") return confusion(block);
  if (name == "notice")
    return fmt::format("<div class=\"notice\" role=\"note\">\n{}</div>\n", paragraphs(block.text("text")));
  if (name == "list") {
    std::string html = "<ul class=\"items\">\n";
    for (const Reading item : block.at("items")) html += fmt::format("<li>{}</li>\n", cell(item));
    return html + "</ul>\n";
  }
  if (name == "columns") {
    if (within_columns) block.fail("columns cannot stand within columns");
    std::string html = "<div class=\"columns\">\n";
    for (const Reading one : block.at("blocks"))
      html += fmt::format("<div>\n{}</div>\n", this->block(one, true));
    return html + "</div>\n";
  }
  type.fail(fmt::format("there is no block \"{}\"", name));
}

std::string Writer::section(const Section& section) {
  std::string html =
      fmt::format("<section id=\"{}\" class=\"level{}\">\n<h{}>{}{}</h{}>\n", section.id, section.level,
                  section.level + 1, escaped(section.title),
                  section.status.empty() ? "" : fmt::format(" {}", badge(section.status)), section.level + 1);
  if (const auto blocks = section.content.find("blocks"))
    for (const Reading one : *blocks) html += block(one);
  return html + "</section>\n";
}

std::string Writer::write() {
  read_sections();
  const std::string title = page_.text("title");
  std::string body = fmt::format("<header>\n<h1>{}</h1>\n", escaped(title));
  if (const std::string lead = page_.text_or_empty("lead"); !lead.empty())
    body += fmt::format("<div class=\"lead\">{}</div>\n", paragraphs(lead));
  if (const auto items = page_.find("facts")) body += facts(*items);
  body +=
      "<noscript><p class=\"notice\">The charts of this page need JavaScript; its text and its tables "
      "do not.</p></noscript>\n</header>\n";
  for (const Section& one : sections_) body += section(one);

  // The scripts stand before the body: an id in it, visible to scripts as a global name, cannot mislead
  // them while they load.
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n"
      "<style>{}</style>\n<script>{}</script>\n<script>{}</script>\n</head>\n<body>\n{}<main>\n{}</main>\n"
      "<script type=\"application/json\">[{}]</script>\n</body>\n</html>\n",
      security_policy(), escaped(title), assets::style, assets::charts, assets::script, navigation(), body,
      fmt::join(data_, ",\n"));
}

}  // namespace

std::string render(const Json& page) {
  return Writer(Reading(page, "")).write();
}

}  // namespace report
