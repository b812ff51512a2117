"use strict";
// The candidates of the page: a list with filters, evolution trees, and one candidate opened in a dialog. Everything
// that a model wrote becomes text (textContent), never markup.
(() => {
  const page = JSON.parse(document.getElementById("chart-values").textContent);
  const { candidates, problems, texts, operators, show } = page.browser;
  const several = page.arms.length > 1;
  const by_id = new Map(candidates.map((one) => [one.id, one]));
  const STEP = matchMedia("(max-width: 600px)").matches ? 10 : 50;

  const element = (tag, text = "", attributes = {}) => {
    const made = document.createElement(tag);
    made.textContent = text;
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  };
  const figure = (value) => (value === null ? "–" : String(Number(value.toPrecision(5))));
  const arm_of = (arm) => element("span", page.arms[arm].name, several ? { "data-arm": arm } : {});
  const iteration = (number) => (number === 0 ? "seed answer" : `iteration ${number}`);

  // One candidate.
  const dialog = document.getElementById("candidate");
  const [title, body] = [dialog.querySelector("h2"), dialog.querySelector("div")];
  const link = (id, text) => element("a", text, { href: `#candidate-${id}` });
  const part = (name, text, open = true) => {
    if (!text) return [];
    const box = element("details");
    box.open = open;
    const shown = element("pre", text, { tabindex: 0 });
    const copy = element("button", "Copy", { type: "button" });
    copy.addEventListener("click", () => copied(copy, text));
    box.append(element("summary", name), shown, copy);
    return [box];
  };
  const rewards = (one, parent) => {
    const table = element("table");
    const row = (tag, ...cells) => {
      const line = element("tr");
      cells.forEach((text, place) => line.append(element(place ? tag : "th", text, place ? { class: "number" } : { scope: "row" })));
      return line;
    };
    const moved = (value, before) => (before === undefined || before === null || value === null ? "–" : `${value > before ? "+" : ""}${figure(value - before)}`);
    const head = element("thead");
    head.append(row("th", "", "reward", "against its parent"));
    const rows = element("tbody");
    rows.append(row("td", "fitness", figure(one.fitness), moved(one.fitness, parent?.fitness)));
    one.rewards.forEach((value, place) => rows.append(row("td", problems[one.row].objectives[place] ?? place, figure(value), moved(value, parent?.rewards[place]))));
    table.append(head, rows);
    return table;
  };
  const lineage = (one) => {
    const made = candidates.filter((other) => other.parent === one.id).sort((a, b) => b.fitness - a.fitness).slice(0, 20);
    const line = element("p", one.parent === null ? "It has no parent. " : "Parent: ");
    if (one.parent !== null) line.append(link(one.parent, `candidate ${one.parent}`), " ");
    if (made.length) line.append("Made from it, the fittest first: ", ...made.flatMap((other) => [link(other.id, other.id), ` (${other.error === null ? figure(other.fitness) : "failed"}) `]));
    return line;
  };
  const fill = (id) => {
    const one = by_id.get(id);
    title.textContent = `Candidate ${id}`;
    const command = element("code", `evo show '${show[0].replaceAll("'", "'\\''")}' ${id}${show[1]}`);
    const all = element("p", "All of it, with the difference to its parent: ");
    all.append(command);
    if (!one) {
      const node = page.trees.map((tree) => [tree, tree.ids.indexOf(id)]).find(([, at]) => at >= 0);
      const known = node ? `Fitness ${figure(node[0].fitness[node[1]])}, ${iteration(node[0].iterations[node[1]])}. ` : "";
      body.replaceChildren(element("p", `${known}The texts of this candidate are not on this page.`), all);
      return;
    }
    const where = element("p", `${problems[one.row].name}, ${iteration(one.iteration)}, `, { class: "state" });
    where.append(arm_of(one.arm), `, seed ${one.seed}`);
    if (operators[one.operator]) where.append(`, by ${operators[one.operator]}`);
    const cut = one.cut ? [element("p", "Only the beginning of its answer is on this page.", { class: "faint" })] : [];
    const error = one.error === null ? [] : [element("p", `Error: ${one.error}`, { class: "remark" })];
    body.replaceChildren(
      where, ...error, rewards(one, by_id.get(one.parent)), ...part("Answer", one.answer), ...cut,
      ...part("Feedback of the scorer", one.feedback), ...part("Prompt", texts[one.prompt]), ...part("System prompt", texts[one.system], false),
      lineage(one), all,
    );
  };
  const opened = () => {
    const id = /^#candidate-(\d+)$/.exec(location.hash);
    if (!id) return dialog.open && dialog.close();
    fill(Number(id[1]));
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
    title.focus();
  };
  dialog.addEventListener("close", () => location.hash.startsWith("#candidate-") && history.replaceState(null, "", location.pathname + location.search));
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  addEventListener("hashchange", opened);

  // Copying, also on a page without a clipboard of its own.
  const copied = async (button, text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const field = element("textarea");
      field.value = text;
      button.after(field);
      field.select();
      document.execCommand("copy");
      field.remove();
    }
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  };
  for (const button of document.querySelectorAll("button[data-copy]"))
    button.addEventListener("click", () => copied(button, document.getElementById(button.dataset.copy).textContent));

  // The list.
  const section = document.getElementById("candidates");
  const [form, rows, more] = [section.querySelector("form"), section.querySelector("tbody"), document.getElementById("more-candidates")];
  let shown = STEP;
  const cell = (label, content, kind = "") => {
    const made = element("td", typeof content === "string" ? content : "", { "data-label": label, class: kind });
    if (typeof content !== "string") made.append(content);
    return made;
  };
  const listed = (one) => {
    const row = element("tr");
    const head = element("th", "", { scope: "row" });
    head.append(link(one.id, one.id));
    const answer = cell("answer", element("code", one.answer.length > 120 ? `${one.answer.slice(0, 120)}…` : one.answer), "wide");
    if (one.error !== null) answer.append(element("small", `error: ${one.error.slice(0, 200)}`, { class: "bad" }));
    row.append(head, cell("fitness", figure(one.fitness), "number"), cell("rewards", one.rewards.map(figure).join(" · "), "number"), cell("problem", problems[one.row].name));
    if (several) row.append(cell("arm", arm_of(one.arm)));
    row.append(cell("iteration", one.iteration === 0 ? "seed" : String(one.iteration), "number"), answer);
    return row;
  };
  const list = () => {
    const wanted = Object.fromEntries(new FormData(form));
    const bound = (text, otherwise) => (text.trim() === "" || Number.isNaN(Number(text)) ? otherwise : Number(text));
    const [low, high] = [bound(wanted.low, -Infinity), bound(wanted.high, Infinity)];
    const matching = candidates.filter(
      (one) =>
        (!wanted.show || (one.error === null) === (wanted.show === "valid")) &&
        (!wanted.kind || one.kind === wanted.kind) &&
        (!wanted.operator || one.operator === wanted.operator) &&
        (!wanted.problem || one.row === Number(wanted.problem)) &&
        (low === -Infinity || one.fitness >= low) && (high === Infinity || one.fitness <= high),
    );
    if (wanted.sort) matching.sort((a, b) => (a.error !== null) - (b.error !== null) || b.fitness - a.fitness || b.id - a.id);
    rows.replaceChildren(...matching.slice(0, shown).map(listed));
    more.hidden = matching.length <= shown;
    section.querySelector(".count").textContent = `${matching.length} candidates`;
  };
  const again = () => {
    shown = STEP;
    list();
  };
  form.addEventListener("input", again);
  form.addEventListener("reset", () => setTimeout(again));
  form.addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", () => {
    shown += STEP;
    list();
  });
  list();

  // Evolution trees: every node is a candidate under its parent.
  const drawing = (tag, attributes, text = "") => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.textContent = text;
    return made;
  };
  const plant = (box) => {
    const tree = page.trees[Number(box.dataset.tree)];
    const [width, height, left, base, top] = [Math.max(280, box.clientWidth), 300, 58, 270, 14];
    const heights = tree.target === null ? tree.fitness : [...tree.fitness, tree.target];
    const [low, high, last] = [Math.min(...heights), Math.max(...heights), Math.max(1, ...tree.iterations)];
    const x = tree.iterations.map((at) => left + (at / last) * (width - left - 14));
    const level = (value) => (high > low ? base - ((value - low) / (high - low)) * (base - top) : (base + top) / 2);
    const y = tree.fitness.map(level);
    const svg = drawing("svg", { viewBox: `0 0 ${width} ${height}`, height, tabindex: 0, role: "group", "aria-label": `Evolution tree of ${tree.ids.length} candidates` });
    const line = new Set(tree.line);
    for (const share of [0, 0.5, 1]) {
      svg.append(drawing("text", { x: left - 8, y: base - share * (base - top) + 4, "text-anchor": "end" }, String(Number((low + share * (high - low)).toPrecision(4)))));
      svg.append(drawing("text", { x: left + share * (width - left - 14), y: base + 22, "text-anchor": share === 1 ? "end" : "middle" }, share === 1 ? `iteration ${last}` : String(Math.round(share * last))));
    }
    if (tree.target !== null) svg.append(drawing("path", { class: "target", d: `M${left} ${level(tree.target)}H${width}` }));
    const edge = (node) => `M${x[tree.parents[node]]} ${y[tree.parents[node]]}L${x[node]} ${y[node]}`;
    const nodes = tree.ids.map((_, node) => node);
    const born = nodes.filter((node) => tree.parents[node] >= 0);
    svg.append(drawing("path", { d: born.filter((node) => !line.has(node)).map(edge).join("") }));
    svg.append(drawing("path", { class: "line", d: born.filter((node) => line.has(node)).map(edge).join("") }));
    for (const node of nodes) svg.append(drawing("circle", { cx: x[node], cy: y[node], r: line.has(node) ? 4 : 2.6, ...(line.has(node) ? { class: "line" } : {}) }));
    const ring = drawing("circle", { class: "chosen", r: 8 });
    svg.append(ring);
    const told = element("p", "", { role: "status", class: "faint" });
    let chosen;
    const choose = (node) => {
      chosen = node;
      ring.setAttribute("cx", x[node]);
      ring.setAttribute("cy", y[node]);
      told.textContent = `candidate ${tree.ids[node]}, ${iteration(tree.iterations[node])}, fitness ${figure(tree.fitness[node])}`;
    };
    const nearest = (event) => {
      const area = svg.getBoundingClientRect();
      const [px, py] = [((event.clientX - area.left) / area.width) * width, ((event.clientY - area.top) / area.height) * height];
      return nodes.reduce((best, node) => (Math.hypot(x[node] - px, y[node] - py) < Math.hypot(x[best] - px, y[best] - py) ? node : best), 0);
    };
    const open = () => (location.hash = `candidate-${tree.ids[chosen]}`);
    svg.addEventListener("pointermove", (event) => choose(nearest(event)));
    svg.addEventListener("click", (event) => (choose(nearest(event)), open()));
    const moves = {
      ArrowLeft: () => tree.parents[chosen],
      ArrowRight: () => nodes.filter((node) => tree.parents[node] === chosen).sort((a, b) => line.has(b) - line.has(a) || tree.fitness[b] - tree.fitness[a])[0],
      ArrowUp: () => chosen + 1,
      ArrowDown: () => chosen - 1,
    };
    svg.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") open();
      else if (!moves[event.key]) return;
      else if (tree.ids[moves[event.key]()] !== undefined) choose(moves[event.key]());
      event.preventDefault();
    });
    choose(tree.line[tree.line.length - 1]);
    box.replaceChildren(svg, told);
  };
  const watcher = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries)
      if (contentRect.width && target.dataset.width !== String(Math.round(contentRect.width))) {
        target.dataset.width = Math.round(contentRect.width);
        plant(target);
      }
  });
  for (const box of document.querySelectorAll(".tree")) watcher.observe(box);
  opened();
})();
