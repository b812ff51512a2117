"use strict";
// A page that may change is fetched again while it is in view: blocks that differ are replaced, charts are drawn again.
// The server has escaped every text, and its policy lets no script run but its own files.
(() => {
  const root = document.documentElement;
  document.getElementById("theme").addEventListener("click", () => {
    try {
      localStorage.setItem("evo-theme", root.dataset.theme);
    } catch {
      // a browser that keeps nothing
    }
  });

  const values = (page) => page.getElementById("chart-values");
  const shape = (element) => {
    if (!element) return "";
    const { arms, charts } = JSON.parse(element.textContent);
    return JSON.stringify([arms.map((arm) => arm.name), Object.keys(charts)]);
  };
  const update = (page) => {
    if (shape(values(page)) !== shape(values(document))) return location.reload();
    for (const fresh of page.querySelectorAll("[data-update]")) {
      const old = document.getElementById(fresh.id);
      if (!old || old.innerHTML === fresh.innerHTML) continue;
      const focused = old.contains(document.activeElement) && document.activeElement.getAttribute("href");
      const kept = document.importNode(fresh, true);
      old.replaceWith(kept);
      if (focused) [...kept.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
    }
    const [old, fresh] = [values(document), values(page)];
    if (old && old.textContent !== fresh.textContent) {
      old.textContent = fresh.textContent;
      document.dispatchEvent(new Event("evo:values"));
    }
    document.body.toggleAttribute("data-live", page.body.hasAttribute("data-live"));
  };

  let etag = "";
  const look = async () => {
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
    setTimeout(look, document.body.hasAttribute("data-live") ? 2000 : 15000);
  };
  if (document.querySelector("[data-update]")) setTimeout(look, 2000);
})();
