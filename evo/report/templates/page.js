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
  const sort = (table, place, again) => {
    const heading = table.tHead.rows[0].cells[place];
    const rising = again ? again === "ascending" : heading.getAttribute("aria-sort") !== "ascending";
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
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    all(".count", box)[0].textContent = `${rows.filter((row) => !row.hidden).length} shown`;
  };
  const panels = () => {
    for (const name of new Set(all(".panel").map((panel) => panel.dataset.panel))) {
      const select = all("select[data-panels]").find((one) => one.dataset.panels === name);
      const chosen = select ? select.selectedIndex : 0;
      all(`.panel[data-panel="${name}"]`).forEach((panel, place) => panel.classList.toggle("chosen", place === chosen));
    }
  };
  const prepare = (within) => {
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
    for (const button of all("button[data-copy]", within))
      button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).innerText);
        button.textContent = "Copied";
      });
    panels();
  };
  prepare(document);
  for (const select of all("select[data-panels]")) select.addEventListener("change", panels);

  // A link to a problem opens it.
  const open = () => {
    const chosen = location.hash.startsWith("#problem-") && document.getElementById(location.hash.slice(1));
    if (chosen && chosen.tagName === "DETAILS") {
      chosen.open = true;
      chosen.scrollIntoView();
    }
  };
  addEventListener("hashchange", open);
  open();

  // A page that may change is fetched again while it is in view, and blocks that differ are replaced. The server has
  // escaped every text, and its policy lets no script run but this one.
  const shape = (page) => all("[data-update]", page).map((block) => block.id).join(" ");
  const update = (page) => {
    if (shape(page) !== shape(document)) return location.reload();
    for (const fresh of all("[data-update]", page)) {
      const old = document.getElementById(fresh.id);
      if (old.source === fresh.innerHTML) continue;
      const focused = old.contains(document.activeElement) && document.activeElement.getAttribute("href");
      const chosen = all("input[data-filter]", old).map((field) => field.value);
      const order = all("table", old).map((table) => all("th", table.tHead).findIndex((one) => ["ascending", "descending"].includes(one.getAttribute("aria-sort"))));
      const ways = all("table", old).map((table, at) => order[at] >= 0 && table.tHead.rows[0].cells[order[at]].getAttribute("aria-sort"));
      const block = document.importNode(fresh, true);
      block.source = fresh.innerHTML;
      old.replaceWith(block);
      prepare(block);
      all("input[data-filter]", block).forEach((field, at) => (field.value = chosen[at] || ""));
      all("table", block).forEach((table, at) => order[at] >= 0 && sort(table, order[at], ways[at]));
      all("input[data-filter]", block).forEach(pick);
      if (focused) all("a", block).find((link) => link.getAttribute("href") === focused)?.focus();
    }
    document.body.toggleAttribute("data-live", page.body.hasAttribute("data-live"));
  };
  let etag = "";
  const again = async () => {
    if (!document.hidden) {
      try {
        const reply = await fetch(location.href, { headers: etag ? { "If-None-Match": etag } : {}, cache: "no-store" });
        document.getElementById("lost").hidden = reply.status < 500;
        if (reply.ok) {
          etag = reply.headers.get("ETag");
          update(new DOMParser().parseFromString(await reply.text(), "text/html"));
        }
      } catch {
        document.getElementById("lost").hidden = false;
      }
    }
    setTimeout(again, document.body.hasAttribute("data-live") ? 2000 : 15000);
  };
  if (document.body.hasAttribute("data-live")) setTimeout(again, 2000);
})();
