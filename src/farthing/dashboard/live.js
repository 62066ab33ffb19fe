// Asks for the parts of a page again when its study has changed. All markup comes escaped from the
// server; nothing here makes markup of data.
"use strict";

const about = document.body.dataset.query; // the study, and the trial, that the page is about
const MODELS = ["models"];
const SLOW_LIST = 2000; // ms between looks at what no event tells of
const REST = 700; // ms between two refreshes of a part
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
    const answer = await fetch(`/part?${query}`);
    const text = await answer.text();
    if (answer.ok) show(place, text); else say(place, text);
  } catch (error) {
    trouble("The dashboard does not answer. Is it still running?");
  }
  await new Promise((done) => setTimeout(done, REST));
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

function say(place, text) {
  const line = document.createElement("p");
  line.className = "empty";
  line.textContent = text;
  place.replaceChildren(line);
}

function trouble(text) {
  const place = document.getElementById("trouble");
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
// What a trial prints goes to a file, of which the database does not hear.
if (document.querySelector('[data-part="log"]')) setInterval(() => refresh("log"), SLOW_LIST);
if (about === undefined) {
  setInterval(() => refreshAll(() => true), SLOW_LIST);
} else {
  let seen = {};
  const events = new EventSource(`/events?${about}`);
  events.onmessage = (event) => {
    const now = JSON.parse(event.data);
    trouble(now.trouble);
    if (now.version !== seen.version) {
      refreshAll((part) => !MODELS.includes(part) && part !== "settings" && part !== "explanation");
    }
    if (now.drawn !== seen.drawn) refreshAll((part) => MODELS.includes(part));
    seen = now;
  };
  events.onerror = () => trouble("The dashboard does not answer. Is it still running?");
}
