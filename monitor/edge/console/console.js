// Progressive: every page is whole without it. Times move into the reader's zone (UTC stays in
// the markup and on hover), and the overview keeps itself fresh while nobody works in it.
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
    zone.textContent = ` · times in ${Intl.DateTimeFormat().resolvedOptions().timeZone}, UTC on hover`;
    zone.hidden = false;
  }

  const seconds = Number(document.body.dataset.refresh);
  if (seconds) {
    setInterval(() => {
      const busy = document.activeElement && document.activeElement !== document.body;
      if (!document.hidden && !busy && !String(getSelection())) location.reload();
    }, seconds * 1000);
  }
})();
