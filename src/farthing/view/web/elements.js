// Builds elements. A text is always a text node, so that data never becomes markup.
"use strict";

// element("a", {href: "/", onclick: f, style: {width: "3px"}}, "text", child)
function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [k, v] of Object.entries(value)) made.style.setProperty(k, v);
    else made.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat(2)) {
    if (child !== null && child !== undefined && child !== false) made.append(child);
  }
  return made;
}

// Replaces the children only if the content is new, so that a selection or a scroll position stays.
function show(place, content, ...children) {
  if (place.content === content) return;
  place.content = content;
  place.replaceChildren(...children.flat().filter((child) => child !== null));
}

// A table of rows of texts or elements; `head` may be empty.
function rowsTable(head, rows, attributes) {
  const top = element("thead", {}, element("tr", {}, head.map((word) => element("th", { scope: "col" }, word))));
  const body = rows.map((row) => element("tr", {}, row.map((cell, i) => (
    i || head.length ? element("td", {}, cell) : element("th", { scope: "row" }, cell)))));
  return element("div", { class: "wide" },
    element("table", attributes, head.length ? top : null, element("tbody", {}, body)));
}

function copyButton(text) {
  const button = element("button", { type: "button", class: "copy quiet" }, "copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch (refused) { // a page that is a file, or an old browser
      const area = element("textarea", {});
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    button.textContent = "copied";
  });
  return button;
}
