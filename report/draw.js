"use strict";
// Draws the charts.
(() => {
  const root = document.documentElement;
  const minus = "\u2212";
  const markers = ["circle", "triangle", "rect", "rectRot", "crossRot", "star", "circle", "triangle"];
  const dashes = [[7, 4], [2, 3], [10, 3, 2, 3], [14, 5], [5, 2], [1, 4], [9, 3, 3, 3], [4, 6]];

  // Numbers as a person writes them.

  function power(exponent) {
    return "10" + String(exponent).replace("-", "⁻").replace(/\d/g, digit => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]);
  }

  function shown(value, digits = 4) {
    const size = Math.abs(value);
    if (size === 0 || (Number.isInteger(value) && size < 1e6)) return String(value).replace("-", minus);
    if (size >= 1e-3 && size < 1e5) return String(Number(value.toPrecision(digits))).replace("-", minus);
    const [mantissa, exponent] = value.toExponential(digits - 1).split("e").map(Number);
    const sign = mantissa < 0 ? minus : "";
    const factor = Math.abs(mantissa) === 1 ? "" : Math.abs(mantissa) + "·";
    return sign + factor + power(exponent);
  }

  function linearLabel(value, index, ticks) {
    const step = ticks.length > 1 ? Math.abs(ticks[1].value - ticks[0].value) : Math.abs(value) || 1;
    const largest = Math.max(...ticks.map(tick => Math.abs(tick.value)));
    if (Math.abs(value) < step * 1e-9) return "0";
    if (largest >= 1e5 || largest < 1e-2) return shown(value, Math.ceil(Math.log10(largest / step)) + 2);
    const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    return value.toFixed(Math.min(decimals, 10)).replace("-", minus);
  }

  function logLabel(value, ticks) {
    const inWords = ticks.every(tick => tick.value >= 0.009 && tick.value < 2000);
    if (inWords) return String(Number(value.toPrecision(3)));
    const exponent = Math.floor(Math.log10(value) + 1e-9);
    const factor = Math.round(value / 10 ** exponent);
    return factor === 1 ? power(exponent) : factor + "·" + power(exponent);
  }

  function shortened(text, most) {
    return text.length > most ? text.slice(0, most - 1) + "…" : text;
  }

  // Powers of ten, no more than fit; within two decades also their multiples.
  function logTicks(axis) {
    const low = Math.log10(axis.min), high = Math.log10(axis.max);
    const first = Math.ceil(low - 1e-9), last = Math.floor(high + 1e-9);
    const room = Math.max(2, Math.floor((axis.isHorizontal() ? axis.width / 55 : axis.height / 32)));
    const ticks = [];
    if (last - first >= 2) {
      const step = Math.ceil((last - first + 1) / room);
      for (let k = Math.ceil(first / step) * step; k <= last; k += step) ticks.push(10 ** k);
    } else {
      const factors = high - low > 0.7 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9];
      for (let k = first - 1; k <= last; ++k)
        for (const factor of factors) {
          const value = factor * 10 ** k;
          if (value >= axis.min * (1 - 1e-9) && value <= axis.max * (1 + 1e-9)) ticks.push(value);
        }
    }
    axis.ticks = ticks.map(value => ({value}));
  }

  // What a chart looks like.

  function palette() {
    const style = getComputedStyle(root);
    const colour = name => style.getPropertyValue("--" + name).trim();
    return {
      ink: colour("ink"), muted: colour("muted"), grid: colour("grid"), line: colour("line"),
      surface: colour("surface"), sans: colour("sans"), low: colour("field-low"), high: colour("field-high"),
      series: [1, 2, 3, 4, 5, 6, 7, 8].map(number => colour("series-" + number)),
    };
  }

  // Which series belong together, as a curve and the marks of what was measured for it: neighbours, or the
  // first of one half and the first of the other, and so on. Returns the number of the group of each.
  function groups(series) {
    const isMarks = one => one.style === "dots" || one.style === "path";
    const half = series.length / 2;
    const together = (a, b) => isMarks(series[a]) !== isMarks(series[b]);
    const all = test => Array.from({length: half}, (_, i) => i).every(test);
    if (half < 2 || !Number.isInteger(half)) return series.map((_, i) => i);
    if (all(i => together(2 * i, 2 * i + 1))) return series.map((_, i) => Math.floor(i / 2));
    if (all(i => together(i, i + half) && isMarks(series[i]) === isMarks(series[0]))) return series.map((_, i) => i % half);
    return series.map((_, i) => i);
  }

  // Each group has its colour and its marker. What theory says is dashed, and in ink if it is one curve for
  // the whole chart.
  function appearances(series, colours) {
    const group = groups(series);
    const alone = series.length > 1 && series.filter(one => one.style === "dashed").length === 1;
    const drawnMarks = series.some(one => one.style === "dots" || one.style === "path");
    const lines = series.filter(one => one.style === "line");
    const paired = group.at(-1) + 1 < series.length;
    let theory = 0, skipped = 0;
    return series.map((one, i) => {
      const inInk = alone && !paired && one.style === "dashed";
      if (inInk) ++skipped;
      const place = (group[i] - (inInk ? 0 : skipped)) % 8;
      const marked = one.style === "dots" || one.style === "path";
      return {
        colour: inInk ? colours.ink : colours.series[place],
        marker: markers[place],
        dash: one.style === "dashed" ? dashes[theory++ % 8] : [],
        line: one.style !== "dots" && one.style !== "bars",
        bar: one.style === "bars",
        marked,
        // Several lines and nothing else: a few markers on each tell them apart without colours.
        sparse: one.style === "line" && lines.length > 1 && !drawnMarks,
        share: (lines.indexOf(one) + 1) / (lines.length + 1),
      };
    });
  }

  function pointRadius(series, look) {
    const count = (series.y ?? series.x).length;
    if (look.marked) return count > 120 ? 2 : count > 50 ? 2.5 : 3.5;
    if (!look.sparse) return 0;
    const every = Math.max(1, Math.ceil(count / 7));
    return series.y.map((_, i) => (i % every === Math.floor(every * look.share) ? 3.5 : 0));
  }

  function dataset(description, index, look, hidden, clip) {
    const series = description.series[index];
    const open = look.marker === "crossRot" || look.marker === "star";
    return {
      type: look.bar ? "bar" : "line",
      label: series.name,
      data: description.categories ? series.y ?? series.x : series.x.map((x, i) => ({x, y: series.y[i]})),
      hidden,
      clip,
      order: look.bar ? 3 : series.style === "line" ? 2 : series.style === "dashed" ? 1 : 0,
      borderColor: look.colour,
      backgroundColor: look.colour,
      borderWidth: look.bar ? 0 : series.style === "path" ? 1.5 : 2,
      borderDash: look.dash,
      showLine: look.line,
      pointStyle: look.marker,
      pointRadius: look.bar ? undefined : pointRadius(series, look),
      pointBorderWidth: open ? 1.5 : 0.5,
      pointHoverRadius: 6,
      pointHitRadius: 8,
      maxBarThickness: 56,
    };
  }

  // The smallest and the largest number that an axis can show (a loop: calls have too few arguments).
  function extent(description, key) {
    if (description.field) return [description.field[key][0], description.field[key].at(-1)];
    let low = Infinity, high = -Infinity;
    for (const one of description.series)
      for (const value of one[key]) {
        if (value === null || (description[key].log && value <= 0)) continue;
        if (value < low) low = value;
        if (value > high) high = value;
      }
    return [low, high];
  }

  // The ends that are given, or follow: of a field's chart those of its grid, and where a given end lies
  // beyond all of the data, one beside it.
  function givenEnds(description, key, [low, high]) {
    const {log} = description[key];
    let {min, max} = description[key];
    const step = end => Math.abs(end) || 1;
    if (min !== undefined && !(min < (max ?? high))) max = log ? min * 10 : min + step(min);
    else if (max !== undefined && !((min ?? low) < max)) min = log ? max / 10 : max - step(max);
    if (description.field) {
      min ??= low;
      max ??= high;
    }
    return {min, max};
  }

  function categoryAxis(description) {
    return description.categories && (description.horizontal ? "y" : "x");
  }

  function axis(description, key, colours) {
    const given = description[key];
    const options = {
      type: given.log ? "logarithmic" : "linear",
      title: {display: Boolean(given.name), text: given.name, color: colours.ink, font: {size: 13}},
      grid: {color: colours.grid, borderColor: colours.line, tickColor: colours.line, tickLength: 5},
      ticks: {color: colours.muted, font: {size: 12}, maxRotation: 0, includeBounds: false, callback: linearLabel},
    };
    if (key === categoryAxis(description)) {
      options.type = "category";
      options.grid.display = key === "y";
      options.offset = true;
      options.ticks.maxRotation = 50;
      options.ticks.autoSkip = key === "x" && description.categories.length > 16;
      options.ticks.callback = function (index) {
        return shortened(description.categories[index], key === "y" && this.chart.width < 480 ? 14 : 26);
      };
      return options;
    }
    const data = extent(description, key);
    Object.assign(options, givenEnds(description, key, data));
    if (!given.log) {
      options.ticks.autoSkipPadding = 12;
      options.ticks.maxTicksLimit = 9;
      return options;
    }
    let low = options.min ?? data[0], high = options.max ?? data[1];
    if (!(low > 0 && high < Infinity)) [low, high] = [1, 10];
    const decades = Math.log10(high / low);
    const margin = 10 ** Math.max(0.04 * decades, decades < 0.3 ? 0.15 : 0.06);
    const bars = description.series.some(one => one.style === "bars");
    options.min ??= bars ? 10 ** Math.floor(Math.log10(low / margin)) : low / margin;
    options.max ??= high * margin;
    options.bounds = "data";
    options.afterBuildTicks = logTicks;
    options.ticks.autoSkip = false;
    options.ticks.callback = (value, index, ticks) => logLabel(value, ticks);
    return options;
  }

  // The grey background: between the grid's points the shade is interpolated.
  function drawField(chart, field, colours) {
    const {left, top, width, height} = chart.chartArea;
    const columns = Math.round(width), rows = Math.round(height);
    if (columns < 1 || rows < 1) return;
    const channels = colour => [1, 3, 5].map(at => parseInt(colour.slice(at, at + 2), 16));
    const low = channels(colours.low), high = channels(colours.high);
    const between = (grid, value) => {
      if (!(value >= grid[0] && value <= grid.at(-1))) return null;
      let i = 0;
      while (i < grid.length - 2 && grid[i + 1] < value) ++i;
      return [i, (value - grid[i]) / (grid[i + 1] - grid[i])];
    };
    const places = (count, grid, scale, start) =>
      Array.from({length: count}, (_, i) => between(grid, scale.getValueForPixel(start + i + 0.5)));
    const xs = places(columns, field.x, chart.scales.x, left);
    const ys = places(rows, field.y, chart.scales.y, top);
    const canvas = document.createElement("canvas");
    canvas.width = columns;
    canvas.height = rows;
    const context = canvas.getContext("2d");
    const image = context.createImageData(columns, rows);
    const n = field.x.length;
    for (let row = 0; row < rows; ++row)
      for (let column = 0; column < columns; ++column) {
        if (!xs[column] || !ys[row]) continue;
        const [j, u] = xs[column], [i, v] = ys[row];
        const corners = [i * n + j, i * n + j + 1, (i + 1) * n + j, (i + 1) * n + j + 1].map(at => field.shades[at]);
        if (corners.includes(null)) continue;
        const shade = ((corners[0] * (1 - u) + corners[1] * u) * (1 - v) + (corners[2] * (1 - u) + corners[3] * u) * v) / 255;
        const at = 4 * (row * columns + column);
        for (let k = 0; k < 3; ++k) image.data[at + k] = low[k] + (high[k] - low[k]) * shade;
        image.data[at + 3] = 255;
      }
    context.putImageData(image, 0, 0);
    chart.ctx.drawImage(canvas, left, top, width, height);
  }

  function tooltip(description, colours) {
    const name = (key, fallback) => description[key].name || fallback;
    // As many digits as tell apart what the axis tells apart.
    const digits = ({min, max}) =>
      Math.min(9, Math.max(4, Math.ceil(Math.log10(Math.max(-min, max) / (max - min))) + 2));
    const value = (item, key) =>
      key === categoryAxis(description) ? item.label : shown(item.parsed[key], digits(item.chart.scales[key]));
    return {
      backgroundColor: colours.surface,
      borderColor: colours.line,
      borderWidth: 1,
      titleColor: colours.ink,
      bodyColor: colours.ink,
      padding: 10,
      usePointStyle: true,
      callbacks: {
        title: items => (items.length ? items[0].dataset.label : ""),
        label: item => ["x", "y"].map(key => `${name(key, key)}: ${value(item, key)}`),
      },
    };
  }

  // The legend: one button a series.

  function swatch(canvas, look) {
    const scale = Math.max(2, window.devicePixelRatio || 1);
    canvas.width = 30 * scale;
    canvas.height = 14 * scale;
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    context.strokeStyle = context.fillStyle = look.colour;
    context.lineWidth = 2;
    if (look.bar) return context.fillRect(9, 1, 12, 12);
    if (look.line) {
      context.setLineDash(look.dash);
      context.beginPath();
      context.moveTo(0, 7);
      context.lineTo(30, 7);
      context.stroke();
      context.setLineDash([]);
    }
    if (!look.marked && !look.sparse) return undefined;
    context.lineWidth = 1.5;
    return Chart.helpers.drawPoint(context, {pointStyle: look.marker, radius: 4, rotation: 0, borderWidth: 1.5}, 15, 7);
  }

  function legend(figure, description, looks) {
    const list = figure.querySelector(".legend");
    if (!list.children.length)
      description.series.forEach((series, index) => {
        const button = document.createElement("button");
        button.type = "button";
        button.setAttribute("aria-pressed", "true");
        button.append(document.createElement("canvas"), series.name);
        button.firstChild.setAttribute("aria-hidden", "true");
        button.addEventListener("click", () => {
          const visible = button.getAttribute("aria-pressed") !== "true";
          button.setAttribute("aria-pressed", String(visible));
          Chart.getChart(figure.querySelector(".plot canvas"))?.setDatasetVisibility(index, visible);
          Chart.getChart(figure.querySelector(".plot canvas"))?.update();
        });
        const item = document.createElement("li");
        item.append(button);
        list.append(item);
      });
    const buttons = [...list.querySelectorAll("button")];
    buttons.forEach((button, index) => swatch(button.firstChild, looks[index]));
    return buttons.map(button => button.getAttribute("aria-pressed") !== "true");
  }

  function draw(figure, description, printing) {
    const canvas = figure.querySelector(".plot canvas");
    Chart.getChart(canvas)?.destroy();
    const colours = palette();
    const looks = appearances(description.series, colours);
    const hidden = legend(figure, description, looks);
    // A marker on the frame is drawn whole, a line that leaves a given range is cut there.
    const margin = (key, end) => (description[key][end] === undefined && !description.field ? 6 : 0);
    const clip = {left: margin("x", "min"), right: margin("x", "max"), top: margin("y", "max"), bottom: margin("y", "min")};
    const tall = description.horizontal ? Math.max(180, 70 + 18 * description.categories.length) : 0;
    figure.classList.toggle("tall", tall > 0);
    if (tall) canvas.parentElement.style.height = printing ? "" : tall + "px";
    if (printing) {
      const narrow = figure.closest(".columns");
      canvas.width = narrow ? 420 : 660;
      canvas.height = tall ? 0.8 * tall : narrow ? 280 : 380;
      canvas.removeAttribute("style");
    }
    return new Chart(canvas, {
      type: "line",
      data: {
        labels: description.categories,
        datasets: description.series.map((_, index) => dataset(description, index, looks[index], hidden[index], clip)),
      },
      options: {
        animation: false,
        indexAxis: description.horizontal ? "y" : "x",
        responsive: !printing,
        maintainAspectRatio: false,
        devicePixelRatio: printing ? 2 : undefined,
        normalized: false,
        spanGaps: false,
        font: {family: colours.sans},
        layout: {padding: {top: 8, right: 10}},
        interaction: {mode: "nearest", axis: "xy", intersect: false},
        scales: {x: axis(description, "x", colours), y: axis(description, "y", colours)},
        plugins: {legend: {display: false}, tooltip: tooltip(description, colours)},
      },
      plugins: description.field
        ? [{id: "field", beforeDraw: chart => drawField(chart, description.field, colours)}]
        : [],
    });
  }

  // Draws a chart or, where that fails, says so in its place: the others are drawn nevertheless.
  function drawOrSay(figure, description, printing) {
    const plot = figure.querySelector(".plot"), canvas = plot.querySelector("canvas");
    plot.querySelector(".failure")?.remove();
    canvas.hidden = false;
    try {
      draw(figure, description, printing);
    } catch (error) {
      console.error(error);
      canvas.hidden = true;
      const text = document.createElement("p");
      text.className = "failure";
      text.textContent = "This chart could not be drawn.";
      plot.append(text);
      try {
        Chart.getChart(canvas)?.destroy();
      } catch (another) {
        console.error(another);
      }
    }
  }

  function drawCharts() {
    const descriptions = JSON.parse(document.querySelector('script[type="application/json"]').textContent);
    const figures = [...document.querySelectorAll("figure.chart")];
    const waiting = new Set(figures);
    const drawOne = (figure, printing) => {
      waiting.delete(figure);
      drawOrSay(figure, descriptions[figure.dataset.chart], printing);
    };
    Chart.defaults.font.family = palette().sans;
    // One task a chart, so that the page can be read and scrolled meanwhile.
    const next = () => {
      const [figure] = waiting;
      if (figure) drawOne(figure, false);
      if (waiting.size) setTimeout(next);
      else root.dataset.charts = "drawn";
    };
    next();
    const redraw = printing => figures.forEach(figure => drawOne(figure, printing));
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw(false));
    window.addEventListener("beforeprint", () => {
      root.classList.add("printing");
      redraw(true);
    });
    window.addEventListener("afterprint", () => {
      root.classList.remove("printing");
      redraw(false);
    });
  }

  document.addEventListener("DOMContentLoaded", drawCharts);
})();
