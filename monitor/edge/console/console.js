// Progressive: every page is whole without it. Times move into the reader's zone (UTC stays in
// the markup and on hover), ages go on, and pages keep themselves fresh while nobody works in them.
"use strict";

(() => {
  const two = (n) => String(n).padStart(2, "0");
  const zoneOf = (at) =>
    new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" })
      .formatToParts(at)
      .find((part) => part.type === "timeZoneName").value;
  const clock = (at) => `${two(at.getHours())}:${two(at.getMinutes())}`;
  const day = (at) => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;

  for (const element of document.querySelectorAll("time[datetime]")) {
    const at = new Date(element.dateTime);
    if (!Number.isNaN(at.getTime())) element.textContent = `${day(at)} ${clock(at)} ${zoneOf(at)}`;
  }
  for (const label of document.querySelectorAll("text[data-at]")) {
    const at = new Date(label.dataset.at);
    label.textContent = at.getHours() || at.getMinutes() ? clock(at) : `${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  }
  const zone = document.querySelector(".zone");
  if (zone) {
    const mine = Intl.DateTimeFormat().resolvedOptions().timeZone;
    zone.textContent = ` · times in ${mine}${mine === "UTC" ? "" : ", UTC on hover"}`;
    zone.hidden = false;
  }

  // As `wording.ago` has it.
  const age = (at) => {
    const minutes = Math.round(Math.abs(Date.now() - at) / 60000);
    if (!minutes) return "just now";
    const words = minutes < 100 ? `${minutes} min`
      : minutes < 48 * 60 ? `${Math.round(minutes / 60)} h`
      : `${Math.round(minutes / 1440).toLocaleString("en")} days`;
    return at < Date.now() ? `${words} ago` : `in ${words}`;
  };
  const grow = () => {
    for (const word of document.querySelectorAll("time + .ago"))
      word.textContent = `(${age(new Date(word.previousElementSibling.dateTime))})`;
  };
  grow();
  setInterval(grow, 30000);

  // What was unfolded stays so when the page refreshes itself.
  const folds = [...document.querySelectorAll("main details")];
  const key = `open ${location.pathname}`;
  for (const i of JSON.parse(sessionStorage.getItem(key) || "[]")) if (folds[i]) folds[i].open = true;
  addEventListener("pagehide", () => sessionStorage.setItem(key,
    JSON.stringify(folds.flatMap((fold, i) => (fold.open ? [i] : [])))));

  // Dragging across a chart chooses a time; the address says the rest.
  for (const figure of document.querySelectorAll("figure[data-zoom]")) {
    const svg = figure.querySelector("svg.chart");
    const [from, to] = [svg.dataset.from, svg.dataset.to].map((at) => new Date(at).getTime());
    const box = document.createElementNS(svg.namespaceURI, "rect");
    box.setAttribute("class", "dragged");
    box.setAttribute("height", "100%");
    const share = (event) => {
      const place = svg.getBoundingClientRect();
      return Math.min(Math.max((event.clientX - place.left) / place.width, 0), 1);
    };
    let start = null;
    svg.addEventListener("pointerdown", (event) => { start = share(event); event.preventDefault(); });
    addEventListener("pointermove", (event) => {
      if (start === null) return;
      const end = share(event);
      box.setAttribute("x", `${100 * Math.min(start, end)}%`);
      box.setAttribute("width", `${100 * Math.abs(end - start)}%`);
      svg.append(box);
    });
    addEventListener("pointerup", (event) => {
      if (start === null) return;
      const ends = [start, share(event)].sort((a, b) => a - b);
      start = null;
      box.remove();
      if (ends[1] - ends[0] < 0.01) return;
      const [first, last] = ends.map((e) => new Date(from + e * (to - from)).toISOString().slice(0, 16));
      location.assign(`${figure.dataset.zoom}&from=${first}Z&to=${last}Z`);
    });
  }

  const seconds = Number(document.body.dataset.refresh);
  if (seconds) {
    setInterval(() => {
      const busy = document.activeElement && document.activeElement !== document.body;
      if (!document.hidden && !busy && !String(getSelection())) location.reload();
    }, seconds * 1000);
  }
})();
