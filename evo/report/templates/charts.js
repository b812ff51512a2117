"use strict";
// Charts by Vega-Lite, each drawn when it comes near the window. Expressions are interpreted: the page allows no eval.
(() => {
  let values = JSON.parse(document.getElementById("chart-values").textContent);
  const places = values.arms.map((_, place) => place);
  const several = values.arms.length > 1;
  const scale = (of) => ({ domain: places, range: values.arms.map(of) });
  const color = { field: "arm", type: "nominal", legend: null, scale: scale((arm) => arm.colour) };
  const shape = { field: "arm", type: "nominal", legend: null, scale: scale((arm) => arm.shape) };
  const marked = {
    shape,
    stroke: color,
    fill: { condition: { test: "datum.hollow", value: "transparent" }, ...color },
  };
  const hollow = (arm) => values.arms[arm].hollow;
  const name = (arm) => values.arms[arm].name;
  const told = (value) => (value === null || value === undefined ? "" : String(Number(Number(value).toPrecision(4))));

  const axis = (title, more = {}) => ({ title, grid: true, labelOverlap: "greedy", labelSeparation: 6, ...more });
  const whole = { tickMinStep: 1, format: "~r" };

  // The value nearest to the pointer is marked, and a box describes it. Its texts are looked up by number: names are
  // in no field and no expression, whatever they hold.
  const boxes = [];
  const tip = (...lines) => boxes.push(lines.filter(([, value]) => value !== "")) - 1;
  const said = (arm, seed) => [["arm", several ? name(arm) : ""], ["seed", seed === undefined ? "" : String(seed)]];
  const near = (encoding) => ({
    params: [{ name: "near", select: { type: "point", on: "pointerover", nearest: true, clear: "pointerout" } }],
    mark: { type: "point", filled: true, size: 90 },
    encoding: {
      ...encoding, color, shape,
      opacity: { condition: { param: "near", empty: false, value: 1 }, value: 0 },
      tooltip: { field: "tip", type: "nominal" },
    },
  });

  // What a reader has chosen: hidden arms, the budget of the x-axis, and scales.
  const hidden = new Set();
  const chosen = { axis: "iterations", x: "", y: "" };
  const spent = (arm, at) => {
    // the arm's spending after iteration `at`, between two known ones by a straight line
    const [known, amounts] = [values.axes.iterations[arm], values.axes[chosen.axis][arm]];
    const after = known.findIndex((value) => value >= at);
    if (after < 0) return null;
    if (after === 0 || known[after] === at) return amounts[after];
    const share = (at - known[after - 1]) / (known[after] - known[after - 1]);
    return amounts[after - 1] + share * (amounts[after] - amounts[after - 1]);
  };

  const curves = (chart) => {
    const rows = [];
    const free = chart.x === "iteration" && values.axes !== undefined;
    const [log_x, log_y] = [chart.log || (free && chosen.x === "log"), chosen.y === "log" && free];
    const title = free && chosen.axis !== "iterations" ? document.querySelector("select[data-axis]").selectedOptions[0].textContent : chart.x;
    for (const line of chart.lines) {
      if (hidden.has(line.arm)) continue;
      line.x.forEach((at, place) => {
        const x = free && chosen.axis !== "iterations" ? spent(line.arm, at) : at;
        const [y, low, high] = [line.y[place], line.low && line.low[place], line.high && line.high[place]];
        if (x === null || (log_x && x <= 0) || (log_y && y <= 0)) return; // no place on a logarithmic scale
        const step = Math.max(1, Math.floor(line.x.length / 8));
        const banded = low !== null && low !== undefined;
        const band = banded ? `${told(low)} to ${told(high)}` : "";
        rows.push({
          line: `${line.arm}/${line.seed}`, arm: line.arm, hollow: hollow(line.arm), x, y, high,
          low: log_y && banded && low <= 0 ? y : low,
          marked: place % step === 0 || place === line.x.length - 1,
          tip: tip(...said(line.arm, line.seed), [title, told(x)], [chart.y, told(y)], ["95% band", band]),
        });
      });
    }
    const banded = chart.lines.some((line) => line.low && line.low.some((low) => low !== null));
    const x = { field: "x", type: "quantitative", title, scale: { type: log_x ? "log" : "linear", nice: false }, axis: axis(title, log_x || title !== chart.x ? { format: "~s" } : whole) };
    const y = { field: "y", type: "quantitative", scale: log_y ? { type: "log" } : chart.share ? { domain: [0, 1] } : { zero: Boolean(chart.zero) }, axis: axis("") };
    const layer = [];
    if (banded)
      layer.push({
        transform: [{ filter: "isValid(datum.low)" }],
        mark: { type: "area", opacity: 0.14 },
        encoding: { x, y: { ...y, field: "low" }, y2: { field: "high" }, color, detail: { field: "line" } },
      });
    layer.push({ mark: { type: "line", strokeWidth: 1.8 }, encoding: { x, y, color, detail: { field: "line" } } });
    layer.push({ transform: [{ filter: "datum.marked && isValid(datum.y)" }], mark: { type: "point", filled: true, size: 42, strokeWidth: 1.2 }, encoding: { x, y, ...marked } });
    if (chart.rule && title === chart.x) layer.push({ data: { values: [{ x: chart.rule }] }, mark: { type: "rule", strokeDash: [2, 3], color: ink("--faint") }, encoding: { x: { field: "x", type: "quantitative" } } });
    layer.push({ transform: [{ filter: "isValid(datum.y)" }], ...near({ x, y }) });
    return { data: { values: rows }, layer };
  };

  // Reward vectors in two of their objectives, with the front of each arm.
  const vectors = (chart, element) => {
    const [a, b] = ["x", "y"].map((way) => Number(element.dataset[way] ?? chart.pair[way === "x" ? 0 : 1]));
    const names = [chart.objectives[a], chart.objectives[b]];
    const points = [];
    for (const [arm, marks] of chart.marks) {
      if (hidden.has(arm)) continue;
      const places = new Map();
      for (const [n, ...vector] of marks) {
        const [x, y] = [vector[a], vector[b]];
        const place = places.get(`${x} ${y}`);
        if (place) place.n += n;
        else if (x !== null && y !== null) places.set(`${x} ${y}`, { arm, x, y, n, front: false });
      }
      let highest = -Infinity;
      for (const place of [...places.values()].sort((one, two) => two.x - one.x || two.y - one.y)) {
        place.front = place.y > highest;
        highest = Math.max(highest, place.y);
        points.push(place);
      }
    }
    // equal vectors of several arms are drawn a little apart
    const span = (way) => points.reduce((most, one) => Math.max(most, one[way]), -Infinity) - points.reduce((least, one) => Math.min(least, one[way]), Infinity) || 1;
    const [wide, high] = [span("x"), span("y")];
    const apart = (arm) => (arm - (places.length - 1) / 2) * 0.014;
    const rows = points.map((one) => ({
      ...one,
      x: one.x + apart(one.arm) * wide,
      y: one.y + apart(one.arm) * high,
      hollow: hollow(one.arm),
      tip: tip(...said(one.arm), [names[0], told(one.x)], [names[1], told(one.y)], ["answers", String(one.n)], ["on the front", one.front ? "yes" : "no"]),
    }));
    const axes = ["x", "y"].map((field, way) => ({ field, type: "quantitative", title: names[way], scale: { zero: false, nice: false, padding: 12 }, axis: axis(names[way], { format: "~r" }) }));
    const [x, y] = axes;
    const size = { field: "n", type: "quantitative", legend: null, scale: { type: "log", range: [30, 160] } };
    return {
      height: 300,
      data: { values: rows },
      layer: [
        { transform: [{ filter: "datum.front" }], mark: { type: "line", interpolate: "step-before", strokeWidth: 1.2 }, encoding: { x, y, color } },
        { mark: { type: "point", filled: true, strokeWidth: 1.2 }, encoding: { x, y, ...marked, size } },
        near({ x, y }),
      ],
    };
  };

  const problem = (row) => {
    const rows = [];
    values.problems.lines.forEach((problems, arm) =>
      !hidden.has(arm) && problems[row].forEach((steps, seed) =>
        steps.forEach(([x, y]) =>
          rows.push({
            line: `${arm}/${seed}`, arm, hollow: hollow(arm), x, y,
            tip: tip(...said(arm, values.problems.seeds[seed]), ["iteration", told(x)], ["best fitness", told(y)]),
          }),
        ),
      ),
    );
    const target = values.problems.targets[row];
    const x = { field: "x", type: "quantitative", title: "iteration", scale: { domain: [0, values.problems.iterations] }, axis: axis("iteration", whole) };
    const y = { field: "y", type: "quantitative", scale: { zero: false }, axis: axis("best fitness") };
    const layer = [
      { mark: { type: "line", interpolate: "step-after", strokeWidth: 1.8 }, encoding: { x, y, color, detail: { field: "line" } } },
      { mark: { type: "point", filled: true, size: 34, strokeWidth: 1.2 }, encoding: { x, y, ...marked } },
    ];
    if (target !== null) layer.push({ data: { values: [{ y: target }] }, mark: { type: "rule", strokeDash: [2, 3], color: ink("--faint") }, encoding: { y: { field: "y", type: "quantitative" } } });
    layer.push(near({ x, y }));
    return { data: { values: rows }, layer };
  };

  const ink = (variable) => getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
  const config = () => ({
    background: "transparent",
    font: "system-ui, sans-serif",
    view: { stroke: null },
    axis: { labelColor: ink("--faint"), titleColor: ink("--faint"), gridColor: ink("--line"), domainColor: ink("--rule"), tickColor: ink("--rule"), titleFontWeight: "normal", labelFontSize: 11, titleFontSize: 11 },
  });

  const shown = document.createElement("div");
  shown.id = "tip";
  shown.hidden = true;
  document.body.append(shown);
  const show = (_, event, __, value) => {
    const lines = boxes[Number(value)];
    shown.hidden = value === null || value === "" || !lines;
    if (shown.hidden) return;
    shown.replaceChildren(
      ...lines.map(([key, one]) => {
        const line = document.createElement("div");
        const strong = document.createElement("b");
        strong.textContent = one;
        line.append(`${key} `, strong);
        return line;
      }),
    );
    const box = shown.getBoundingClientRect();
    const left = Math.min(event.pageX + 14, scrollX + document.documentElement.clientWidth - box.width - 6);
    shown.style.left = `${Math.max(scrollX + 4, left)}px`;
    shown.style.top = `${event.pageY + 16}px`;
  };

  const views = new Map();
  const draw = (element) => {
    const { chart, problem: row } = element.dataset;
    const made = row !== undefined ? problem(Number(row)) : { curves, vectors }[values.charts[chart].kind](values.charts[chart], element);
    const spec = { width: "container", height: 205, autosize: { type: "fit-x", contains: "padding" }, ...made, config: config() };
    if (views.has(element)) views.get(element).finalize();
    const vega = vegaCharts.compile(spec).spec;
    const view = new vegaCharts.View(vegaCharts.parse(vega, null, { ast: true }), { renderer: "canvas", expr: vegaCharts.expressionInterpreter });
    views.set(element, view);
    view.tooltip(show);
    view.initialize(element).runAsync().then(() => element.classList.add("drawn"));
  };

  const watcher = new IntersectionObserver(
    (entries) => {
      for (const entry of entries)
        if (entry.isIntersecting) {
          watcher.unobserve(entry.target);
          draw(entry.target);
        }
    },
    { rootMargin: "300px" },
  );
  for (const element of document.querySelectorAll(".chart")) watcher.observe(element);
  addEventListener("beforeprint", () => document.querySelectorAll(".chart").forEach((one) => one.offsetParent && !views.has(one) && draw(one)));

  // Draw again in other colours, with other choices, and when the page has fetched newer values.
  const again = () => {
    boxes.length = 0;
    [...views.keys()].forEach(draw);
  };
  for (const select of document.querySelectorAll("select[data-axis], select[data-scale]"))
    select.addEventListener("change", () => {
      chosen[select.dataset.scale || "axis"] = select.value;
      again();
    });
  for (const select of document.querySelectorAll("select[data-objective]"))
    select.addEventListener("change", () => {
      const chart = [...document.querySelectorAll(".chart")].find((one) => one.dataset.chart === select.dataset.of);
      chart.dataset[select.dataset.objective] = select.value;
      if (views.has(chart)) draw(chart);
    });
  for (const button of document.querySelectorAll("button[data-toggle]"))
    button.addEventListener("click", () => {
      const arm = Number(button.dataset.toggle);
      if (!hidden.delete(arm)) hidden.add(arm);
      for (const other of document.querySelectorAll(`button[data-toggle="${arm}"]`)) other.setAttribute("aria-pressed", String(!hidden.has(arm)));
      again();
    });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  new MutationObserver(again).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  document.addEventListener("evo:values", () => {
    values = JSON.parse(document.getElementById("chart-values").textContent);
    again();
  });
})();
