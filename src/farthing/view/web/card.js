// A study in the output of a notebook cell: its data is in the page, and nothing is loaded.
"use strict";

(() => {
  const BELOW = 8; // pixels, the padding of the page
  const data = JSON.parse(document.getElementById("card-data").textContent);
  const { facts, ends } = data;
  const place = (id) => document.getElementById(id);
  const trials = new Trials();
  trials.merge(data.trials);
  const account = facts.accounts.find((each) => each.resource === facts.resource);
  trials.setSpending(facts.resource, account ? account.spent : 0, data.trials.numbers, ends);
  head.make({ status: place("status"), figures: place("key-figures") }, null).show(facts, data.forecast ?? undefined, trials);
  const spot = place("curve");
  const panel = curve.panel(trials, facts, facts.resource);
  if (!panel) { spot.append(curve.nothing(facts)); return; }
  const note = data.left_out ? `${format.count(data.left_out)} trials are left out; all improvements are drawn.` : "";
  const line = element("div", { class: "line" }, element("h2", {}, "Best value against cost"), element("span", { class: "note" }, note));
  spot.append(line);
  // The frame has a fixed height, and may get its width only after this has run.
  const left = (holder) => innerHeight - scrollY - holder.getBoundingClientRect().top - BELOW;
  const made = chart.draw(spot, panel, {
    height: (holder) => Math.min(Math.max(left(holder), 170), 270), describe: "Best value against cost. Each point is a trial. Arrow keys go from trial to trial.",
    hover: (row) => trial.hover(trials, row),
  });
  made.holder.before(figure.legend(made, panel.layers));
  made.resize(); // the legend takes some of the height
})();
