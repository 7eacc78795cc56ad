"use strict";
// Looks at a page from outside of its frame, and writes what is there into the outer document.
const frame = document.querySelector("iframe");
frame.addEventListener("load", () => {
  const inner = frame.contentDocument, out = {};
  const shown = (element) => element.getClientRects().length > 0;
  const charts = [...inner.querySelectorAll("figure.chart > svg")].filter(shown);
  out.ran = inner.documentElement.dataset.script;
  out.overflow = inner.documentElement.scrollWidth - frame.clientWidth;
  out.series = Object.fromEntries(charts.map((svg) => [svg.id, [...svg.querySelectorAll(".series")].filter(shown).length]));
  // a word that runs upwards is as wide as its letters are high
  const height = (word) => {
    const box = word.getBoundingClientRect();
    return (word.getAttribute("transform") ?? "").includes("rotate") ? box.width : box.height;
  };
  out.letters = Math.min(...charts.flatMap((svg) => [...svg.querySelectorAll("text")].map(height)));
  out.clouds = inner.querySelectorAll(".cloud").length;
  out.heat = inner.querySelectorAll("td.heat").length;
  out.dark = getComputedStyle(inner.body).backgroundColor;
  const svg = charts[0] ?? inner.querySelector("svg"), box = svg.getBoundingClientRect();
  svg.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + box.width - 20, clientY: box.top + 40, bubbles: true }));
  const tip = inner.querySelector(".tip");
  out.tip = tip?.innerText ?? "";
  if (tip) {
    // the box holds its words, and the chart holds the box
    const [inside, around] = [tip, tip.closest("figure")].map((element) => element.getBoundingClientRect());
    const within = inside.left >= around.left - 1 && inside.right <= around.right + 1 && inside.bottom <= around.bottom + 1;
    out.inside = within && inside.top >= around.top - 1 && tip.scrollWidth <= tip.clientWidth + 1;
  }
  svg.dispatchEvent(new PointerEvent("pointerleave"));
  // the first point of a cloud, as far as there is one
  const cloud = inner.querySelector(".cloud");
  if (cloud) {
    const [x, y] = cloud.getAttribute("d").slice(1).split("h0")[0].split(" ").map(Number), scale = box.width / svg.viewBox.baseVal.width;
    svg.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + x * scale, clientY: box.top + y * scale }));
    out.point = inner.querySelector(".tip")?.innerText ?? "";
    svg.dispatchEvent(new PointerEvent("pointerleave"));
  }
  out.gone = inner.querySelector(".tip") === null;
  inner.querySelector("#show-0")?.click();
  out.hidden = [...svg.querySelectorAll(".series")].filter(shown).length;
  inner.querySelector("#at-seconds")?.click();
  out.seconds = [...inner.querySelectorAll("figure.chart > svg")].filter(shown).map((svg) => svg.id);
  out.buttons = inner.querySelectorAll(".save button").length;
  inner.querySelector("#at-rank")?.click();
  // what the buttons would save, kept instead
  const saved = {};
  frame.contentWindow.HTMLAnchorElement.prototype.click = function () { saved[this.download] = this.href; };
  const sheets = [...inner.querySelectorAll("figure.sheet .save button")];
  const asked = new Set([...(inner.querySelector(".save")?.querySelectorAll("button") ?? []), ...sheets]);
  asked.forEach((button) => button.click());
  out.asked = asked.size;
  const tell = () => {
    out.saved = Object.fromEntries(Object.entries(saved).map(([name, href]) => {
      if (!name.endsWith(".svg")) return [name, { kind: href.slice(0, 22), length: href.length }];
      const text = decodeURIComponent(href.split(",").slice(1).join(","));
      const drawing = new DOMParser().parseFromString(text, "image/svg+xml");
      const words = [...drawing.querySelectorAll("text")].map((word) => word.textContent);
      const broken = drawing.querySelector("parsererror") !== null;
      return [name, { broken, series: drawing.querySelectorAll(".series").length, words: words.join("|") }];
    }));
    document.querySelector("pre").textContent = JSON.stringify(out);
  };
  // pixels come once the drawing is decoded
  const wait = (turns) => (turns === 0 || Object.keys(saved).length === asked.size ? tell() : setTimeout(wait, 50, turns - 1));
  wait(out.buttons ? 60 : 0);
});
frame.srcdoc = frame.dataset.page;
