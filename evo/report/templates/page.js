
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
  // On a phone, where tables are lists of cards without headings, a menu sorts them.
  for (const table of all("table.sortable")) {
    if (table.tBodies[0].rows.length < 2) continue;
    const label = document.createElement("label");
    label.className = "sorting";
    const menu = document.createElement("select");
    for (const heading of table.tHead.rows[0].cells) menu.append(new Option(heading.textContent));
    menu.addEventListener("change", () => sort(table, menu.selectedIndex));
    label.append("Sort by ", menu);
    table.closest(".table").querySelector(".scroll").before(label);
  }
  for (const field of all("input[data-filter]")) {
    const box = document.getElementById(field.dataset.filter);
    const rows = all("tbody tr", box);
    const flags = all("select[data-flags]", box)[0];
    const pick = () => {
      const wanted = field.value.toLowerCase();
      const flag = flags ? flags.value : "";
      for (const row of rows)
        row.hidden =
          !row.textContent.toLowerCase().includes(wanted) || (flag !== "" && !row.dataset.flag.split(" ").includes(flag));
      all(".count", box)[0].textContent = `${rows.filter((row) => !row.hidden).length} shown`;
    };
    field.addEventListener("input", pick);
    if (flags) flags.addEventListener("change", pick);
  }

  // A table as CSV: what is shown, numbers in full, small type in a column of its own.
  const quoted = (text) => {
    const safe = /^[=+\-@\t]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text; // no formula for a spreadsheet
    return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const words = (cell) => [...cell.childNodes].filter((node) => node.tagName !== "SMALL").map((node) => node.textContent).join("");
  const csv = (table) => {
    const titles = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
    const rows = [...table.tBodies[0].rows].filter((row) => !row.hidden);
    const noted = titles.map((_, place) => rows.some((row) => row.cells[place].querySelector("small")));
    const line = (cells, note) => cells.flatMap((cell, place) => (noted[place] ? [cell, note(place)] : [cell])).map(quoted).join(",");
    const body = rows.map((row) => {
      const cells = [...row.cells];
      const values = cells.map((cell) => words(cell).trim().replace(/^(-?\d{1,3}(,\d{3})+(\.\d+)?)$/, (number) => number.replaceAll(",", "")));
      return line(values, (place) => (cells[place].querySelector("small") || { textContent: "" }).textContent);
    });
    return [line(titles, (place) => `${titles[place]}, note`), ...body].join("\r\n") + "\r\n";
  };
  for (const button of all("button[data-csv]")) {
    button.addEventListener("click", () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([csv(document.querySelector(`#${button.dataset.csv} table`))], { type: "text/csv" }));
      link.download = `${button.dataset.csv}.csv`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }

  // A link to a problem opens it.
  const open = () => {
    const chosen = location.hash.startsWith("#problem-") && document.getElementById(location.hash.slice(1));
    if (chosen) {
      chosen.open = true;
      chosen.scrollIntoView();
    }
  };
  addEventListener("hashchange", open);
  open();

  // Panels: one of several at a time.
  for (const name of new Set(all(".panel").map((panel) => panel.dataset.panel))) {
    const panels = all(".panel").filter((panel) => panel.dataset.panel === name);
    const show = (chosen) => panels.forEach((panel, place) => panel.classList.toggle("chosen", place === chosen));
    const select = all("select[data-panels]").find((one) => one.dataset.panels === name);
    if (select) select.addEventListener("change", () => show(select.selectedIndex));
    show(0);
  }
})();
