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

  // Which value is nearest to the pointer stands out, and a box says what it is. What it says is looked up by number:
  // names stand in no field and no expression, whatever they hold.
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

  const curves = (chart) => {
    const rows = [];
    for (const line of chart.lines)
      line.x.forEach((x, at) => {
        const [y, low, high] = [line.y[at], line.low && line.low[at], line.high && line.high[at]];
        const step = Math.max(1, Math.floor(line.x.length / 8));
        const band = low === null || low === undefined ? "" : `${told(low)} to ${told(high)}`;
        rows.push({
          line: `${line.arm}/${line.seed}`, arm: line.arm, hollow: hollow(line.arm), x, y, low, high,
          marked: at % step === 0 || at === line.x.length - 1,
          tip: tip(...said(line.arm, line.seed), [chart.x, told(x)], [chart.y, told(y)], ["95% band", band]),
        });
      });
    const banded = chart.lines.some((line) => line.low && line.low.some((low) => low !== null));
    const x = { field: "x", type: "quantitative", title: chart.x, scale: { type: chart.log ? "log" : "linear", nice: false }, axis: axis(chart.x, chart.log ? { format: "~r" } : whole) };
    const y = { field: "y", type: "quantitative", scale: chart.share ? { domain: [0, 1] } : { zero: Boolean(chart.zero) }, axis: axis("") };
    const layer = [];
    if (banded)
      layer.push({
        transform: [{ filter: "isValid(datum.low)" }],
        mark: { type: "area", opacity: 0.14 },
        encoding: { x, y: { ...y, field: "low" }, y2: { field: "high" }, color, detail: { field: "line" } },
      });
    layer.push({ mark: { type: "line", strokeWidth: 1.8 }, encoding: { x, y, color, detail: { field: "line" } } });
    layer.push({ transform: [{ filter: "datum.marked && isValid(datum.y)" }], mark: { type: "point", filled: true, size: 42, strokeWidth: 1.2 }, encoding: { x, y, ...marked } });
    if (chart.rule) layer.push({ data: { values: [{ x: chart.rule }] }, mark: { type: "rule", strokeDash: [2, 3], color: ink("--faint") }, encoding: { x: { field: "x", type: "quantitative" } } });
    layer.push({ transform: [{ filter: "isValid(datum.y)" }], ...near({ x, y }) });
    return { data: { values: rows }, layer };
  };

  const points = (chart) => {
    // equal vectors of several arms are drawn a little apart
    const span = (axis) => Math.max(...chart.points.map((one) => one[axis])) - Math.min(...chart.points.map((one) => one[axis])) || 1;
    const [wide, high] = [span("x"), span("y")];
    const apart = (arm) => (arm - (places.length - 1) / 2) * 0.014;
    const rows = chart.points.map((one) => ({
      ...one,
      x: one.x + apart(one.arm) * wide,
      y: one.y + apart(one.arm) * high,
      hollow: hollow(one.arm),
      tip: tip(...said(one.arm), [chart.x, told(one.x)], [chart.y, told(one.y)], ["answers", String(one.n)], ["on the front", one.front ? "yes" : "no"]),
    }));
    const x = { field: "x", type: "quantitative", title: chart.x, scale: { zero: false, nice: false, padding: 12 }, axis: axis(chart.x) };
    const y = { field: "y", type: "quantitative", title: chart.y, scale: { zero: false, nice: false, padding: 12 }, axis: axis(chart.y) };
    const size = { field: "n", type: "quantitative", legend: null, scale: { type: "log", range: [30, 160] } };
    return {
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
      problems[row].forEach((steps, seed) =>
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
    const made = row !== undefined ? problem(Number(row)) : { curves, points }[values.charts[chart].kind](values.charts[chart]);
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

  // Drawn again in other colours, and with other values where the page has fetched newer ones.
  const again = () => {
    boxes.length = 0;
    [...views.keys()].forEach(draw);
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  new MutationObserver(again).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  document.addEventListener("evo:values", () => {
    values = JSON.parse(document.getElementById("chart-values").textContent);
    again();
  });
})();
