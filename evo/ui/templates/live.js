// Asks every few seconds whether the page has another version, and then loads it again: at the same place, with what
// was open, chosen, sorted and moved. It waits while somebody types or selects, and while the page is out of view.
"use strict";
(() => {
  // Elements by the nearest id and their number below it: blocks come and go as a run continues.
  const keyed = (selector) => {
    const numbers = {};
    return [...document.querySelectorAll(selector)].map((one) => {
      const box = one.closest("[id]")?.id ?? "";
      numbers[box] = (numbers[box] ?? -1) + 1;
      return [`${box} ${numbers[box]}`, one];
    });
  };
  const [folds, fields, headings, places] = ["details", "select, input", "th[aria-sort]", "a, button, summary, select, input, pre"];
  const read = (selector, value) => Object.fromEntries(keyed(selector).map(([key, one]) => [key, value(one)]));
  const write = (selector, kept, act) => keyed(selector).forEach(([key, one]) => key in kept && act(one, kept[key]));
  const look = () => ({
    top: scrollY,
    open: read(folds, (one) => one.open),
    values: read(fields, (one) => (one.value === one.defaultValue ? null : one.value)), // else it is what is stored
    orders: read(headings, (one) => one.ariaSort),
    focus: read(places, (one) => one === document.activeElement),
  });
  const restore = ({ top, open, values, orders, focus }) => {
    write(folds, open, (one, was) => (one.open = was));
    write(fields, values, (one, was) => {
      if (was === null || one.value === was) return;
      one.value = was;
      for (const kind of ["input", "change"]) one.dispatchEvent(new Event(kind));
    });
    write(headings, orders, (one, was) => {
      for (let clicks = 0; clicks < 2 && was !== "none" && one.ariaSort !== was; clicks++) one.querySelector("button").click();
    });
    write(places, focus, (one, was) => was && one.focus({ preventScroll: true }));
    scrollTo(0, top);
  };
  if (history.state?.open) restore(history.state);
  history.replaceState(null, "");

  const lost = document.body.appendChild(document.createElement("p"));
  Object.assign(lost, { id: "lost", className: "remark", role: "status", hidden: true });
  lost.textContent = "The server does not answer. The page shows the last state.";
  let used = 0;
  for (const kind of ["pointerdown", "keydown", "input"]) addEventListener(kind, () => (used = Date.now()), true);
  const ask = async () => {
    if (!document.hidden) {
      try {
        const reply = await fetch(location.pathname, { method: "HEAD", cache: "no-store" });
        lost.hidden = reply.ok;
        const same = !reply.ok || reply.headers.get("ETag") === `"${document.body.dataset.version}"`;
        if (!same && Date.now() - used > 3000 && getSelection().isCollapsed) {
          history.replaceState(look(), "");
          return location.reload();
        }
      } catch {
        lost.hidden = false;
      }
    }
    setTimeout(ask, 2000);
  };
  setTimeout(ask, 2000);
})();
