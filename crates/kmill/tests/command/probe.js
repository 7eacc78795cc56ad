"use strict";
// Looks at a page from outside of its frame, and writes what is there into the outer document.
const frame = document.querySelector("iframe");
frame.addEventListener("load", () => {
  const inner = frame.contentDocument, out = {};
  const shown = (element) => element.getClientRects().length > 0;
  const charts = [...inner.querySelectorAll("figure.chart svg")].filter(shown);
  out.ran = inner.documentElement.dataset.script;
  out.overflow = inner.documentElement.scrollWidth - frame.clientWidth;
  out.series = Object.fromEntries(charts.map((svg) => [svg.id, [...svg.querySelectorAll(".series")].filter(shown).length]));
  out.letters = Math.min(...charts.flatMap((svg) => [...svg.querySelectorAll("text")].map((t) => t.getBoundingClientRect().height)));
  out.clouds = inner.querySelectorAll(".cloud").length;
  out.heat = inner.querySelectorAll("td.heat").length;
  out.dark = getComputedStyle(inner.body).backgroundColor;
  const svg = charts[0] ?? inner.querySelector("svg"), box = svg.getBoundingClientRect();
  svg.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + box.width - 20, clientY: box.top + 40, bubbles: true }));
  out.tip = inner.querySelector(".tip")?.innerText ?? "";
  svg.dispatchEvent(new PointerEvent("pointerleave"));
  out.gone = inner.querySelector(".tip") === null;
  inner.querySelector("#show-0")?.click();
  out.hidden = [...svg.querySelectorAll(".series")].filter(shown).length;
  inner.querySelector("#at-seconds")?.click();
  out.seconds = [...inner.querySelectorAll("figure.chart svg")].filter(shown).map((svg) => svg.id);
  out.buttons = inner.querySelectorAll(".save button").length;
  document.querySelector("pre").textContent = JSON.stringify(out);
});
frame.srcdoc = frame.dataset.page;
