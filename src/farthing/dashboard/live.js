// Loads the parts of a page again when its study has changed. The server escapes all markup; this
// script never turns data into markup.
"use strict";

const about = document.body.dataset.query; // query with the study, and the trial, of this page
const MODELS = ["models"];
const POLL = 2000; // ms between two updates of parts that have no stamp
const CHECK = 500; // ms between two checks whether the study has changed
const PAUSE = 700; // ms between two refreshes of a part
const NO_ANSWER = "The dashboard does not answer. Check that farthing dashboard is still running.";
const queries = {};
const busy = {};

async function refresh(part) {
  const place = document.querySelector(`[data-part="${part}"]`);
  if (!place) return;
  if (busy[part]) { busy[part] = "again"; return; }
  busy[part] = "now";
  const query = new URLSearchParams(queries[part] || "");
  query.set("part", part);
  for (const [key, value] of new URLSearchParams(about || "")) query.set(key, value);
  try {
    const answer = await fetch(`part?${query}`);
    const text = await answer.text();
    if (answer.ok) show(place, text); else showMessage(place, text);
  } catch (error) {
    showError(NO_ANSWER);
  }
  await new Promise((done) => setTimeout(done, PAUSE));
  const again = busy[part] === "again";
  busy[part] = "";
  if (again) refresh(part);
}

function show(place, text) {
  if (place.shown === text) return;
  place.shown = text;
  const open = [...place.querySelectorAll("details[open] summary")].map((s) => s.textContent);
  place.innerHTML = text;
  for (const summary of place.querySelectorAll("summary")) {
    if (open.includes(summary.textContent)) summary.parentElement.open = true;
  }
}

function showMessage(place, text) {
  const line = document.createElement("p");
  line.className = "empty";
  line.textContent = text;
  place.replaceChildren(line);
}

function showError(text) {
  const place = document.getElementById("error-banner");
  place.textContent = text;
  place.hidden = !text;
}

function refreshAll(chosen) {
  for (const place of document.querySelectorAll("[data-part]")) {
    const part = place.dataset.part;
    if (chosen(part)) refresh(part);
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button.copy");
  if (button) {
    const text = button.parentElement.querySelector("pre").textContent;
    navigator.clipboard.writeText(text).then(() => { button.textContent = "copied"; }, () => {});
    return;
  }
  const link = event.target.closest('[data-part] .bar a[href^="?"]');
  if (link) {
    event.preventDefault();
    const part = link.closest("[data-part]").dataset.part;
    queries[part] = link.getAttribute("href").slice(1);
    refresh(part);
  }
});

refreshAll(() => true);
// The output of a trial is in a file, so no stamp of the study shows its changes.
if (document.querySelector('[data-part="log"]')) setInterval(() => refresh("log"), POLL);
if (about === undefined) {
  setInterval(() => refreshAll(() => true), POLL);
} else {
  let seen = {};
  // No EventSource: each page would keep a connection, and a browser opens only six to a host.
  const poll = async () => {
    let now;
    try {
      now = await (await fetch(`stamp?${about}`)).json();
    } catch (error) {
      showError(NO_ANSWER);
      return;
    }
    showError(now.error);
    if (now.version !== seen.version) {
      refreshAll((part) => !MODELS.includes(part) && part !== "settings" && part !== "explanation");
    }
    if (now.drawn !== seen.drawn) refreshAll((part) => MODELS.includes(part));
    seen = now;
  };
  const keepPolling = () => poll().finally(() => setTimeout(keepPolling, CHECK));
  keepPolling();
}
