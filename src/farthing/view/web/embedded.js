// A study inside a report: its data is in the page, and nothing is loaded.
"use strict";

(() => {
  const data = document.getElementById("report-data");
  if (!data) return;
  const { study, figures, settings, best } = JSON.parse(data.textContent);
  const trials = new Trials();
  trials.merge(study.trials);
  const pairs = (kind, row) => trials.of(kind).filter((column) => column.values[row] !== null).map((column) => [column.key, trial.shown(column, row)]);
  const source = {
    stamp: () => "report",
    figures: async (tab) => ({ figures: figures[tab] || [], note: "" }),
    settings: async () => settings,
    trial: async (row) => (row === best?.number ? best : {
      facts: [["state", trials.at("state", row)], ["value", trials.at("value", row)], ...pairs("cost", row), ...pairs("expected", row)].filter(([, text]) => text !== null),
      params: pairs("param", row), metrics: pairs("metric", row), copies: {},
    }),
    why: async (row) => ({ words: [["because", trials.at("why", row) || ""], ["more", `farthing explain ${row}`]], figure: null }),
    log: async () => ({ latest: "A report does not contain progress reports and output.", output: "", error: "", reports: "", figure: null }),
  };
  document.documentElement.classList.add("live");
  document.querySelector(".screen").hidden = false;
  studyPage(source).take(study);
})();
