"use strict";
(() => {
  const root = document.documentElement;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  root.classList.add("live");

  // Light and dark: the reader's system decides, the button overrules it, on later pages too where the browser keeps it.
  const kept = (value) => {
    try {
      return value === undefined ? localStorage.getItem("evo-theme") : localStorage.setItem("evo-theme", value);
    } catch {
      return null; // a browser that keeps nothing
    }
  };
  if (["light", "dark"].includes(kept())) root.dataset.theme = kept();
  document.getElementById("theme").addEventListener("click", () => {
    const now = root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    kept(root.dataset.theme);
  });

  // Tables: a button in every heading, so that sorting is the keyboard's too; on a phone, where tables are lists of
  // cards without headings, a menu.
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
  const pick = (field) => {
    const box = document.getElementById(field.dataset.filter);
    const wanted = field.value.toLowerCase();
    const rows = all("tbody tr", box);
    for (const row of rows) row.hidden = ![...row.cells].some((cell) => cell.innerText.toLowerCase().includes(wanted));
    all(".count", box)[0].textContent = `${rows.filter((row) => !row.hidden).length} shown`;
  };
  const panels = () => {
    for (const name of new Set(all(".panel").map((panel) => panel.dataset.panel))) {
      const select = all("select[data-panels]").find((one) => one.dataset.panels === name);
      const chosen = select ? select.selectedIndex : 0;
      all(`.panel[data-panel="${name}"]`).forEach((panel, place) => panel.classList.toggle("chosen", place === chosen));
    }
  };
  // Charts of a problem's answers: the tree, with each answer joined to the parent in its prompt, and values against
  // each other. The reader chooses the axes.
  const [wide, high, top, bottom] = [460, 240, 10, 36];
  const chosenIn = {}; // the id of a problem's charts -> the candidate that its weights choose
  const make = (tag, attributes, parent, text) => {
    const made = parent.appendChild(document.createElementNS("http://www.w3.org/2000/svg", tag));
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const span = (values) => {
    const [low, up] = values.length ? [Math.min(...values), Math.max(...values)] : [0, 1];
    const room = up > low ? 0.04 * (up - low) : 0.5;
    return [low - room, up + room];
  };
  const ticks = ([low, up], share) => {
    const rough = (up - low) / 5;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((factor) => power * factor >= rough * (1 - 1e-9));
    const places = Math.min(12, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
    const write = (value) => (share ? `${Math.round(100 * value)}%` : (value + 0).toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places }));
    const marks = [];
    for (let at = Math.ceil(low / step - 1e-9); at * step <= up + 1e-9 * step; at++) marks.push([at * step, write(at * step)]);
    return marks;
  };
  // What a chart is drawn in, in place of the last one. An image has no links for a screen reader, a group has.
  const canvas = (figure, label) => {
    figure.querySelector("svg")?.remove();
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const role = figure.parentElement.dataset.base ? "group" : "img";
    for (const [name, value] of Object.entries({ class: "plot", viewBox: `0 0 ${wide} ${high}`, role, "aria-label": label })) svg.setAttribute(name, value);
    figure.querySelector("figcaption").before(svg);
    return svg;
  };
  // The axes of a chart; px and py are places on it.
  const frame = (figure, label, xTitle, across, up, share) => {
    const svg = canvas(figure, label);
    const rows = ticks(up, share);
    const left = 12 + 7.6 * Math.max(4, ...rows.map(([, text]) => text.length));
    const within = ([low, most], value) => Math.min(most, Math.max(low, value)); // what lies outside is on the edge
    const px = (value) => Number((left + ((within(across, value) - across[0]) / (across[1] - across[0])) * (wide - left - 16)).toFixed(2));
    const py = (value) => Number((top + ((up[1] - within(up, value)) / (up[1] - up[0])) * (high - top - bottom)).toFixed(2));
    for (const [value, text] of rows) {
      make("path", { class: "grid", d: `M${left} ${py(value)}H${wide - 16}` }, svg);
      make("text", { x: left - 6, y: py(value) + 4, "text-anchor": "end" }, svg, text);
    }
    for (const [value, text] of ticks(across)) make("text", { x: px(value), y: high - bottom + 16, "text-anchor": "middle" }, svg, text);
    make("path", { class: "axis", d: `M${left} ${top}V${high - bottom}H${wide - 16}` }, svg);
    make("text", { x: (left + wide) / 2, y: high - 4, "text-anchor": "middle" }, svg, xTitle);
    return { svg, px, py };
  };
  // Lines of arms, with bands, in their colours, marks and dashes.
  const dashes = ["", "7 3", "9 3 2 3", "2.5 2", "14 3", "9 2 2 2 2 2", "4 4"];
  const shapes = {
    circle: "M-3 0A3 3 0 1 0 3 0A3 3 0 1 0 -3 0Z",
    "triangle-up": "M0 -3.6L3.4 2.6H-3.4Z",
    "triangle-down": "M0 3.6L3.4 -2.6H-3.4Z",
    square: "M-2.8 -2.8H2.8V2.8H-2.8Z",
    diamond: "M0 -3.8L3.8 0L0 3.8L-3.8 0Z",
  };
  const drawLines = (figure) => {
    const { title, x, share, rule, lines } = JSON.parse(figure.dataset.plot);
    const known = lines.flatMap((line) => [line.y, line.low || [], line.high || []].flat()).filter((value) => value !== null);
    const ends = lines.flatMap((line) => line.x);
    const across = [Math.min(0, ...ends), Math.max(1, ...ends)];
    const { svg, px, py } = frame(figure, `${title} over ${x}, ${lines.length} line${lines.length === 1 ? "" : "s"}`, x, across, share ? [0, 1] : span(rule === null ? known : [...known, rule]), share);
    if (rule !== null) make("path", { class: "rule", d: `M${px(across[0])} ${py(rule)}H${px(across[1])}` }, svg);
    for (const line of lines) {
      const places = [...line.x.keys()];
      const band = line.low ? places.filter((at) => line.low[at] !== null && line.high[at] !== null) : [];
      const edge = (side) => (at) => `${px(line.x[at])},${py(line[side][at])}`;
      if (band.length > 1) make("polygon", { points: [...band.map(edge("high")), ...band.reverse().map(edge("low"))].join(" "), fill: line.colour, "fill-opacity": 0.13 }, svg);
      const path = places.map((at) => {
        if (line.y[at] === null) return "";
        if (at === 0 || line.y[at - 1] === null) return `M${px(line.x[at])} ${py(line.y[at])}`;
        return line.steps ? `H${px(line.x[at])}V${py(line.y[at])}` : `L${px(line.x[at])} ${py(line.y[at])}`;
      });
      make("path", { d: path.join(""), fill: "none", stroke: line.colour, "stroke-width": 1.7, "stroke-dasharray": dashes[(line.place + Math.floor(line.place / dashes.length)) % dashes.length] }, svg);
      const drawn = places.filter((at) => line.y[at] !== null);
      const each = Math.max(1, (drawn.length - 1) / 9);
      for (const at of new Set([...Array(10).keys()].map((mark) => drawn[Math.min(drawn.length - 1, Math.floor(mark * each))]))) {
        if (at === undefined) continue;
        const of = make("g", { transform: `translate(${px(line.x[at])} ${py(line.y[at])})` }, svg);
        make("title", {}, of, `${line.name}, ${x} ${line.x[at]}: ${line.y[at]}${line.low && line.low[at] !== null ? ` [${line.low[at]}, ${line.high[at]}]` : ""}`);
        make("path", { class: "mark", d: shapes[line.shape], fill: line.hollow ? "none" : line.colour, stroke: line.colour }, of);
        make("circle", { r: 7, "fill-opacity": 0 }, of);
      }
    }
  };
  // What an answer is drawn in: a link to its page, where it has one.
  const linked = (box, svg, id, words, tabindex = -1) =>
    box.dataset.base ? make("a", { href: `${box.dataset.base}/candidate/${id}`, tabindex, "aria-label": words }, svg) : svg;
  const chart = (box, figure, data, [x, y], isTree) => {
    const { axes, lower, arms, points } = data;
    const [ax, ay] = [x + 3, y + 3];
    const shown = points.filter((point) => point[ax] !== null && point[ay] !== null);
    const byId = new Map(shown.map((point) => [point[0], point]));
    const { svg, px, py } = frame(figure, `${axes[y]} over ${axes[x]}, ${shown.length} answers`, axes[x] + (lower[x] ? " ↓" : ""), ...[ax, ay].map((at) => {
      const values = shown.map((point) => point[at]).sort((a, b) => a - b);
      const cut = at > 3 ? Math.floor(values.length / 20) : 0; // the worst would leave no room for the others
      return span(lower[at - 3] ? values.slice(0, values.length - cut) : values.slice(cut));
    }));
    const best = points[0]; // they come with the fittest first
    const line = new Set();
    for (let one = best; one && !line.has(one[0]); one = byId.get(one[2])) line.add(one[0]);
    if (isTree)
      for (const point of shown) {
        const parent = byId.get(point[2]);
        if (parent) make("path", { class: line.has(point[0]) ? "edge of-best" : "edge", d: `M${px(parent[ax])} ${py(parent[ay])}L${px(point[ax])} ${py(point[ay])}` }, svg);
      }
    else if (axes[x] !== "iteration") {
      const signs = [lower[x] ? -1 : 1, lower[y] ? -1 : 1];
      let most = -Infinity;
      const front = [...shown].sort((a, b) => signs[0] * (b[ax] - a[ax]) || signs[1] * (b[ay] - a[ay])).filter((point) => signs[1] * point[ay] > most && ((most = signs[1] * point[ay]), true));
      make("polyline", { class: "edge of-best", points: front.map((point) => `${px(point[ax])},${py(point[ay])}`).join(" ") }, svg);
    }
    for (const point of [...shown].reverse()) {
      const [name, colour] = arms[point[1]];
      const words = describe(data, point);
      const dot = make("circle", { "data-id": point[0], cx: px(point[ax]), cy: py(point[ay]), r: point === best ? 5 : 3, fill: colour, class: isTree && !line.has(point[0]) ? "dot faded" : "dot" }, linked(box, svg, point[0], words));
      if (point[0] === chosenIn[box.id]) dot.classList.add("chosen");
      make("title", {}, dot, words);
    }
  };
  const describe = ({ axes, arms }, point) =>
    `candidate ${point[0]}${arms.length > 1 ? `, ${arms[point[1]][0]}` : ""}: ${axes.map((axis, place) => `${axis} ${point[place + 3] ?? "unknown"}`).join(", ")}`;
  const written = (value) => String(Number(value.toPrecision(4)));
  // The archive of the search with the best answer: a cell of two features is the fittest of its cells on all islands
  // and of all other features.
  const drawGrid = (box, figure, { axes, grid: { features, cells } }, [x, y]) => {
    const fittest = new Map();
    for (const cell of cells) {
      const key = `${cell[x + 3]} ${cell[y + 3]}`;
      if (!fittest.has(key) || fittest.get(key)[2] < cell[2]) fittest.set(key, cell);
    }
    const shown = [...fittest.values()].sort((a, b) => a[2] - b[2]);
    const [worst, best] = [shown[0], shown[shown.length - 1]];
    const reach = [x, y].map((axis) => [-0.5, Math.max(5, ...cells.map((cell) => cell[axis + 3] + 1)) - 0.5]);
    const { svg, px, py } = frame(figure, `${shown.length} cells of ${features[x]} and ${features[y]}`, `${features[x]}, bin`, ...reach);
    make("text", { x: 4, y: top + 2, "dominant-baseline": "hanging" }, svg, features[y]);
    for (const cell of shown) {
      const [column, row] = [cell[x + 3], cell[y + 3]];
      const words = `candidate ${cell[0]}: ${axes[1]} ${written(cell[1])}, ${features.map((name, at) => `${name} bin ${cell[at + 3]}`).join(", ")}`;
      const place = { x: px(column - 0.5) + 1, y: py(row + 0.5) + 1, width: px(column + 0.5) - px(column - 0.5) - 2, height: py(row - 0.5) - py(row + 0.5) - 2 };
      const opacity = best[2] > worst[2] ? 0.12 + (0.88 * (cell[2] - worst[2])) / (best[2] - worst[2]) : 1;
      make("title", {}, make("rect", { ...place, "data-id": cell[0], class: "cell", "fill-opacity": opacity.toFixed(3) }, linked(box, svg, cell[0], words, 0)), words);
    }
    figure.querySelector("figcaption").textContent = `The fittest answer of each cell, of the search with the best one. The stronger the colour, the fitter: ${axes[1]} ${written(worst[1])} to ${written(best[1])}.`;
  };
  // Every objective is an axis whose upper end is the best value; an answer is a line through its values.
  const drawParallel = (box, figure, data) => {
    const axes = data.axes.slice(2).map((name, at) => {
      const values = data.points.map((point) => point[at + 5]).filter((value) => value !== null).sort((a, b) => (data.lower[at + 2] ? b - a : a - b));
      return { name: name + (data.lower[at + 2] ? " ↓" : ""), worst: values[Math.floor(values.length / 20)], best: values[values.length - 1] };
    });
    const svg = canvas(figure, `${axes.length} objectives of ${data.points.length} answers`);
    const px = (at) => 45 + (at * (wide - 90)) / (axes.length - 1);
    const py = ({ worst, best }, value) => (best === worst ? 28 : 28 + (high - 72) * Math.min(1, Math.max(0, (best - value) / (best - worst)))).toFixed(1);
    const room = Math.max(4, Math.floor((wide - 90) / (axes.length - 1) / 8));
    axes.forEach(({ name, worst, best }, at) => {
      make("path", { class: "axis", d: `M${px(at)} 28V${high - 44}` }, svg);
      make("text", { x: px(at), y: 18, "text-anchor": "middle" }, svg, written(best));
      make("text", { x: px(at), y: high - 28, "text-anchor": "middle" }, svg, written(worst));
      make("title", {}, make("text", { x: px(at), y: high - 8, "text-anchor": "middle" }, svg, name.length > room ? `${name.slice(0, room - 1)}…` : name), name);
    });
    const front = new Set(data.front);
    const rank = (point) => (point === data.points[0] ? 2 : front.has(point[0]) ? 1 : 0);
    for (const point of data.points.filter((point) => !point.slice(5).includes(null)).sort((a, b) => rank(a) - rank(b))) {
      const d = axes.map((axis, at) => `${at ? "L" : "M"}${px(at)} ${py(axis, point[at + 5])}`).join("");
      const words = describe(data, point);
      const line = make("path", { d, "data-id": point[0], class: `line ${["faded", "front", "best"][rank(point)]}`, stroke: data.arms[point[1]][1] }, linked(box, svg, point[0], words));
      make("title", {}, line, words);
    }
  };
  const drawMap = (box) => {
    const data = JSON.parse(box.dataset.map);
    if (!data.points || !data.points.length) return;
    // at first, the two objectives that tell most answers apart
    const kinds = data.axes.map((_, at) => new Set(data.points.map((point) => point[at + 3])).size);
    const apart = [...data.axes.keys()].slice(2).sort((a, b) => kinds[b] - kinds[a]).slice(0, 2).sort((a, b) => a - b);
    box.replaceChildren();
    const worst = "The worst twentieth is on the edge.";
    const pair = [[1, "height"], [0, "width"]];
    const opens = box.dataset.base ? " A click opens an answer." : "";
    const named = data.axes.map((name, at) => name + (data.lower[at] ? " ↓" : ""));
    const { features = [] } = data.grid;
    for (const [title, now, menus, names, draw, note] of [
      ["Tree", [0, 1], pair.slice(0, 1), named, (figure, axes) => chart(box, figure, data, axes, true), `A dot is an answer, joined to the parent that its prompt showed; bold: the line of the best one. ${worst}${opens}`],
      apart.length > 1 && ["Values", apart, pair, named, (figure, axes) => chart(box, figure, data, axes, false), `The line joins the answers that no other one beats in both values. ${worst}${opens}`],
      apart.length > 1 && data.axes.length > 4 && ["Objectives", [], [], [], (figure) => drawParallel(box, figure, data), `A line is an answer, best at the top of each axis; strong: of the Pareto front; bold: the fittest. ${worst}${opens}`],
      features.length > 1 && ["Archive", [0, 1], features.length > 2 ? pair : [], features, (figure, axes) => drawGrid(box, figure, data, axes), ""],
    ].filter(Boolean)) {
      const figure = box.appendChild(document.createElement("figure"));
      const heading = figure.appendChild(document.createElement("h3"));
      const caption = figure.appendChild(document.createElement("figcaption"));
      caption.textContent = note + (note && data.left_out ? ` Drawn are the ${data.points.length} answers that are the fittest or the best under some weights.` : "");
      heading.append(title + " ");
      for (const [place, words] of menus) {
        const menu = heading.appendChild(document.createElement("select"));
        menu.ariaLabel = `${title}: ${words}`;
        names.forEach((name, at) => menu.append(new Option(name, at, false, at === now[place])));
        menu.addEventListener("change", () => {
          now[place] = Number(menu.value);
          draw(figure, now);
        });
        if (menus.length > 1 && place === 1) heading.append(" over ");
      }
      draw(figure, now);
    }
  };
  // Sliders of weights: the answer with the largest weighted mean of rewards, of equals the first. Python wrote every
  // text; evo.progress.answer_set chooses in the same way. Problems with the same objectives share what was moved;
  // without a move the problem's own weights count.
  const movedTo = {};
  const read = new WeakMap();
  const frontOf = (box) => read.get(box) || read.set(box, JSON.parse(box.dataset.front)).get(box);
  const shared = (box) => JSON.stringify(frontOf(box).names);
  const meanUnder = (weights, answer) => {
    const total = weights.reduce((sum, one) => sum + one, 0);
    return weights.reduce((sum, one, at) => sum + (one / total) * answer.rewards[at], 0);
  };
  const bestUnder = (data, weights, arm) => {
    const found = data.answers.filter((answer) => arm === null || answer.arm === arm);
    if (weights === null) return found[0]; // the fittest come first
    const means = found.map((answer) => meanUnder(weights, answer));
    const most = Math.max(...means);
    return found[means.findIndex((mean) => mean >= most - data.equal)];
  };
  const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
  const divisor = (a, b) => (b ? divisor(b, a % b) : a);
  const weigh = (box) => {
    const data = frontOf(box);
    const moved = movedTo[shared(box)];
    const part = (name) => box.querySelector(`[data-part=${name}]`);
    const fields = all("input[type=range]", box);
    const places = moved || data.sliders;
    const sum = places.reduce((total, one) => total + one, 0);
    fields.forEach((field, at) => {
      if (Number(field.value) !== places[at]) field.value = places[at];
      const share = sum ? `${Math.round((100 * places[at]) / sum)}%` : "0%";
      field.nextElementSibling.textContent = share;
      field.setAttribute("aria-valuetext", `${share} of the weights`);
    });
    part("none").hidden = sum > 0;
    if (!sum && part("which").dataset.id) return;
    const weights = sum && moved ? moved : data.own;
    const map = document.getElementById(box.dataset.map);
    const write = (place, text) => place.textContent !== text && (place.textContent = text); // else it is read out again
    const best = bestUnder(data, weights, null);
    const rows = all("tbody tr", box);
    if (part("which").dataset.id !== String(best.id)) {
      part("which").dataset.id = best.id;
      part("which").replaceChildren(`candidate ${best.id}, ${best.born}`);
      if (rows.length) part("which").append(", ", rows[best.arm].cells[0].firstElementChild.cloneNode(true));
      part("values").replaceChildren(
        ...[best.fitness, ...fields.map((field, at) => `${field.labels[0].textContent} ${best.values[at]}`)].map((text) => {
          const value = document.createElement("span");
          value.textContent = text;
          return value;
        }),
      );
      write(part("text"), best.text);
      write(part("picture"), best.picture);
      part("picture").hidden = !best.picture;
      chosenIn[map.id] = best.id;
      for (const one of all("[data-id]", map)) one.classList.toggle("chosen", Number(one.dataset.id) === best.id);
      for (const one of all(".chosen", map).map((one) => one.closest("a") || one)) one.parentElement.append(one); // above the others
    }
    const meanOf = (answer) => String(Number(meanUnder(weights, answer).toPrecision(4)));
    write(part("mean"), weights ? `weighted mean ${meanOf(best)}` : "");
    rows.forEach((row, arm) => {
      const answer = bestUnder(data, weights, arm);
      const texts = answer ? [weights ? meanOf(answer) : "-", ...answer.values] : [];
      row.classList.toggle("chosen", answer === best);
      [...row.cells].slice(1).forEach((cell, at, cells) => {
        write(cell, answer && at === cells.length - 1 ? `candidate ${answer.id}` : texts[at] || "-");
      });
    });
    const by = sum && moved ? moved.reduce(divisor) : 0;
    const text = by ? data.names.map((name, at) => `${name}=${moved[at] / by}`).join(",") : data.weights;
    write(box.querySelector("code"), data.commands[best.arm] + (text ? ` --weights ${quoted(text)}` : ""));
  };
  // The text of an answer of a front; of the whole front a line of JSON for each.
  const copyOf = ({ dataset: { copyFront, answer } }) => {
    const box = document.getElementById(copyFront);
    const { answers, names } = frontOf(box);
    if (answer !== undefined) return answers[answer].text;
    const arms = all("tbody th", box).map((head) => head.innerText.trim());
    const line = (one) => ({ candidate: one.id, arm: arms[one.arm], values: Object.fromEntries(names.map((name, at) => [name, Number(one.values[at])])), answer: one.text });
    return answers.map((one) => JSON.stringify(line(one))).join("\n");
  };
  const offer = (box) => {
    const key = shared(box);
    const again = () => all("[data-front]").filter((other) => shared(other) === key).forEach(weigh);
    for (const field of all("input[type=range]", box))
      field.addEventListener("input", () => {
        movedTo[key] = all("input[type=range]", box).map((one) => Number(one.value));
        again();
      });
    box.querySelector("[data-reset]").addEventListener("click", () => {
      delete movedTo[key];
      again();
    });
    weigh(box);
  };
  const prepare = (within) => {
    for (const figure of all("[data-plot]", within)) drawLines(figure);
    for (const box of all(".map[data-map]", within)) drawMap(box);
    for (const box of all("[data-front]", within)) offer(box);
    for (const table of all("table.sortable", within)) {
      [...table.tHead.rows[0].cells].forEach((heading, place) => {
        const button = document.createElement("button");
        button.type = "button";
        button.append(...heading.childNodes);
        heading.append(button);
        heading.setAttribute("aria-sort", "none");
        button.addEventListener("click", () => sort(table, place));
      });
      if (table.tBodies[0].rows.length < 2) continue;
      const label = document.createElement("label");
      label.className = "sorting";
      const menu = document.createElement("select");
      for (const heading of table.tHead.rows[0].cells) menu.append(new Option(heading.textContent));
      menu.addEventListener("change", () => sort(table, menu.selectedIndex));
      label.append("Sort by ", menu);
      table.closest(".scroll").before(label);
    }
    for (const field of all("input[data-filter]", within)) field.addEventListener("input", () => pick(field));
    const copying = (button, text) =>
      button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(text());
        button.textContent = "Copied";
      });
    for (const button of all("button[data-copy]", within)) copying(button, () => document.getElementById(button.dataset.copy).innerText);
    for (const button of all("button[data-copy-front]", within)) copying(button, () => copyOf(button));
    panels();
  };
  prepare(document);
  for (const select of all("select[data-panels]")) select.addEventListener("change", panels);

  // On a phone all but the best answer is folded, so that a page is a few screens.
  if (matchMedia("(max-width: 600px)").matches) for (const part of all("details.part")) part.open = false;

  // A link to something folded away opens it.
  const open = () => {
    const chosen = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    if (!chosen || !chosen.closest("details")) return;
    for (let one = chosen; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
    chosen.scrollIntoView();
  };
  addEventListener("hashchange", open);
  open();
})();
