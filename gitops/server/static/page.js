// The page stays as the last pass left it: whenever another one ends, it is fetched again and the parts that differ are replaced.
"use strict";

const parts = (root) => new Map([...root.querySelectorAll("[data-part]")].map((part) => [part.dataset.part, part]));
const zoned = new Intl.DateTimeFormat("en-GB", {
  weekday: "short", year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", timeZoneName: "short",
});

function local(moment) {
  const part = Object.fromEntries(zoned.formatToParts(moment).map(({ type, value }) => [type, value]));
  return `${part.weekday} ${part.year}-${part.month}-${part.day} ${part.hour}:${part.minute} ${part.timeZoneName}`;
}

function localise(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    if (Number.isNaN(moment.valueOf())) continue;
    if ("age" in time.dataset) time.title = local(moment);
    else {
      time.title = time.textContent;
      time.textContent = local(moment);
    }
  }
}

function connected(on) {
  const sign = document.getElementById("connection");
  if (sign.classList.contains(on ? "off" : "on")) {
    document.getElementById("announce").textContent = on ? "Live again" : "Not connected";
  }
  sign.classList.toggle("on", on);
  sign.classList.toggle("off", !on);
  sign.textContent = on ? "live, as of" : "not connected, as of";
}

function replacePart(old, fresh) {
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const path = focused && (focused.id ? `#${CSS.escape(focused.id)}` : focused.getAttribute("href") && `[href="${CSS.escape(focused.getAttribute("href"))}"]`);
  const scrolled = [...old.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
  old.replaceWith(fresh);
  fresh.querySelectorAll(".scroll").forEach((one, index) => { one.scrollLeft = scrolled[index] ?? 0; });
  const again = path && fresh.querySelector(path);
  if (again) again.focus({ preventScroll: true });
}

const source = new Map([...parts(document)].map(([name, part]) => [name, part.outerHTML]));
const SPACING = 1000; // milliseconds between two looks, however often something happens
let busy = false;
let again = false;
let timer = 0;
let last = -SPACING;

function soon() {
  if (busy) again = true;
  else if (!timer) timer = setTimeout(refresh, Math.max(0, last + SPACING - performance.now()));
}

async function refresh() {
  busy = true;
  timer = 0;
  try {
    const response = await fetch(location.href, { headers: { Accept: "text/html" } });
    const found = new DOMParser().parseFromString(await response.text(), "text/html");
    const fresh = parts(found);
    const shown = parts(document);
    if ([...fresh.keys()].join() !== [...shown.keys()].join()) {
      document.getElementById("content").replaceChildren(...found.getElementById("content").childNodes);
      for (const [name, part] of parts(document)) source.set(name, part.outerHTML);
      localise(document.getElementById("content"));
    }
    for (const [name, part] of fresh) {
      const old = parts(document).get(name);
      const text = part.outerHTML;
      if (!old || text === source.get(name)) continue;
      source.set(name, text);
      localise(part);
      replacePart(old, part);
    }
    const summary = document.querySelector(".tiles");
    if (summary) {
      const told = [...summary.querySelectorAll("a")].map((one) => one.textContent.replace(/[^\p{L}\p{N} ]/gu, "").replace(/\s+/g, " ").trim()).join(", ");
      const announce = document.getElementById("announce");
      if (announce.textContent !== told) announce.textContent = told;
    }
    connected(true);
  } catch {
    connected(false);
  } finally {
    busy = false;
    last = performance.now();
    if (again) soon();
    again = false;
  }
}

localise(document);
let number = document.body.dataset.number;
const LOOK = 5000; // milliseconds between two looks whether anybody is still there
const SILENCE = 40000; // whoever has said nothing for so long is gone: they say something every 15 s
let events;
let heard;
let away = false;

function listen() {
  heard = Date.now();
  events = new EventSource(document.body.dataset.events || "/events");
  events.onopen = () => {
    connected(true);
    if (away) soon(); // another process may be at the same number
    away = false;
  };
  events.onmessage = (event) => {
    heard = Date.now();
    connected(true);
    if (event.data !== number) {
      number = event.data;
      soon();
    }
  };
  events.onerror = () => {
    away = true;
    if (events.readyState === EventSource.CLOSED) soon(); // nobody is told at once: what the page says decides
    else connected(false);
  };
}

listen();
setInterval(() => {
  const silent = Date.now() - heard > SILENCE;
  if (!silent && events.readyState !== EventSource.CLOSED) return;
  if (silent) connected(false);
  away = true;
  events.close();
  listen();
}, LOOK);
