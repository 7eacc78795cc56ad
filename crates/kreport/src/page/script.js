"use strict";
// Values under the pointer, and saving of charts. The page is whole without this.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  /** Pixels between the pointer and a point that it means. */
  const NEAR = 14;
  // what a saved picture needs of the page's rules
  const KEPT = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity",
    "shape-rendering", "font-family", "font-size", "font-weight", "font-variant-numeric", "text-anchor"];

  /** Four digits, in powers of ten where plain digits would be long. */
  const shown = (value) => {
    const number = Number(value), size = Math.abs(number);
    if (number === 0) return "0";
    if (size >= 1e7 || size < 1e-4) return number.toExponential(3);
    return size >= 1000 ? Math.round(number).toString() : number.toPrecision(4);
  };

  const visible = (element) => getComputedStyle(element.closest(".series")).display !== "none";

  /** The marks nearest to the pointer, one for each series that is shown, at about the same place. */
  const nearest = (svg, event) => {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    const marks = [...svg.querySelectorAll(".mark")].filter(visible);
    if (!marks.length) return [];
    const away = (mark) => Math.abs(mark.dataset.cx - x);
    const first = marks.reduce((a, b) => (away(b) < away(a) ? b : a));
    const group = new Map();
    for (const mark of marks) {
      if (Math.abs(mark.dataset.cx - first.dataset.cx) > 6) continue;
      const name = mark.closest(".series").dataset.name;
      if (!group.has(name) || away(mark) < away(group.get(name))) group.set(name, mark);
    }
    return [...group.values()].sort((a, b) => b.dataset.y - a.dataset.y);
  };

  /** Puts a box into a figure, beside the pointer and within the figure. */
  const beside = (figure, tip, event) => {
    figure.append(tip);
    const box = figure.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const left = x > box.width / 2 ? x - tip.offsetWidth - 14 : x + 14;
    tip.style.left = `${Math.max(0, Math.min(left, box.width - tip.offsetWidth))}px`;
    tip.style.top = `${Math.max(0, Math.min(y - tip.offsetHeight / 2, box.height - tip.offsetHeight))}px`;
  };

  /** The point of a cloud under the pointer: [x, y, its values]; null where none is near. */
  const under = (svg, event) => {
    const cloud = svg.querySelector(".cloud");
    if (!cloud) return null;
    const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
    const at = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    const values = cloud.dataset.values.trim().split(" "), names = cloud.dataset.names.split("|");
    let best = null, least = NEAR * scale;
    cloud.getAttribute("d").slice(1).split("M").forEach((place, i) => {
      const [x, y] = place.replace("h0", "").split(" ").map(Number), away = Math.hypot(x - at[0], y - at[1]);
      if (away < least) [least, best] = [away, [x, y, names.map((name, j) => [name, values[2 * i + j]])]];
    });
    return best;
  };

  const watch = (figure) => {
    const svg = figure.querySelector(":scope > svg");
    let tip = null, rule = null;
    const clear = () => { tip?.remove(); rule?.remove(); tip = rule = null; };
    svg.addEventListener("pointermove", (event) => {
      const marks = nearest(svg, event);
      clear();
      const point = marks.length ? null : under(svg, event);
      if (point) {
        rule = made("circle", { class: "ring", cx: point[0], cy: point[1], r: 5 });
        svg.append(rule);
        tip = document.createElement("div");
        tip.className = "tip";
        const table = document.createElement("table");
        for (const pair of point[2]) {
          const row = table.insertRow();
          for (const word of pair) row.insertCell().textContent = word;
        }
        tip.append(table);
        beside(figure, tip, event);
      }
      if (!marks.length) return;
      rule = document.createElementNS(SVG, "path");
      rule.setAttribute("class", "rule");
      rule.setAttribute("d", `M${marks[0].dataset.cx} 14V278`);
      svg.insertBefore(rule, svg.querySelector(".series"));
      tip = document.createElement("div");
      tip.className = "tip";
      const head = document.createElement("b");
      head.textContent = [...new Set(marks.map((mark) => mark.dataset.note))].length === 1 ? marks[0].dataset.note : "";
      const table = document.createElement("table");
      for (const mark of marks) {
        const row = table.insertRow();
        const name = mark.closest(".series").dataset.name + (head.textContent ? "" : ", " + mark.dataset.note);
        const band = mark.dataset.low === mark.dataset.high ? "" : `${shown(mark.dataset.low)} – ${shown(mark.dataset.high)}`;
        for (const value of [name, shown(mark.dataset.y), band]) row.insertCell().textContent = value;
      }
      tip.append(head, table);
      beside(figure, tip, event);
    });
    svg.addEventListener("pointerleave", clear);
  };

  const made = (name, attributes, text = "") => {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = text;
    return element;
  };

  /** What the page says around a drawing: its title, the name of the vertical axis, and the series, line by line. */
  const heading = (svg, width) => {
    const style = getComputedStyle(document.body), group = made("g", { "font-family": style.fontFamily, fill: style.color });
    const caption = svg.closest("figure").querySelector("figcaption");
    let y = 18;
    group.append(made("text", { x: 10, y, "font-size": 14, "font-weight": 600 }, caption.firstChild.textContent));
    const axis = caption.querySelector("small")?.textContent;
    if (axis) group.append(made("text", { x: 10, y: (y += 17), "font-size": 12 }, axis));
    let x = width;
    for (const series of [...svg.querySelectorAll(".series")].filter((series) => visible(series))) {
      const room = 38 + 7.2 * series.dataset.name.length;
      if (x + room > width) [x, y] = [10, y + 18];
      const line = getComputedStyle(series.querySelector(".line"));
      group.append(made("path", { d: `M${x} ${y - 4}h20`, stroke: line.stroke, "stroke-width": 2.5, "stroke-dasharray": line.strokeDasharray }));
      group.append(made("text", { x: x + 25, y, "font-size": 12 }, series.dataset.name));
      x += room;
    }
    return [group, y + 12];
  };

  /** The drawing with its rules written into it, under its heading, on the page's ground: [text, width, height]. */
  const standalone = (svg) => {
    const copy = svg.cloneNode(true);
    const [from, to] = [svg.querySelectorAll("*"), copy.querySelectorAll("*")];
    const gone = [];
    from.forEach((element, i) => {
      const style = getComputedStyle(element);
      if (style.display === "none") gone.push(to[i]);
      for (const name of KEPT) to[i].style.setProperty(name, style.getPropertyValue(name));
    });
    gone.forEach((element) => element.remove());
    const { width, height } = svg.viewBox.baseVal;
    const [head, top] = heading(svg, width);
    const body = made("g", { transform: `translate(0 ${top})` });
    body.append(...copy.childNodes);
    const ground = made("rect", { width, height: height + top, fill: getComputedStyle(document.body).backgroundColor });
    copy.append(ground, head, body);
    copy.setAttribute("viewBox", `0 0 ${width} ${height + top}`);
    copy.setAttribute("width", width);
    copy.setAttribute("height", height + top);
    return [new XMLSerializer().serializeToString(copy), width, height + top];
  };

  const save = (href, name) => {
    const link = document.createElement("a");
    link.href = href;
    link.download = name;
    link.click();
  };

  const address = (text) => "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);

  /** A table and its bar, if there is one, drawn as they lie on the page: [text, width, height]. */
  const laid = (sheet, title) => {
    const style = getComputedStyle(document.body), top = 30, edge = 10;
    const origin = sheet.querySelector("table").getBoundingClientRect();
    const [left, above] = [origin.left - edge, sheet.getBoundingClientRect().top - top];
    const place = (box) => ({ x: box.left - left, y: box.top - above, width: box.width, height: box.height });
    const ground = made("rect", { fill: style.backgroundColor });
    const drawing = made("svg", { xmlns: SVG, "font-family": style.fontFamily });
    drawing.append(ground, made("text", { x: edge, y: 20, "font-size": 14, "font-weight": 600, fill: style.color }, title));
    for (const part of sheet.querySelectorAll("svg.bar rect")) {
      drawing.append(made("rect", { ...place(part.getBoundingClientRect()), fill: getComputedStyle(part).fill }));
    }
    for (const cell of sheet.querySelectorAll("th, td")) {
      const rule = getComputedStyle(cell), box = place(cell.getBoundingClientRect()), left = rule.textAlign === "left";
      const chosen = "chosen" in cell.dataset ? { stroke: rule.outlineColor, "stroke-width": 2 } : {};
      if (cell.className === "heat") drawing.append(made("rect", { ...box, fill: rule.backgroundColor, ...chosen }));
      const size = parseFloat(rule.fontSize);
      const x = left ? box.x + parseFloat(rule.paddingLeft) : box.x + box.width - parseFloat(rule.paddingRight);
      const [anchor, y] = [left ? "start" : "end", box.y + box.height / 2 + 0.35 * size];
      const letters = { "font-size": size, "font-weight": rule.fontWeight, fill: rule.color };
      drawing.append(made("text", { x, y, "text-anchor": anchor, ...letters }, cell.textContent));
    }
    const bar = sheet.querySelector("svg.bar")?.getBoundingClientRect();
    const width = Math.ceil(Math.max(origin.width, bar?.width ?? 0)) + 2 * edge;
    const height = Math.ceil(origin.bottom - above) + edge;
    ground.setAttribute("width", width);
    ground.setAttribute("height", height);
    for (const [name, value] of [["viewBox", `0 0 ${width} ${height}`], ["width", width], ["height", height]]) {
      drawing.setAttribute(name, value);
    }
    return [new XMLSerializer().serializeToString(drawing), width, height];
  };

  const picture = ([text, width, height], name) => {
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = 3 * width;
      canvas.height = 3 * height;
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      save(canvas.toDataURL("image/png"), name);
    };
    image.src = address(text);
  };

  /** Buttons that save what `draw` gives. */
  const offer = (figure, name, draw) => {
    const buttons = document.createElement("div");
    buttons.className = "save";
    for (const [kind, act] of [
      ["SVG", () => save(address(draw()[0]), `${name}.svg`)],
      ["PNG", () => picture(draw(), `${name}.png`)],
    ]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = kind;
      button.title = `save this as ${kind}`;
      button.addEventListener("click", act);
      buttons.append(button);
    }
    figure.append(buttons);
  };

  for (const figure of document.querySelectorAll("figure.chart")) {
    watch(figure);
    const svg = figure.querySelector(":scope > svg");
    offer(figure, svg.id, () => standalone(svg));
  }
  for (const sheet of document.querySelectorAll("figure.sheet")) {
    const title = sheet.getAttribute("aria-label");
    offer(sheet, title.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-"), () => laid(sheet, title));
  }
  // a table that is wider than the page says that it goes on
  const measure = () => {
    for (const sheet of document.querySelectorAll(".scroll")) {
      sheet.classList.toggle("wide", sheet.scrollWidth > sheet.clientWidth + 14);
    }
  };
  measure();
  addEventListener("resize", measure);
  document.addEventListener("toggle", measure, true);
  document.documentElement.dataset.script = "ran";
})();
