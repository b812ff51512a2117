
"use strict";
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  document.documentElement.classList.add("live");

  // Tables: a button in every heading, so that sorting is the keyboard's too.
  const value = (row, place) => {
    const text = row.cells[place].dataset.sort;
    return text === undefined ? null : row.cells[place].classList.contains("number") ? Number(text) : text;
  };
  const sort = (table, place) => {
    const heading = table.tHead.rows[0].cells[place];
    const rising = heading.getAttribute("aria-sort") !== "ascending";
    for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
    heading.setAttribute("aria-sort", rising ? "ascending" : "descending");
    const rows = [...table.tBodies[0].rows].sort((one, two) => {
      const [a, b] = [value(one, place), value(two, place)];
      if (a === null || b === null) return (a === null) - (b === null); // unknown is last either way
      const order = typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true });
      return rising ? order : -order;
    });
    table.tBodies[0].append(...rows);
  };
  for (const table of all("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((heading, place) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      heading.append(button);
      heading.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => sort(table, place));
    });
  }
  for (const field of all("input[data-filter]")) {
    const box = document.getElementById(field.dataset.filter);
    const rows = all("tbody tr", box);
    field.addEventListener("input", () => {
      const wanted = field.value.toLowerCase();
      for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
      all(".count", box)[0].textContent = `${rows.filter((row) => !row.hidden).length} shown`;
    });
  }

  // Panels: one of several at a time.
  for (const name of new Set(all(".panel").map((panel) => panel.dataset.panel))) {
    const panels = all(".panel").filter((panel) => panel.dataset.panel === name);
    const show = (chosen) => panels.forEach((panel, place) => panel.classList.toggle("chosen", place === chosen));
    const select = all("select[data-panels]").find((one) => one.dataset.panels === name);
    if (select) select.addEventListener("change", () => show(select.selectedIndex));
    show(0);
  }

  // The chosen problem's best fitness over iterations.
  const values = JSON.parse(document.getElementById("chart-values").textContent);
  const plot = document.getElementById("chart-plot");
  const [left, right, top, bottom] = [60, 610, 14, 262];
  const add = (tag, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, one] of Object.entries(attributes)) made.setAttribute(key, one);
    if (text !== undefined) made.textContent = text;
    plot.append(made);
  };
  const ticks = (low, high) => {
    const rough = (high - low) / 5;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((one) => one * power >= rough * 0.999);
    const first = Math.ceil(low / step);
    return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, place) => (first + place) * step);
  };
  const draw = (problem) => {
    plot.replaceChildren();
    const target = values.targets[problem];
    const found = values.arms.flatMap((arm) => arm.lines[problem].flat().map((step) => step[1]));
    if (target !== null) found.push(target);
    if (!found.length) return add("text", { x: left, y: 40 }, "no valid answer yet");
    let [low, high] = [found.reduce((a, b) => Math.min(a, b)), found.reduce((a, b) => Math.max(a, b))];
    if (low === high) [low, high] = [low - 0.5, high + 0.5];
    [low, high] = [low - (high - low) * 0.05, high + (high - low) * 0.05];
    const x = (t) => left + ((right - left) * t) / values.iterations;
    const y = (f) => bottom - ((bottom - top) * (f - low)) / (high - low);
    for (const f of ticks(low, high)) {
      add("line", { x1: left, x2: right, y1: y(f), y2: y(f), stroke: "#e6e6e6" });
      add("text", { x: left - 6, y: y(f) + 4, "text-anchor": "end", fill: "#555" }, String(Number(f.toPrecision(6))));
    }
    for (const t of ticks(0, values.iterations))
      add("text", { x: x(t), y: bottom + 18, "text-anchor": "middle", fill: "#555" }, String(Number(t.toPrecision(6))));
    add("text", { x: (left + right) / 2, y: bottom + 35, "text-anchor": "middle", fill: "#555" }, "iteration");
    if (target !== null) {
      add("line", { x1: left, x2: right, y1: y(target), y2: y(target), stroke: "#8a8a8a", "stroke-dasharray": "2 3" });
      add("text", { x: left + 4, y: y(target) - 4, fill: "#63636b" }, "target");
    }
    values.arms.forEach((arm, place) => {
      for (const steps of arm.lines[problem]) {
        if (!steps.length) continue;
        const path = steps.map(([t, f], i) => (i ? `H${x(t)}V${y(f)}` : `M${x(t)},${y(f)}`)).join("");
        add("path", { d: path, fill: "none", stroke: arm.colour, "stroke-width": 1.8, "stroke-dasharray": arm.dash });
      }
      const at = top + 12 + 20 * place;
      add("line", { x1: right + 14, x2: right + 46, y1: at, y2: at, stroke: arm.colour, "stroke-width": 2, "stroke-dasharray": arm.dash });
      add("text", { x: right + 52, y: at + 4 }, arm.name.length > 14 ? `${arm.name.slice(0, 13)}…` : arm.name);
    });
  };
  const chosen = document.getElementById("chart-problem");
  chosen.addEventListener("change", () => draw(Number(chosen.value)));
  draw(0);
})();
