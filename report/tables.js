"use strict";
// Tables that can be searched and sorted. The first rows stand in the page, the others in its data.
(() => {
  const atOnce = 200;
  const missing = "–";

  const worded = count => count.toLocaleString("en");

  // NaN where it is no number.
  function number(text) {
    const plain = text.replaceAll("−", "-").replace(/\s*%$/, "");
    return plain.trim() === "" ? NaN : Number(plain);
  }

  function cellOf(cell, className) {
    const element = document.createElement("td");
    if (className) element.className = className;
    if (typeof cell === "string") {
      element.textContent = cell;
      return element;
    }
    const text = document.createElement(cell.link ? "a" : "span");
    if (cell.link) text.href = "#" + cell.link;
    text.textContent = cell.text;
    element.append(text);
    if (cell.status) {
      const badge = document.createElement("span");
      badge.className = "badge " + cell.tone;
      badge.textContent = cell.status;
      element.append(" ", badge);
    }
    return element;
  }

  function rowsOf(body, classes, further) {
    const rows = [...body.rows].map(row => ({row, texts: [...row.cells].map(cell => cell.textContent)}));
    for (const cells of further)
      rows.push({
        cells,
        texts: cells.map(cell => (typeof cell === "string" ? cell : `${cell.text} ${cell.status ?? ""}`)),
      });
    const isNumber = (_, column) => classes[column] === "number";
    for (const one of rows) {
      one.words = one.texts.filter((text, column) => !isNumber(text, column)).join("\n").toLowerCase();
      one.numbers = one.texts.filter(isNumber).map(text => text.replaceAll("−", "-"));
    }
    return rows;
  }

  // A word is sought anywhere in texts; in columns of numbers, where its digits are everywhere, as a whole.
  function holds(one, word) {
    return one.words.includes(word) || one.numbers.includes(word.replaceAll("−", "-"));
  }

  function elementOf(one, classes) {
    if (!one.row) {
      one.row = document.createElement("tr");
      one.cells.forEach((cell, i) => one.row.append(cellOf(cell, classes[i])));
    }
    return one.row;
  }

  // Numbers by size, else texts by their letters; what is missing comes last, in either direction.
  function sorted(rows, column, ascending) {
    const numeric = rows.every(({texts}) => texts[column] === missing || !Number.isNaN(number(texts[column])));
    const keys = new Map(rows.map(one => [one, numeric ? number(one.texts[column]) : one.texts[column]]));
    const absent = one => one.texts[column] === missing || one.texts[column] === "";
    const letters = new Intl.Collator("en", {numeric: true});
    const compare = numeric ? (a, b) => a - b : letters.compare;
    return [...rows].sort((a, b) => absent(a) - absent(b) || (ascending ? 1 : -1) * compare(keys.get(a), keys.get(b)) || 0);
  }

  function prepare(figure, further) {
    const body = figure.querySelector("tbody"), heads = [...figure.querySelectorAll("th")];
    const classes = heads.map(head => head.className);
    const rows = rowsOf(body, classes, further);
    let order = rows, words = [], all = false;

    const tools = figure.querySelector(".tools"), count = tools.querySelector(".count");
    const more = document.createElement("button");
    more.type = "button";
    more.className = "more";
    const show = () => {
      const found = order.filter(one => words.every(word => holds(one, word)));
      const shown = all ? found : found.slice(0, atOnce);
      const fragment = document.createDocumentFragment();
      for (const one of shown) fragment.append(elementOf(one, classes));
      body.replaceChildren(fragment);
      count.textContent = `${worded(shown.length)} of ${worded(rows.length)} shown`;
      more.hidden = shown.length === found.length;
      more.textContent = found.length === rows.length ? "Show all" : `Show all ${worded(found.length)} found`;
    };
    more.addEventListener("click", () => {
      all = true;
      show();
    });
    if (rows.length > 12) {
      const box = document.createElement("input");
      box.type = "search";
      box.placeholder = "Search";
      box.setAttribute("aria-label", "Search: " + figure.querySelector(".scroll").getAttribute("aria-label"));
      box.addEventListener("input", () => {
        words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
        all = false;
        show();
      });
      tools.prepend(box);
    }
    count.setAttribute("role", "status");
    tools.append(more);

    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.addEventListener("click", () => {
        // Largest numbers first, the letter A first; a second click turns it round.
        const before = head.getAttribute("aria-sort");
        const ascending = before ? before === "descending" : !head.classList.contains("number");
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
        order = sorted(rows, column, ascending);
        show();
      });
      head.append(button);
    });
    tools.hidden = rows.length <= 12;
    show();
  }

  document.addEventListener("DOMContentLoaded", () => {
    const data = JSON.parse(document.querySelector('script[type="application/json"]').textContent);
    for (const figure of document.querySelectorAll("figure.searchable"))
      prepare(figure, data[figure.dataset.rows] ?? []);
  });
})();
