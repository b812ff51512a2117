// A click on a dot of a tree, or of values against each other, opens the page of its answer.
"use strict";
(() => {
  const dotOf = (event) => event.target.closest?.("circle[data-id]");
  for (const caption of document.querySelectorAll(".map figcaption")) caption.append(" A click opens an answer.");
  addEventListener("mouseover", (event) => dotOf(event) && (dotOf(event).style.cursor = "pointer"));
  addEventListener("click", (event) => {
    const dot = dotOf(event);
    if (dot) open(`${location.pathname}/candidate/${dot.dataset.id}`, event.ctrlKey || event.metaKey ? "_blank" : "_self");
  });
})();
