#include <bilevel/networks/netlist.hpp>

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

namespace bilevel::networks {
namespace {

std::string node(int k) {
  return k == 0 ? "0" : fmt::format("n{}", k);
}

}  // namespace

Violations NetlistOptions::validate() const {
  Violations v("netlist");
  v.require(title.find_first_of("\r\n") == std::string::npos, "title", title, "must be one line");
  v.positive("reltol", reltol).positive("abstol", abstol).positive("vntol", vntol);
  return v;
}

std::string netlist(const Circuit& circuit, const NetlistOptions& options) {
  circuit.validate().add(options.validate()).throw_if_any();
  std::string text;
  const auto line = [&]<class... Arguments>(fmt::format_string<Arguments...> format, Arguments&&... values) {
    fmt::format_to(std::back_inserter(text), format, std::forward<Arguments>(values)...);
    text += '\n';
  };
  const auto volts = [&](double value) {
    return options.external_sources ? std::string("external") : fmt::format("{:.17g}", value);
  };
  line("* {}", options.title);
  for (std::size_t i = 0; i < circuit.resistors.size(); ++i) {
    const Resistor& r = circuit.resistors[i];
    line("R{} {} {} {:.17g}", i, node(r.a), node(r.b), 1 / std::max(r.siemens, 1e-30));
  }
  for (std::size_t i = 0; i < circuit.sources.size(); ++i)
    line("V{} {} 0 {}", i, node(circuit.sources[i].node), volts(circuit.sources[i].volts));
  for (std::size_t i = 0; i < circuit.currents.size(); ++i)
    line("I{} {} {} {:.17g}", i, node(circuit.currents[i].from), node(circuit.currents[i].to),
         circuit.currents[i].amperes);
  // One model for all diodes that are alike.
  std::map<std::tuple<double, double, double>, std::size_t> models;
  for (std::size_t i = 0; i < circuit.diodes.size(); ++i) {
    const Diode& d = circuit.diodes[i];
    const auto model = models.try_emplace({d.saturation_current, d.emission, d.kelvin}, models.size()).first;
    line("D{} {} {} junction{} temp={:.17g}", i, node(d.anode), node(d.cathode), model->second,
         d.kelvin - 273.15);
  }
  for (const auto& [values, number] : models)
    line(".model junction{} d(is={:.17g} n={:.17g} tnom={:.17g})", number, std::get<0>(values),
         std::get<1>(values), std::get<2>(values) - 273.15);
  for (std::size_t i = 0; i < circuit.amplifiers.size(); ++i) {
    const Amplifier& a = circuit.amplifiers[i];
    line("E{} s{} 0 {} 0 {:.17g}", i, i, node(a.input), a.gain);
    line("VS{} s{} {} 0", i, i, node(a.output));
    line("F{} {} 0 VS{} {:.17g}", i, node(a.input), i, a.gain);
  }
  for (std::size_t i = 0; i < circuit.pulls.size(); ++i) {
    const Pull& p = circuit.pulls[i];
    line("VP{} p{} 0 {}", i, i, volts(p.volts));
    line("G{} {} p{} {} p{} {:.17g}", i, node(p.node), i, node(p.node), i, p.siemens);
  }
  line(".options reltol={:.17g} abstol={:.17g} vntol={:.17g} gmin={:.17g}", options.reltol, options.abstol,
       options.vntol, circuit.gmin);
  line(".op");
  line(".end");
  return text;
}

}  // namespace bilevel::networks
