// Runs in a copy of a page before anything else in it; writes what it saw into <pre id="probe">.
(() => {
  const seen = {errors: [], alerts: 0};
  const complain = text => seen.errors.push(String(text));
  window.alert = () => ++seen.alerts;
  window.addEventListener("error", event => complain("error: " + event.message), true);
  window.addEventListener("unhandledrejection", event => complain("rejection: " + event.reason));
  document.addEventListener("securitypolicyviolation", event =>
    complain(`policy: ${event.violatedDirective} ${event.blockedURI} line ${event.lineNumber}`));
  for (const level of ["error", "warn"]) {
    const original = console[level];
    console[level] = (...what) => {
      complain(`console.${level}: ${what.join(" ")}`);
      original.apply(console, what);
    };
  }

  // The pixels of a canvas as numbers, read from a copy, as reading slows a canvas down.
  const copy = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  function pixels(canvas) {
    copy.canvas.width = canvas.width;
    copy.canvas.height = canvas.height;
    copy.drawImage(canvas, 0, 0);
    return new Uint32Array(copy.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
  }

  function count(words) {
    const counts = new Map();
    for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
    return counts;
  }

  // "#rrggbb" as it stands in memory, opaque.
  const word = colour => (0xff000000 | parseInt(colour.slice(5, 7) + colour.slice(3, 5) + colour.slice(1, 3), 16)) >>> 0;
  const pixelsOf = (canvas, colour) => count(pixels(canvas)).get(word(colour)) ?? 0;

  function look(canvas) {
    if (!Chart.getChart(canvas)) return null;
    const words = pixels(canvas);
    const counts = count(words);
    let transparent = 0;
    for (const [value, times] of counts) if (value >>> 24 === 0) transparent += times;
    const chart = Chart.getChart(canvas);
    return {
      width: canvas.width,
      height: canvas.height,
      colours: counts.size,
      opaque: 1 - transparent / words.length,
      // Of each series, the pixels in exactly its colour; the least of them.
      fewest: Math.min(1e9, ...chart.data.datasets.map(set => counts.get(word(set.borderColor)) ?? 0)),
      scales: [chart.scales.x.type, chart.scales.y.type],
      ranges: ["x", "y"].map(key => [chart.scales[key].min, chart.scales[key].max]),
      labels: ["x", "y"].map(key => chart.scales[key].ticks.map(tick => tick.label)),
      tooltip: tooltipOf(chart),
    };
  }

  function tooltipOf(chart) {
    const dataset = chart.getDatasetMeta(0);
    const index = dataset ? dataset.data.findIndex(element => !element.skip) : -1;
    if (index < 0) return [];
    chart.tooltip.setActiveElements([{datasetIndex: 0, index}], {x: 0, y: 0});
    const text = [...chart.tooltip.title, ...chart.tooltip.body.flatMap(part => part.lines)];
    chart.tooltip.setActiveElements([], {x: 0, y: 0});
    return text;
  }

  function toggles() {
    const button = document.querySelector(".legend button");
    if (!button) return null;
    const canvas = button.closest("figure").querySelector(".plot canvas");
    const colour = Chart.getChart(canvas).data.datasets[0].borderColor;
    const counts = [pixelsOf(canvas, colour)];
    for (let i = 0; i < 2; ++i) {
      button.click();
      counts.push(pixelsOf(canvas, colour));
    }
    return counts;
  }

  // What a table that can be searched shows: at first, when something is sought, when nothing is found, when
  // nothing is sought any more, when all rows are asked for, and sorted by its last column, both ways.
  function search(figure) {
    const box = figure.querySelector("input"), more = figure.querySelector(".more");
    const head = [...figure.querySelectorAll("th")].at(-1);
    const state = () => ({
      count: figure.querySelector(".count").textContent,
      rows: figure.querySelectorAll("tbody tr").length,
      more: more.hidden ? "" : more.textContent,
      first: [...figure.querySelectorAll("tbody tr:first-child td")].map(cell => cell.textContent),
      sort: head.getAttribute("aria-sort"),
    });
    const states = [state()];
    const seek = text => {
      if (!box) return;
      box.value = text;
      box.dispatchEvent(new Event("input"));
      states.push(state());
    };
    seek(window.sought ?? "");
    seek("nowhere to be found");
    seek("");
    more.click();
    states.push(state());
    for (let i = 0; i < 2; ++i) {
      head.querySelector("button").click();
      states.push(state());
    }
    return states;
  }

  // A pixel as "#rrggbb, opacity".
  const colourOf = value =>
    "#" + [0, 8, 16].map(shift => (value >>> shift & 255).toString(16).padStart(2, "0")).join("") + ", " + (value >>> 24);

  function imageOf(canvas) {
    const words = pixels(canvas), counts = count(words);
    return {
      width: canvas.width,
      shown: canvas.clientWidth,
      filter: getComputedStyle(canvas).filter,
      pixels: [...words.slice(0, 4)].map(colourOf),
      // How often each shade occurs that is there.
      shades: Object.fromEntries([...counts].map(([value, times]) => [value >>> 24, times])),
    };
  }

  function finish() {
    const canvases = [...document.querySelectorAll(".plot canvas")];
    const attributes = [...document.querySelectorAll("*")].flatMap(element => [...element.attributes]);
    seen.dark = matchMedia("(prefers-color-scheme: dark)").matches;
    seen.background = getComputedStyle(document.body).backgroundColor;
    seen.overflow = document.documentElement.scrollWidth - innerWidth;
    seen.scripts = document.querySelectorAll("script").length - 1;
    seen.foreign = document.querySelectorAll("img, svg, iframe, object, embed, link, form, textarea, base").length;
    seen.handlers = attributes.filter(attribute => attribute.name.startsWith("on")).length;
    seen.links = [...document.querySelectorAll("a")].map(link => link.getAttribute("href"));
    seen.dangling = seen.links.filter(link => !document.getElementById(link.slice(1))).length;
    seen.unnamed = canvases.filter(canvas => !canvas.getAttribute("aria-label")).length;
    seen.contents = document.querySelector("nav details").open;
    seen.legends = [...document.querySelectorAll(".legend button")].map(button => button.textContent);
    seen.plots = [...document.querySelectorAll(".plot")].map(plot => plot.innerText.trim());
    seen.cut = [...document.querySelectorAll(".scroll")].map(table => table.scrollWidth - table.clientWidth);
    seen.images = [...document.querySelectorAll("canvas[data-pixels]")].map(imageOf);
    seen.sizes = [...document.querySelectorAll(".plot")].map(plot => plot.clientHeight);
    const start = performance.now();
    seen.searches = [...document.querySelectorAll("figure.searchable")].map(search);
    seen.searchMilliseconds = performance.now() - start;
    seen.screen = canvases.map(look);
    seen.toggles = toggles();
    window.dispatchEvent(new Event("beforeprint"));
    seen.print = canvases.map(look);
    seen.printInk = Chart.getChart(canvases[0])?.options.scales.x.title.color ?? "";
    window.dispatchEvent(new Event("afterprint"));
    seen.after = canvases.map(look);
    const result = document.createElement("pre");
    result.id = "probe";
    result.textContent = JSON.stringify(seen).replace(/[^ -~]|[<>&]/g, symbol =>
      "\\u" + symbol.charCodeAt(0).toString(16).padStart(4, "0"));
    document.body.append(result);
  }

  const wait = () => (document.documentElement.dataset.charts === "drawn" ? finish() : setTimeout(wait, 20));
  document.addEventListener("DOMContentLoaded", wait);
})();
