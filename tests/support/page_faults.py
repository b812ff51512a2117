"""Faults of a page in a browser, as scripts that return the elements that have them."""

TOO_SMALL = """() => [...document.querySelectorAll('a, button, select, input, summary')].filter(one => one.offsetParent)
  .filter(one => { const box = one.getBoundingClientRect(); return box.height < 24 || box.width < 24; })
  .map(one => one.outerHTML)"""
"""Controls that are smaller than 24 pixels."""
CLIPPED = """() => [...document.querySelectorAll('td, tbody th')]
  .filter(one => one.offsetParent && one.scrollWidth > one.clientWidth + 1).map(one => one.outerHTML.slice(0, 200))"""
"""Cells of tables whose text does not fit."""
SCROLLED = """() => [...document.querySelectorAll('.table .scroll, #candidates .scroll')]
  .filter(one => one.offsetParent && one.scrollWidth > one.clientWidth + 1).map(one => one.ariaLabel)"""
"""Tables that are wider than their place."""
SKIPPED = """() => { let level = 0; const skipped = [];
  for (const one of document.querySelectorAll('h1, h2, h3, h4, h5, h6')) { const here = Number(one.tagName[1]);
    if (here > level + 1) skipped.push(one.outerHTML); level = here; } return skipped; }"""
"""Headings that leave out a level."""
BARE = """() => [...document.querySelectorAll('table.cards tbody th:not([data-label])')]
  .filter(one => one.offsetParent && /^[-+]?[\\d.,]+$/.test(one.innerText.trim())).map(one => one.outerHTML)"""
"""Heads of cards on a phone that are a number without a name."""
