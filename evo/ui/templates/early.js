"use strict";
// Before the first paint: light or dark, as chosen last on any page.
try {
  const chosen = localStorage.getItem("evo-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // a browser that keeps nothing
}
document.documentElement.classList.add("live");
