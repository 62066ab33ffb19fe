// A figure: title, legend, panels and caption. A legend entry hides and shows its layer.
"use strict";

const figure = (() => {
  const GLYPHS = { x: "✕", "|": "❙", s: "■", d: "◆" }; // other marks are dots
  function sample(layer) {
    const { mark, dash } = chart.look(layer.style);
    const colour = `var(--${layer.style || "best"})`; // follows the page between light and dark
    if (layer.kind === "points" && GLYPHS[mark]) return element("i", { class: "sample glyph", "aria-hidden": "true", style: { color: colour } }, GLYPHS[mark]);
    const kind = layer.kind === "band" || (layer.kind === "segments" && layer.thick) ? "area" : layer.kind === "points" ? "dot" : layer.kind === "line" && dash.length ? "dashes" : "stroke";
    const filled = { "background-color": colour, "background-image": kind === "area" ? `var(--${layer.style}-hatch)` : "none" };
    return element("i", { class: `sample ${kind}`, style: kind === "dashes" ? { "border-color": colour } : filled });
  }

  function legend(made, layers) {
    const labelled = layers.filter((layer) => layer.label && layer.kind !== "heat");
    const entries = labelled.map((layer) => {
      const button = element("button", { type: "button", class: "entry", "aria-pressed": layer.hidden ? "false" : "true" }, sample(layer), layer.label);
      button.addEventListener("click", () => {
        const hidden = !layer.hidden;
        for (const each of made.layers) if (each === layer || (!each.label && each.style === layer.style)) each.hidden = hidden;
        button.setAttribute("aria-pressed", hidden ? "false" : "true");
        made.redraw();
      });
      return button;
    });
    const heat = layers.find((layer) => layer.kind === "heat");
    if (heat) entries.push(colourBar(heat));
    return element("div", { class: "legend" }, entries);
  }

  function colourBar(heat) {
    const values = heat.z.flat().filter((value) => value !== null);
    return element("span", { class: "entry" }, format.general(Math.min(...values), 3),
      element("span", { class: "ramp" }, chart.LEVELS.map((colour) => element("i", { style: { "background-color": colour } }))),
      `${format.general(Math.max(...values), 3)}  ${heat.label}`);
  }

  // Shows a figure as the content of a place; options are those of `chart.draw`.
  function draw(place, values, options = {}) {
    const body = element("figure", { class: "figure", "data-figure": values.name },
      element("h3", {}, values.title));
    place.append(body);
    if (values.empty) {
      body.append(element("p", { class: "empty" }, values.empty));
      return body;
    }
    const panels = element("div", { class: "panels" });
    body.append(panels);
    for (const panel of values.panels) {
      const spot = element("div", { class: "panel" }, panel.title ? element("h4", {}, panel.title) : null);
      panels.append(spot);
      const made = chart.draw(spot, panel, { describe: `${values.title}. ${values.caption}`, ...options });
      made.holder.before(legend(made, panel.layers));
      body.charts = [...(body.charts || []), made];
    }
    if (values.caption) body.append(element("figcaption", {}, values.caption));
    return body;
  }

  // Shows figures in a place, and redraws only those that have changed.
  function gallery(place, figures, options) {
    const before = place.drawn || new Map();
    const after = new Map();
    figures.forEach((values, i) => {
      const key = `${values.name} ${values.title} ${i}`;
      const text = JSON.stringify(values);
      const old = before.get(key);
      if (old && old.text === text) { after.set(key, old); return; }
      const spot = element("div", { class: "spot" });
      after.set(key, { text, spot, values });
    });
    for (const [key, { spot }] of before) {
      if (after.get(key)?.spot === spot) continue;
      for (const made of spot.firstChild?.charts || []) made.remove();
      spot.remove();
    }
    place.drawn = after;
    for (const each of after.values()) {
      const isNew = !each.spot.parentNode;
      place.append(each.spot);
      if (isNew) draw(each.spot, each.values, options);
    }
  }

  return { draw, gallery, legend };
})();
