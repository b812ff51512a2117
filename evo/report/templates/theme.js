"use strict";
// Light and dark: the reader's system decides, the button overrules it.
document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const now = root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
});
