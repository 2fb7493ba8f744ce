"use strict";
// Draws a placement on a canvas. Far away one sees islands, nearer nodes, near enough their names. Everything a model
// named reaches the page as text, never as markup.
(() => {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const texts = data.texts;
  const PALETTE = {
    light: ["#2f74d0", "#e07b2e", "#2f9e68", "#9257c9", "#d1495b", "#1c93a8", "#a08417", "#cf5b9f"],
    dark: ["#5b9bf0", "#f09a56", "#53c08b", "#b384e6", "#ee7484", "#43b9cd", "#cbb045", "#e884be"],
  };
  const FONT = getComputedStyle(document.body).fontFamily;
  // Zooms from which nodes have names, and from which they are drawn as what they are and not as the island's texture.
  const NAMES_FROM = 0.55, NODES_FROM = 0.2;
  const MIN = 0.005, MAX = 3;

  const providers = data.providers.map((one) => ({ ...one, off: false }));
  const nodes = data.nodes.map((row, id) => ({
    id, name: texts[row[0]], op: texts[row[1]], short: texts[row[1]].replace(/^.*[.:](?=[^.:])/, ""), provider: row[2], runner: texts[row[3]], region: texts[row[4]],
    reason: texts[row[5]], refusals: row[6].map(([who, why]) => [texts[who], texts[why]]), path: texts[row[7]],
    island: row[8], x: row[9], y: row[10], w: row[11], h: row[12], reads: [], writes: [],
  }));
  const islands = data.islands.map((row, id) => ({
    id, provider: row[0], region: texts[row[1]], graph: row[2], nodes: row[3].map((n) => nodes[n]),
    x: row[4], y: row[5], w: row[6], h: row[7], edges: [],
  }));
  const graphs = data.graphs.map((row, id) => ({
    id, name: texts[row[0]], owner: row[1], count: row[2], x: row[3], y: row[4], w: row[5], h: row[6], islands: [],
  }));
  for (const one of islands) graphs[one.graph].islands.push(one);
  const values = data.values.map((row) => ({
    name: texts[row[0]], type: texts[row[1]], size: texts[row[2]], producer: row[3], readers: row[4],
  }));
  for (const value of values) {
    if (value.producer >= 0) nodes[value.producer].writes.push(value);
    for (const reader of value.readers) nodes[reader].reads.push(value);
  }
  const crossing = [];
  for (const [source, target, crosses, flat] of data.edges) {
    const from = nodes[source], to = nodes[target];
    const points = [[from.x + from.w / 2, from.y + from.h]];
    for (let i = 0; i < flat.length; i += 2) points.push([flat[i], flat[i + 1]]);
    points.push([to.x + to.w / 2, to.y]);
    const edge = { from, to, points, box: bounds(points) };
    (crosses ? crossing : islands[from.island].edges).push(edge);
  }
  const links = data.links.map(([source, target, flat]) => {
    const from = islands[source], to = islands[target];
    const points = [[from.x + from.w / 2, from.y + from.h]];
    for (let i = 0; i < flat.length; i += 2) points.push([flat[i], flat[i + 1]]);
    points.push([to.x + to.w / 2, to.y]);
    return { from, to, points, box: bounds(points) };
  });

  function bounds(points) {
    let [left, top] = points[0], right = left, bottom = top;
    for (const [x, y] of points) {
      left = Math.min(left, x); right = Math.max(right, x); top = Math.min(top, y); bottom = Math.max(bottom, y);
    }
    return { x: left - 30, y: top - 60, w: right - left + 60, h: bottom - top + 120 };
  }

  // -- drawing ---------------------------------------------------------------------------------------------------

  const canvas = byId("canvas"), stage = byId("stage"), pen = canvas.getContext("2d");
  const view = { x: 0, y: 0, zoom: 1 };
  let width = 0, height = 0, wanted = false, selected = null, hovered = null, found = null, colours = {}, theme = "light";

  function css(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

  function readTheme() {
    theme = document.documentElement.dataset.theme === "dark" ? "dark" : "light";
    colours = {
      ground: css("--ground"), panel: css("--panel"), line: css("--line"), ink: css("--ink"), soft: css("--soft"),
      faint: css("--faint"), accent: css("--accent"),
    };
  }

  function colourOf(provider) {
    if (providers[provider].name === "core") return theme === "dark" ? "#8693a5" : "#7b8797";
    const order = providers.slice(0, provider).filter((one) => one.name !== "core").length;
    return PALETTE[theme][order % PALETTE[theme].length];
  }

  function redraw() {
    if (!wanted) { wanted = true; requestAnimationFrame(draw); }
  }

  function visible(box, frame) {
    return box.x < frame.x + frame.w && box.x + box.w > frame.x && box.y < frame.y + frame.h && box.y + box.h > frame.y;
  }

  // Straight where a way runs along an axis, with rounded corners between such pieces; else an S that begins and ends
  // downwards.
  function curve(points) {
    pen.moveTo(points[0][0], points[0][1]);
    for (let i = 1; i < points.length; i++) {
      const [x0, y0] = points[i - 1], [x1, y1] = points[i], next = points[i + 1];
      const straight = Math.abs(x0 - x1) < 0.2 || Math.abs(y0 - y1) < 0.2;
      const corner = straight && next && ((Math.abs(next[0] - x1) < 0.2) !== (Math.abs(x0 - x1) < 0.2))
        && (Math.abs(next[0] - x1) < 0.2 || Math.abs(next[1] - y1) < 0.2);
      if (corner) {
        const room = Math.min(Math.hypot(x1 - x0, y1 - y0), Math.hypot(next[0] - x1, next[1] - y1)) / 2;
        pen.arcTo(x1, y1, next[0], next[1], Math.min(12, room));
      } else if (straight) pen.lineTo(x1, y1);
      else pen.bezierCurveTo(x0, (y0 + y1) / 2, x1, (y0 + y1) / 2, x1, y1);
    }
  }

  function rounded(box, radius) {
    pen.beginPath();
    pen.roundRect(box.x, box.y, box.w, box.h, radius);
  }

  const cut = new Map();
  function fitted(text, font, room) {
    const key = font + "|" + Math.round(room) + "|" + text;
    let known = cut.get(key);
    if (known === undefined) {
      pen.font = font;
      known = text;
      if (pen.measureText(text).width > room) {
        let low = 0, high = text.length;
        while (low < high) {
          const middle = (low + high + 1) >> 1;
          if (pen.measureText(text.slice(0, middle) + "…").width <= room) low = middle; else high = middle - 1;
        }
        known = low ? text.slice(0, low) + "…" : "";
      }
      if (cut.size > 20000) cut.clear();
      cut.set(key, known);
    }
    return known;
  }

  // Names of nodes are paths: their end says most.
  function fittedEnd(text, font, room) {
    const turned = fitted([...text].reverse().join(""), font, room);
    return [...turned].reverse().join("");
  }

  function draw() {
    wanted = false;
    const start = performance.now();
    const ratio = window.devicePixelRatio || 1, zoom = view.zoom;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = colours.ground;
    pen.fillRect(0, 0, width, height);
    pen.setTransform(ratio * zoom, 0, 0, ratio * zoom, ratio * (width / 2 - view.x * zoom), ratio * (height / 2 - view.y * zoom));
    const frame = { x: view.x - width / 2 / zoom, y: view.y - height / 2 / zoom, w: width / zoom, h: height / zoom };
    const shown = islands.filter((one) => visible(one, frame));
    drawSheets(frame, zoom);
    const near = zoom >= NODES_FROM;
    if (!near) drawLinks(frame, zoom);
    for (const island of shown) drawFrame(island, zoom);
    if (near) for (const island of shown) drawEdges(island.edges, frame, zoom, colours.faint, 1);
    if (near) drawEdges(crossing, frame, zoom, colours.soft, 1.6);
    if (selected && selected.kind === "node") drawAround(selected.node, zoom);
    for (const island of shown) drawNodes(island, frame, zoom, near);
    for (const island of shown) drawHeading(island, zoom);
    drawSelection(zoom);
    byId("zoom").textContent = Math.round(zoom * 100) + " %";
    const took = performance.now() - start;
    document.body.dataset.drawMs = took.toFixed(1);
  }

  function drawSheets(frame, zoom) {
    if (graphs.length < 2) return;
    for (const sheet of graphs) {
      if (!visible(sheet, frame)) continue;
      rounded(sheet, 14);
      pen.fillStyle = colours.panel;
      pen.globalAlpha = 0.55;
      pen.fill();
      pen.globalAlpha = 1;
      pen.strokeStyle = colours.line;
      pen.lineWidth = Math.max(1, 1 / zoom);
      pen.stroke();
      const size = Math.max(20, 12 / zoom);
      if (size > 120) continue;
      const font = `600 ${Math.round(size)}px ${FONT}`;
      const title = fitted(titleOf(sheet), font, sheet.w - 20);
      pen.font = font;
      pen.textAlign = "left"; pen.textBaseline = "alphabetic";
      pen.fillStyle = colours.soft;
      pen.fillText(title, sheet.x + 10, sheet.y - size * 0.4);
    }
  }

  function titleOf(graph) {
    if (graph.owner < 0) return graph.name || "main graph";
    return (graph.name || "body") + " · in " + nodes[graph.owner].op + " " + nodes[graph.owner].name;
  }

  function drawFrame(island, zoom) {
    const colour = colourOf(island.provider), off = providers[island.provider].off;
    rounded(island, 12);
    pen.globalAlpha = off ? 0.05 : zoom >= NODES_FROM ? 0.10 : 0.20;
    pen.fillStyle = colour;
    pen.fill();
    pen.globalAlpha = off ? 0.2 : 0.75;
    pen.strokeStyle = colour;
    pen.lineWidth = Math.max(1.2, 1.2 / zoom);
    pen.stroke();
    if (Math.min(island.w, island.h) * zoom < 9) {
      // An island too small to be seen may be what cuts the others: it is a dot at least.
      pen.globalAlpha = off ? 0.3 : 1;
      pen.beginPath();
      pen.arc(island.x + island.w / 2, island.y + island.h / 2, 4.5 / zoom, 0, 2 * Math.PI);
      pen.fill();
    }
    pen.globalAlpha = 1;
  }

  function drawEdges(edges, frame, zoom, colour, thickness) {
    pen.beginPath();
    for (const edge of edges) if (visible(edge.box, frame)) curve(edge.points);
    pen.strokeStyle = colour;
    pen.globalAlpha = 0.7;
    pen.lineWidth = Math.max(thickness, 0.7 / zoom);
    pen.stroke();
    pen.globalAlpha = 1;
    if (zoom < NAMES_FROM) return;
    pen.beginPath();
    for (const edge of edges) {
      if (!visible(edge.box, frame)) continue;
      const [x, y] = edge.points[edge.points.length - 1];
      pen.moveTo(x, y); pen.lineTo(x - 3.5, y - 7); pen.lineTo(x + 3.5, y - 7); pen.closePath();
    }
    pen.fillStyle = colour;
    pen.fill();
  }

  function drawLinks(frame, zoom) {
    pen.beginPath();
    for (const link of links) if (visible(link.box, frame)) curve(link.points);
    pen.strokeStyle = colours.soft;
    pen.globalAlpha = 0.75;
    pen.lineWidth = Math.max(2, 1.3 / zoom);
    pen.stroke();
    pen.globalAlpha = 1;
  }

  function drawAround(node, zoom) {
    pen.beginPath();
    for (const edge of islands[node.island].edges) if (edge.from === node || edge.to === node) curve(edge.points);
    for (const edge of crossing) if (edge.from === node || edge.to === node) curve(edge.points);
    pen.strokeStyle = colours.accent;
    pen.lineWidth = Math.max(2.4, 2 / zoom);
    pen.stroke();
  }

  function drawNodes(island, frame, zoom, near) {
    const colour = colourOf(island.provider), off = providers[island.provider].off;
    const inside = visibleNodes(island, frame);
    pen.fillStyle = colour;
    if (!near || zoom < NAMES_FROM) {
      // So small a node is a patch of its provider's colour: all of an island in one path.
      pen.globalAlpha = off ? 0.12 : near ? 0.92 : 0.5;
      pen.beginPath();
      for (const node of inside) if (!found || found.has(node.id)) pen.roundRect(node.x, node.y, node.w, node.h, 7);
      pen.fill();
      if (found) {
        pen.globalAlpha = 0.15;
        pen.beginPath();
        for (const node of inside) if (!found.has(node.id)) pen.roundRect(node.x, node.y, node.w, node.h, 7);
        pen.fill();
      }
      pen.globalAlpha = 1;
      return;
    }
    const title = `600 13px ${FONT}`, small = `400 10.5px ${FONT}`;
    pen.textAlign = "left"; pen.textBaseline = "alphabetic";
    for (const node of inside) {
      const dim = off || (found && !found.has(node.id));
      pen.globalAlpha = dim ? 0.3 : 1;
      rounded(node, 7);
      pen.fillStyle = colours.panel;
      pen.fill();
      pen.strokeStyle = colour;
      pen.lineWidth = 1.4;
      pen.stroke();
      pen.beginPath();
      pen.roundRect(node.x, node.y, 7, node.h, [7, 0, 0, 7]);
      pen.fillStyle = colour;
      pen.fill();
      const op = fitted(node.short, title, node.w - 24), name = fittedEnd(node.name, small, node.w - 24);
      pen.font = title; pen.fillStyle = colours.ink;
      pen.fillText(op, node.x + 15, node.y + 17);
      pen.font = small; pen.fillStyle = colours.soft;
      pen.fillText(name, node.x + 15, node.y + 32);
    }
    pen.globalAlpha = 1;
  }

  function visibleNodes(island, frame) {
    if (island.x >= frame.x && island.y >= frame.y && island.x + island.w <= frame.x + frame.w && island.y + island.h <= frame.y + frame.h) return island.nodes;
    return island.nodes.filter((node) => visible(node, frame));
  }

  function drawHeading(island, zoom) {
    const colour = colourOf(island.provider);
    const count = island.nodes.length + (island.nodes.length === 1 ? " node" : " nodes");
    const name = providers[island.provider].name;
    const off = providers[island.provider].off;
    pen.textAlign = "left"; pen.textBaseline = "middle";
    pen.globalAlpha = off ? 0.4 : 1;
    if (zoom >= NODES_FROM) {
      // As legible as at full size: between rows that are nearer than that, the label sits on the frame's border.
      const size = Math.max(13, 10.5 / zoom), high = size * 1.5;
      const font = `600 ${Math.round(size)}px ${FONT}`;
      const room = island.w - 44, short = name.replace(/ExecutionProvider$/, "");
      const label = [name + " · " + count, short + " · " + island.nodes.length, short].find((text) => fitted(text, font, room) === text)
        || fitted(short, font, room);
      const y = high < 26 ? island.y + 22 : island.y;
      pen.font = font;
      if (high >= 26) {
        pen.fillStyle = colours.panel;
        pen.beginPath();
        pen.roundRect(island.x + 14, y - high / 2, pen.measureText(label).width + size, high, high / 2);
        pen.fill();
        pen.strokeStyle = colour;
        pen.lineWidth = 1 / zoom;
        pen.stroke();
      }
      pen.fillStyle = colour;
      pen.fillText(label, island.x + (high < 26 ? 18 : 14 + size / 2), y);
    } else {
      // Far away the label lies on the island, as large on the screen as everywhere; a small island has none.
      const size = 12.5 / zoom;
      if (island.h * zoom < 22 || island.w * zoom < 46) { pen.globalAlpha = 1; return; }
      const font = `650 ${Math.round(size)}px ${FONT}`;
      const room = island.w - 16 / zoom;
      const label = [name + " · " + count, name.replace(/ExecutionProvider$/, "") + " · " + island.nodes.length, String(island.nodes.length)]
        .find((text) => fitted(text, font, room) === text) || "";
      if (label) {
        pen.font = font;
        const wide = pen.measureText(label).width, tall = 20 / zoom;
        const x = island.x + island.w / 2, y = island.y + island.h / 2;
        pen.beginPath();
        pen.roundRect(x - wide / 2 - 7 / zoom, y - tall / 2, wide + 14 / zoom, tall, tall / 2);
        pen.fillStyle = colours.panel;
        pen.fill();
        pen.textAlign = "center";
        pen.fillStyle = colours.ink;
        pen.fillText(label, x, y);
      }
    }
    pen.globalAlpha = 1;
  }

  function drawSelection(zoom) {
    for (const [one, thickness] of [[hovered, 1.6], [selected, 3]]) {
      const box = one && (one.node || one.island);
      if (!box) continue;
      const grow = 3 / zoom;
      rounded({ x: box.x - grow, y: box.y - grow, w: box.w + 2 * grow, h: box.h + 2 * grow }, 10);
      pen.strokeStyle = colours.accent;
      pen.lineWidth = thickness / zoom;
      pen.stroke();
    }
  }

  // -- moving ----------------------------------------------------------------------------------------------------

  function resize() {
    const ratio = window.devicePixelRatio || 1;
    width = stage.clientWidth; height = stage.clientHeight;
    canvas.width = Math.max(1, Math.round(width * ratio));
    canvas.height = Math.max(1, Math.round(height * ratio));
    redraw();
  }

  function show(box, most = 1.1) {
    const room = 1.08;
    view.zoom = Math.max(MIN, Math.min(most, width / (box.w * room), height / (box.h * room)));
    view.x = box.x + box.w / 2; view.y = box.y + box.h / 2;
    redraw();
  }

  function fit() { show({ x: 0, y: -40, w: data.size[0] || 1, h: (data.size[1] || 1) + 40 }, 1); }

  function zoomBy(factor, x = width / 2, y = height / 2) {
    const zoom = Math.max(MIN, Math.min(MAX, view.zoom * factor));
    view.x += (x - width / 2) * (1 / view.zoom - 1 / zoom);
    view.y += (y - height / 2) * (1 / view.zoom - 1 / zoom);
    view.zoom = zoom;
    redraw();
  }

  function at(x, y) {
    const px = view.x + (x - width / 2) / view.zoom, py = view.y + (y - height / 2) / view.zoom;
    const inside = (box) => px >= box.x && px <= box.x + box.w && py >= box.y && py <= box.y + box.h;
    const island = islands.find(inside);
    if (!island) return null;
    const node = view.zoom >= NODES_FROM && island.nodes.find(inside);
    return node ? { kind: "node", node } : { kind: "island", island };
  }

  const pointers = new Map();
  let travelled = 0;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    travelled = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) {
      const one = at(event.offsetX, event.offsetY);
      canvas.classList.toggle("over", !!one);
      if ((one && (one.node || one.island)) !== (hovered && (hovered.node || hovered.island))) { hovered = one; redraw(); }
      return;
    }
    const now = [event.offsetX, event.offsetY];
    const others = [...pointers].filter(([id]) => id !== event.pointerId);
    if (others.length) {
      const fixed = others[0][1], far = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]) || 1;
      zoomBy(far(now, fixed) / far(before, fixed), fixed[0], fixed[1]);
    } else {
      view.x -= (now[0] - before[0]) / view.zoom;
      view.y -= (now[1] - before[1]) / view.zoom;
      redraw();
    }
    travelled += Math.hypot(now[0] - before[0], now[1] - before[1]);
    if (travelled > 4) canvas.classList.add("moving");
    pointers.set(event.pointerId, now);
  });
  for (const name of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(name, (event) => {
      pointers.delete(event.pointerId);
      canvas.classList.remove("moving");
      if (name === "pointerup" && travelled <= 4) select(at(event.offsetX, event.offsetY));
    });
  }
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    zoomBy(Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.008 : 0.0016)), event.offsetX, event.offsetY);
  }, { passive: false });
  canvas.addEventListener("dblclick", (event) => {
    const one = at(event.offsetX, event.offsetY);
    if (one) show(one.node || one.island, 1.2);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { byId("search").value = ""; search(); select(null); canvas.focus(); return; }
    if (event.target === byId("search") || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = 80 / view.zoom;
    const keys = {
      "/": () => byId("search").focus(), "0": fit, "+": () => zoomBy(1.25), "=": () => zoomBy(1.25), "-": () => zoomBy(0.8),
      ArrowLeft: () => { view.x -= step; redraw(); }, ArrowRight: () => { view.x += step; redraw(); },
      ArrowUp: () => { view.y -= step; redraw(); }, ArrowDown: () => { view.y += step; redraw(); },
    };
    const inList = event.target !== canvas && event.key.startsWith("Arrow");
    if (keys[event.key] && !inList) { event.preventDefault(); keys[event.key](); }
  });

  // -- the lists and the details ---------------------------------------------------------------------------------

  function make(tag, content = "", name = "") {
    const made = document.createElement(tag);
    if (name) made.className = name;
    made.textContent = content;
    return made;
  }

  function swatch(provider) {
    const made = make("span", "", "swatch");
    made.style.background = colourOf(provider);
    made.dataset.provider = provider;
    return made;
  }

  function entry(parts, action) {
    const item = make("li"), button = make("button");
    button.type = "button";
    button.append(...parts);
    button.addEventListener("click", action);
    item.append(button);
    return item;
  }

  function stacked(first, second) {
    const made = make("span", "", "stack");
    made.append(make("span", first), make("span", second, "sub"));
    made.title = first + "\n" + second;
    return made;
  }

  const MOST = 400;
  function fill(section, items, describe) {
    const list = section.querySelector(".list");
    section.querySelector(".count").textContent = items.length.toLocaleString("en");
    list.replaceChildren(...items.slice(0, MOST).map(describe));
    if (items.length > MOST) list.append(make("li", `and ${(items.length - MOST).toLocaleString("en")} more`, "more"));
  }

  function select(one) {
    selected = one;
    const panel = byId("details");
    const was = panel.hidden;
    panel.hidden = !one;
    if (one) panel.querySelector("div").replaceChildren(...(one.kind === "node" ? nodeFacts(one.node) : islandFacts(one.island)));
    if (was !== panel.hidden) resize();
    redraw();
  }

  function goTo(node) {
    select({ kind: "node", node });
    view.zoom = Math.max(view.zoom, 0.9);
    view.x = node.x + node.w / 2; view.y = node.y + node.h / 2;
    redraw();
  }

  function goToIsland(island) { select({ kind: "island", island }); show(island, 1.1); }

  function who(provider, rest) {
    const line = make("p", "", "who");
    line.append(swatch(provider), make("span", providers[provider].name + rest));
    return line;
  }

  function nodeEntry(node) {
    return entry([swatch(node.provider), stacked(node.op, node.name)], () => goTo(node));
  }

  function valueEntry(value, ends) {
    const item = make("li");
    item.append(make("div", value.name, "mono"), make("div", [value.type, value.size].filter(Boolean).join(" · "), "sub"));
    const list = make("ul");
    list.append(...ends.slice(0, 12).map((id) => nodeEntry(nodes[id])));
    if (ends.length > 12) list.append(make("li", `and ${ends.length - 12} more`, "more"));
    item.append(list);
    return item;
  }

  function nodeFacts(node) {
    const parts = [make("h3", node.op), make("p", (node.path ? node.path + " > " : "") + node.name, "path mono")];
    parts.push(who(node.provider, " · " + node.runner));
    if (node.reason) parts.push(make("p", node.reason));
    if (node.region) parts.push(make("p", "region " + node.region, "sub"));
    const list = make("ul");
    list.append(entry([swatch(node.provider), make("span", `island ${node.island}`, "name"), make("span", String(islands[node.island].nodes.length), "number")], () => goToIsland(islands[node.island])));
    parts.push(list);
    if (node.refusals.length) {
      parts.push(make("h4", "Refused by"));
      const refused = make("ul");
      for (const [name, why] of node.refusals) {
        const item = make("li");
        item.append(make("b", name), make("div", why, "sub"));
        refused.append(item);
      }
      parts.push(refused);
    }
    const bodies = graphs.filter((graph) => graph.owner === node.id);
    if (bodies.length) {
      parts.push(make("h4", "Nested graphs"));
      const list = make("ul");
      list.append(...bodies.map((graph) => entry([make("span", graph.name || "body", "name"), make("span", String(graph.count), "number")], () => show(graph, 1))));
      parts.push(list);
    }
    for (const [title, found, ends] of [["Reads", node.reads, (v) => (v.producer < 0 ? [] : [v.producer])], ["Computes", node.writes, (v) => v.readers]]) {
      if (!found.length) continue;
      parts.push(make("h4", title));
      const list = make("ul");
      list.append(...found.map((value) => valueEntry(value, ends(value))));
      parts.push(list);
    }
    return parts;
  }

  function islandFacts(island) {
    const parts = [make("h3", `Island ${island.id}`), make("p", titleOf(graphs[island.graph]), "path")];
    parts.push(who(island.provider, ` · ${island.nodes.length} node${island.nodes.length === 1 ? "" : "s"}`));
    if (island.region) parts.push(make("p", "compiled as " + island.region, "sub"));
    const counts = new Map();
    for (const node of island.nodes) counts.set(node.op, (counts.get(node.op) || 0) + 1);
    parts.push(make("h4", "Operators"));
    const operators = make("ul");
    for (const [op, count] of [...counts].sort((a, b) => b[1] - a[1]).slice(0, 40)) {
      const row = make("li", "", "row");
      row.append(make("span", op, "name"), make("span", String(count), "number"));
      operators.append(row);
    }
    parts.push(operators);
    for (const [title, position] of [["Reads from others", 1], ["Gives to others", 0]]) {
      const mine = data.borders.filter((row) => row[position] === island.id);
      if (!mine.length) continue;
      parts.push(make("h4", title));
      const list = make("ul");
      for (const row of mine.slice(0, 60)) {
        const item = make("li");
        item.append(make("div", texts[row[2]], "mono"), make("div", sizeOf(row), "sub"));
        list.append(item);
      }
      parts.push(list);
    }
    return parts;
  }

  function sizeOf(row) { return [texts[row[3]], texts[row[4]], row[6] ? "copied" : "no copy"].filter(Boolean).join(" · "); }

  function nameOf(island) { return island < 0 ? "caller" : `${providers[islands[island].provider].name.replace(/ExecutionProvider$/, "")} ${island}`; }

  function lists() {
    const legend = byId("legend").querySelector("ul");
    const most = Math.max(1, ...providers.map((one) => one.nodes));
    legend.replaceChildren(...providers.flatMap((one, number) => {
      const item = entry([swatch(number), make("span", one.name, "name"), make("span", one.nodes.toLocaleString("en"), "number")], () => {
        one.off = !one.off;
        item.classList.toggle("off", one.off);
        redraw();
      });
      item.title = one.device ? `on ${one.device}; click to dim` : "click to dim";
      const bar = make("div", "", "bar"), part = make("i");
      part.style.width = `${(100 * one.nodes) / most}%`;
      part.style.background = colourOf(number);
      part.dataset.provider = number;
      bar.append(part);
      item.append(bar);
      return [item];
    }));
    const advice = byId("suggestions");
    advice.hidden = !data.suggestions.length;
    advice.querySelector("ol").replaceChildren(...data.suggestions.map(([provider, op, count, before, after]) => {
      const item = make("li");
      item.append(make("b", op), make("span", ` by ${provider}: ${count} node${count === 1 ? "" : "s"}, ${before} → ${after} islands`));
      return item;
    }));
    const sorted = [...islands].sort((a, b) => b.nodes.length - a.nodes.length);
    fill(byId("islands"), sorted, (one) => entry(
      [swatch(one.provider), make("span", `${one.id} · ${providers[one.provider].name}`, "name"), make("span", one.nodes.length.toLocaleString("en"), "number")],
      () => goToIsland(one)));
    const largest = [...data.borders].sort((a, b) => b[5] - a[5]);
    byId("borders").querySelector(".note").textContent = data.borders.some((row) => row[6])
      ? `copied between devices in a run: ${data.copied}` : "nothing is copied: all work on one device";
    fill(byId("borders"), largest, (row) => entry(
      [stacked(`${nameOf(row[0])} → ${nameOf(row[1])}`, `${texts[row[2]]} · ${sizeOf(row)}`)],
      () => goToIsland(islands[row[1] < 0 ? row[0] : row[1]])));
    const nested = graphs.filter((graph) => graph.owner >= 0);
    byId("graphs").hidden = !nested.length;
    fill(byId("graphs"), nested, (graph) => entry([make("span", titleOf(graph), "name"), make("span", String(graph.count), "number")], () => show(graph, 1)));
    fill(byId("refusals"), data.refusals, ([provider, op, why, count]) => {
      const item = make("li", "", "row");
      item.append(stacked(`${op} · ${provider}`, why), make("span", String(count), "number"));
      return item;
    });
  }

  function search() {
    const wanted = byId("search").value.trim().toLowerCase();
    const section = byId("found");
    section.hidden = !wanted;
    found = null;
    if (wanted) {
      const hits = nodes.filter((node) => node.name.toLowerCase().includes(wanted) || node.op.toLowerCase().includes(wanted)
        || node.writes.some((value) => value.name.toLowerCase().includes(wanted)));
      found = new Set(hits.map((node) => node.id));
      fill(section, hits, nodeEntry);
    }
    redraw();
  }

  function repaint() {
    readTheme();
    for (const one of document.querySelectorAll("[data-provider]")) one.style.background = colourOf(+one.dataset.provider);
    redraw();
  }

  // What the address says after "#": node=NUMBER, island=NUMBER, zoom=NUMBER, theme=dark|light, search=TEXT.
  function open() {
    const asked = new URLSearchParams(location.hash.slice(1));
    if (asked.get("theme")) { document.documentElement.dataset.theme = asked.get("theme"); repaint(); }
    if (asked.has("search")) { byId("search").value = asked.get("search"); search(); }
    const node = nodes[asked.get("node") ?? -1], island = islands[asked.get("island") ?? -1];
    if (island) goToIsland(island);
    if (node) goTo(node);
    const zoom = Number(asked.get("zoom"));
    if (zoom > 0) { view.zoom = Math.max(MIN, Math.min(MAX, zoom)); redraw(); }
  }

  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  function followSystem() { document.documentElement.dataset.theme = dark.matches ? "dark" : "light"; repaint(); }
  dark.addEventListener("change", followSystem);
  followSystem();
  byId("title").textContent = data.title;
  byId("title").title = data.title;
  const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
  byId("facts").textContent = [plural(nodes.length, "node"), plural(islands.length, "island"), plural(data.borders.length, "border value"),
    data.borders.some((row) => row[6]) ? `${data.copied} copied a run` : "no copies between devices"].join("  ·  ");
  lists();
  byId("search").addEventListener("input", search);
  byId("in").addEventListener("click", () => zoomBy(1.25));
  byId("out").addEventListener("click", () => zoomBy(0.8));
  byId("fit").addEventListener("click", fit);
  byId("close").addEventListener("click", () => select(null));
  byId("theme").addEventListener("click", () => { document.documentElement.dataset.theme = theme === "dark" ? "light" : "dark"; repaint(); });
  window.addEventListener("resize", resize);
  window.addEventListener("hashchange", open);
  resize();
  fit();
  open();
  draw();
  Object.assign(document.body.dataset, { ready: "true", nodes: nodes.length, islands: islands.length, graphs: graphs.length });
})();
